"""A differentially private step over a plain one, for each of our models.

    python benchmarks/dp.py [--repeats N] [--only NAME] [--secret] [--quick]

Both kinds of steps train the same model on the same corpus of generated notes, by SGD: a plain one on a shuffled batch,
a private one on a Poisson sample of the same expected size, with every example's gradient clipped and noise added. They
take turns; a ratio is that of two neighbours' CPU times, and printed are its median and quartiles. `loop` is the same
step by a loop over single examples, which is what any model falls back on.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from wardround.core.bench import Bench
from wardround.core.chance import Chance, key_of
from wardround.core.optimizer import SGD
from wardround.core.private_steps import Guard, Plan, Sample
from wardround.core.task import Units
from wardround.runs.build import build
from wardround.runs.loop import one_thread
from wardround.study.load import cells

NOTES = {"name": "clinic", "hospitals": 1, "documents": 300, "test_documents": 2}
BAGS = {"name": "clinic-bags", "hospitals": 1, "sentences": 400, "test_sentences": 5}
PAIRS = {"name": "clinic-pairs", "hospitals": 1, "notes": 100, "test_notes": 2}
ROWS = {"name": "synthetic", "sites": 1, "features": 60, "classes": 10, "largest": 400}
WORDS = {"name": "classification", "tokens": "words", "class_weights": "none", "weighting": "none"}


@dataclass(frozen=True)
class Case:
    """A model, what it is trained on, its batch, and what a step may cost."""

    task: dict[str, Any]
    corpus: dict[str, Any]
    batch: int
    aim: float


CASES = {
    "logistic regression": Case({"name": "features"}, ROWS, 32, 1.5),
    "bag of words": Case({**WORDS, "ngrams": 1, "buckets": 2**14}, NOTES, 16, 1.5),
    "linear head": Case({"name": "relation", "freeze": 6}, PAIRS, 32, 1.5),
    "encoder layer": Case({"name": "relation", "freeze": 5}, PAIRS, 16, 2.5),
    "pcnn": Case({"name": "bags", "denoiser": "none"}, BAGS, 32, 2.5),
    "lstm": Case({**WORDS, "model": "lstm"}, NOTES, 16, 8.0),
    "lstm tagger": Case({"name": "tagging", "model": "lstm-crf"}, NOTES, 16, 8.0),
}


class Sides:
    """Plain and private steps of one case."""

    def __init__(self, case: Case, folder: Path, *, secret: bool) -> None:
        tables = {"name": "x", "rounds": 1, "method": {"name": "fedavg"}, "task": case.task, "corpus": case.corpus}
        built = build(cells(tables)[0].study, folder)
        self.task, self.batch = built.task, case.batch
        self.train = built.sites.open(built.sites.names[0]).train
        self.bench, self.optimizer = Bench.of(self.task), SGD(1e-4)
        self.bench.model.train()
        units = Units([torch.tensor([row]) for row in range(len(self.train))], lambda _: ())
        count = len(self.train)
        plan = Plan(1.0, 1.0, min(case.batch / count, 1.0), 10**6, count)
        self.guard = Guard(plan, units, lambda _: Chance(key_of("x"), secret=secret), lambda _: None)
        self.samples, self.batches = self.guard.samples(self.task, self.train, 10**6), self._batches()

    def _batches(self) -> Iterator[Any]:
        rng = torch.Generator().manual_seed(1)
        while True:
            yield from self.task.batches(self.train, self.batch, rng)

    def plain(self) -> None:
        """One step as without privacy."""
        self.bench.gradient.zero_()
        self.task.loss(self.bench.model, next(self.batches)).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.bench.flat, self.bench.gradient)

    def private(self) -> None:
        """One private step."""
        self.bench.gradient.zero_()
        self.guard.descend(self.bench, self.task.loss, next(self.samples))
        self.optimizer.step(self.bench.flat, self.bench.gradient)

    def looped(self) -> None:
        """The same, example by example."""
        sample: Sample = next(self.samples)
        self.bench.gradient.zero_()
        for part in sample.parts():
            part.loop(self.bench, self.task.loss, 1.0)
        self.optimizer.step(self.bench.flat, self.bench.gradient)


def clocked(step: Callable[[], None], steps: int) -> float:
    """CPU seconds of so many steps."""
    began = time.process_time()
    for _ in range(steps):
        step()
    return time.process_time() - began


def compared(name: str, case: Case, repeats: int, folder: Path, *, secret: bool) -> None:
    """Print the ratio of one case."""
    sides = Sides(case, folder, secret=secret)
    for step in (sides.plain, sides.private, sides.looped):
        step()
    once = max(clocked(sides.plain, 3) / 3, 1e-5)
    steps = max(int(0.05 / once), 2)
    pairs = [(clocked(sides.plain, steps), clocked(sides.private, steps)) for _ in range(repeats)]
    plain, private = (statistics.median(column) / steps * 1e3 for column in zip(*pairs, strict=True))
    ratios = sorted(second / first for first, second in pairs)
    low, middle, high = (ratios[int(len(ratios) * share)] for share in (0.25, 0.5, 0.75))
    loop = clocked(sides.looped, 2) / 2 / once
    print(
        f"  {name:<20} plain {plain:8.2f} ms   private {private:8.2f} ms   {middle:5.2f} × [{low:.2f} – {high:.2f}]"
        f"   (aim ≤ {case.aim:g}; loop {loop:.0f} ×)",
        flush=True,
    )


def main() -> None:
    """Measure all cases, or one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", choices=CASES, help="one case alone")
    parser.add_argument("--secret", action="store_true", help="noise as at a real site, from a secret, not a seed")
    parser.add_argument("--quick", action="store_true", help="two repeats, to see that it runs")
    options = parser.parse_args()
    repeats = 2 if options.quick else options.repeats
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, one thread, {repeats} repeats")
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            if options.only in (None, name):
                compared(name, case, repeats, Path(folder) / name, secret=options.secret)


if __name__ == "__main__":
    main()
