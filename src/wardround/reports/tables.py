"""The tables of a report as files: CSV with every figure as a number, LaTeX as a paper prints it.

    write_tables([Path("runs/demo")], Path("tables"))       # wardround report runs/demo --tables tables

`results` (a row per method and figure), `classes` (per method and class), `confusion` (per run, true class and answer),
`pairs` (the paired tests) and `runs` (every run, every figure); what there is nothing of is left out. The LaTeX of
`results` has a column per figure of the first split; it needs the package booktabs. No cell of a CSV begins a formula.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.core.files import write
from wardround.formats.spreadsheet import guarded
from wardround.metrics.by_class import ByClass
from wardround.reports.compared import Report
from wardround.reports.figures import Spread, named, of_one_class, split_of
from wardround.reports.html import p_value
from wardround.reports.read import read_runs
from wardround.reports.statistics import Group, Panel, classes_of, of_documents, spread
from wardround.reports.words import NOTHING

Cell = str | int | float | None
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "—": "--", "μ": r"$\mu$",
}  # fmt: skip


@dataclass(frozen=True)
class Sheet:
    """One table: for CSV a head and rows of values, for LaTeX, if it has any, a caption and rows of text."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    printed: tuple[tuple[str, ...], ...] = ()
    """The head and rows as they are printed."""

    def csv(self) -> str:
        """Comma-separated values: numbers in full, nothing where nothing is known."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for row in (self.head, *self.rows):
            writer.writerow(["" if cell is None else guarded(cell) if isinstance(cell, str) else cell for cell in row])
        return out.getvalue()

    def latex(self) -> str:
        """A table environment with booktabs' rules."""
        head, *rows = ([_tex(cell) for cell in row] for row in self.printed)
        columns = "l" + "r" * (len(head) - 1)
        return "\n".join([
            "% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering", f"\\caption{{{_tex(self.caption)}}}",
            f"\\label{{tab:{self.name}}}", f"\\begin{{tabular}}{{{columns}}}", "\\toprule", f"{' & '.join(head)} \\\\",
            "\\midrule", *(f"{' & '.join(row)} \\\\" for row in rows), "\\bottomrule", "\\end{tabular}", "\\end{table}",
            "",
        ])  # fmt: skip


