"""One concern on the wire: what changes or watches messages. The same object serves both ends.

    @dataclass(frozen=True, kw_only=True)
    class Rounded(Layer):                       # in a study: [[layers]], name = "my_module:Rounded", digits = 3
        digits: int = 3

        def leave(self, reply, site): …         # at the site, before the reply is sent

Rules of this file:
1. Layers form one stack, from the inside to the outside. At a site: step → the site's own layers → the study's, in its
   order → the ledger → the wire; a site's rules on what it tells come first, since nothing can be told of a masked
   reply. At the coordinator the same backwards: wire → ledger → bound → the study's layers, last one first → method.
2. A layer's steps (`@on_site`, as a method has them) are exchanges of its own, through `cohort.ask` and `cohort.total`,
   before an exchange (`prepare`) or after it (`settle`). They pass the layers outside it, and neither itself nor those
   inside. Their messages are messages like others: in the ledger, the protocol, a site's consent and its budget.
3. A study's layer holds settings and no state. What a site must remember is a `Private` (`site.keep`, `site.hold`,
   `site.recall`); so is what the coordinator must, at its desk (`cohort.hub.keep`). Both come back with `--resume`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from wardround.core.exchange import Exchange
from wardround.core.method import Method, Step, on_site, steps_of
from wardround.core.record import Message
from wardround.core.site import Site

if TYPE_CHECKING:
    from wardround.core.cohort import Cohort


class Withheld(Exception):
    """A layer at a site does not let a reply leave; a code of `wardround.engines.remote` says why."""

    code = "withheld"


class Layer:
    """One concern on the wire; here each hook does nothing."""

    only_sums = ""
    """Why the coordinator may see nothing but sums, if it may not: then `Cohort.ask` refuses, and nothing is judged."""

    setting = ""
    """What a study calls it, for messages."""

    together = False
    """Whether it judges the replies of an exchange side by side: they are then all held until the last is there."""

    names_cohort = False
    """Whether a site must know who else takes part: then `site.exchange.names` has them."""

    ahead = 0
    """How many exchanges of its own stand before one of the method's, asked or not."""

    least = 0
    """How many examples must stand behind a reply for it to leave."""

    @property
    def called(self) -> str:
        """Its setting's name, or of a user's own its class's."""
        return self.setting or type(self).__name__

    def carries(self, kind: type[Message]) -> type[Message]:
        """What a reply of this kind is once it has left; itself, unless `leave` makes another of it."""
        return kind

    def misfit(self, method: Method[Any], layers: "Sequence[Layer]") -> str | None:  # noqa: ARG002 -- a hook
        """Why it makes no sense with this method, or with these layers beside it; None if it does."""
        return None

    def exchanges(self) -> Mapping[str, int]:
        """How often, at most, one exchange of the method's needs each step of the layer's own."""
        return dict.fromkeys(self.own_steps(), 1)

    def bar(self, names: Iterable[str]) -> Mapping[str, str]:  # noqa: ARG002
        """At the coordinator, before anything goes out: which of these sites not to ask, and why."""
        return {}

    def prepare(self, step: Step[Any, Any], cohort: "Cohort") -> None:
        """At the coordinator, before an exchange: the place for exchanges of its own, with `cohort.present`."""

    def send(self, messages: Mapping[str, Message], exchange: Exchange) -> Mapping[str, Message]:  # noqa: ARG002
        """At the coordinator, before messages go out; their kind stays."""
        return messages

    def leave(self, reply: Message, site: Site) -> Message:  # noqa: ARG002
        """At the site, before the reply is sent."""
        return reply

    def arrive(self, reply: Message, name: str, exchange: Exchange) -> Message:  # noqa: ARG002
        """At the coordinator, on each reply, in reverse order."""
        return reply

    def judge(
        self,
        replies: Mapping[str, Message],  # noqa: ARG002
        sent: Mapping[str, Message],  # noqa: ARG002
        step: str,  # noqa: ARG002
        cohort: "Cohort",  # noqa: ARG002
    ) -> Mapping[str, str]:
        """At the coordinator, on all replies of an exchange, if `together`: whose not to use, and why."""
        return {}

    def settle(self, total: Message, step: Step[Any, Any], names: tuple[str, ...], cohort: "Cohort") -> Message:  # noqa: ARG002
        """At the coordinator, on the sum of these sites' replies, in reverse order; it may exchange once more.

        What it returns is a `step.reply`: that of the method, or what a layer further inside has made of it.
        """
        return total

    def recall(self, noted: Iterable[Mapping[str, Mapping[str, Mapping[str, float]]]]) -> None:
        """At the coordinator, when a run is taken up again: what was `noted` in the rounds that count, in order."""

    @property
    def quorum(self) -> int:
        """How few sites an exchange may have."""
        return 0

    @property
    def alone(self) -> bool:
        """Whether it works at a site of which the coordinator knows nothing."""
        return not (self.own_steps() or self.only_sums or type(self).carries is not Layer.carries)

    @classmethod
    @cache  # every exchange asks
    def own_steps(cls) -> dict[str, on_site[Any, Any]]:
        """Its steps, by the name under which a site is asked for them."""
        return {f"{cls.__name__}.{name}": step for name, step in steps_of(cls).items()}


def first_number(layers: Iterable[Layer]) -> int:
    """The number of the first exchange of the method's in a round, behind these layers."""
    return 1 + sum(layer.ahead for layer in layers)


def outside(step: Step[Any, Any], layers: Sequence[Layer]) -> Sequence[Layer]:
    """The layers that an exchange passes: all for a method's step, those outside it for a layer's own."""
    owner = getattr(step.run, "__self__", None)
    return next((layers[index + 1 :] for index, layer in enumerate(layers) if layer is owner), layers)


def carried(step: Step[Any, Any], layers: Sequence[Layer]) -> list[type[Message]]:
    """What a step's reply is as the site computes it, then after each layer that it passes."""
    kinds = [step.reply]
    for layer in layers:
        kinds.append(layer.carries(kinds[-1]))
    return kinds
