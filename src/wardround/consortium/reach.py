"""What cannot be a model of this study: too far from where it began for the rounds that it has had.

A coordinator that chooses the weights chooses what an update tells (one note's words, say, if all others are made to
count nothing). It cannot be seen that weights are honest, but that they are far out: a site trains once by itself from
the study's first model, through as many steps as a round has and a hundred at least, and sees how far that leads, in
length and in its largest single weight. All sites together lead the model no farther than `times` that, per round. The
first model itself is known to every site, and is the only one that round 1 can begin with. Where a method asks a site
once (`once`), nothing but the classifier ever differs from it: sums under another encoder would be sums of other rows.
"""

import math
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wardround.consortium.private_site import noise_guard
from wardround.core.bench import belongs
from wardround.core.exchange import EVALUATION, Exchange
from wardround.core.memory import Memory
from wardround.core.private_steps import Plan
from wardround.core.record import Message, reveals_of
from wardround.core.site import Site
from wardround.core.task import ClassTask
from wardround.core.training import LocalTraining
from wardround.core.weights import Weights
from wardround.runs.build import Built

STEPPING = ("lr", "decay", "batch", "optimizer", "betas", "eps", "momentum", "weight_decay", "clip", "accumulate")
STEPS = 100  # of training at least: a hospital with ten notes takes one step where a large one takes hundreds
FLOOR = 1e-3  # of the first model's own length: where training hardly moves it


@dataclass(frozen=True)
class _Size:
    """Of a change of weights, its length and its largest entry."""

    length: float
    largest: float

    @classmethod
    def of(cls, change: Tensor) -> "_Size":
        whole = change.double()
        return cls(float(whole.norm()), float(whole.abs().max()) if whole.numel() else 0.0)

    def within(self, limit: "_Size", times: float) -> bool:
        """Whether neither exceeds so many times the limit's."""
        return self.length <= times * limit.length and self.largest <= times * limit.largest


