"""What a site may keep to itself stays there: 0 leaves in place of a message's fields that are optional.

A message marks them (`reveals(…, optional=True)`), and its method can do without: today, counts of labels before the
first round, which `label_counts = false` in a site's consent keeps back.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from wardround.core.layer import Layer
from wardround.core.record import Message, reveals_of
from wardround.core.site import Site


@dataclass(frozen=True)
class KeptBack(Layer):
    """At a site: nothing leaves that a message marks as optional."""

    def leave(self, reply: Message, site: Site) -> Message:  # noqa: ARG002 -- the same at every site
        """The reply with zeros there."""
        optional = [name for name, reveal in reveals_of(type(reply)).items() if reveal.optional]
        return replace(reply, **{name: _nothing(getattr(reply, name)) for name in optional}) if optional else reply


def _nothing(value: Any) -> Any:
    return value.new_zeros(value.shape) if isinstance(value, Tensor) else type(value)()