def write_tables(runs: Sequence[Path], folder: Path) -> list[Path]:
    """Write all tables of these runs into a folder, and say which files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for sheet in sheets(Report(read_runs(runs))):
        for ending, text in (("csv", sheet.csv()), ("tex", sheet.latex() if sheet.printed else "")):
            if text:
                written.append(folder / f"{sheet.name}.{ending}")
                write(written[-1], text.encode())
    return written


def sheets(report: Report) -> list[Sheet]:
    """The tables that have any row."""
    made = (_results(report), _classes(report), _confusion(report), _pairs(report), _runs(report))
    return [sheet for sheet in made if sheet.rows]


def _results(report: Report) -> Sheet:
    head = (
        "measured_on", "method", "reference", "split", "figure", "mean", "sd", "seeds", "seeds_low", "seeds_high",
        "documents_low", "documents_high", "drawn", "rounds",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for panel in report.panels:
        for metric in panel.metrics:
            for group in panel.groups:
                low, high = of_documents(group.counted, metric) or (None, None)
                ways = {run.intervals.way for run in group.counted if run.intervals and low is not None}
                rounds = " ".join(sorted({str(run.rounds) for run in group.counted}, key=int))
                figures = _spread(group.final(metric))
                documents = (low, high, " ".join(sorted(ways)))
                rows.append(
                    (panel.label, group.label, group.reference, split_of(metric), metric, *figures, *documents, rounds)
                )
            for name, over_seeds in panel.references(metric).items():
                kept = (panel.label, name, "baseline", split_of(metric), metric)
                rows.append((*kept, *_spread(over_seeds), None, None, "", ""))
    known = tuple(row for row in rows if row[5] is not None)
    return Sheet("results", head, known, "Final figures, mean ± standard deviation over seeds.", _printed(report))


def _spread(value: Spread | None) -> tuple[Cell, ...]:
    return (value.mean, value.sd, value.n, value.low, value.high) if value else (None,) * 5


def _printed(report: Report) -> tuple[tuple[str, ...], ...]:
    """Methods, and what they should beat, by the figures of the first split."""
    metrics = dict.fromkeys(
        metric
        for panel in report.panels
        for metric in panel.metrics
        if split_of(metric) == split_of(panel.metrics[0]) and not of_one_class(metric)
    )
    rows = [("method", *(named(metric) for metric in metrics))]
    for panel in report.panels:
        place = f" ({panel.label})" if len(report.panels) > 1 else ""
        rows += [(f"{group.label}{place}", *(_short(group.final(m)) for m in metrics)) for group in panel.groups]
        names = dict.fromkeys(name for metric in metrics for name in panel.references(metric))
        rows += [(f"{name}{place}", *(_short(panel.references(m).get(name)) for m in metrics)) for name in names]
    return tuple(rows)


def _short(value: Spread | None) -> str:
    if value is None:
        return "—"
    return f"{value.mean:.3f}" + (f" ± {value.sd:.3f}" if value.sd is not None else "")


def _groups(report: Report) -> Iterator[tuple[Panel, Group, str]]:
    for panel in report.panels:
        for group in panel.groups:
            yield panel, group, f"{group.label} ({panel.label})" if len(report.panels) > 1 else group.label


def _classes(report: Report) -> Sheet:
    head = ("measured_on", "method", "class", "precision", "recall", "f1", "seeds", "examples", "answered")
    rows: list[tuple[Cell, ...]] = []
    columns: dict[str, dict[str, list[ByClass]]] = {}
    for panel, group, label in _groups(report):
        for name, mine in (known := classes_of(group)).items():
            means = [spread(getattr(one, what) for one in mine) for what in ("precision", "recall", "f1")]
            counted = (len(mine), mine[0].support, mine[0].answered)
            rows.append((panel.label, group.label, name, *(mean.mean if mean else None for mean in means), *counted))
        columns |= {label: known} if known else {}
    names = dict.fromkeys(name for known in columns.values() for name in known)
    printed = [("class", *columns)]
    for name in names:
        finals = (spread(one.f1 for one in known.get(name, ())) for known in columns.values())
        printed.append((name, *(_short(final) for final in finals)))
    caption = "F1 of each class on the test split, mean ± standard deviation over seeds."
    return Sheet("classes", head, tuple(rows), caption, tuple(printed))


def _confusion(report: Report) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for run in report.runs:
        if run.tally is None or not run.tally.confusion:
            continue
        names = [*run.tally.names, NOTHING][: len(run.tally.confusion)]
        rows += [
            (run.measured_on, run.label, run.seed, true, answer, count)
            for true, counts in zip(names, run.tally.confusion, strict=True)
            for answer, count in zip(names, counts, strict=True)
            if count
        ]
    return Sheet("confusion", ("measured_on", "method", "seed", "true", "answered", "count"), tuple(rows))


def _pairs(report: Report) -> Sheet:
    head = (
        "measured_on", "figure", "better", "worse", "seeds", "difference", "sd", "low", "high", "p", "p_holm",
        "p_wilcoxon", "why_not",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    printed = [("better", "worse", "seeds", "difference", "p, corrected")]
    for panel, pairs in zip(report.panels, report.pairs, strict=True):
        for pair in pairs:
            mean, sd, _, low, high = _spread(pair.difference)
            names = (pair.first.label, pair.second.label)
            tests = (pair.p, pair.adjusted, pair.ranks, pair.why)
            rows.append((panel.label, panel.metrics[0], *names, len(pair.seeds), mean, sd, low, high, *tests))
            corrected = p_value(pair.adjusted) if pair.adjusted is not None else "—"
            printed.append((*names, str(len(pair.seeds)), _short(pair.difference), corrected))
    caption = "Paired comparisons over seeds; p-values of the paired t-test after Holm's correction."
    return Sheet("pairs", head, tuple(rows), caption, tuple(printed))


def _runs(report: Report) -> Sheet:
    rows = [
        (run.measured_on, run.label, run.seed, run.folder, run.rounds, int(run.finished), metric, value)
        for run in report.runs
        for metric, value in _measured(run.final.items())
    ]
    return Sheet(
        "runs", ("measured_on", "method", "seed", "folder", "rounds", "finished", "figure", "value"), tuple(rows)
    )


def _measured(figures: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in figures if not name.endswith("examples"))


def _tex(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
