"""Print a table of RESULTS.md from run folders, a row per method and a column per α; or draw its figures.

    python studies/skew/table.py runs/skew-chemprot-frozen runs/skew-chemprot-ccvr
    python studies/skew/table.py --keep studies/skew/pgr-layer.json runs/skew-pgr-layer runs/skew-pgr-layer-ridge
    python studies/skew/table.py studies/skew/pgr-layer.json
    python studies/skew/table.py --draw studies/skew runs/skew-chemprot-frozen runs/skew-chemprot-layer …

Figures are macro-F1 / accuracy on the test split after the last round, mean ± standard deviation over seeds; a
classifier that is fitted anew after it has a row of its own. Of several rates of a method the one counts that has the
best macro-F1 on validation rows after the last round, at α = 0.05 and seed 0. Cells that still run are left out. A
column has by how many per cent the means at α = 0.05 are above or below those of centralised training, as it is.

`--keep` writes the figures of every finished cell, and the references, to a small file that stands for its run folders
from then on; what the file had of other cells stays, so that a table can grow.

`--draw` writes by-alpha.svg (macro-F1 against α, if there are several) and by-bytes.svg (against what all sites sent,
at α = 0.05) into the folder after it: the same means, with bands of ± one standard deviation over seeds.
"""

import json
import statistics
import sys
import tomllib
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wardround.reports.html import Html
from wardround.reports.plots import COLOURS, HIGH, WIDE, Axis, Series, curves
from wardround.reports.svg import drawing, text

ALPHAS = (0.5, 0.05, 0.01)
CHOSEN_AT = (0.05, 0)  # α and seed
BOTH = ("macro_f1", "accuracy")
BESIDE = "beside centralised, α = 0.05"
LEGEND = 285.0
STYLE = """svg { font-family: sans-serif; font-size: 11.5px; background: #fff } text { fill: #47525f }
.title { fill: #16202b } .grid { stroke: #dde3ea; stroke-width: .8 } .axis { stroke: #47525f }
.curve { fill: none; stroke: currentColor; stroke-width: 1.8 } .band { fill: currentColor; fill-opacity: .13 }
.mark { fill: currentColor; stroke: #fff; stroke-width: .8 } .c0 { color: #0b66a8 } .c1 { color: #c94f00 }
.c2 { color: #007f66 } .c3 { color: #a8487f } .c4 { color: #8a6900 } .c5 { color: #5a4fb5 } .grey { color: #6b7683 }"""
HEADS = {"ridge": "solved end", "ccvr": "CCVR"}


@dataclass(frozen=True)
class Result:
    """What one run came to, before a classifier was fitted anew or after."""

    method: str
    rates: str
    alpha: float
    seed: int
    exchanges: int
    up: int
    figures: dict[str, float]

    def of(self, metric: str) -> float:
        """One of its figures on the test split."""
        return self.figures[metric]


def name_of(study: dict[str, Any]) -> str:
    """The method as tables call it."""
    method = study["method"]
    more = {
        "scaffold": f", {method.get('mean')}",
        "fedlc": f", absent = {method.get('absent', 0):g}",
        "fedcmc": ", cosine" if method.get("temperature") else ", eq. 14",
    }.get(method["name"], "")
    return f"`{method['name']}`{more}{', from ridge' if study.get('start') == 'ridge' else ''}"


def results_of(run: Path) -> list[Result]:
    """Of a finished run, what it came to after its last round, and after its finish if it has one."""
    study = tomllib.loads((run / "study.toml").read_text(encoding="utf-8"))
    method, rounds = study["method"], study["rounds"]
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = {
        (line["round"], line["step"], line["exchange"])
        for line in map(json.loads, (run / "ledger" / "coordinator.jsonl").read_text(encoding="utf-8").splitlines())
        if "to" in line and line["step"] != "evaluate"
    }
    rates = ", ".join(f"{method[key]:g}" for key in ("lr", "server_lr") if key in method)
    rates += f", share {method['share']:g}" if "share" in method else ""
    results = []
    for line in lines:
        if line["metrics"] and line["round"] >= rounds:
            name = name_of(study) + (f", then {HEADS[study['finish']['head']]}" if line["round"] > rounds else "")
            exchanges = sum(round_ <= line["round"] for round_, _, _ in asked)
            up = sum(one["up"] for one in lines if one["round"] <= line["round"])
            alpha = study["partition"]["alpha"]
            results.append(Result(name, rates, alpha, study["seed"], exchanges, up, line["metrics"]))
    return results


