"""The one local training loop, which all methods share.

    trained = self.train(site, model.weights, [Pull(self.mu, model.weights)])

Every local correction is a term of the loss. Terms in the weights alone (`Pull`, `Tilt`) have gradients
simple enough to be written down; they are added to the buffer into which back-propagation writes. What looks
at the data is a loss of its own, in place of the task's.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol, cast

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor, nn

from wardround.core.bench import Bench
from wardround.core.optimizer import SGD, WEIGHT_DECAY, Adam, OwnMoments, clip, scheduled
from wardround.core.private_steps import Sample
from wardround.core.site import Site
from wardround.core.task import Batch, Examples
from wardround.core.weights import Weights

USUAL = {"betas": ((0.9, 0.999),), "eps": (1e-8, 1e-7)}
"""Adam's settings where nobody has named others; 1e-7 is what `fedavgt` stands for."""
AT_ONCE = 64  # examples that go through a model together where nothing is learnt

Loss = Callable[[nn.Module, Batch], Tensor]
"""The mean loss of a model over a batch."""


class Term(Protocol):
    """A term of the local objective that depends on the weights alone."""

    def add_gradient(self, flat: Tensor, gradient: Tensor) -> None:
        """Add the term's gradient at `flat` to `gradient`, in place."""


class Pull:
    """μ/2 ‖θ − centre‖²: the farther from the centre, the harder it pulls back."""

    def __init__(self, mu: float, centre: Weights) -> None:
        self.mu, self.centre = mu, centre.flat

    def add_gradient(self, flat: Tensor, gradient: Tensor) -> None:
        """∇ = μ (θ − centre)."""
        self.centre = self.centre.to(flat.device)
        gradient.add_(flat - self.centre, alpha=self.mu)


class Tilt:
    """⟨direction, θ⟩: a constant push against the direction."""

    def __init__(self, direction: Weights) -> None:
        self.direction = direction.flat

    def add_gradient(self, flat: Tensor, gradient: Tensor) -> None:
        """∇ = direction."""
        self.direction = self.direction.to(flat.device)
        gradient.add_(self.direction)


@torch.no_grad()
def outputs(site: Site, weights: Weights, examples: Examples, look: Callable[[nn.Module, Batch], Tensor]) -> Tensor:
    """What `look` finds in a model with these weights for each example, in their order; there must be some."""
    task = site.class_task
    model = Bench.at(site, weights).model.eval()
    pairs = [(task.rows(batch), look(model, batch)) for batch in task.batches(examples, AT_ONCE, None)]
    rows, values = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return torch.empty_like(values).index_copy_(0, rows, values)


def one_step(why: str) -> Mapping[str, str]:
    """What `refuses` has where a site takes no steps of its own by `train`, for this reason."""
    return dict.fromkeys(("momentum", "weight_decay", "moments", "clip", "accumulate"), f"{why}; leave it out")


