"""What one lying site of ten does to the model under each rule of `[robust]`, and what the rules cost without lies.

    python studies/lying/rules.py                 # about eight minutes of one core
    python studies/lying/rules.py --quick         # a few rounds of few notes, to see that it runs

Generated notes (`clinic`), ten sites in this process, FedAvg with logistic regression. One site sends what it has
learnt times 100, or with its sign flipped, or trains on labels all one class further on. Printed is macro F1 on
all sites' test notes after the last round: mean and range over the seeds, for notes dealt out alike and with label skew
(Dirichlet, α = 0.1). A rule's first line is the rule by itself, without the bound that stands before it in a study, the
second as a study has it. Beside them are the commonest class and TF-IDF with logistic regression on all notes pooled.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, get_args

from wardround.audit.lying import lying
from wardround.core.layer import Layer
from wardround.core.method import Exam
from wardround.engines.inline import Serial
from wardround.federation.describe import describe
from wardround.layers.bound import Bound
from wardround.layers.robust import Robust, Rule
from wardround.runs.build import Built, build
from wardround.runs.loop import one_thread
from wardround.runs.references import constants, fitted
from wardround.runs.rounds import Rounds
from wardround.study.load import cells

LIES = ("nothing", "times 100", "flipped sign", "flipped labels")
SKEWS = {"alike": {"name": "iid", "sites": 10}, "α = 0.1": {"name": "dirichlet", "sites": 10, "alpha": 0.1}}
LIAR = "site-3"
TASK = {"name": "classification", "model": "logistic", "buckets": 4096}
METHOD = {"name": "fedavg", "lr": 20.0, "batch": 16}


def layers_of(rule: str, built: Built) -> dict[str, tuple[Layer, ...]]:
    """The rule by itself, and as a study has it."""
    bound = Bound(contradiction=built.study.method.contradiction)
    if rule in ("mean", "bound"):
        return {rule: () if rule == "mean" else (bound,)}
    chosen = next(known for known in get_args(Rule) if known == rule)
    means = built.study.method.means
    return {rule: (Robust(chosen, means),), f"{rule}, bound": (Robust(chosen, means), bound)}


def trial(built: Built, rule: str, lie: str, rounds: int, folder: Path) -> dict[str, float]:
    """Macro F1 after the last round, under the rule by itself and behind the bound."""
    method = built.study.method
    results = {}
    for label, layers in layers_of(rule, built).items():
        sites = None if lie == "nothing" else lying(built, LIAR, lie, folder)
        told, engine = (sites.built, sites.engine) if sites else (built, Serial(built.host))
        run = Rounds(told, engine, layers)
        state: Any = run.start()
        for round_ in range(1, rounds + 1):
            state, _ = run.train(round_, state)
        total = built.cohort(rounds, built.sites.names, Serial(built.host)).total(
            method.evaluate, Exam(state.weights, "test")
        )
        results[label] = built.task.metrics(total.numbers)["macro_f1"]
    return results


def references(built: Built) -> dict[str, float]:
    """The commonest class, and a plain model of all notes in one place."""
    cohort = built.cohort(1, built.sites.names, Serial(built.host))
    numbers = cohort.total(built.study.method.evaluate, Exam(built.weights, "test")).numbers
    figures = {"majority": constants(built.task, numbers, None)["majority"]}
    if built.raw is not None:
        mark = describe(built.raw, built.task)["fingerprint"]
        figures["TF-IDF, pooled"] = fitted(built.task, built.raw, mark, ("tfidf",)).get("tfidf", {})
    return {name: known["macro_f1"] for name, known in figures.items() if known}


def shown(values: Sequence[float]) -> str:
    """The mean and the range."""
    return f"{fmean(values):.3f} ({min(values):.3f}–{max(values):.3f})"


def table(skew: str, documents: int, rounds: int, rules: Sequence[str], seeds: Sequence[int]) -> None:
    """Print one table: rules by lies."""
    print(f"\n{skew}: ten sites, {documents * 10:,} notes, one site lies, {rounds} rounds, seeds {list(seeds)}")
    print(f"{'rule':17}" + "".join(f"  {lie:20}" for lie in LIES))
    figures: dict[str, dict[str, list[float]]] = {}
    beside: dict[str, list[float]] = {}
    for seed in seeds:
        corpus = {"name": "clinic", "seed": seed, "hospitals": 10, "documents": documents, "test_documents": 40}
        tables: dict[str, Any] = {"name": "lying", "rounds": 1, "seed": seed, "method": METHOD, "task": TASK}
        study = cells({**tables, "corpus": corpus, "partition": SKEWS[skew]})[0].study
        with TemporaryDirectory() as folder:
            built = build(study, Path(folder))
            for name, figure in references(built).items():
                beside.setdefault(name, []).append(figure)
            for rule in rules:
                for lie in LIES:
                    for label, f1 in trial(built, rule, lie, rounds, Path(folder)).items():
                        figures.setdefault(label, {}).setdefault(lie, []).append(f1)
    for label, by_lie in figures.items():
        print(f"{label:17}" + "".join(f"  {shown(by_lie[lie]):20}" for lie in LIES), flush=True)
    for name, values in beside.items():
        print(f"{name:17}  {shown(values)}", flush=True)


def main() -> None:
    """Two tables."""
    parser = argparse.ArgumentParser(description="What one lying site of ten does to the model under each rule.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--documents", type=int, default=100, help="of each hospital")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="few rounds of few notes: to see that it runs")
    given = parser.parse_args()
    rules = ["mean", "bound", *get_args(Rule)]
    with one_thread():
        if given.quick:
            table("alike", 20, 2, rules, [0])
        else:
            for skew in SKEWS:
                table(skew, given.documents, given.rounds, rules, given.seeds)


if __name__ == "__main__":
    main()
