"""The bound on what one site can do to a model: what honest sites send beside it, and what it makes of lies.

    python studies/lying/bound.py                 # about two minutes of one core
    python studies/lying/bound.py --seeds 0 1 2
    python studies/lying/bound.py --quick         # a few rounds of few notes, to see that it runs

Generated notes (`clinic`), all sites in this process, the bound as over real sites: each declares its examples,
rounded up to a power of two. Printed are, over all partitions and seeds,

1. for each method that sends weights the farthest that an honest site went: the length of what it sent divided by the
   median of the exchange's and by what its size allows, which `FACTOR` bounds; and how many replies were left out;
2. the same for one of three hospitals in the round in which it comes back, or comes at last: beside the median of that
   round, and beside the longest median of the run so far;
3. macro F1 on the test notes of all three hospitals after the last round, when one of them lies in every round, without
   and with the bound.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from wardround.clinic import Clinic
from wardround.core.cohort import Engine
from wardround.core.exchange import Exchange, Fault
from wardround.core.method import Exam, Step
from wardround.core.record import Message
from wardround.engines.inline import Serial
from wardround.federation.partition import IntArray, Raw
from wardround.layers.bound import Bound
from wardround.methods.fedavg import Update
from wardround.runs.build import Built, build
from wardround.runs.loop import one_thread
from wardround.study.load import Study, cells
from wardround.text.texts import Texts

LOGISTIC = {"name": "classification", "model": "logistic", "buckets": 4096, "weighting": "none"}
LSTM = {"name": "classification", "model": "lstm", "buckets": 512, "hidden": 12, "embedding": 8, "longest": 40}
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fedavg": ({"name": "fedavg", "lr": 1.0}, LOGISTIC),
    "fedavg, 5 epochs": ({"name": "fedavg", "lr": 2.0, "epochs": 5, "batch": 16}, LOGISTIC),
    "fedavgs": ({"name": "fedavgs"}, LOGISTIC),
    "fedprox": ({"name": "fedprox", "mu": 0.01, "lr": 1.0}, LOGISTIC),
    "fedsgd": ({"name": "fedsgd", "lr": 1.0}, LOGISTIC),
    "fedatt": ({"name": "fedatt", "lr": 0.5}, LOGISTIC),
    "fedpap": ({"name": "fedpap", "lr": 0.01, "mu": 0.03}, LOGISTIC),
    "scaffold": ({"name": "scaffold", "lr": 0.5}, LOGISTIC),
    "feddyn": ({"name": "feddyn", "lr": 0.5, "alpha": 0.1}, LOGISTIC),
    "fedner": ({"name": "fedner", "lr": 0.01, "batch": 64}, LOGISTIC),
    "fedner, 3 at once": ({"name": "fedner", "lr": 0.01, "batch": 3, "steps": 40}, LOGISTIC),
    "moon": ({"name": "moon", "lr": 0.5}, LSTM),
    "fedrs": ({"name": "fedrs", "lr": 0.5}, LSTM),
    "fedlc": ({"name": "fedlc", "lr": 0.5}, LSTM),
    "fedcmc": ({"name": "fedcmc", "lr": 0.5, "temperature": 0.5}, LSTM),
}  # fmt: skip
SIZES = ((300, 300, 300), (30, 30, 1200))
ALPHAS = (None, 0.1)
SITES = ("hospital-0", "hospital-1", "hospital-2")
LIAR = SITES[2]

Lie = Callable[[Update], Update]
LIES: dict[str, Lie] = {
    "what it learnt": lambda honest: honest,
    "100 times that": lambda honest: replace(honest, change=honest.change * 100.0),
    "-10 times that": lambda honest: replace(honest, change=honest.change * -10.0),
    "no change, a claim of 10^9 notes": lambda honest: Update(honest.change.zeros(), 10**9),
    "10^30 times that": lambda honest: replace(honest, change=honest.change * 1e30),
}


class Kept(Clinic):
    """Generated notes, generated once."""

    def open(self, name: str) -> tuple[Texts, Texts]:
        """One hospital's training and test notes."""
        return _opened(self, name)


@cache
def _opened(clinic: Kept, name: str) -> tuple[Texts, Texts]:
    return Clinic.open(clinic, name)