class Trained(NamedTuple):
    """What local training leaves: the weights, and with how many steps of which size."""

    weights: Weights
    steps: int
    lr: float


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Settings and loop of the training that a site does by itself; no steps of its own."""

    suits: ClassVar[tuple[str, ...]] = ("sgd", "adam")
    """The optimisers whose settings a task may choose; none where the rate is the coordinator's."""
    single_pass: ClassVar[bool] = False
    """Whether one pass a round is enough, however many suit a site with the task's model."""
    refuses: ClassVar[Mapping[str, str]] = {}
    """Settings that the method cannot take: each with the reason, and what to do instead."""

    lr: Annotated[float, Gt(0)] = 0.01
    """Learning rate of the first round; if not given, the one that suits the task's model, where that is known, and
    with it `optimizer`, `batch`, `epochs` and `schedule`."""
    decay: Annotated[float, Gt(0), Le(1)] = 1.0
    """What the learning rate is multiplied by after each round."""
    batch: Annotated[int, Ge(0)] = 10
    """Examples per step; 0 takes all at once."""
    epochs: Annotated[int, Ge(1)] = 1
    """Passes over the site's examples per round; if neither it nor `lr` is given, as many as suit the task's model."""
    steps: Annotated[int, Ge(0)] = 0
    """If not 0: this many steps per round, instead of `epochs`."""
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """What takes the steps; if neither it nor `lr` is given, the one that suits the task's model."""
    betas: tuple[float, float] = (0.9, 0.999)
    """β₁ and β₂ of Adam: how long its means of gradients and of their squares remember."""
    eps: Annotated[float, Gt(0)] = 1e-8
    """ε of Adam: what is added to the denominator."""
    momentum: Annotated[float, Gt(0), Lt(1)] | None = None
    """β of SGD's running sum of gradients; if not given, there is none."""
    weight_decay: Annotated[float, Ge(0)] | None = None
    """λ: how hard weights are pulled to zero, in the gradient, or apart from it with `adamw`, which has 0.01 unless
    this is given."""
    moments: Literal["anew", "kept"] | None = None
    """Whether Adam's means, or the momentum, begin anew in each round or are kept at the site; if not given, anew."""
    clip: Annotated[float, Gt(0)] | None = None
    """The longest gradient, in Euclidean norm; a longer one is shortened to it."""
    accumulate: Annotated[int, Ge(2)] | None = None
    """Batches per step: one of `batch` times as many examples, in the memory of one batch."""
    warmup: Annotated[int, Ge(1)] | None = None
    """Rounds at the beginning in which the rate rises to `lr`."""
    schedule: Literal["linear", "cosine"] | None = None
    """How the rate falls from `lr` towards 0, from round to round; if not given, by `decay`."""
    horizon: Annotated[int, Ge(2)] | None = None
    """The last round of the `schedule`; if not given, the study's last."""

    def __post_init__(self) -> None:
        wrong = [f"{name} = {getattr(self, name)} {why}" for name, why in self._refused() if getattr(self, name)]
        if wrong:
            raise ValueError("; ".join(wrong))

    def _refused(self) -> Iterator[tuple[str, str]]:
        """Settings that do not go with the method or with each other, and why."""
        yield from ((name, f"does not go with {type(self).__name__}: {why}") for name, why in self.refuses.items())
        if self.optimizer != "sgd":
            yield "momentum", f'goes with optimizer = "sgd"; {self.optimizer} has betas'
        elif self.moments == "kept" and not self.momentum:
            yield "moments", "goes with adam, adamw or momentum; plain SGD has nothing to keep"
        if not self.adam:
            for name, usual in USUAL.items():
                if getattr(self, name) not in usual:
                    yield name, 'goes with optimizer = "adam" or "adamw"; SGD has none'
        if self.decay != 1:
            yield "schedule", f"and decay = {self.decay:g} both lower the rate; leave one of them out"
        if self.schedule is None:
            yield "horizon", 'is the end of a schedule; add schedule = "linear" or "cosine", or leave it out'
        elif self.horizon and (self.warmup or 0) >= self.horizon:
            yield "warmup", f"leaves no round to the schedule, which ends with round {self.horizon}; lower it"

    @property
    def adam(self) -> bool:
        """Whether anything steps by Adam, and so has its settings."""
        return self.optimizer != "sgd"

    def steady(self, lr: float) -> float:
        """The rate of SGD that goes with the method's other settings, where `lr` suits the task's model."""
        return lr

    def lr_in(self, round_: int) -> float:
        """The learning rate of a round."""
        rate = self.lr * self.decay ** (round_ - 1)
        if self.schedule is None and self.warmup is None:
            return rate
        if self.schedule and self.horizon is None:
            raise ValueError(f"schedule = {self.schedule!r} needs a horizon, which a study fills in by its rounds")
        return rate * scheduled(round_, self.schedule, self.warmup or 0, self.horizon or 0)

    # under differential privacy

    @property
    def per_step(self) -> int:
        """Examples of one step; 0 is all."""
        return self.batch * (self.accumulate or 1)

    def private_steps(self, rate: float) -> int:
        """Steps of one training, for each of which every unit is drawn with this chance."""
        return self.steps or self.epochs * math.ceil(1 / rate)

    def steps_at_once(self, rate: float) -> int:
        """Steps that a site pays for together: those of all trainings in one exchange."""
        return self.private_steps(rate)

    def trainings(self, rounds: int, tried: int) -> int:  # noqa: ARG002 -- a hook
        """Exchanges in which a site trains, of a run with so many rounds whose model is tried so often."""
        return rounds

    @property
    def trains_to_try(self) -> bool:
        """Whether a site trains before it tries a model: a look that is paid for, and none is left after a run."""
        return self.trainings(1, 1) > self.trainings(1, 0)

    def train(
        self,
        site: Site,
        weights: Weights,
        terms: Sequence[Term] = (),
        loss: Loss | None = None,
        *,
        examples: Examples | None = None,
        moves: Literal["all", "shared", "private"] = "all",
    ) -> Trained:
        """The weights after the site's work on its examples, or on these, from `weights` on; unchanged without any.

        If only the shared or the private part `moves`, the other stands still.
        """
        loss = loss or site.task.loss
        bench = Bench.at(site, weights)
        model = bench.model.train()
        lr = self.lr_in(site.exchange.round)
        flat, gradient = bench.part(moves)
        optimizer = self._optimizer(lr, flat, site)
        steps = 0
        seen: list[int] = []
        train = site.data.train if examples is None else examples
        guard = site.guard
        drawn = guard.samples(site.task, train, self.private_steps(guard.plan.rate)) if guard else None
        for batches in drawn or self._work(site, train):
            bench.gradient.zero_()
            if guard:
                guard.descend(bench, loss, cast("Sample", batches))
            else:
                seen.append(_backward(loss, model, cast("Sequence[Batch]", batches)))
            for term in terms:
                term.add_gradient(bench.shared, bench.shared_gradient)
            if self.clip:
                clip(gradient, self.clip)
            optimizer.step(flat, gradient)
            steps += 1
        lasting = self._lasting(lr, terms, steps)
        site.stands_on(site.size if guard else min(sum(seen[steps - lasting :]), len(train)))
        if bench.own.size:
            site.keep(bench.own_part())
        if self.moments == "kept" and (reached := optimizer.kept()):
            site.keep(reached)
        return Trained(bench.weights(), steps, lr)

    def _lasting(self, lr: float, terms: Sequence[Term], steps: int) -> int:
        """How many of the last steps the result stands on: a pull fades what went before by 1 − η μ with each."""
        pull = sum(abs(term.mu) for term in terms if isinstance(term, Pull)) if self.optimizer == "sgd" else 0.0
        pull += self._weight_decay if self.optimizer != "adam" else 0.0  # a pull to zero
        fading = lr * pull / (1 - (self.momentum or 0.0))
        return steps if fading * steps <= 1 else max(int(1 / fading), 1)

    def full_gradient(self, site: Site, weights: Weights) -> Weights:
        """The gradient of the mean loss over all the site's training examples; a private part takes its step."""
        bench = Bench.at(site, weights)
        model = bench.model.train()
        bench.gradient.zero_()
        count = site.size
        site.stands_on(count)
        if guard := site.guard:
            for sample in guard.samples(site.task, site.data.train, 1):
                guard.descend(bench, site.task.loss, sample)
        for batch in site.task.batches(site.data.train, self.batch, None) if not guard else ():
            (site.task.loss(model, batch) * (len(batch) / count)).backward()  # type: ignore[no-untyped-call]
        if bench.own.size:
            bench.private.add_(bench.private_gradient, alpha=-self.lr_in(site.exchange.round))
            site.keep(bench.own_part())
        return bench.gradients()

    def _work(self, site: Site, train: Examples) -> Iterator[Sequence[Batch]]:
        """The batches of one round, those of each step together."""
        if not len(train):
            return
        left = self.steps or -1
        for _ in range(self.epochs if not self.steps else self.steps):
            batches = iter(site.task.batches(train, self.batch, site.rng))
            while together := list(islice(batches, self.accumulate or 1)):
                yield together
                left -= 1
                if left == 0:
                    return

    @property
    def _weight_decay(self) -> float:
        """λ, by the optimiser if a study does not say."""
        if self.weight_decay is None:
            return WEIGHT_DECAY if self.optimizer == "adamw" else 0.0
        return self.weight_decay

    def _optimizer(self, lr: float, like: Tensor, site: Site) -> SGD | Adam:
        """What takes the steps, from where it stood if that is kept."""
        known = site.recall(OwnMoments) if self.moments == "kept" and site.knows(OwnMoments) else None
        if self.optimizer == "sgd":
            return SGD(lr, self.momentum or 0.0, self._weight_decay, known)
        moments = (known.steps, known.first, known.second) if known and known.second is not None else None
        apart = self.optimizer == "adamw"
        return Adam(lr, self.betas, self.eps, like, moments, weight_decay=self._weight_decay, apart=apart)


def _backward(loss: Loss, model: nn.Module, batches: Sequence[Batch]) -> int:
    """Add the gradient of the mean loss over some batches to the bench's; returns how many examples they have."""
    examples = sum(map(len, batches))
    for batch in batches:
        value = loss(model, batch)
        if len(batches) > 1:
            value = value * (len(batch) / examples)
        value.backward()  # type: ignore[no-untyped-call]  # torch's own gap
    return examples
