"""Small counts stay at home: a label with fewer examples than a site's limit is left out of what the site tells.

Of a message's counts (`like="counts"`): where hits and misses give away how many examples a label has, the label is
left out if these are few, and the summed loss is scaled to the examples that remain; in any other count per label,
an entry below the limit becomes 0.
"""

import dataclasses

from torch import Tensor

from wardround.core.layer import Layer
from wardround.core.record import Message, reveals_of
from wardround.core.site import Site
from wardround.core.weights import Weights

__all__ = ["SmallCounts"]


class SmallCounts(Layer):
    """At a site: no count of a label's examples below `smallest` leaves."""

    def __init__(self, smallest: int) -> None:
        self.smallest = smallest

    def leave(self, reply: Message, site: Site) -> Message:  # noqa: ARG002 -- the same at every site
        """The reply without small counts."""
        changed = {
            name: Weights(self._without(getattr(reply, name)))
            for name, reveal in reveals_of(type(reply)).items()
            if reveal.like == "counts" and isinstance(getattr(reply, name), Weights)
        }
        return dataclasses.replace(reply, **changed) if changed else reply

    def _without(self, counts: Weights) -> dict[str, Tensor]:
        told = dict(counts)
        if "hits" in told and "misses" in told:
            examples = told["hits"] + told["misses"]
            enough = examples >= self.smallest
            if "loss" in told and examples.sum() > 0:
                told["loss"] = told["loss"] * (examples[enough].sum() / examples.sum())
            for name in ("hits", "misses", "false_alarms"):
                if name in told:
                    told[name] = told[name] * enough
            return told
        return {name: value * (value >= self.smallest) if value.dim() else value for name, value in told.items()}
