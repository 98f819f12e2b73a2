"""The sites of one round as the coordinator sees them, and its two verbs.

    replies = cohort.ask(self.score, message)     # {site: reply}: sees each
    total = cohort.total(self.fit, message)       # one reply: sees only the sum

Rules of this file:
1. Replies are taken in the order of the sites' names, however they come in: a fixed order of addition makes
   runs equal bit for bit.
2. A reply is checked against the manifest before the method sees it. A site that fails the check, or does
   not answer, is left out of the rest of the round, by name and with a reason.
3. Fewer good replies than the quorum stop the run: never a wait without end, never a mean over too few.
4. Both verbs count every byte, as encoded, in both directions.
5. Replies are added as they come in, so that memory holds a few of them; only a layer that compares them
   (`together`) makes the cohort hold all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, Protocol, TypeVar, cast

import torch

from wardround.core.doing import asked
from wardround.core.exchange import Exchange, Fault
from wardround.core.layer import Layer, carried, outside
from wardround.core.manifest import NOT_FINITE, Manifest
from wardround.core.method import Step
from wardround.core.record import Message
from wardround.core.refusal import Refusal
from wardround.core.site import Site

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)


class BelowQuorum(Refusal):
    """Too few sites answered for the round to go on."""

    code = 1


class Engine(Protocol):
    """What carries messages to sites and replies back."""

    def deliver(
        self, exchange: Exchange, step: Step[Any, R], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, R | Fault]]:
        """Each site's reply, in whatever order they come."""


@dataclass
class Traffic:
    """Bytes that crossed the wire: `up` from the sites, `down` to them."""

    up: int = 0
    down: int = 0


@dataclass(frozen=True)
class Seen:
    """One exchange as it happened: what was asked for, and whether replies were seen each or summed."""

    step: str
    verb: Literal["ask", "total"]
    message: Message
    reply: Message
    hides: type[Message] | None = None
    """What the step itself replies, where that leaves as something that cannot be read alone."""
    site: str = field(default="", compare=False)
    place: tuple[int, int] = field(default=(0, 0), compare=False)
    """The round, and the number of the exchange in it."""


