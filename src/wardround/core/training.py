"""The one local training loop, which all methods share.

    trained = self.train(site, model.weights, [Pull(self.mu, model.weights)])

Every local correction is a term of the loss. Terms in the weights alone (`Pull`, `Tilt`) have gradients
simple enough to be written down; they are added to the buffer into which back-propagation writes. What looks
at the data is a loss of its own, in place of the task's.

A study may make parts of the model private (`[sites] private = ["lstm", "crf"]`, by module name). A site trains them
with the rest, keeps them, and tries them with the shared weights; only the shared ones are weights to a method.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from wardround.core.exchange import seeded
from wardround.core.private_steps import Sample
from wardround.core.record import Private
from wardround.core.site import Site
from wardround.core.task import Batch, ClassTask, Examples, Task
from wardround.core.weights import Layout, Weights

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
        self.mu, self.centre = mu, centre

    def add_gradient(self, flat: Tensor, gradient: Tensor) -> None:
        """∇ = μ (θ − centre)."""
        gradient.add_(flat - self.centre.flat, alpha=self.mu)


class Tilt:
    """⟨direction, θ⟩: a constant push against the direction."""

    def __init__(self, direction: Weights) -> None:
        self.direction = direction

    def add_gradient(self, flat: Tensor, gradient: Tensor) -> None:  # noqa: ARG002 -- constant
        """∇ = direction."""
        gradient.add_(self.direction.flat)


class OwnPart(Private):
    """The part of the model that stays at its site."""

    weights: Weights


def belongs(name: str, modules: Sequence[str]) -> bool:
    """Whether a parameter lies in one of these modules; `all` names every one."""
    return "all" in modules or any(name == module or name.startswith(f"{module}.") for module in modules)


class Bench:
    """The process's one model of a task, its weights and gradients each in a single buffer, private ones last."""

    _benches: ClassVar["WeakKeyDictionary[Task, dict[tuple[str, ...], Bench]]"] = WeakKeyDictionary()

    def __init__(self, model: nn.Module, private: tuple[str, ...] = ()) -> None:
        self.model = model
        if any(getattr(part, "track_running_stats", False) for part in model.modules()):
            raise ValueError(
                "the model keeps running statistics (batch normalisation), which are no weights and would pass from "
                "site to site; use layer normalisation"
            )
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        parameters = dict(sorted(trained.items(), key=lambda item: belongs(item[0], private)))  # stable
        whole = Layout((name, tuple(p.shape)) for name, p in parameters.items())
        own = {name: shape for name, shape in whole.shapes.items() if belongs(name, private)}
        self.layout = Layout((name, shape) for name, shape in whole.shapes.items() if name not in own)
        self.own = Layout(own.items())
        self.flat = Weights(parameters).flat.clone()
        self.gradient = torch.zeros_like(self.flat)
        for name, parameter in parameters.items():
            part, shape = whole.slices[name], whole.shapes[name]
            parameter.data = self.flat[part].view(shape)
            parameter.grad = self.gradient[part].view(shape)
        size = self.layout.size
        self.shared, self.private = self.flat[:size], self.flat[size:]
        self.shared_gradient, self.private_gradient = self.gradient[:size], self.gradient[size:]

    @classmethod
    def of(cls, task: Task, private: tuple[str, ...] = ()) -> "Bench":
        """The bench of this task: built once per process, lent to one site at a time."""
        known = cls._benches.setdefault(task, {})
        if private not in known:  # what is frozen is the same in all processes, hence the 0
            known[private] = cls(_drawn(task, 0), private)
        return known[private]

    @classmethod
    def at(cls, site: Site, weights: Weights) -> "Bench":
        """The bench of the site's model, with these shared weights and the site's own part."""
        bench = cls.of(site.task, site.private)
        bench.load(weights)
        if bench.own.size:
            own = site.recall(OwnPart) if site.knows(OwnPart) else bench.begun(site)
            bench.private.copy_(own.weights.flat)
        return bench

    def begun(self, site: Site) -> OwnPart:
        """The part that the site begins with, drawn by its name."""
        model = _drawn(site.task, seeded(site.exchange.seed, site.name, "own part"))
        return OwnPart(Weights({name: p for name, p in model.named_parameters() if name in self.own.shapes}))

    def load(self, weights: Weights) -> nn.Module:
        """The model with these weights."""
        if weights.layout != self.layout:
            raise ValueError(f"these weights are another model's: {self.layout.differs(weights.layout)}")
        self.shared.copy_(weights.flat)
        return self.model

    def weights(self) -> Weights:
        """A copy of the model's shared weights."""
        return Weights.of_flat(self.shared.clone(), self.layout)

    def own_part(self) -> OwnPart:
        """A copy of the private ones, for the site to keep."""
        return OwnPart(Weights.of_flat(self.private.clone(), self.own))


