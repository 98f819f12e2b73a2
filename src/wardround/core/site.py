"""One hospital as its own code sees it, and the one function that runs there.

The coordinator's desk is a site too (`cohort.hub`): it has data, a generator and memory of its own.

Rules of this file:
1. Chance at a site comes from (seed, round, site, step) alone: the order in which sites work cannot matter.
2. What a site keeps is a `Private` on its own disk, one version per exchange: a round that is run again after
   a crash recalls what it recalled the first time, also at a site that missed the repetition. What it only holds is
   gone with the process: a method that exchanges many times in a round keeps at its end, for the round is run again
   from its start.
3. Nothing that a step returns leaves unless it is the `Message` that the step declares.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn

from wardround.core.files import seal, unseal, write
from wardround.core.record import Message, Private, decode
from wardround.core.weights import Layout

__all__ = [
    "HUB", "BagTask", "Batch", "ClassTask", "Examples", "Exchange", "Held", "Memory", "Site", "SiteData", "Surest",
    "Task", "seeded",
]  # fmt: skip

HUB = "coordinator"
"""The name of the coordinator's desk."""

P = TypeVar("P", bound=Private)
Version = tuple[int, int, int]
"""When a record was kept: round, number of the exchange, attempt of the run."""


class Batch(Protocol):
    """Some examples as the model takes them; opaque to all but the task."""

    def __len__(self) -> int: ...


class Examples(Protocol):
    """The examples of one split at one site; opaque to all but the task."""

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class SiteData:
    """What one site has, by split; `public` is what everybody may see."""

    train: Examples
    test: Examples
    valid: Examples | None = None
    public: Examples | None = None

    def split(self, name: str) -> Examples:
        """The examples of the split of this name."""
        examples: Examples | None = vars(self).get(name)
        if examples is None:
            raise ValueError(f"this site has no {name!r} examples")
        return examples


class Task(Protocol):
    """Text → batches → loss → predictions → score: all that the methods need to know of a task."""

    def model(self) -> nn.Module:
        """A new model, initialised from torch's generator."""

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:
        """One pass over the examples, shuffled if there is a generator; size 0 is all in one."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean loss over a batch."""

    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:
        """What evaluation counts: numbers that can be added over sites."""

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """Named figures from added-up counts."""

    def sizes(self) -> dict[str, int]:
        """Sizes that messages may name in their shapes, such as the number of classes."""


@runtime_checkable
class ClassTask(Task, Protocol):
    """A task whose model ends in a linear classifier over features: what methods for skewed labels look into."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the model's scores."""

    @property
    def classifier(self) -> str:
        """The name of the classifier's weight (classes, features) among the model's parameters."""

    def features(self, model: nn.Module, batch: Batch) -> Tensor:
        """What the classifier sees of each example (B, features)."""

    def scores(self, model: nn.Module, features: Tensor) -> Tensor:
        """The classifier's scores (B, classes), before the softmax."""

    def targets(self, batch: Batch) -> Tensor:
        """The class of each example (B,)."""

    def rows(self, batch: Batch) -> Tensor:
        """Where each example of a batch stands among those that `batches` was given (B,)."""

    def tally(self, examples: Examples) -> Tensor:
        """How many examples of each class there are (classes,)."""


class Surest(NamedTuple):
    """For each fact of a site: its public number, the largest probability of a sentence, and that sentence's row."""

    facts: Tensor
    scores: Tensor
    rows: Tensor


class BagTask(Task, Protocol):
    """A task whose sentences claim public facts, and mostly wrongly: what methods that choose among them look into."""

    def surest(self, model: nn.Module, examples: Examples) -> Surest:
        """For each fact of the site, its surest sentence and how sure the model is of it."""

    def only(self, examples: Examples, rows: Tensor) -> Examples:
        """These sentences alone, each an example of its own."""

    def said(self, examples: Examples, rows: Tensor) -> tuple[float, float]:
        """Of these sentences, how many claim a fact of which the truth is known, and how many of those truly say it."""


@dataclass(frozen=True)
class Exchange:
    """Which exchange this is: everything that a site must know besides the message."""

    step: str
    round: int
    number: int
    """Counts the exchanges of one round."""
    settled: int
    """The last round that the coordinator cannot have to repeat."""
    seed: int
    resumed: tuple[int, ...] = ()
    """The rounds after which the run was taken up again, in order: what sites did after them did not count."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Exchange":
        """The exchange that another process wrote down as plain values; a `ValueError` if that is none."""
        whole: list[Any] = [told.get(name) for name in ("round", "number", "settled", "seed")]
        whole += told.get("resumed") or ()
        if not isinstance(told.get("step"), str) or not all(type(number) is int for number in whole):
            raise ValueError("this is not an exchange")
        return cls(told["step"], whole[0], whole[1], whole[2], whole[3], tuple(whole[4:]))


def seeded(*parts: object) -> int:
    """A 63-bit seed from what it depends on."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


Held = dict[type[Private], list[tuple[Version, Private]]]
"""Records that a process has at hand, by kind, each with the exchange it is of; the newest last."""


