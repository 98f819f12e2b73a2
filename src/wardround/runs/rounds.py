"""What a run computes, without a folder: the start, a round of training, an evaluation.

    rounds = Rounds(built, engine, outer)
    state = rounds.start()
    state, cohort = rounds.train(1, state)
    assessment = rounds.evaluate(1, state.weights)

The loop writes down what comes of it; the rehearsal of a protocol watches what crosses the wire (`watch`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from torch import Tensor

from wardround.core.cohort import Cohort, Engine, Seen
from wardround.core.exchange import EVALUATION
from wardround.core.layer import Layer
from wardround.core.method import Counts, Exam
from wardround.core.weights import Weights
from wardround.methods.heads import HEADS
from wardround.methods.weighing import DocumentWeighing
from wardround.runs.build import Built, drawn
from wardround.runs.fitting import prefix


@dataclass(frozen=True)
class Assessment:
    """How a model did: figures over all sites and, if asked for, by site."""

    cohort: Cohort
    metrics: dict[str, float] = field(default_factory=dict)
    per_site: dict[str, dict[str, float]] = field(default_factory=dict)
    test: Mapping[str, Tensor] | None = None
    """The counts on the test split that the figures are made of."""


@dataclass
class Rounds:
    """The rounds of one run; `settled` and `resumed` are what sites must know of its checkpoints and its past."""

    built: Built
    engine: Engine
    outer: tuple[Layer, ...] = ()
    """Layers outside the study's own; the ledger last."""
    watch: list[Seen] | None = None
    settled: int = 0
    resumed: tuple[int, ...] = ()
    opening: Cohort | None = None
    """The sites before the first round, if that was now."""

    @property
    def begins(self) -> bool:
        """Whether much is exchanged before the first round: what methods ask for themselves is very little."""
        return bool(self.built.study.start) or isinstance(self.built.study.method, DocumentWeighing)

    def start(self) -> Any:
        """The state before the first round."""
        study, weights = self.built.study, self.built.weights
        cohort = self.opening = self.cohort(0, self.built.sites.names)
        if isinstance(study.method, DocumentWeighing):
            weights = study.method.weighed(weights, cohort)
        if study.start:
            weights = HEADS[study.start].refit(study.method, weights, cohort)
        return study.method.start(weights, cohort)

    def finish(self, round_: int, state: Any) -> tuple[Any, Cohort]:
        """What a study asks for after the last round, with all sites, as a round of its own."""
        study, cohort = self.built.study, self.cohort(round_, self.built.sites.names)
        head = study.finish.head if study.finish else ""
        return replace(state, weights=HEADS[head].refit(study.method, state.weights, cohort)), cohort

    def train(self, round_: int, state: Any) -> tuple[Any, Cohort]:
        """One round of the method over the sites drawn for it: the state after, and the cohort as it ended."""
        cohort = self.cohort(round_, drawn(self.built.study, self.built.sites.names, round_))
        return self.built.study.method.round(state, cohort), cohort

    def evaluate(self, round_: int, weights: Weights) -> Assessment:
        """Try these weights at all sites: an exchange like any other."""
        study, task = self.built.study, self.built.task
        cohort = self.cohort(round_, self.built.sites.names, EVALUATION)
        metrics: dict[str, float] = {}
        per_site: dict[str, dict[str, float]] = {}
        test = None
        for split in study.evaluation.splits:
            exam, start = Exam(weights, split), prefix(split)
            if study.evaluation.each:
                total: Counts | None = None
                for name, counts in cohort.ask(study.method.evaluate, exam).items():
                    total = counts if total is None else total + counts
                    own = task.metrics(counts.numbers)
                    per_site.setdefault(name, {}).update({f"{start}{key}": value for key, value in own.items()})
                numbers = cast("Counts", total).numbers
            else:
                numbers = cohort.total(study.method.evaluate, exam).numbers
            metrics |= {f"{start}{key}": value for key, value in task.metrics(numbers).items()}
            test = numbers if split == "test" else test
        return Assessment(cohort, metrics, per_site, test)

    def cohort(self, round_: int, names: tuple[str, ...], first: int = 0) -> Cohort:
        """These sites, for this round."""
        return self.built.cohort(round_, names, self.engine, self.outer, self.settled, self.watch, self.resumed, first)