def cells(folder: Path, file: str) -> list[Path]:
    """This file of a run, or of each cell of a grid."""
    return sorted([*folder.glob(file), *folder.glob(f"*/{file}")])


def every_result(place: Path) -> list[Result]:
    """What all finished cells came to: of a run folder, of a grid's, or of a file of kept figures."""
    if place.is_file():
        return [Result(**one) for one in json.loads(place.read_text(encoding="utf-8"))["cells"]]
    return [result for path in cells(place, "metrics.json") for result in results_of(path.parent)]


def references(place: Path) -> dict[str, dict[str, float]]:
    """What a trivial answer has on the same test split."""
    if place.is_file():
        kept: dict[str, dict[str, float]] = json.loads(place.read_text(encoding="utf-8"))["references"]
        return kept
    known = json.loads(cells(place, "references.json")[0].read_text(encoding="utf-8"))
    return {name: {metric: figures[metric] for metric in BOTH} for name, figures in known.items()}


def keep(file: Path, folders: list[Path]) -> None:
    """Write what the cells came to, beside what the file has of others."""
    every = [one for place in [*([file] if file.exists() else []), *folders] for one in every_result(place)]
    once = {(one.method, one.rates, one.alpha, one.seed): one for one in every}
    kept = [asdict(once[key]) for key in sorted(once)]
    for one in kept:
        one["figures"] = {name: one["figures"][name] for name in (*BOTH, "valid_macro_f1") if name in one["figures"]}
    lines = ",\n".join(json.dumps(one) for one in kept)
    known = json.dumps(references(folders[0]))
    file.write_text(f'{{"references": {known},\n"cells": [\n{lines}\n]}}\n', encoding="utf-8")


def results(folders: list[Path]) -> list[Result]:
    """Of all finished cells, those of each method's best rates."""
    every = [result for folder in folders for result in every_result(folder)]
    best: dict[str, Result] = {}
    for one in every:
        plain = one.method.partition(", then ")[0]
        if one.method == plain and (one.alpha, one.seed) == CHOSEN_AT:
            known = best.setdefault(plain, one)
            if one.of("valid_macro_f1") > known.of("valid_macro_f1"):
                best[plain] = one
    chosen = {name: one.rates for name, one in best.items()}
    once = {(one.method, one.rates, one.alpha, one.seed): one for one in every}  # a study may repeat another's run
    return [one for one in once.values() if one.rates == chosen.get(one.method.partition(", then ")[0], one.rates)]