class Memory:
    """What one site keeps between rounds, on its own disk."""

    def __init__(self, folder: Path, held: "Held | None" = None) -> None:
        self.folder = folder
        self.held: Held = {} if held is None else held

    def hold(self, record: Private, exchange: Exchange) -> None:
        """Remember the record until the round is over or the process ends; the one before it too, for a repeat."""
        versions = self.held.setdefault(type(record), [])
        now = (exchange.round, exchange.number, len(exchange.resumed))
        versions[:] = [*versions, (now, record)][-2:]

    def keep(self, record: Private, exchange: Exchange) -> None:
        """Store the record as of this exchange; forget versions that no resumed round can ask for."""
        self.held.pop(type(record), None)
        kind, now = type(record), (exchange.round, exchange.number, len(exchange.resumed))
        versions = self._versions(kind)
        write(self._path(kind, now), seal(record.encode()))
        valid = [version for version in versions if _counts(version, exchange) and version[:2] <= now[:2]]
        needed = max((version for version in valid if version[0] <= exchange.settled), default=None)
        for version in versions:
            if version != now and (version not in valid or (needed is not None and version < needed)):
                self._path(kind, version).unlink(missing_ok=True)

    def recall(self, kind: type[P], exchange: Exchange) -> P | None:
        """The newest record of this kind from before this exchange, kept in a round that counts."""
        now = (exchange.round, exchange.number)
        held = [record for version, record in self.held.get(kind, []) if _of_round(version, exchange)]
        if held:
            return cast("P", held[-1])
        version = max((v for v in self._versions(kind) if v[:2] < now and _counts(v, exchange)), default=None)
        return None if version is None else decode(kind, unseal(self._path(kind, version)))

    def holds(self, kind: type[Private], exchange: Exchange) -> bool:
        """Whether a record of this kind is held from an earlier exchange of this round."""
        return any(_of_round(version, exchange) for version, _ in self.held.get(kind, []))

    def knows(self, kind: type[Private], exchange: Exchange) -> bool:
        """Whether there is a record of this kind from before this exchange."""
        now = (exchange.round, exchange.number)
        return self.holds(kind, exchange) or any(
            version[:2] < now and _counts(version, exchange) for version in self._versions(kind)
        )

    def undo(self, exchange: Exchange) -> None:
        """Forget what was kept or held in an exchange that came to nothing."""
        now = (exchange.round, exchange.number, len(exchange.resumed))
        for versions in self.held.values():
            versions[:] = [(version, record) for version, record in versions if version != now]
        round_, number, attempt = now
        for path in self.folder.glob(f"*-{round_}-{number}{f'-{attempt}' if attempt else ''}.kept"):
            path.unlink(missing_ok=True)

    def _versions(self, kind: type[Private]) -> list[Version]:
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        parts = [name.removesuffix(".kept").split("-") for name in names if name.endswith(".kept")]
        return [
            (int(round_), int(number), int(attempt[0]) if attempt else 0)
            for name, round_, number, *attempt in parts
            if name == kind.__name__
        ]

    def _path(self, kind: type[Private], version: Version) -> Path:
        round_, number, attempt = version
        return self.folder / f"{kind.__name__}-{round_}-{number}{f'-{attempt}' if attempt else ''}.kept"


def _of_round(version: Version, exchange: Exchange) -> bool:
    """Whether a version is of an earlier exchange of this very round, and not of a repetition of it."""
    return (version[0], version[2]) == (exchange.round, len(exchange.resumed)) and version[1] < exchange.number


def _counts(version: Version, exchange: Exchange) -> bool:
    """Whether the run has not since gone back behind the round in which a version was kept."""
    return all(version[0] <= round_ for round_ in exchange.resumed[version[2] :])


class Site:
    """One hospital as its own code sees it: its name, task, data, chance and memory."""

    def __init__(
        self,
        name: str,
        task: Task,
        opened: Callable[[], SiteData],
        memory: Memory,
        exchange: Exchange,
        received: Message | None = None,
        private: tuple[str, ...] = (),
        least: int = 0,
    ) -> None:
        self.name = name
        self.task = task
        self.private = private
        """The parts of the model, by module name, that never leave this site."""
        self.least = least
        """How many examples must stand behind a reply for it to leave."""
        self.exchange = exchange
        self.received = received
        self._opened = opened
        self._memory = memory
        self._kept: dict[type[Private], Private] = {}
        self.behind: int | None = None
        """How many examples stand behind the reply, as far as the step has said; the fewest, if it said it twice."""

    def stands_on(self, examples: int) -> None:
        """Note how many examples stand behind what the reply will tell: a reply on few of them tells of each."""
        self.behind = examples if self.behind is None else min(self.behind, examples)

    @cached_property
    def data(self) -> SiteData:
        """The site's examples, opened when they are first looked at."""
        return self._opened()

    @cached_property
    def rng(self) -> torch.Generator:
        """Chance that depends on seed, round, site and step, and on nothing else."""
        return torch.Generator().manual_seed(self.seed)

    @property
    def seed(self) -> int:
        """The seed of `rng`, and of torch's own generator (dropout) while a step runs."""
        exchange = self.exchange
        return seeded(exchange.seed, exchange.round, self.name, exchange.step)

    def keep(self, record: Private) -> None:
        """Remember the record, in place of the one of its kind."""
        if not isinstance(record, Private):
            raise TypeError(f"a site keeps Private records; {type(record).__name__} is none")
        self._memory.keep(record, self.exchange)
        self._kept[type(record)] = record

    def hold(self, record: Private) -> None:
        """Remember the record until the end of the round, without a disk; `keep` it by then."""
        self._memory.hold(record, self.exchange)
        self._kept[type(record)] = record

    def holds(self, kind: type[Private]) -> bool:
        """Whether it holds a record of this kind from an earlier exchange of this round."""
        return self._memory.holds(kind, self.exchange)

    def knows(self, kind: type[Private]) -> bool:
        """Whether there is a record of this kind to recall."""
        return kind in self._kept or self._memory.knows(kind, self.exchange)

    def recall(self, kind: type[P], default: P | None = None) -> P:
        """The record of this kind that was kept or held last, or the default."""
        kept = cast("P | None", self._kept.get(kind)) or self._memory.recall(kind, self.exchange) or default
        if kept is None:
            raise LookupError(f"{self.name} has kept no {kind.__name__} yet, and no default was given")
        return kept