@dataclass(frozen=True)
class Unequal:
    """Sites of given sizes; with `alpha`, each with its own share of every class, from Dirichlet(α)."""

    sizes: tuple[int, ...]
    alpha: float | None

    def cut(self, examples: Raw, rng: np.random.Generator) -> dict[str, IntArray]:
        """Each site's rows; from a test split, which has too few, all in turn."""
        if len(examples) < sum(self.sizes):
            return {f"site-{i}": np.arange(i, len(examples), len(self.sizes)) for i in range(len(self.sizes))}
        _, labels = np.unique(np.asarray(examples.classes), return_inverse=True)
        heaps = [list(rng.permutation(np.flatnonzero(labels == label))) for label in range(labels.max() + 1)]
        rows: dict[str, IntArray] = {}
        for index, size in enumerate(self.sizes):
            shares = rng.dirichlet([self.alpha] * len(heaps)) if self.alpha else np.ones(len(heaps))
            taken = []
            for _ in range(size):
                left = np.array([bool(heap) for heap in heaps])
                chances = shares * left if (shares * left).any() else left.astype(float)
                taken.append(heaps[rng.choice(len(heaps), p=chances / chances.sum())].pop())
            rows[f"site-{index}"] = np.sort(np.array(taken, dtype=np.int64))
        return rows


@dataclass(frozen=True)
class Lying:
    """An engine over which one site's updates arrive changed."""

    honest: Engine
    lie: Lie

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any | Fault]]:
        """Each site's reply, the liar's as it wants it."""
        for name, reply in self.honest.deliver(exchange, step, messages):
            yield name, self.lie(reply) if name == LIAR and isinstance(reply, Update) else reply


@dataclass
class Trial:
    """A run without a run folder, under a bound or none, and who was left out of its rounds."""

    built: Built
    bound: Bound | None
    engine: Engine
    state: Any = None
    exchanges: int = 0
    left_out: int = 0
    why: str = ""

    def go(self, rounds: Sequence[int], names: tuple[str, ...]) -> None:
        """Some rounds with these sites."""
        method, layers = self.built.study.method, (self.bound,) if self.bound else ()
        if self.state is None:
            self.state = method.start(self.built.weights, self.built.cohort(0, names, self.engine, layers))
        for round_ in rounds:
            cohort = self.built.cohort(round_, names, self.engine, layers)
            self.state = method.round(self.state, cohort)
            self.exchanges += cohort.exchanges
            self.left_out += len(cohort.left_out)
            self.why = next(iter(cohort.left_out.values()), self.why)

    def f1(self) -> float:
        """Macro F1 of the model at all sites' test notes together."""
        cohort = self.built.cohort(10**4, self.built.sites.names, self.engine)
        total = cohort.total(self.built.study.method.evaluate, Exam(self.state.weights, "test"))
        return self.built.task.metrics(total.numbers)["macro_f1"]


def under_bound(study: Study, folder: Path, lie: Lie | None = None) -> tuple[Bound, Trial]:
    """A study ready to go, whose sites declare what they have as real ones do."""
    built = build(study, folder)
    declared = {
        name: {split: 1 << max(len(data.split(split)) - 1, 0).bit_length() for split in ("train", "test")}
        for name, data in ((name, built.sites.open(name)) for name in built.sites.names)
    }
    bound = Bound(declared=declared.get, contradiction=study.method.contradiction)
    engine: Engine = Serial(built.host)
    return bound, Trial(built, bound, Lying(engine, lie) if lie else engine)


def study_of(method: dict[str, Any], task: dict[str, Any], seed: int, **corpus: float) -> Study:
    """A method and a task on notes that are generated from the same seed."""
    tables = {"name": "lying", "rounds": 1, "seed": seed, "method": method, "task": task}
    study = cells({**tables, "corpus": {"name": "clinic", "seed": seed, **corpus}})[0].study
    return replace(study, corpus=Kept(**vars(study.corpus)))


def three(seed: int, documents: int) -> Study:
    """FedAvg on three hospitals of equal size."""
    method = {"name": "fedavg", "lr": 20.0, "batch": 16}
    notes = {"hospitals": 3, "documents": documents, "test_documents": 60, "heterogeneity": 0.2, "noise": 0.0}
    return study_of(method, LOGISTIC, seed, **notes)