def by_method(found: list[Result]) -> dict[str, dict[float, list[Result]]]:
    """The runs of each method at each α."""
    tables: dict[str, dict[float, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        tables[one.method][one.alpha].append(one)
    return tables


def shown(numbers: list[float]) -> str:
    """Their mean and spread."""
    spread = f" ± {statistics.stdev(numbers):.3f}" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.3f}{spread}"


def cell(runs: list[Result]) -> str:
    """Both figures, and over how many seeds if not three."""
    if not runs or "macro_f1" not in runs[0].figures:
        return ""
    seeds = "" if len(runs) == 3 else f" (seed {', '.join(str(one.seed) for one in runs)})"
    return " / ".join(shown([one.of(metric) for one in runs]) for metric in BOTH) + seeds


def beside(runs: list[Result], central: list[Result]) -> str:
    """By how many per cent both figures' means differ from those of centralised training."""
    if not runs or not central or runs[0].method == central[0].method or "macro_f1" not in runs[0].figures:
        return "–"
    means = [[statistics.fmean(one.of(metric) for one in some) for some in (runs, central)] for metric in BOTH]
    return " / ".join(f"{100 * (mine / other - 1):+.1f} %" for mine, other in means)


def main(folders: list[Path]) -> None:
    """Methods in the order of their macro-F1 at the α in the middle, then the references of the first run."""
    tables = by_method(results(folders))
    alphas = [alpha for alpha in ALPHAS if any(by_alpha.get(alpha) for by_alpha in tables.values())]
    heads = ["method", "rate", *(f"α = {alpha:g}" for alpha in alphas), BESIDE, "exchanges", "up, all sites"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    order = sorted(
        tables,
        key=lambda name: -statistics.fmean([one.figures.get("macro_f1", 0) for one in tables[name][0.05]] or [0]),
    )
    for name in order:
        one = next(runs[0] for runs in tables[name].values() if runs)
        crosses = "centralised" not in name
        wire = [str(one.exchanges), f"{one.up / 1e6:.1f} MB"] if crosses else ["–", "–"]
        middle = beside(tables[name][0.05], tables["`centralised`"][0.05])
        figures = [cell(tables[name][alpha]) for alpha in alphas]
        print(f"| {' | '.join([name, one.rates or '–', *figures, middle, *wire])} |")
    for name, known in references(folders[0]).items():
        same = ["the same"] * (len(alphas) - 1)
        both = f"{known['macro_f1']:.3f} / {known['accuracy']:.3f}"
        print(f"| {' | '.join([name, '–', both, *same, '–', '–', '–'])} |")


class Line(Series):
    """A series that has another marker where colours begin anew."""

    def mark(self, x: float, y: float, size: float = 3.1) -> Html:
        """Its marker around a point."""
        return Series(self.label, self.look + self.look // COLOURS).mark(x, y, size)


def picture(series: list[Line], across: Axis, alt: str) -> str:
    """A chart and its legend, whole by itself."""
    chart = curves(series, across, Axis("macro-F1, test split", share=True), alt, series)
    inside = Html(str(chart).replace("<svg ", f'<svg width="{WIDE:g}" height="{HIGH:g}" ', 1))
    rows = []
    for place, one in enumerate(series):
        y = 24.0 + 18 * place
        mark = one.mark(WIDE + 8, y - 4, 3.5)
        rows.append(Html(f'<g class="{one.colour}">{mark}</g>{text(WIDE + 20, y, one.label)}'))
    whole = drawing(alt, WIDE + LEGEND, max(HIGH, 30.0 + 18 * len(series)), [inside, *rows], "")
    return (
        str(whole)
        .replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        .replace("<title>", f"<style>{STYLE}</style><title>", 1)
    )


def point(x: float, runs: list[Result]) -> tuple[float, float, float | None]:
    """Mean and spread of some runs' macro-F1."""
    values = [one.of("macro_f1") for one in runs]
    return x, statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def draw(out: Path, folders: list[Path]) -> None:
    """Both pictures; a folder whose name has `layer` in it is of runs that train a layer."""
    tables = {}
    for layer in (False, True):
        chosen = [folder for folder in folders if ("layer" in folder.name) == layer]
        for name, by_alpha in by_method(results(chosen)).items():
            tables[name.replace("`", "") + (", layer" if layer else "")] = by_alpha
    lines = [
        Line(name, look, [point(alpha, by_alpha[alpha]) for alpha in sorted(by_alpha)])
        for look, (name, by_alpha) in enumerate(tables.items())
        if len(by_alpha) > 1
    ]
    across = Axis("α of the Dirichlet partition: smaller is more skewed", log=True, share=True)
    if lines:
        (out / "by-alpha.svg").write_text(picture(lines, across, "macro-F1 against α, by method"), encoding="utf-8")
    dots = [
        Line(name, look, [point(max(by_alpha[0.05][0].up, 1), by_alpha[0.05])])
        for look, (name, by_alpha) in enumerate(tables.items())
        if by_alpha[0.05] and "centralised" not in name
    ]
    sent = Axis("sent by all sites together", log=True, bytes=True)
    (out / "by-bytes.svg").write_text(picture(dots, sent, "macro-F1 against bytes, at α = 0.05"), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] in {"--draw", "--keep"}:
        (draw if sys.argv[1] == "--draw" else keep)(Path(sys.argv[2]), [Path(folder) for folder in sys.argv[3:]])
    else:
        main([Path(folder) for folder in sys.argv[1:]])
