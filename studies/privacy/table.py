"""Run the studies of what ε costs, or go on with them, and print the tables of RESULTS.md.

    WARDROUND_DATA=… python studies/privacy/table.py runs/privacy [NAME…]      # classification, relation, tagging
    WARDROUND_DATA=… python studies/privacy/table.py --print runs/privacy      # what is there, without running

Figures are means ± standard deviations over seeds, in the last round, on test notes. Where a grid has several rates,
that of each row and column is the one with the best mean on validation notes. A cell with fewer seeds says how many.
"""

import json
import math
import statistics
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wardround.cli.app import main

HERE = Path(__file__).parent
METRICS = {"classification": "accuracy", "relation": "micro_f1_without_negative", "tagging": "f1"}
COLUMNS = (math.inf, 8.0, 3.0, 1.0)
SEEDS = 3


class Cell(NamedTuple):
    """One run: what it is a run of, and its figures."""

    method: str
    unit: str
    epsilon: float
    lr: float
    valid: float
    test: float


def cells(runs: Path, metric: str) -> Iterator[Cell]:
    """The finished runs of a study."""
    for path in sorted(runs.glob("*/metrics.json")):
        final = json.loads(path.read_text(encoding="utf-8"))["final"]
        study = tomllib.loads((path.parent / "study.toml").read_text(encoding="utf-8"))
        dp = study.get("privacy", {}).get("dp", {})
        units = (dp["unit"],) if dp else ("example", "patient")  # without noise, both
        for unit in units:
            method, epsilon = study["method"], dp.get("epsilon", math.inf)
            yield Cell(method["name"], unit, epsilon, method["lr"], final[f"valid_{metric}"], final[metric])


def shown(numbers: Sequence[float]) -> str:
    """Their mean and spread."""
    spread = f" ± {statistics.stdev(numbers):.3f}" if len(numbers) > 1 else ""
    few = f" ({len(numbers)} of {SEEDS} seeds)" if len(numbers) < SEEDS else ""
    return f"{statistics.fmean(numbers):.3f}{spread}{few}"


def best(group: Sequence[Cell]) -> tuple[float, list[float]]:
    """The rate that is best on validation notes, and the test figures of its runs."""
    by_rate: dict[float, list[Cell]] = defaultdict(list)
    for cell in group:
        by_rate[cell.lr].append(cell)
    rate = max(by_rate, key=lambda lr: statistics.fmean(cell.valid for cell in by_rate[lr]))
    return rate, [cell.test for cell in by_rate[rate]]


def table(name: str, runs: Path) -> Iterator[str]:
    """The lines of one study."""
    metric = METRICS[name]
    measured = list(cells(runs / name, metric))
    rates = len({cell.lr for cell in measured}) > 1
    yield f"| {name}: {metric.replace('_', '-')} | unit | " + " | ".join(f"ε = {e:g}" for e in COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(COLUMNS)
    for method, unit in sorted({(cell.method, cell.unit) for cell in measured}):
        row = []
        for epsilon in COLUMNS:
            group = [cell for cell in measured if (cell.method, cell.unit, cell.epsilon) == (method, unit, epsilon)]
            rate, figures = best(group) if group else (0.0, [])
            row.append((shown(figures) + f" (rate {rate:g})" * rates) if figures else "–")
        yield f"| {method} | {unit} | " + " | ".join(row) + " |"
    alone = defaultdict(list)
    for path in sorted((runs / f"{name}-open").glob("*/metrics.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        alone[content["method"]].append(content["final"][metric])
    majority = [
        json.loads(path.read_text(encoding="utf-8")).get("majority", {}).get(metric)
        for path in sorted((runs / name).glob("*/references.json"))
    ]
    alone["always the commonest answer"] = [value for value in majority if value is not None][:SEEDS]
    others = "; ".join(f"{method} {shown(figures)}" for method, figures in alone.items() if figures)
    yield f"Without noise, in batches of 32: {others}."
    yield ""


def run(name: str, runs: Path) -> None:
    """One study's cells, as far as they are not there."""
    for study in (name, f"{name}-open"):
        with suppress(SystemExit):
            main(["run", str(HERE / f"{study}.toml"), "--out", str(runs / study), "--resume", "--quiet", "--no-report"])


if __name__ == "__main__":
    printing = sys.argv[1] == "--print"
    folder, *names = sys.argv[2:] if printing else sys.argv[1:]
    for each in names or METRICS:
        if not printing:
            run(each, Path(folder))
        print("\n".join(table(each, Path(folder))))