class Reach:
    """How far a study's model can have come, as one site sees it."""

    def __init__(
        self, built: Built, name: str, times: float, first: int | None = None, plan: Plan | None = None
    ) -> None:
        self.built, self.name, self.times, self.plan = built, name, times, plan
        self.first = first
        """The number of a round's first exchange, where weights move within a round."""
        self.last: tuple[int, Weights] | None = None

    def refusal(self, exchange: Exchange, message: Message) -> str | None:
        """Which field of a message cannot be this study's, or None."""
        for name, reveal in reveals_of(type(message)).items():
            value = getattr(message, name)
            if isinstance(value, Weights) and reveal.like == "model" and not self._possible(name, exchange, value):
                return name
            if isinstance(value, Tensor) and reveal.bounded and not self._part(exchange, value):
                return name
        return None

    def seen(self, exchange: Exchange, message: Message) -> None:
        """Remember the weights of an exchange that was answered, from which later ones must follow."""
        weights = getattr(message, "weights", None)
        if isinstance(weights, Weights):
            self.last = exchange.round, weights

    def _possible(self, name: str, exchange: Exchange, value: Weights) -> bool:
        if not value.flat.numel():
            return True
        if name == "weights" and not (self._measurable(value) and self._same_features(value)):
            return False
        value, first = self._learnt(value), self._learnt(self.built.weights)
        if name != "weights":  # a control, or what else is as long as a gradient
            rate = getattr(self.built.study.method, "lr", 1.0)
            return _Size.of(value.flat * rate).within(self.own, self.times * max(exchange.round, 1))
        change = _Size.of(value.flat.double() - first.flat.double())
        trains = exchange.number < EVALUATION
        if trains and exchange.round <= 1 and self.first in (None, exchange.number):
            return change.largest == 0.0
        near = change.within(self.own, self.times * max(exchange.round, 1))
        if self.last is None or not near:
            return near
        since = abs(exchange.round - self.last[0]) + (exchange.number >= EVALUATION)
        step = _Size.of(value.flat.double() - self._learnt(self.last[1]).flat.double())
        return step.within(self.own, self.times * max(since, 1))

    def _same_features(self, value: Weights) -> bool:
        """Whether nothing but the classifier differs from the first model, where a method moves nothing else."""
        task, value, first = self.built.task, self._learnt(value), self.built.weights
        if not self.built.study.method.once:
            return True
        head = (task.classifier.removesuffix(".weight"),) if isinstance(task, ClassTask) else ()
        return all(belongs(name, head) or torch.equal(part, first[name]) for name, part in value.items())

    def _measurable(self, value: Weights) -> bool:
        """Whether what sites have measured together can have come of it."""
        task: Any = self.built.task
        return not any(name in value for name in getattr(task, "measured", ())) or task.plausible(value)

    def _learnt(self, value: Weights) -> Weights:
        """All that training moves."""
        measured = [name for name in getattr(self.built.task, "measured", ()) if name in value]
        return value.without(*measured) if measured else value

    def _part(self, exchange: Exchange, value: Tensor) -> bool:
        """Whether this can be a part of a site's model: no longer than the first model and what training adds to it."""
        first, times = _Size.of(self.built.weights.flat), self.times * max(exchange.round, 1)
        limit = _Size(first.length + times * self.own.length, first.largest + times * self.own.largest)
        return _Size.of(value).within(limit, 1.0)

    @cached_property
    def own(self) -> _Size:
        """How far this site's own training leads from the first model."""
        built, first = self.built, self.built.weights
        least = FLOOR * (1.0 + float(first.flat.double().norm()))
        method = built.study.method
        examples = len(built.sites.open(self.name).train)
        least += method.farthest(self._site(Path()), first)
        if not isinstance(method, LocalTraining) or not examples or not first.flat.numel():
            return _Size(least, least)
        if self.plan is not None:
            return self._noisy(method, self.plan, least)
        per_pass = -(-examples // (method.batch or examples))
        steps = method.steps or method.epochs * per_pass
        for tried in (max(steps, STEPS), steps):
            size = _Size.of(self._trained(method, tried).double() - first.flat.double())
            if math.isfinite(size.length):
                return _Size(max(size.length, least), max(size.largest, least))
        return _Size(least, least)  # training that diverges leads nowhere

    def _noisy(self, method: LocalTraining, plan: Plan, least: float) -> _Size:
        """Under differential privacy, without a look at the notes: noise alone, and the most that gradients add."""
        steps = max(plan.steps, STEPS)
        noise = _Size.of(self._trained(method, steps).double() - self.built.weights.flat.double())
        per_weight = steps * method.lr * (1.0 if method.optimizer != "sgd" else plan.clip)
        whole = per_weight * (1.0 if method.optimizer == "sgd" else math.sqrt(self.built.weights.flat.numel()))
        return _Size(max(noise.length + whole, least), max(noise.largest + per_weight, least))

    def _site(self, folder: Path) -> Site:
        built, exchange = self.built, Exchange("reach", 1, 0, 0, self.built.study.seed)
        task, private = built.host.task_at(self.name) or built.task, built.study.sites.private
        plan = self.plan and replace(self.plan, steps=max(self.plan.steps, STEPS))
        guarded = None if plan is None else lambda _: noise_guard(plan)
        opened, device = built.host.opened, built.host.device
        return Site(
            self.name, task, lambda: opened(self.name), Memory(folder), exchange, private=private, guarded=guarded,
            device=device,
        )  # fmt: skip

    def _trained(self, method: LocalTraining, steps: int) -> Tensor:
        """Where so many steps of this site's own training lead from the first model; nothing is kept of it."""
        plain = LocalTraining(**{name: getattr(method, name) for name in STEPPING}, steps=steps)
        before = torch.default_generator.get_state()
        with tempfile.TemporaryDirectory() as folder:
            site = self._site(Path(folder))
            torch.default_generator.manual_seed(site.seed)
            try:
                return plain.train(site, self.built.weights).weights.flat
            finally:
                torch.default_generator.set_state(before)
