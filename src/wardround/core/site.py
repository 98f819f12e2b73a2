"""One hospital as its own code sees it; the coordinator's desk is a site too (`cohort.hub`).

Rules of this file:
1. Chance at a site comes from (seed, round, site, step) alone: the order in which sites work cannot matter.
2. What a site keeps is a `Private`, and only a `Private` (see `memory`).
"""

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar, cast

import torch

from wardround.core.device import CPU, Device
from wardround.core.exchange import Exchange, seeded
from wardround.core.memory import Memory
from wardround.core.private_steps import Guard
from wardround.core.record import Message, Private, finite
from wardround.core.task import BagTask, ClassTask, SiteData, Task
from wardround.core.vault import Vault

HUB = "coordinator"
"""The name of the coordinator's desk."""

P = TypeVar("P", bound=Private)


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
        vault: Vault | None = None,
        first: int = 1,
        guarded: "Callable[[Site], Guard | None] | None" = None,
        device: Device = CPU,
    ) -> None:
        self.name = name
        self.task = task
        self.private = private
        """The parts of the model, by module name, that never leave this site."""
        self.least = least
        """How many examples must stand behind a reply for it to leave."""
        self.device = device
        """Where the site's models compute."""
        self.exchange = exchange
        self.received = received
        self.vault = vault or Vault.simulated(name, exchange.seed)
        """Its secrets, and what it has given away once and for all."""
        self.begins = exchange.number == first
        """Whether this is the method's first exchange of the round."""
        self._opened = opened
        self._guarded = guarded
        self._memory = memory
        self._kept: dict[type[Private], Private] = {}
        self.recalled: dict[str, Private] = {}
        """What this exchange has looked up of earlier ones, by kind: with the message, what its reply depends on."""
        self.lost = ""
        """The kind of a record that was to be kept and holds what is no number."""
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
    def guard(self) -> "Guard | None":
        """What stands between this exchange and the notes, where the study has differential privacy."""
        return self._guarded(self) if self._guarded else None

    @property
    def class_task(self) -> ClassTask:
        """The task, for a method that says `classifier`: no run of it begins with a task of another kind."""
        return cast("ClassTask", self.task)

    @property
    def bag_task(self) -> BagTask:
        """The task, for a method that chooses among the sentences of bags and has made sure that it has some."""
        return cast("BagTask", self.task)

    @property
    def size(self) -> int:
        """How many training examples it has, as it may be told: under differential privacy units, and about."""
        return self.guard.size if self.guard else len(self.data.train)

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
        """Remember the record, in place of the one of its kind.

        One that holds what is no number is not kept: a round that ran away would spoil all that follow.
        """
        if not isinstance(record, Private):
            raise TypeError(f"a site keeps Private records; {type(record).__name__} is none")
        if not all(map(finite, vars(record).values())):
            self.lost = type(record).__name__
            return
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
        kept = cast("P | None", self._kept.get(kind))
        if kept is None and (before := self._memory.recall(kind, self.exchange)) is not None:
            self.recalled[kind.__name__] = kept = before
        kept = kept or default
        if kept is None:
            raise LookupError(f"{self.name} has kept no {kind.__name__} yet, and no default was given")
        return kept
