"""Sites whose loss is a quadratic, so that what a method must give can be worked out by hand.

    start = weights({"w": [0.0, 0.0]})
    sites = {"a": bowl({"w": [1.0, 2.0]}, {"w": [3.0, 4.0]}), "b": landing(weights({"w": [1.0, 1.0]}))}
    trial = Trial(FedAvg(**LANDS), Quadratic(start), sites, start, tmp_path)
    trial.round()            # all sites; trial.round("a") takes only these
    trial.state, trial.replies["a"].change

Rounds go through the real host, serial engine, cohort and manifest; every message is encoded and decoded. `Trial`
takes any task and examples; `Quadratic` is one whose site loss is 0.5 · Σ curvature · (θ − minimum)².
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from wardround.core.cohort import Cohort, Engine, Seen
from wardround.core.exchange import EVALUATION, Exchange, Fault
from wardround.core.layer import Layer
from wardround.core.manifest import Manifest
from wardround.core.memory import Memory
from wardround.core.method import Counts, Exam, Method, State, Step
from wardround.core.record import Message, Private
from wardround.core.site import HUB, Site
from wardround.core.task import Batch, Examples, SiteData, Task
from wardround.core.weights import Layout, Weights
from wardround.engines.host import Host
from wardround.engines.inline import Serial

__all__ = ["LANDS", "Bowl", "Quadratic", "Trial", "bowl", "landing", "lonely", "weights"]

S = TypeVar("S", bound=State)
P = TypeVar("P", bound=Private)

LANDS: dict[str, Any] = {"lr": 1.0, "steps": 1, "batch": 0}
"""Settings under which one step on a `landing` bowl ends in its minimum: θ − 1·1·(θ − minimum)."""

SEED = 7


def weights(tensors: Any, dtype: torch.dtype = torch.float64) -> Weights:
    """Nested lists by name (or one nested list, called w) as weights."""
    named = tensors if isinstance(tensors, Mapping) else {"w": tensors}
    return Weights({name: torch.as_tensor(value, dtype=dtype) for name, value in named.items()})


@dataclass(frozen=True, eq=False)
class Bowl:
    """A site's examples: the curvature and minimum of its loss, and how many examples that stands for."""

    curvature: Weights
    minimum: Weights
    examples: int = 1

    def __len__(self) -> int:
        return self.examples


def bowl(curvature: Any, minimum: Any, examples: int = 1) -> Bowl:
    """A site's loss from nested lists."""
    return Bowl(weights(curvature), weights(minimum), examples)


def landing(model: Weights, examples: int = 1) -> Bowl:
    """A site whose training (under `LANDS`) ends exactly in this model."""
    return Bowl(Weights.of_flat(torch.ones_like(model.flat), model.layout), model, examples)


class Quadratic:
    """The task: parameters of any names and shapes, and a quadratic loss."""

    def __init__(self, like: Weights) -> None:
        self.like = like

    def model(self) -> nn.Module:
        """Modules nested as the dots in the names say."""
        model = nn.Module()
        for name, tensor in self.like.items():
            *path, last = name.split(".")
            owner = model
            for part in path:
                if part not in dict(owner.named_children()):
                    owner.add_module(part, nn.Module())
                owner = owner.get_submodule(part)
            owner.register_parameter(last, nn.Parameter(tensor.clone()))
        return model

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:  # noqa: ARG002
        """The whole bowl as one batch, whatever the size; nothing if it stands for no examples."""
        if len(examples):
            yield examples

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """0.5 · Σ curvature · (θ − minimum)²."""
        site = cast("Bowl", batch)
        terms = [site.curvature[name] * (p - site.minimum[name]) ** 2 for name, p in model.named_parameters()]
        return 0.5 * torch.stack([term.sum() for term in terms]).sum()

    @torch.no_grad()
    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:
        """The loss summed over the examples, and their number."""
        number = len(examples)
        return {"loss": self.loss(model, examples).double() * number, "examples": torch.tensor(float(number)).double()}

    def counts(self) -> Layout:
        """Two numbers."""
        return Layout([("loss", ()), ("examples", ())])

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """The mean loss."""
        return {"loss": float(counts["loss"] / counts["examples"])}

    def sizes(self) -> dict[str, int]:
        """None."""
        return {}