def honest(methods: Iterable[str], sizes: Sequence[tuple[int, ...]], rounds: int, seeds: Sequence[int]) -> None:
    """Print how far honest sites go."""
    print(
        f"honest sites of {' or '.join(map(str, sizes))} notes, alike or with α = 0.1, {rounds} rounds, seeds {seeds}"
    )
    print(f"{'method':18}  {'field':26}  farthest  exchanges  left out")
    for label in methods:
        farthest: dict[str, float] = {}
        exchanges = left_out = 0
        documents = 3 * max(map(sum, sizes)) // 5  # so many that a skewed site is dealt what it is to have
        for seed in seeds:
            for cut in (Unequal(these, alpha) for these in sizes for alpha in ALPHAS):
                study = study_of(*METHODS[label], seed, hospitals=5, documents=documents, test_documents=6)
                with TemporaryDirectory() as folder:
                    bound, run = under_bound(replace(study, partition=cut), Path(folder))
                    run.go(range(1, rounds + 1), run.built.sites.names)
                exchanges, left_out = exchanges + run.exchanges, left_out + run.left_out
                for field, ratio in bound.farthest.items():
                    farthest[field] = max(ratio, farthest.get(field, 0.0))
        for field, ratio in farthest.items():
            print(f"{label:18}  {field:26}  {ratio:8.1f}  {exchanges:9}  {left_out:8}", flush=True)


def late(documents: int, away: Sequence[int], seeds: Sequence[int]) -> None:
    """Print how far a site goes that comes back, or comes for the first time, when the others have learnt much."""
    print(f"\nfedavg, three hospitals of {documents} notes, one of them away, seeds {seeds}")
    print("away in rounds  beside this round's median  beside the longest median  left out")
    what = "fit Update.change"
    for first, rounds in ((first, rounds) for first in (1, 2) for rounds in away):
        now, ever, left_out = 0.0, 0.0, 0
        for seed in seeds:
            with TemporaryDirectory() as folder:
                bound, run = under_bound(three(seed, documents), Path(folder))
                run.go(range(1, first), SITES)
                run.go(range(first, first + rounds), SITES[:2])
                bound.farthest.clear()
                run.go([first + rounds], SITES)
            now = max(now, bound.farthest[what])
            ever = max(ever, bound.farthest[what] * bound.medians[what] / bound.largest[what])
            left_out += run.left_out
        span = f"{first} to {first + rounds - 1}"
        print(f"{span:14}  {now:26.1f}  {ever:25.1f}  {left_out:2} of {len(seeds)}", flush=True)


def lies(documents: int, rounds: int, seeds: Sequence[int]) -> None:
    """Print what one lying hospital of three does to the model."""
    print(f"\nfedavg, three hospitals of {documents} notes, one lies, {rounds} rounds, seeds {seeds}, macro F1 by seed")
    print(f"{'what it sends':33}  without the bound  with the bound     rounds left out  the reason, last seed")

    def run(seed: int, names: tuple[str, ...], lie: Lie, *, bounded: bool) -> tuple[float, Trial]:
        with TemporaryDirectory() as folder:
            bound, done = under_bound(three(seed, documents), Path(folder), lie)
            done.bound = bound if bounded else None
            done.go(range(1, rounds + 1), names)
            return done.f1(), done

    for what, lie in LIES.items():
        without = [run(seed, SITES, lie, bounded=False)[0] for seed in seeds]
        within = [run(seed, SITES, lie, bounded=True) for seed in seeds]
        figures = (" ".join(f"{f1:.3f}" for f1 in each) for each in (without, [f1 for f1, _ in within]))
        left_out = sum(done.left_out for _, done in within)
        print(f"{what:33}  " + "  ".join(f"{each:17}" for each in figures), end="")
        print(f"  {left_out:2} of {rounds * len(seeds):2}         {within[-1][1].why}".rstrip(), flush=True)
    alone = [run(seed, SITES[:2], LIES["what it learnt"], bounded=False)[0] for seed in seeds]
    print(f"{'the two honest ones alone':33}  {' '.join(f'{f1:.3f}' for f1 in alone)}")


def main() -> None:
    """Three tables."""
    parser = argparse.ArgumentParser(description="What honest sites send beside the bound, and what it makes of lies.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--rounds", type=int, default=4, help="of the honest trials")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--quick", action="store_true", help="few rounds of few notes: to see that it runs")
    given = parser.parse_args()
    with one_thread():
        if given.quick:
            honest(["fedavg", "scaffold"], [(12, 12, 40)], 2, [0])
            late(20, [2], [0])
            lies(40, 2, [0])
        else:
            honest(given.methods, SIZES, given.rounds, given.seeds)
            late(200, [5, 20], given.seeds)
            lies(300, 6, given.seeds)


if __name__ == "__main__":
    main()
