"""FedNER: a gradient of the shared module after every batch; what is a site's own stays there.

Ge et al., "FedNER: Privacy-preserving Medical Named Entity Recognition with Federated Learning", 2020.

    site i      takes |S_i|/Σ|S| · N examples, and the gradient of their mean loss;
                its private part (`[sites] private = ["lstm", "crf"]`) takes a step of its own Adam;
                sends the shared part's gradient g_i
    coordinator θ ← θ − Adam(Σ |S_i|/Σ|S| · g_i)                          (eq. 2, section 4.1)

Algorithm 1 prints plain SGD: `server = "sgd"`, `optimizer = "sgd"`. A round is `epochs` passes over Σ|S| examples, or
`steps` exchanges: rounds only say how often the model is tried and saved. Shares are rounded by largest remainder, and
are at least 1; `ask_sizes = false` lets sites round their own, so that the coordinator sees no site's size, only sums.
`steps_per_exchange` is ours: a site goes through so many batches, with a step of its private part after each, and
sends the mean gradient of the shared part, which stands still meanwhile.

Private parts and their optimiser are held in the site's process and written at the end of a round: a round that is
interrupted is done again from its start, with the same bits. A site that falls silent keeps those of the round before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, ClassVar, Literal, Self, cast
from weakref import WeakKeyDictionary

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from wardround.core.bench import Bench
from wardround.core.cohort import Cohort
from wardround.core.exchange import seeded
from wardround.core.method import Method, on_site
from wardround.core.optimizer import SGD, Adam
from wardround.core.record import Message, Private, Record, reveals
from wardround.core.site import Site
from wardround.core.task import Batch, Examples
from wardround.core.training import LocalTraining, one_step
from wardround.core.weights import Weights
from wardround.methods.fedsgd import Gradient


class Roll(Message):
    """Asks how many training examples there are."""


class Size(Message):
    """How many training examples a site has."""

    examples: int = reveals("how many training examples the site has", weighs="train")


class Turn(Message):
    """The shared part as it stands, and how many examples it is to be tried on."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    examples: int = reveals(
        "nothing to the receiver: its share of a batch; 0 where it works that out itself", still=True
    )
    rate: float = reveals("how many examples there are at all sites together", still=True)
    left: int = reveals("nothing; how many exchanges of this round are still to come")


class Served(Record):
    """The shared part, the coordinator's Adam, and the sites' sizes as far as it knows them."""

    weights: Weights
    examples: int
    sizes: dict[str, int]
    steps: int = 0
    first: Weights | None = None
    second: Weights | None = None


class Progress(Private):
    """Where a site stands in its examples, and its own Adam."""

    epoch: int = 0
    place: int = 0
    steps: int = 0
    first: Weights | None = None
    second: Weights | None = None