class _Given:
    """Sites given as a dict; each is tried on what it trains on, the coordinator on what is public."""

    def __init__(self, sites: Mapping[str, Examples], public: Examples | None) -> None:
        self.sites, self.names, self.public = sites, tuple(sites), public

    def open(self, name: str) -> SiteData:
        own = self.public if name == HUB and self.public is not None else self.sites[name]
        return SiteData(own, own, public=self.public)


class _Backwards:
    """Delivers as the real engine does, but the last site's reply first."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any | Fault]]:
        backwards = {name: messages[name] for name in reversed(list(messages))}
        return self.engine.deliver(exchange, step, backwards)


class Trial(Generic[S]):
    """A method over an in-process federation, round by round with chosen cohorts."""

    def __init__(
        self,
        method: Method[S],
        task: Task,
        sites: Mapping[str, Examples],
        start: Weights,
        folder: Path,
        *,
        layers: Sequence[Layer] = (),
        backwards: bool = False,
        seed: int = SEED,
        public: Examples | None = None,
        private: tuple[str, ...] = (),
    ) -> None:
        self.method, self.names, self.layers, self.seed = method, tuple(sorted(sites)), tuple(layers), seed
        self.host = Host(method, task, _Given(sites, public), folder, private=private)
        sizes = {**task.sizes(), **method.sizes(task, start), **({} if public is None else {"public": len(public)})}
        layouts = {"model": start.layout, "counts": task.counts()}
        self.manifest = Manifest(layouts, sizes, start.flat.dtype, method.dtypes())
        serial = Serial(self.host, strict=True)
        self.engine: Engine = _Backwards(serial) if backwards else serial
        self.rounds = 0
        self.seen: list[Seen] = []
        """Every exchange so far."""
        self.replies: dict[str, Any] = {}
        """What each site answered in the last exchange of the last round."""
        self.state: S = method.start(start, self.cohort(self.names))

    def cohort(self, names: Iterable[str]) -> Cohort:
        """These sites, in the present round."""
        hub = self.host.site(HUB, Exchange("hub", self.rounds, 0, 0, self.seed))
        return Cohort(
            tuple(names), len(self.names), self.rounds, self.seed, self.engine, self.manifest, hub,
            self.layers, watch=self.seen,
        )  # fmt: skip

    def round(self, *names: str) -> S:
        """One round over these sites, or over all."""
        self.rounds += 1
        cohort = self.cohort(names or self.names)
        self.state = self.method.round(self.state, cohort)
        assert cohort.left_out == {}
        answered = sorted(cohort.names) if cohort.exchanges else []
        replies = [seen.reply for seen in self.seen[len(self.seen) - len(answered) :]]
        self.replies = dict(zip(answered, replies, strict=True))
        return self.state

    def tried(self, *names: str) -> dict[str, float]:
        """The task's figures for the shared model, over these sites or over all."""
        cohort = self.cohort(names or self.names)
        cohort.exchanges = EVALUATION
        return self.host.task.metrics(self._counts(cohort).numbers)

    def _counts(self, cohort: Cohort) -> Counts:
        return cohort.total(self.method.evaluate, Exam(self.state.weights, "test"))

    def kept(self, name: str, kind: type[P], default: P | None = None) -> P:
        """What a site has kept up to now."""
        return self._site(name, self.rounds + 1).recall(kind, default)

    def keep(self, name: str, record: Private) -> None:
        """Have a site remember something from before the first round."""
        self._site(name, 0).keep(record)

    def _site(self, name: str, round_: int) -> Site:
        return self.host.site(name, Exchange("look", round_, 0, 0, self.seed))


def lonely(task: Task, examples: Examples, folder: Path | None) -> Site:
    """A single site in its first round, for what needs no coordinator; without a folder it cannot keep anything."""
    memory = Memory(folder or Path("nowhere"))
    return Site("alone", task, lambda: SiteData(examples, examples), memory, Exchange("fit", 1, 1, 0, SEED))
