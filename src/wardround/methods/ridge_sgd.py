"""Ridge-SGD: features are trained by summed gradients, under a classifier that is solved and never averaged.

    a round is one of two:
    solve   the classifier in closed form from sums over all rows, see `ridge.py`; the first round, and again after
            every `every` steps
    step    a site sends n_k · the mean gradient over a random share of its rows, and n_k;
            θ ← θ − Adam(Σ n_k g_k / Σ n_k), the classifier apart

Neither depends on who holds which rows where every site is drawn: sums of gradients are gradients of sums, and a solved
classifier is that of all rows. Averaging loses most of its accuracy under skewed labels in the classifier, which no
site moves here. λ is chosen in the first round and kept. With nothing but the classifier to train it is `ridge`, solved
again and again.

A round with some of the sites solves over their rows alone, and a class that none of them has gets no weight: under
skewed labels draw all. After the last round that solves there are steps under its classifier; `[finish] head = "ridge"`
solves once more at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Le

from wardround.core.bench import Bench
from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.optimizer import Adam
from wardround.core.record import Record
from wardround.core.site import Site
from wardround.core.task import Task
from wardround.core.training import LocalTraining, one_step
from wardround.core.weights import Weights
from wardround.methods.fedsgd import Gradient
from wardround.methods.ridge import ClosedForm


class Stepped(Record):
    """The model, the coordinator's Adam, and λ."""

    weights: Weights
    steps: int = 0
    first: Weights | None = None
    second: Weights | None = None
    penalty: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RidgeSGD(ClosedForm, LocalTraining, Method[Stepped]):
    """Steps along summed gradients under a classifier that is solved from sums, every few steps."""

    beyond_training: ClassVar[str] = "it starts from sums over features of the notes and of their products"

    suits: ClassVar[tuple[str, ...]] = ()
    refuses: ClassVar[Mapping[str, str]] = one_step("the coordinator takes the steps, with an Adam of its own")
    sometimes: ClassVar[tuple[str, ...]] = ("roll", "gather", "choose", "grade")

    lr: Annotated[float, Gt(0)] = 0.001
    """Learning rate of the first round, of the coordinator's Adam."""
    batch: Annotated[int, Ge(0)] = 16
    """Examples at a time; with `share`, which rows a step sees."""
    optimizer: Literal["adam"] = "adam"
    """What takes the coordinator's steps."""
    share: Annotated[float, Gt(0), Le(1)] = 0.25
    """The share of its rows that a site takes a gradient of in a step."""
    every: Annotated[int, Ge(1)] = 5
    """Steps from one solved classifier to the next."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs != 1 or self.steps:
            raise ValueError("ridge-sgd takes one step a round, at the coordinator; leave epochs and steps out")

    def start(self, weights: Weights, cohort: Cohort) -> Stepped:  # noqa: ARG002
        """The initial model."""
        return Stepped(weights)

    def round(self, state: Stepped, cohort: Cohort) -> Stepped:
        """Solve the classifier, or take a step with the rest."""
        if (cohort.round - 1) % (self.every + 1) == 0:
            known = replace(self, penalties=(state.penalty,)) if state.penalty else self
            sums = known.summed(state.weights, cohort, cohort.names)
            weights, penalty = known.solved(state.weights, sums, cohort, cohort.names)
            return replace(state, weights=weights, penalty=penalty or state.penalty)
        total = cohort.total(self.grade, Global(state.weights))
        if total.examples == 0:
            return state
        flat, layout = state.weights.flat.clone(), state.weights.layout
        moments = None
        if state.first is not None and state.second is not None:
            moments = (state.steps, state.first.flat, state.second.flat)
        adam = Adam(self.lr_in(cohort.round), self.betas, self.eps, flat, moments)
        adam.step(flat, (total.gradient / total.examples).flat)
        weights, first, second = (Weights.of_flat(part, layout) for part in (flat, adam.first, adam.second))
        return replace(state, weights=weights, steps=adam.steps, first=first, second=second)

    def exchanges(self, examples: int) -> Mapping[str, int]:  # noqa: ARG002
        """Those of a solved classifier, or one for a step."""
        return {**self.asks(), "grade": 1}

    def unruled(self) -> str:
        """A sum of sums has no middle."""
        return 'solves its classifier from sums over all rows, of which no site has a mean; set robust.rule = "bound"'

    @on_site
    def grade(self, model: Global, site: Site) -> Gradient:
        """The gradient of all but the classifier over a random share of the site's rows."""
        examples, name = len(site.data.train), site.class_task.classifier.removesuffix("weight")
        bench = Bench.at(site, model.weights)
        network = bench.model.train()
        bench.gradient.zero_()
        seen, wanted = 0, ceil(self.share * examples)
        for batch in site.task.batches(site.data.train, self.batch, site.rng) if examples else ():
            (site.task.loss(network, batch) * len(batch)).backward()  # type: ignore[no-untyped-call]
            seen += len(batch)
            if seen >= wanted:
                break
        site.stands_on(seen)
        gradient = bench.gradients() * (examples / max(seen, 1))
        kept = {key: torch.zeros_like(part) if key.startswith(name) else part for key, part in gradient.items()}
        return Gradient(Weights(kept), examples)

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:
        """Features, their products, and how many λ there are to choose from."""
        return self.room(task, weights)
