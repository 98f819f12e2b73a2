"""One concern on the wire; the same object serves both ends."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from wardround.core.exchange import Exchange
from wardround.core.record import Message
from wardround.core.site import Site

if TYPE_CHECKING:
    from wardround.core.cohort import Cohort

__all__ = ["Layer"]


class Layer:
    """One concern on the wire; the same object serves both ends. Here each hook does nothing."""

    sum_only = False
    """Whether the coordinator may see nothing but sums: then `Cohort.ask` refuses."""

    together = False
    """Whether it judges the replies of an exchange side by side: they are then all held until the last is there."""

    def bar(self, names: Iterable[str]) -> Mapping[str, str]:  # noqa: ARG002
        """At the coordinator, before anything goes out: which of these sites not to ask, and why."""
        return {}

    def send(self, messages: Mapping[str, Message], exchange: Exchange) -> Mapping[str, Message]:  # noqa: ARG002
        """At the coordinator, before messages go out."""
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

    def recall(self, noted: Iterable[Mapping[str, Mapping[str, Mapping[str, float]]]]) -> None:
        """At the coordinator, when a run is taken up again: what was `noted` in the rounds that count, in order."""

    def settle(self, total: Message, cohort: "Cohort") -> Message:  # noqa: ARG002
        """At the coordinator, on a sum, in reverse order."""
        return total
