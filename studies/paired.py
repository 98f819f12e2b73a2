"""Print a row per method from run folders: mean and spread over draws, and the difference from another, draw by draw.

    python studies/paired.py runs/feded-folds --metric accuracy --last 2 --beside fedavg
    python studies/paired.py runs/fedcmc-layers --metric macro_f1 --by valid_macro_f1 --beside fedavg

A draw is what differs between runs of one method: the seed, and the fold where a study has several. Of a run counts the
mean of its last evaluations, or the evaluation with the best figure on validation examples, the first of equals, or
the largest figure of all, as some papers report. ± is the standard deviation over draws, of a difference its standard
error, and only rows that stand beside each other are to be compared: a row of α = 0.5 wants `--beside` one of α = 0.5.
Runs that have not ended are left out. The commonest answer and TF-IDF come from each run's references; where runs of
one draw differ in them (other rows to train on), the first row's come first and others are named by their row.
"""

import argparse
import json
import math
import re
import statistics
from collections import defaultdict
from pathlib import Path

DRAW = re.compile(r",?\b(seed|fold)=(\d+)")


def figure(run: Path, metric: str, last: int, by: str) -> float:
    """What one run counts for."""
    text = (run / "journal.jsonl").read_text(encoding="utf-8")
    rounds = [figures for line in text.splitlines() if (figures := json.loads(line)["metrics"])]
    kept = [max(rounds, key=lambda figures: figures[by])] if by else rounds[-last:]
    return statistics.fmean(figures[metric] for figures in kept)


def label(run: Path) -> str:
    """Its folder's name without the draw, or with whatever of the grid tells it from the others."""
    return DRAW.sub("", run.name).strip(",")


def draw(run: Path) -> tuple[int, int]:
    """Its fold and its seed."""
    known = {name: int(number) for name, number in DRAW.findall(run.name)}
    return known.get("fold", 0), known.get("seed", 0)


def shown(numbers: list[float]) -> str:
    """Their mean and spread."""
    return f"{statistics.fmean(numbers):.3f}" + (f" ± {statistics.stdev(numbers):.3f}" if len(numbers) > 1 else "")


def compared(ours: dict[tuple[int, int], float], theirs: dict[tuple[int, int], float]) -> str:
    """The mean difference over the draws that both have, its standard error, and how often it is above nothing."""
    apart = [value - theirs[key] for key, value in ours.items() if key in theirs]
    if not apart:
        return " | "
    error = f" ± {statistics.stdev(apart) / math.sqrt(len(apart)):.3f}" if len(apart) > 1 else ""
    return f"{statistics.fmean(apart):+.3f}{error} | {sum(one > 0 for one in apart)} of {len(apart)}"


def main() -> None:
    """Rows by method, then the references over the draws of the first one."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("folders", type=Path, nargs="+", help="grids: folders of run folders")
    asked.add_argument("--metric", required=True)
    asked.add_argument("--last", type=int, default=1, help="the mean of so many last evaluations")
    asked.add_argument("--by", default="", help="the round that is best by this figure instead")
    asked.add_argument("--largest", action="store_true", help="the largest figure of all evaluations")
    asked.add_argument("--beside", default="", help="the row that the others are compared with")
    chosen = asked.parse_args()
    rows: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    references: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    runs = [path.parent for folder in chosen.folders for path in folder.glob("*/metrics.json")]
    for run in sorted(runs, key=lambda run: (label(run), draw(run))):
        rows[label(run)][draw(run)] = figure(
            run, chosen.metric, chosen.last, chosen.metric if chosen.largest else chosen.by
        )
        known = run / "references.json"
        for name, figures in json.loads(known.read_text(encoding="utf-8")).items() if known.exists() else ():
            if chosen.metric in figures:
                value = figures[chosen.metric]
                if references[name].setdefault(draw(run), value) != value:
                    references[f"{name}, {label(run)}"][draw(run)] = value
    print(f"| method | draws | {chosen.metric} | by draw | difference | ahead |\n|---|---|---|---|---|---|")
    base = rows.get(chosen.beside, {})
    distinct = {
        (name.partition(",")[0], *draws.values()): (name, draws) for name, draws in reversed(references.items())
    }
    for name, draws in [*rows.items(), *reversed(distinct.values())]:
        each = " ".join(f"{value:.3f}" for value in draws.values())
        apart = compared(draws, base) if base and name != chosen.beside else " | "
        print(f"| {name} | {len(draws)} | {shown(list(draws.values()))} | {each} | {apart} |")


if __name__ == "__main__":
    main()
