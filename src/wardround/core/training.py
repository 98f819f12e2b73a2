"""The one local training loop, which all methods share.

    trained = self.train(site, model.weights, [Pull(self.mu, model.weights)])

Every local correction is a term of the loss. Terms in the weights alone (`Pull`, `Tilt`) have gradients
simple enough to be written down; they are added to the buffer into which back-propagation writes. Terms
in the data replace `LocalTraining.loss`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from wardround.core.site import Batch, Examples, Site, Task
from wardround.core.weights import Layout, Weights

__all__ = ["Bench", "LocalTraining", "Pull", "Term", "Tilt", "Trained"]


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


class Bench:
    """The process's one model of a task, its weights and gradients each in a single buffer."""

    _benches: ClassVar["WeakKeyDictionary[Task, Bench]"] = WeakKeyDictionary()

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        if any(getattr(part, "track_running_stats", False) for part in model.modules()):
            raise ValueError(
                "the model keeps running statistics (batch normalisation), which are no weights and would pass from "
                "site to site; use layer normalisation"
            )
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.layout = Layout((name, tuple(p.shape)) for name, p in parameters.items())
        weights = Weights.of_model(model)
        self.flat = weights.flat.clone()
        self.gradient = torch.zeros_like(self.flat)
        for name, parameter in parameters.items():
            part, shape = self.layout.slices[name], self.layout.shapes[name]
            parameter.data = self.flat[part].view(shape)
            parameter.grad = self.gradient[part].view(shape)

    @classmethod
    def of(cls, task: Task) -> "Bench":
        """The bench of this task: built once per process, lent to one site at a time."""
        if task not in cls._benches:
            with torch.random.fork_rng(devices=[]):  # the first site of a process draws what any other does
                torch.default_generator.manual_seed(0)  # and what is frozen is the same in all processes
                cls._benches[task] = cls(task.model())
        return cls._benches[task]

    def load(self, weights: Weights) -> nn.Module:
        """The model with these weights."""
        if weights.layout != self.layout:
            raise ValueError(f"these weights are another model's: {self.layout.differs(weights.layout)}")
        self.flat.copy_(weights.flat)
        return self.model

    def weights(self) -> Weights:
        """A copy of the model's weights."""
        return Weights.of_flat(self.flat.clone(), self.layout)


class SGD:
    """θ ← θ − η g."""

    def __init__(self, lr: float) -> None:
        self.lr = lr

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        """One step, in place."""
        flat.add_(gradient, alpha=-self.lr)


class Adam:
    """Adam (Kingma and Ba 2015) with ε outside the root; its moments start at zero."""

    def __init__(self, lr: float, betas: tuple[float, float], eps: float, like: Tensor) -> None:
        self.lr, self.betas, self.eps, self.steps = lr, betas, eps, 0
        self.first, self.second = torch.zeros_like(like), torch.zeros_like(like)

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        """One step, in place."""
        beta1, beta2 = self.betas
        self.steps += 1
        self.first.mul_(beta1).add_(gradient, alpha=1 - beta1)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
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

    lr: Annotated[float, Gt(0)] = 0.01
    """Learning rate of the first round."""
    decay: Annotated[float, Gt(0), Le(1)] = 1.0
    """What the learning rate is multiplied by after each round."""
    batch: Annotated[int, Ge(0)] = 10
    """Examples per step; 0 takes all at once."""
    epochs: Annotated[int, Ge(1)] = 1
    """Passes over the site's examples per round."""
    steps: Annotated[int, Ge(0)] = 0
    """If not 0: this many steps per round, instead of `epochs`."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: Annotated[float, Gt(0)] = 1e-8

    def train(
        self, site: Site, weights: Weights, terms: Sequence[Term] = (), *, examples: Examples | None = None
    ) -> Trained:
        """The weights after the site's work on its examples, or on these, from `weights` on; unchanged without any."""
        bench = Bench.of(site.task)
        model = bench.load(weights).train()
        lr = self.lr * self.decay ** (site.exchange.round - 1)
        optimizer = self._optimizer(lr, bench.flat)
        steps = 0
        for batch in self._work(site, site.data.train if examples is None else examples):
            bench.gradient.zero_()
            self.loss(site, model, batch).backward()  # type: ignore[no-untyped-call]  # torch's own gap
            for term in terms:
                term.add_gradient(bench.flat, bench.gradient)
            optimizer.step(bench.flat, bench.gradient)
            steps += 1
        return Trained(bench.weights(), steps, lr)

    def loss(self, site: Site, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of a batch; methods whose correction looks at the data put their own here."""
        return site.task.loss(model, batch)

    def full_gradient(self, site: Site, weights: Weights) -> Weights:
        """The gradient of the mean loss over all the site's training examples."""
        bench = Bench.of(site.task)
        model = bench.load(weights).train()
        bench.gradient.zero_()
        count = len(site.data.train)
        for batch in site.task.batches(site.data.train, self.batch, None):
            (self.loss(site, model, batch) * (len(batch) / count)).backward()  # type: ignore[no-untyped-call]
        return Weights.of_flat(bench.gradient.clone(), bench.layout)

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
