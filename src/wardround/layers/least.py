"""A reply stands on many examples or does not leave: what is computed from one note is that note.

A step says how many examples stand behind its reply (`site.stands_on`); one that does not say is taken to stand on too
few. A reply that stands on none, of a site that has nothing to add, tells nothing and may leave.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from wardround.core.layer import Layer, Withheld
from wardround.core.record import Message
from wardround.core.site import Site


class TooFew(Withheld):
    """Fewer examples stand behind a reply than the site allows."""

    code = "few"


@dataclass(frozen=True)
class LeastExamples(Layer):
    """At a site: no reply leaves that stands on fewer than `least` examples, and on more than none."""

    least: Annotated[int, Ge(0)] = 5
    """No reply leaves that stands on fewer examples, unless it stands on none."""

    def leave(self, reply: Message, site: Site) -> Message:
        """The reply, if enough examples stand behind it."""
        if site.behind is None or 0 < site.behind < self.least:
            raise TooFew
        return reply