@dataclass
class Cohort:
    """The sites of one round, as the coordinator sees them."""

    names: tuple[str, ...]
    """The sites that take part, sorted."""
    sites: int
    """How many sites there are in all (K), taking part or not."""
    round: int
    seed: int
    engine: Engine
    manifest: Manifest
    hub: Site
    layers: tuple[Layer, ...] = ()
    quorum: int = 1
    settled: int = 0
    resumed: tuple[int, ...] = ()
    watch: list[Seen] | None = None
    """Where to note each exchange, if anyone wants to know (`wardround protocol` does)."""
    left_out: dict[str, str] = field(default_factory=dict)
    noted: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """What the method wants in the journal of this round: under a name, numbers by site and class."""
    traffic: Traffic = field(default_factory=Traffic)
    exchanges: int = 0

    def __post_init__(self) -> None:
        torch.default_generator.manual_seed(self.hub.seed)  # dropout at the coordinator's desk draws from there
        self.quorum = max([self.quorum, *(layer.quorum for layer in self.layers)])

    @property
    def present(self) -> tuple[str, ...]:
        """The sites that take part and have not been left out so far."""
        return tuple(name for name in self.names if name not in self.left_out)

    def require(self, names: Iterable[str], remedy: str = "") -> None:
        """Stop the round, which can be run again, unless all of these are still there."""
        if lost := sorted(set(names) - set(self.present)):
            reasons = "; ".join(f"{name}: {self.left_out.get(name, 'not asked')}" for name in lost[:5])
            raise BelowQuorum(
                f"round {self.round}: {len(lost)} of the sites in a sum did not stay to its end ({reasons}){remedy}"
            )

    def ask(self, step: Step[M, R], message: M | Mapping[str, M]) -> dict[str, R]:
        """Each site's reply, by name; refused where a layer allows only sums."""
        for layer in outside(step, self.layers):
            if layer.only_sums:
                raise PermissionError(
                    f"{layer.called} lets the coordinator see only sums ({layer.only_sums}), and {step.name!r} "
                    f"asks to see each reply; use cohort.total, or run without that layer"
                )
        replies = dict(self._replies(step, message, "ask"))
        self._enough(step, message, len(replies))
        return cast("dict[str, R]", replies)

    def total(self, step: Step[M, R], message: M | Mapping[str, M]) -> R:
        """The sum of the sites' replies, field by field, and nothing else."""
        total: Message | None = None
        names = []
        for name, reply in self._replies(step, message, "total"):
            try:
                total = reply if total is None else total + reply
            except ValueError as error:  # text, lengths or shapes that the manifest leaves open and that differ
                self.left_out[name] = f"{step.name}: {Fault('invalid', str(error))}"
            else:
                names.append(name)
        self._enough(step, message, len(names))
        assert total is not None  # noqa: S101 -- the quorum is at least one
        layers = outside(step, self.layers)
        for layer, kind in reversed(list(zip(layers, carried(step, layers), strict=False))):
            wanted: Step[Any, Any] = step if kind is step.reply else replace(cast("Step[Any, Any]", step), reply=kind)
            total = layer.settle(total, wanted, tuple(names), self)
            if type(total) is not kind:
                raise TypeError(f"{type(layer).__name__}.settle gave a {type(total).__name__}, not a {kind.__name__}")
        return cast("R", total)

    def _replies(
        self, step: Step[M, R], message: M | Mapping[str, M], verb: Literal["ask", "total"]
    ) -> Iterator[tuple[str, Message]]:
        """Checked replies in the order of names, each as soon as it and those before it are there, or all together."""
        layers = outside(step, self.layers)
        for layer in layers:
            for name, why in layer.bar(self.present).items():
                self.left_out[name] = f"{step.name}: {Fault('refused', why)}"
        for layer in layers:
            layer.prepare(step, self)
        self.exchanges += 1
        messages: Mapping[str, Message] = (
            dict.fromkeys(self.present, message)
            if isinstance(message, Message)
            else {name: message[name] for name in self.present if name in message}
        )
        names = tuple(messages) if any(layer.names_cohort for layer in self.layers) else ()
        exchange = Exchange(step.name, self.round, self.exchanges, self.settled, self.seed, self.resumed, names)
        for sent in messages.values():
            if type(sent) is not step.message:
                raise TypeError(f"{step.name} takes a {step.message.__name__}, not a {type(sent).__name__}")
        for layer in layers:
            messages = layer.send(messages, exchange)
        self.traffic.down += sum(m.nbytes for m in messages.values())
        replies = self._arrivals(step, exchange, messages, verb)
        judges = [layer for layer in reversed(layers) if layer.together]
        if not judges or any(layer.only_sums for layer in layers):
            yield from replies
            return
        gathered = dict(replies)
        for layer in judges:
            for name, why in layer.judge(gathered, messages, step.name, self).items():
                self.left_out[name] = f"{step.name}: {Fault('invalid', why)}"
                del gathered[name]
        yield from gathered.items()

    def _came(
        self, exchange: Exchange, wire: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterator[tuple[str, Message | Fault]]:
        """What the engine delivers, telling how many sites have answered."""
        return asked(self.round, wire.name, iter(self.engine.deliver(exchange, wire, messages)), messages)

    def _arrivals(
        self, step: Step[Any, Any], exchange: Exchange, messages: Mapping[str, Message], verb: Literal["ask", "total"]
    ) -> Iterator[tuple[str, Message]]:
        """Checked replies in the order of names, each as soon as it and those before it are there."""
        kinds = carried(step, outside(step, self.layers))
        limit = sum(self.manifest.limit(kind) for kind in {*kinds})
        wire = replace(step, reply=kinds[-1], limit=limit)
        waiting = iter(sorted(messages))
        early: dict[str, Message | Fault] = {}
        next_name = next(waiting, None)
        silent = ((name, Fault("lost", "no reply came")) for name in messages)
        for name, reply in chain(self._came(exchange, wire, messages), silent):
            early.setdefault(name, reply)  # a second reply of a site is not looked at
            while next_name in early:
                came = early.pop(next_name)
                if isinstance(came, Fault):
                    self.left_out[next_name] = f"{step.name}: {came}"
                elif (checked := self._checked(step, next_name, came, exchange, kinds, verb)) is not None:
                    if self.watch is not None:
                        hides = None if type(came).alone or step.reply is type(came) else step.reply
                        place = exchange.round, exchange.number
                        self.watch.append(Seen(step.name, verb, messages[next_name], came, hides, next_name, place))
                    yield next_name, checked
                next_name = next(waiting, None)

    def _checked(
        self,
        step: Step[Any, Any],
        name: str,
        reply: Message,
        exchange: Exchange,
        kinds: Sequence[type[Message]],
        verb: Literal["ask", "total"],
    ) -> Message | None:
        """A reply behind every layer, if it fits; what a layer opens only in the sum is of the kind that it carries."""
        self.traffic.up += reply.nbytes
        for layer in reversed(outside(step, self.layers)):
            reply = layer.arrive(reply, name, exchange)
        kind = type(reply) if verb == "total" and type(reply) in kinds else step.reply
        if wrong := self.manifest.refusal(kind, reply):
            self.left_out[name] = f"{step.name}: {Fault('invalid', wrong)}"
            return None
        return reply

    @property
    def reasons(self) -> str:
        """Why sites were left out, of the first five, in brackets; nothing if none was."""
        reasons = "; ".join(f"{name}: {why}" for name, why in sorted(self.left_out.items())[:5])
        return f" ({reasons})" if reasons else ""

    def _enough(self, step: Step[Any, Any], message: Message | Mapping[str, Message], count: int) -> None:
        least = self.quorum
        if isinstance(message, Mapping) and outside(step, self.layers) is not self.layers:
            least = min(least, len(message))  # a layer asks whom it needs: newcomers for their keys, say
        if count >= max(least, 1):
            return
        trains = hasattr(getattr(step.run, "__self__", None), "lr")
        away = "training has run away: try a lower method.lr" if trains else "look at the model's weights or vectors"
        diverged = f"; {away}" if NOT_FINITE in self.reasons else ""
        raise BelowQuorum(
            f"round {self.round}, {step.name}: {count} of {len(self.names)} sites gave a usable reply, "
            f"the quorum is {self.quorum}{self.reasons}{diverged}"
        )
