"""The process's one model of a task, lent to one site at a time.

    bench = Bench.at(site, weights)        # the model with these shared weights and the site's own part
    bench.model(batch)

A study may make parts of the model private (`[sites] private = ["lstm", "crf"]`, by module name). A site trains them
with the rest, keeps them, and tries them with the shared weights; only the shared ones are weights to a method.

What a task has `measured` (a weighting by document counts) travels with the shared weights, or is a site's own where
all is, and no step moves it: it stands first in the buffer, and neither weight decay nor noise reaches it.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from wardround.core.device import CPU, Device
from wardround.core.exchange import seeded
from wardround.core.record import Private
from wardround.core.site import Site
from wardround.core.task import Task, WeighedTask
from wardround.core.weights import Layout, Weights


class OwnPart(Private):
    """The part of the model that stays at its site."""

    weights: Weights


def belongs(name: str, modules: Sequence[str]) -> bool:
    """Whether a parameter lies in one of these modules; `all` names every one."""
    return "all" in modules or any(name == module or name.startswith(f"{module}.") for module in modules)


def statistics(model: nn.Module, *, apart: bool = False) -> str | None:
    """Why a model's statistics of batches are in the way: if it keeps them, or where units are taken `apart`."""
    parts = [*model.modules()]
    if any(getattr(part, "track_running_stats", False) for part in parts):
        return (
            "the model keeps running statistics (batch normalisation), which are no weights and would pass from site "
            "to site; use layer normalisation"
        )
    if apart and any(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) for part in parts):
        return (
            "privacy.dp: the model normalises by the batch, so that what is learnt of one depends on who else is in "
            "it; use layer normalisation"
        )
    return None


class Bench:
    """The process's one model of a task, its weights and gradients in a buffer each: measured, shared, private ones."""

    _benches: ClassVar["WeakKeyDictionary[Task, dict[tuple[Device, tuple[str, ...]], Bench]]"] = WeakKeyDictionary()

    def __init__(
        self, model: nn.Module, private: tuple[str, ...] = (), device: Device = CPU, measured: Sequence[str] = ()
    ) -> None:
        self.model = device.lend(model)
        if why := statistics(model):
            raise ValueError(why)
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
        self.first = sum(shape.numel() for shape in map(torch.Size, _leading(whole, measured)))
        self.shared, self.private = self.flat[:size], self.flat[size:]
        self.shared_gradient, self.private_gradient = self.gradient[:size], self.gradient[size:]

    @classmethod
    def of(cls, task: Task, private: tuple[str, ...] = (), device: Device = CPU) -> "Bench":
        """The bench of this task: built once per process, lent to one site at a time."""
        known = cls._benches.setdefault(task, {})
        if (device, private) not in known:  # what is frozen is the same in all processes, hence the 0
            known[device, private] = cls(_drawn(task, 0), private, device, getattr(task, "measured", ()))
        return known[device, private]

    @classmethod
    def at(cls, site: Site, weights: Weights) -> "Bench":
        """The bench of the site's model, with these shared weights and the site's own part."""
        bench = cls.of(site.task, site.private, site.device)
        bench.load(weights)
        if bench.own.size:
            own = site.recall(OwnPart) if site.knows(OwnPart) else bench.begun(site)
            bench.private.copy_(own.weights.flat)
        return bench

    def begun(self, site: Site) -> OwnPart:
        """The part that the site begins with, drawn by its name."""
        model = _drawn(site.task, seeded(site.exchange.seed, site.name, "own part"))
        own = Weights({name: p for name, p in model.named_parameters() if name in self.own.shapes})
        return OwnPart(weighed_alone(site, own))

    def load(self, weights: Weights) -> nn.Module:
        """The model with these weights."""
        if weights.layout != self.layout:
            raise ValueError(f"these weights are another model's: {self.layout.differs(weights.layout)}")
        self.shared.copy_(weights.flat)
        return self.model

    def weights(self) -> Weights:
        """A copy of the model's shared weights."""
        return Weights.of_flat(self.shared.to("cpu", copy=True), self.layout)

    def gradients(self) -> Weights:
        """A copy of the gradient of the shared weights."""
        return Weights.of_flat(self.shared_gradient.to("cpu", copy=True), self.layout)

    def part(self, which: Literal["all", "shared", "private"]) -> tuple[Tensor, Tensor]:
        """The weights that are to move, and their gradient."""
        if which == "all":
            return self.flat[self.first :], self.gradient[self.first :]
        if which == "shared":
            return self.shared[self.first :], self.shared_gradient[self.first :]
        first = max(self.first - len(self.shared), 0)
        return self.private[first:], self.private_gradient[first:]

    def own_part(self) -> OwnPart:
        """A copy of the private ones, for the site to keep."""
        return OwnPart(Weights.of_flat(self.private.to("cpu", copy=True), self.own))


def weighed_alone(site: Site, weights: Weights) -> Weights:
    """What a site that trains by itself begins with: words are weighed by its own documents, which it tells nobody."""
    task = cast("WeighedTask", site.task)
    names = getattr(task, "measured", ())
    if not names or names[0] not in weights:
        return weights
    train = site.data.train
    return Weights({**weights, **task.weighed(task.document_counts(train), len(train))})


def _leading(whole: Layout, measured: Sequence[str]) -> list[tuple[int, ...]]:
    """The shapes of what is measured; a model has these parameters first."""
    names = [name for name in whole.shapes if name in measured]
    if names != list(whole.shapes)[: len(names)]:
        raise ValueError(f"the model has parameters before {', '.join(names)}, which no step may move")
    return [whole.shapes[name] for name in names]


def _drawn(task: Task, seed: int) -> nn.Module:
    """A model from this seed, without a trace in the chance of others."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return task.model()