@dataclass(frozen=True, kw_only=True)
class FedNER(LocalTraining, Method[Served]):
    """Sums the sites' gradients of the shared part after every batch; private parts stay."""

    beyond_training: ClassVar[str] = "it sends gradients of single batches, as often as there are batches, and sizes"
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"grade": {"gradient": "examples"}}
    suits: ClassVar[tuple[str, ...]] = ()
    refuses: ClassVar[Mapping[str, str]] = one_step("gradients are sent after each batch, and moments are always kept")

    lr: Annotated[float, Gt(0)] = 0.001
    """Learning rate of the first round, at the coordinator and for the private parts."""
    batch: Annotated[int, Ge(0)] = 64
    """N: examples per exchange at all sites together; 0 takes all at once."""
    optimizer: Literal["sgd", "adam"] = "adam"
    """Of the private parts."""
    server: Literal["sgd", "adam"] = "adam"
    """What takes the coordinator's steps with the shared part."""
    ask_sizes: bool = True
    """Whether the coordinator asks each site for its size, or only for the sum of all."""
    steps_per_exchange: Annotated[int, Ge(1)] = 1
    """Batches that a site goes through before it sends their mean gradient; the paper has 1."""

    _passes: ClassVar["WeakKeyDictionary[Examples, tuple[tuple[int, ...], Iterator[Batch]]]"] = WeakKeyDictionary()
    """Each site's pass over its examples where it stands; begun anew, and skipped through, if it is not there."""

    @property
    def adam(self) -> bool:
        """At the sites or at the coordinator."""
        return "adam" in (self.optimizer, self.server)

    def start(self, weights: Weights, cohort: Cohort) -> Served:
        """The initial shared part, and how many examples there are."""
        if not self.ask_sizes:
            return Served(weights, cohort.total(self.size, Roll()).examples, {})
        sizes = {name: reply.examples for name, reply in cohort.ask(self.size, Roll()).items()}
        return Served(weights, sum(sizes.values()), sizes)

    @on_site
    def size(self, roll: Roll, site: Site) -> Size:  # noqa: ARG002
        """Count the training examples."""
        site.stands_on(len(site.data.train))
        return Size(len(site.data.train))

    def round(self, state: Served, cohort: Cohort) -> Served:
        """As many exchanges as it takes to see all examples `epochs` times, or `steps`."""
        there = sum(state.sizes.get(name, 0) for name in cohort.names) if state.sizes else state.examples
        if not there:
            return state
        size = self.batch or there
        shares = {name: max(share, 1) for name, share in self._shares(state, cohort, size).items()}
        for left in reversed(range(self.exchanges(there)["grade"])):
            turns = {name: Turn(state.weights, shares.get(name, 0), size / there, left) for name in cohort.names}
            total = cohort.total(self.grade, turns)
            if total.examples:
                state = self._served(state, total.gradient / total.examples, cohort.round)
        return state

    def in_sums(self) -> Self:
        """Sites round their own shares."""
        return replace(self, ask_sizes=False)

    def opening(self) -> tuple[str, ...]:
        """Sites are asked for their sizes first."""
        return ("size",)

    def exchanges(self, examples: int) -> Mapping[str, int]:
        """One for every so many batches of all sites together."""
        size = self.batch or max(examples, 1)
        return {"grade": ceil((self.steps or self.epochs * ceil(examples / size)) / self.steps_per_exchange)}

    def _shares(self, state: Served, cohort: Cohort, size: int) -> Mapping[str, int]:
        return largest_remainder({name: n for name in cohort.names if (n := state.sizes.get(name, 0))}, size)

    def _served(self, state: Served, gradient: Weights, round_: int) -> Served:
        """The coordinator's step."""
        flat, lr = state.weights.flat.clone(), self.lr_in(round_)
        layout = state.weights.layout
        if self.server == "sgd":
            SGD(lr).step(flat, gradient.flat)
            return Served(Weights.of_flat(flat, layout), state.examples, state.sizes)
        adam = self._adam(lr, flat, state)
        adam.step(flat, gradient.flat)
        moments = (Weights.of_flat(moment, layout) for moment in (adam.first, adam.second))
        return Served(Weights.of_flat(flat, layout), state.examples, state.sizes, adam.steps, *moments)

    @on_site
    def grade(self, turn: Turn, site: Site) -> Gradient:
        """The gradient of the shared part over the site's next batch; its private part takes its step."""
        examples = len(site.data.train)
        if not examples:
            site.stands_on(0)
            return Gradient(turn.weights.zeros(), 0)
        if not site.begins and not site.holds(Progress):
            raise LookupError(f"{site.name}: what it held in this round is gone with its process; go on with --resume")
        site.device.seed(seeded(site.seed, site.exchange.number))  # dropout, anew in each exchange
        bench = Bench.at(site, turn.weights)
        model = bench.model.train()
        known = site.recall(Progress, Progress())
        epoch, place = known.epoch, known.place
        lr = self.lr_in(site.exchange.round)
        optimizer = SGD(lr) if self.optimizer == "sgd" else self._adam(lr, bench.private, known)
        share = turn.examples or max(round(turn.rate * examples), 1)
        total: Tensor | None = None
        seen = 0
        for _ in range(self.steps_per_exchange):
            epoch, place, batch = self._next(site, epoch, place, share)
            seen += len(batch)
            bench.gradient.zero_()
            site.task.loss(model, batch).backward()  # type: ignore[no-untyped-call]  # torch's own gap
            part = bench.shared_gradient.cpu() * (examples / self.steps_per_exchange)
            total = part if total is None else total.add_(part)
            optimizer.step(bench.private, bench.private_gradient)
        site.stands_on(min(seen, examples))
        remember = site.hold if turn.left else site.keep
        if bench.own.size:
            remember(bench.own_part())
        moments = (
            (Weights.of_flat(moment.cpu(), bench.own) for moment in (optimizer.first, optimizer.second))
            if isinstance(optimizer, Adam) and bench.own.size
            else ()
        )
        remember(Progress(epoch, place, known.steps + self.steps_per_exchange, *moments))
        return Gradient(Weights.of_flat(cast("Tensor", total), bench.layout), examples)

    def _adam(self, lr: float, like: Tensor, known: Served | Progress) -> Adam:
        """The Adam that was there, or a new one."""
        moments = None
        if known.first is not None and known.second is not None:
            moments = (known.steps, known.first.flat, known.second.flat)
        return Adam(lr, self.betas, self.eps, like, moments)

    def _next(self, site: Site, epoch: int, place: int, share: int) -> tuple[int, int, Batch]:
        """The batch at this place of this pass, or the first of the next; and the place after it."""
        train = site.data.train
        # what is left at the end of a pass may be too few to leave the site, and would be refused again and again
        least = min(site.least, share, len(train)) if self.steps_per_exchange == 1 else 0
        while True:
            where = (site.exchange.seed, epoch, place, share)
            reached, batches = self._passes.get(train, ((), iter(())))
            if reached != where:
                rng = torch.Generator().manual_seed(seeded(site.exchange.seed, site.name, "pass", epoch))
                batches = iter(site.task.batches(train, share, rng))
                for _ in range(place):
                    next(batches, None)
            batch = next(batches, None)
            if batch is not None and len(batch) >= least:
                self._passes[train] = ((site.exchange.seed, epoch, place + 1, share), batches)
                return epoch, place + 1, batch
            epoch, place = epoch + 1, 0


def largest_remainder(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Whole numbers in proportion to the sizes that add up to `total`; of equal remainders, the first goes up."""
    whole = sum(sizes.values())
    shares = {name: total * size // whole for name, size in sizes.items()}
    rest = sorted(sizes, key=lambda name: -(total * sizes[name] % whole))
    for name in rest[: total - sum(shares.values())]:
        shares[name] += 1
    return shares
