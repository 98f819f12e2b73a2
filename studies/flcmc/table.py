"""Print the tables of RESULTS.md from run folders of dialogues, others or synthetic-step: a row per corpus and method.

    python studies/flcmc/table.py runs/flcmc-dialogues

Of each run the round with the best accuracy on validation sentences counts, the first of equals; `largest` is taken
over all evaluations on the test sentences themselves, as the paper does. ± is the standard deviation over seeds,
`error` the binomial standard error of one run's accuracy. Seeds that are still running are left out.
"""

import json
import math
import re
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HEADS = "method | seeds | validation | accuracy | error | macro-F1 | largest | last"


def lines_of(run: Path) -> list[dict[str, Any]]:
    """The figures of each evaluation, in order."""
    text = (run / "journal.jsonl").read_text(encoding="utf-8")
    return [figures for line in text.splitlines() if (figures := json.loads(line)["metrics"])]


def row(name: str, runs: list[Path]) -> str:
    """Means over the seeds of a method."""
    evaluations = [lines_of(run) for run in runs]
    kept = [max(lines, key=lambda figures: figures["valid_accuracy"]) for lines in evaluations]
    tested = statistics.fmean(figures["examples"] for figures in kept)
    accuracy = statistics.fmean(figures["accuracy"] for figures in kept)
    cells = [
        shown([figures["valid_accuracy"] for figures in kept]),
        shown([figures["accuracy"] for figures in kept]),
        f"{math.sqrt(accuracy * (1 - accuracy) / tested):.3f}",
        shown([figures["macro_f1"] for figures in kept]),
        shown([max(figures["accuracy"] for figures in lines) for lines in evaluations]),
        shown([lines[-1]["accuracy"] for lines in evaluations]),
    ]
    return f"| {name} | {len(runs)} | {' | '.join(cells)} |"


def references(run: Path) -> dict[str, dict[str, float]]:
    """What a run was measured against; numbers that are no texts have no references but the counts of their labels."""
    if (run / "references.json").exists():
        known: dict[str, dict[str, float]] = json.loads((run / "references.json").read_text(encoding="utf-8"))
        return known
    counts: dict[str, Counter[str]] = {"train": Counter(), "test": Counter()}
    for site in json.loads((run / "data.json").read_text(encoding="utf-8"))["sites"].values():
        for split, total in counts.items():
            total.update(site.get(split, {}))
    commonest = counts["train"].most_common(1)[0][0]
    share = counts["test"][commonest] / counts["test"].total()
    return {"majority": {"accuracy": share, "macro_f1": 2 * share / (1 + share) / len(counts["test"])}}


def reference(name: str, runs: list[Path]) -> str:
    """What a reference has on the same test sentences."""
    known = [references(run)[name] for run in runs]
    cells = ["", shown([one["accuracy"] for one in known]), "", shown([one["macro_f1"] for one in known]), "", ""]
    return f"| {name} | {len(runs)} | {' | '.join(cells)} |"


def shown(numbers: list[float]) -> str:
    """Their mean and spread."""
    spread = f" ± {statistics.stdev(numbers):.3f}" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.3f}{spread}"


def main(folders: list[Path]) -> None:
    """Rows by method, then the references of the runs of the first one."""
    done = sorted(path.parent for folder in folders for path in folder.glob("*/metrics.json"))
    by_method: dict[str, list[Path]] = {}
    for run in done:
        by_method.setdefault(re.sub(r",seed=\d+$", "", run.name), []).append(run)
    print(f"| {HEADS} |\n|{'---|' * len(HEADS.split('|'))}")
    for name, runs in by_method.items():
        print(row(name, runs))
    corpora: dict[str, list[Path]] = {}
    for runs in by_method.values():
        key = f"{references(runs[0])['majority']['accuracy']:.3f}"
        if len(runs) > len(corpora.get(key, [])):
            corpora[key] = runs
    for runs in corpora.values():
        known = references(runs[0])
        print(*(reference(name, runs) for name in ("majority", "tfidf") if name in known), sep="\n")


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
