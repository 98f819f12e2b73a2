"""Small counts stay at home: a label with fewer examples than a site's limit is left out of what the site tells.

Of a message's counts (`like="counts"`): where hits and misses give away how many examples a label has, the label is
left out if these are few, with its row and column of the confusion matrix and the false alarms that its examples were,
and the summed loss is scaled to the examples that remain; in any other count per label, an entry below the limit
becomes 0, and so does one among the counts of documents that have a word. Cells of the matrix and bands of ranks
between labels that have enough examples leave however small they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from wardround.core.layer import Layer
from wardround.core.record import Message, reveals_of
from wardround.core.site import Site
from wardround.core.weights import Weights

Counted = Weights | Tensor


@dataclass(frozen=True)
class SmallCounts(Layer):
    """At a site: no count of a label's examples below `smallest` leaves."""

    smallest: Annotated[int, Ge(0)] = 10
    """Labels with fewer examples are left out of what evaluation tells."""

    def leave(self, reply: Message, site: Site) -> Message:  # noqa: ARG002 -- the same at every site
        """The reply without small counts."""
        counted = (name for name, reveal in reveals_of(type(reply)).items() if reveal.like == "counts")
        changed = {name: self._large(value) for name in counted if isinstance(value := getattr(reply, name), Counted)}
        return replace(reply, **changed) if changed else reply

    def _large(self, value: Weights | Tensor) -> Weights | Tensor:
        return Weights(self._without(value)) if isinstance(value, Weights) else value * (value >= self.smallest)

    def _without(self, counts: Weights) -> dict[str, Tensor]:
        large = dict(counts)
        if "hits" in large and "misses" in large:
            examples = large["hits"] + large["misses"]
            enough = examples >= self.smallest
            if "loss" in large and examples.sum() > 0:
                large["loss"] = large["loss"] * (examples[enough].sum() / examples.sum())
            for name in ("hits", "misses", "false_alarms"):
                if name in large:
                    large[name] = large[name] * enough
            if "confusion" in large:
                large["confusion"] = large["confusion"] * enough * enough[:, None]
                # what a small label was taken for: its misses would be the difference from the matrix
                large["false_alarms"] = large["confusion"].sum(0) - large["confusion"].diagonal()
            if "ranking" in large:
                large["ranking"] = large["ranking"] * enough[:, None]
            return large
        return {name: value * (value >= self.smallest) if value.dim() else value for name, value in large.items()}


def uncounted(declared: Mapping[str, Mapping[str, int]], counted: float, by_label: Sequence[int] = ()) -> Iterator[str]:
    """What figures leave out; a site tells to the next power of two how many test examples it has."""
    least = sum(most["test"] // 2 + 1 for most in declared.values() if most.get("test"))
    if counted < least:
        yield (
            f"the figures are of {counted:,.0f} out of at least {least:,} test examples: the others are of labels that "
            "a site has too few of to tell (consent.smallest_count), or at sites that did not answer; nothing here "
            "speaks for those"
        )
    if untold := sum(number <= 0 for number in by_label):
        yield (
            f"of {untold} of {len(by_label)} labels no test example is in these figures: there is none, or no site has "
            "enough of them to tell (consent.smallest_count)"
        )
