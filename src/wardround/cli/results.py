"""How a run or a grid ended, in words: its figures, what looks wrong, which references it missed, where it is."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from wardround.cli.options import console, errors, wide
from wardround.metrics.signs import collapsed, remedy
from wardround.privacy.words import of_figures
from wardround.runs.absent import absences, uncovered
from wardround.runs.files import DATA, METRICS, REFERENCES, read_journal
from wardround.runs.folder import Result
from wardround.runs.references import beside, missed
from wardround.runs.sweep import CellState, summary
from wardround.study.load import Study

ABSENT = 5  # sites that are named
TOO_GOOD = "it ended when a figure of the test split met its target: these figures look better than they are"


def show_result(study: Study, folder: Path, result: Result, *, report: bool = True, apart: bool = False) -> None:
    """How a run ended, where it is, and its report; `apart` if its sites are real ones."""
    method = study.resolved["method"]["name"]
    console.print(f"{result.stopped}: {_figures(result.metrics)}")
    references = REFERENCES.read(folder) or {}
    if words := beside(result.metrics, references):
        console.print(words)
    if result.chosen and (metrics := METRICS.read(folder)):
        late = result.chosen > result.rounds
        of = "what [finish] made" if late else f"round {result.chosen} of {result.rounds}"
        console.print(f"{of} is kept, the best by {metrics.chosen_by}; the figures are those of that round")
    if result.rounds_to_target is not None and _by_test(study):
        console.print(f"{method}: {TOO_GOOD}")
    if dp := study.resolved.get("privacy", {}).get("dp"):
        console.print(f"{method}: {of_figures(dp)}")
    if wrong := _signs(folder):
        console.print(f"{method}: {wrong}")
    _show_absences(folder)
    for words in missed(result.metrics, references):
        console.print(f"{method}: {words}")
    if report:
        report_of(folder)
    where = f", the model in {folder / 'model'}" if study.method.shares else "; sites keep their models"
    console.print(f"the run is in {folder}{where}")
    if study.sites.private or study.method.personal:
        assemble = f"{shlex.join(['wardround', 'model', 'assemble', str(folder)])} SITE --out DIR"
        which = "" if study.method.shares else f" --round {result.chosen or result.rounds}"
        there = f"wardround site model FOLDER STUDY{which} --out DIR (at the site)"
        console.print(f"a site's own model: {there if apart else assemble}")


def show_grid(states: Sequence[CellState]) -> None:
    """A grid's table of results, which references are not beaten, and which models look wrong."""
    table = Table("cell", "seeds", "rounds", "metric", "final", "best", "MB up", title=None)
    rows = summary(states)
    for row in rows:
        for metric in (name for name in row["best"] if "[" not in name):  # by class: in the report
            final, best = row["final"][metric], row["best"][metric]
            up = f"{row['up'] / 1e6:.2f}"
            counts = str(len(row["seeds"])), "–".join(map(str, {row["rounds"][0]: 0, row["rounds"][-1]: 0}))
            table.add_row(row["label"], *counts, metric, _spread(final), _spread(best), up)
    if table.row_count:
        wide().print(table)
    _show_references(rows)
    noise = {of_figures(dp): 0 for state in states if (dp := state.cell.study.resolved.get("privacy", {}).get("dp"))}
    for words in noise:
        console.print(words)
    for state in states:
        if state.done:
            _show_absences(state.folder, f"{state.cell.label}: ")
        reached = (metrics := METRICS.read(state.folder)) and metrics.rounds_to_target is not None
        if state.done and reached and _by_test(state.cell.study):
            console.print(f"{state.cell.label}: {TOO_GOOD}")
        if state.done and (wrong := _signs(state.folder)):
            console.print(f"{state.cell.label}: {wrong}")
    if done := [state.folder for state in states if state.done]:
        console.print(f"the runs are in {done[0].parent}, a folder for each cell; the first is {done[0]}")


def _show_references(rows: Sequence[dict[str, Any]]) -> None:
    """What the references reach, in one line if it is the same for all cells, and which cells do not beat them."""
    reached = [{name: _means(row["references"][name]) for name in row["references"]} for row in rows]
    lines = [beside(_means(row["final"]), mine) for row, mine in zip(rows, reached, strict=True)]
    same = len({*lines}) == 1
    for row, mine, words in zip(rows, reached, lines, strict=True):
        if words and (not same or row is rows[0]):
            console.print(words if same else f"{row['label']}: {words}")
        for missing in missed(_means(row["final"]), mine):
            console.print(f"{row['label']}: {missing}")


def show_failures(states: Sequence[CellState]) -> int:
    """Which cells failed, and why; the same mistake in many cells is one message."""
    failed = [state for state in states if state.failed]
    for words in dict.fromkeys(state.failed for state in failed):
        errors.print(f"{', '.join(state.cell.label for state in failed if state.failed == words)}: {words}")
    return len(failed)


def show_oddities(folder: Path) -> None:
    """What the readers met in the data and counted: file and line, never text."""
    data = DATA.read(folder)
    for line in data.problems if data else ():
        errors.print(f"in the data: {line}")


def report_of(folder: Path) -> None:
    """The report of a run that has ended; should it fail, the run is still good."""
    from wardround.reports.page import write_report

    try:
        console.print(f"the report is in {write_report([folder], folder / 'report.html')}")
    except Exception as error:  # noqa: BLE001 -- whatever it is, it must not spoil a finished run
        again = shlex.join(["wardround", "report", str(folder)])
        errors.print(f"the run is complete, but its report could not be written: {error}; try: {again}")


def _show_absences(folder: Path, before: str = "") -> None:
    """Who was left out, of many sites the first few, and what that did to the labels."""
    lines = read_journal(folder)
    words = absences(lines)
    for one in words[:ABSENT]:
        console.print(f"{before}{one}")
    if len(words) > ABSENT:
        console.print(f"{before}so were {len(words) - ABSENT:,} other sites: see the report")
    for one in uncovered(lines, DATA.read(folder)):
        console.print(f"{before}{one}")


def _by_test(study: Study) -> bool:
    """Whether a figure of the test split may end the run."""
    stop = study.stop
    return stop is not None and stop.early and not stop.metric.startswith(("train_", "valid_"))


def _signs(folder: Path) -> str:
    """What looks wrong with the model of a run that has ended."""
    metrics = METRICS.read(folder)
    if metrics is None or not metrics.signs:
        return ""
    state = "has collapsed" if collapsed(metrics.signs) else "looks odd"
    return f"the model {state}: {'; '.join(metrics.signs)}; {remedy(metrics.signs, metrics.chosen or metrics.rounds)}"


def _means(figures: dict[str, dict[str, float]]) -> dict[str, float]:
    return {name: value["mean"] for name, value in figures.items() if value}


def _spread(value: dict[str, Any]) -> str:
    """Mean ± standard deviation over seeds; a single seed has no spread."""
    return f"{value['mean']:.4f}" + (f" ± {value['sd']:.4f}" if value["sd"] else "")


def _figures(metrics: dict[str, float]) -> str:
    told = [f"{name} {value:.4f}" for name, value in metrics.items() if not name.endswith(("examples", "]"))]
    return ", ".join(told) or "there is no figure"
