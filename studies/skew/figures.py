"""Draw macro-F1 against α, and against bytes at α = 0.05, from run folders.

    python studies/skew/figures.py studies/skew runs/skew-chemprot-frozen runs/skew-chemprot-layer …

Writes by-alpha.svg and by-bytes.svg into the first folder. What is drawn are the means of table.py; bands are ± one
standard deviation over seeds.
"""

import statistics
import sys
from pathlib import Path

from table import Result, by_method, results

from wardround.reports.html import Html
from wardround.reports.plots import HIGH, WIDE, Axis, Series, curves
from wardround.reports.svg import drawing, text

LEGEND = 205.0
STYLE = """svg { font-family: sans-serif; font-size: 11.5px; background: #fff } text { fill: #47525f }
.title { fill: #16202b } .grid { stroke: #dde3ea; stroke-width: .8 } .axis { stroke: #47525f }
.curve { fill: none; stroke: currentColor; stroke-width: 1.8 } .band { fill: currentColor; fill-opacity: .13 }
.mark { fill: currentColor; stroke: #fff; stroke-width: .8 } .c0 { color: #0b66a8 } .c1 { color: #c94f00 }
.c2 { color: #007f66 } .c3 { color: #a8487f } .c4 { color: #8a6900 } .c5 { color: #5a4fb5 } .grey { color: #6b7683 }"""


def picture(series: list[Series], across: Axis, alt: str) -> str:
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


def main(out: Path, folders: list[Path]) -> None:
    """Both pictures; a folder whose name has `layer` in it is of runs that train a layer."""
    tables = {}
    for layer in (False, True):
        chosen = [folder for folder in folders if ("layer" in folder.name) == layer]
        for name, by_alpha in by_method(results(chosen)).items():
            tables[name.replace("`", "") + (", layer" if layer else "")] = by_alpha
    lines = [
        Series(name, look, [point(alpha, by_alpha[alpha]) for alpha in sorted(by_alpha)])
        for look, (name, by_alpha) in enumerate(tables.items())
        if len(by_alpha) > 1
    ]
    across = Axis("α of the Dirichlet partition: smaller is more skewed", log=True, share=True)
    (out / "by-alpha.svg").write_text(picture(lines, across, "macro-F1 against α, by method"), encoding="utf-8")
    dots = [
        Series(name, look, [point(max(by_alpha[0.05][0].up, 1), by_alpha[0.05])])
        for look, (name, by_alpha) in enumerate(tables.items())
        if by_alpha[0.05] and "centralised" not in name
    ]
    sent = Axis("sent by all sites together", log=True, bytes=True)
    (out / "by-bytes.svg").write_text(picture(dots, sent, "macro-F1 against bytes, at α = 0.05"), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
