"""Print a table of RESULTS.md from run folders: a row per method, a column per α.

    python studies/skew/table.py runs/skew-chemprot-frozen runs/skew-chemprot-ccvr

Figures are macro-F1 / accuracy on the test split after the last round, mean ± standard deviation over seeds; a
classifier that is fitted anew after it has a row of its own. Of several rates of a method the one counts that has the
best macro-F1 on validation rows after the last round, at α = 0.05 and seed 0. Cells that still run are left out.
"""

import json
import statistics
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALPHAS = (0.5, 0.05, 0.01)
CHOSEN_AT = (0.05, 0)  # α and seed
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
    found = []
    for line in lines:
        if line["metrics"] and line["round"] >= rounds:
            name = name_of(study) + (f", then {HEADS[study['finish']['head']]}" if line["round"] > rounds else "")
            exchanges = sum(round_ <= line["round"] for round_, _, _ in asked)
            up = sum(one["up"] for one in lines if one["round"] <= line["round"])
            alpha = study["partition"]["alpha"]
            found.append(Result(name, rates, alpha, study["seed"], exchanges, up, line["metrics"]))
    return found


def results(folders: list[Path]) -> list[Result]:
    """Of all finished cells, those of each method's best rates."""
    runs = sorted({path.parent for folder in folders for path in folder.glob("*/metrics.json")})
    every = [result for run in runs for result in results_of(run)]
    best: dict[str, Result] = {}
    for one in every:
        plain = one.method.partition(", then ")[0]
        if one.method == plain and (one.alpha, one.seed) == CHOSEN_AT:
            known = best.setdefault(plain, one)
            if one.of("valid_macro_f1") > known.of("valid_macro_f1"):
                best[plain] = one
    chosen = {name: one.rates for name, one in best.items()}
    return [one for one in every if one.rates == chosen.get(one.method.partition(", then ")[0], one.rates)]


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
    return " / ".join(shown([one.of(metric) for one in runs]) for metric in ("macro_f1", "accuracy")) + seeds


def main(folders: list[Path]) -> None:
    """Methods in the order of their macro-F1 at the α in the middle, then the references of the first run."""
    tables = by_method(results(folders))
    heads = ["method", "rate", *(f"α = {alpha:g}" for alpha in ALPHAS), "exchanges", "up, all sites"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    order = sorted(
        tables, key=lambda name: -max((one.figures.get("macro_f1", 0) for one in tables[name][0.05]), default=0)
    )
    for name in order:
        one = next(runs[0] for runs in tables[name].values() if runs)
        crosses = "centralised" not in name
        wire = [str(one.exchanges), f"{one.up / 1e6:.1f} MB"] if crosses else ["–", "–"]
        print(f"| {' | '.join([name, one.rates or '–', *(cell(tables[name][alpha]) for alpha in ALPHAS), *wire])} |")
    known = json.loads(next(iter(sorted(folders[0].glob("*/references.json")))).read_text(encoding="utf-8"))
    for name, figures in known.items():
        print(f"| {name} | – | {figures['macro_f1']:.3f} / {figures['accuracy']:.3f} | the same | the same | – | – |")


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