def _drawn(task: Task, seed: int) -> nn.Module:
    """A model from this seed, without a trace in the chance of others."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return task.model()


@torch.no_grad()
def outputs(site: Site, weights: Weights, examples: Examples, look: Callable[[nn.Module, Batch], Tensor]) -> Tensor:
    """What `look` finds in a model with these weights for each example, in their order; there must be some."""
    task = cast("ClassTask", site.task)
    model = Bench.at(site, weights).model.eval()
    pairs = [(task.rows(batch), look(model, batch)) for batch in task.batches(examples, AT_ONCE, None)]
    rows, values = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return torch.empty_like(values).index_copy_(0, rows, values)


class SGD:
    """θ ← θ − η g."""

    def __init__(self, lr: float) -> None:
        self.lr = lr

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        """One step, in place."""
        flat.add_(gradient, alpha=-self.lr)


Moments = tuple[int, Tensor, Tensor]
"""Where an Adam stands: its steps so far, and its first and second moments."""


class Adam:
    """Adam (Kingma and Ba 2015) with ε outside the root; its moments start at zero, or go on from given ones."""

    def __init__(
        self, lr: float, betas: tuple[float, float], eps: float, like: Tensor, moments: "Moments | None" = None
    ) -> None:
        self.lr, self.betas, self.eps = lr, betas, eps
        self.lent = moments is not None
        """Whether the moments are still the given ones, which stay as they are."""
        self.steps, self.first, self.second = moments or (0, torch.zeros_like(like), torch.zeros_like(like))

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        """One step, in place."""
        beta1, beta2 = self.betas
        self.steps += 1
        if self.lent:
            self.first, self.second, self.lent = self.first * beta1, self.second * beta2, False
        else:
            self.first.mul_(beta1)
            self.second.mul_(beta2)
        self.first.add_(gradient, alpha=1 - beta1)
        self.second.addcmul_(gradient, gradient, value=1 - beta2)
        unbias1, unbias2 = 1 - beta1**self.steps, 1 - beta2**self.steps
        flat.addcdiv_(self.first, (self.second / unbias2).sqrt_().add_(self.eps), value=-self.lr / unbias1)


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

    lr: Annotated[float, Gt(0)] = 0.01
    """Learning rate of the first round; if not given, the one that suits the task's model, where that is known."""
    decay: Annotated[float, Gt(0), Le(1)] = 1.0
    """What the learning rate is multiplied by after each round."""
    batch: Annotated[int, Ge(0)] = 10
    """Examples per step; 0 takes all at once."""
    epochs: Annotated[int, Ge(1)] = 1
    """Passes over the site's examples per round."""
    steps: Annotated[int, Ge(0)] = 0
    """If not 0: this many steps per round, instead of `epochs`."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """What takes the steps; if neither it nor `lr` is given, the one that suits the task's model."""
    betas: tuple[float, float] = (0.9, 0.999)
    """β₁ and β₂ of Adam: how long its means of gradients and of their squares remember."""
    eps: Annotated[float, Gt(0)] = 1e-8
    """ε of Adam: what is added to the denominator."""

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
        lr = self.lr * self.decay ** (site.exchange.round - 1)
        optimizer = self._optimizer(lr, bench.flat)
        steps = 0
        seen: list[int] = []
        still = {"all": bench.gradient[:0], "shared": bench.private_gradient, "private": bench.shared_gradient}[moves]
        train = site.data.train if examples is None else examples
        guard = site.guard
        for batch in guard.samples(site.task, train) if guard else self._work(site, train):
            bench.gradient.zero_()
            if guard:
                guard.descend(bench, loss, cast("Sample", batch))
            else:
                loss(model, batch).backward()  # type: ignore[no-untyped-call]  # torch's own gap
            for term in terms:
                term.add_gradient(bench.shared, bench.shared_gradient)
            still.zero_()
            optimizer.step(bench.flat, bench.gradient)
            steps += 1
            seen.append(len(batch))
        lasting = self._lasting(lr, terms, steps)
        site.stands_on(site.size if guard else min(sum(seen[steps - lasting :]), len(train)))
        if bench.own.size:
            site.keep(bench.own_part())
        return Trained(bench.weights(), steps, lr)

    def _lasting(self, lr: float, terms: Sequence[Term], steps: int) -> int:
        """How many of the last steps the result stands on: a pull fades what went before by 1 − η μ with each."""
        fading = lr * sum(abs(term.mu) for term in terms if isinstance(term, Pull)) if self.optimizer == "sgd" else 0.0
        return steps if fading * steps <= 1 else max(int(1 / fading), 1)

    def full_gradient(self, site: Site, weights: Weights) -> Weights:
        """The gradient of the mean loss over all the site's training examples; a private part takes its step."""
        bench = Bench.at(site, weights)
        model = bench.model.train()
        bench.gradient.zero_()
        count = len(site.data.train)
        site.stands_on(count)
        for batch in site.task.batches(site.data.train, self.batch, None):
            (site.task.loss(model, batch) * (len(batch) / count)).backward()  # type: ignore[no-untyped-call]
        if bench.own.size:
            bench.private.add_(bench.private_gradient, alpha=-self.lr * self.decay ** (site.exchange.round - 1))
            site.keep(bench.own_part())
        return Weights.of_flat(bench.shared_gradient.clone(), bench.layout)

    def _work(self, site: Site, train: Examples) -> Iterator[Batch]:
        """The batches of one round."""
        if not len(train):
            return
        left = self.steps or -1
        for _ in range(self.epochs if not self.steps else self.steps):
            for batch in site.task.batches(train, self.batch, site.rng):
                yield batch
                left -= 1
                if left == 0:
                    return

    def _optimizer(self, lr: float, like: Tensor) -> SGD | Adam:
        return SGD(lr) if self.optimizer == "sgd" else Adam(lr, self.betas, self.eps, like)
