"""A rule in place of the mean, so that a few sites that lie move the model little.

    Robust("trimmed", FedAvg.means, liars=1)      # in a study: [robust], rule = "trimmed", liars = 1

At the coordinator, on the replies of one exchange side by side. A method says which of its totals are means over sites
(`Method.means`), by which number a site has multiplied its part; that is taken out again, so the rule sees what each
site would have the model do, and all sites count alike, whatever their sizes. What the method is given in place of the
sum is the rule's result times the sum of the weights: divided by that sum, as methods do, it is the result.

The bound (`bound.py`) stands before it: what is far out of line, not a number, or of the wrong size is named and left
out there. A rule is for lies of a length that an honest site's update could have. A site without an example has no say
where sizes weigh. Which sites a rule listens to (`geometric`, `krum`) is in the journal, as `noted.robust`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from torch import Tensor

from wardround.core.cohort import BelowQuorum, Cohort
from wardround.core.layer import Layer
from wardround.core.method import Step
from wardround.core.record import Message
from wardround.core.weights import Weights
from wardround.layers.rules import apart, geometric, krum, middle, mixed

NOTED = "robust"

Rule = Literal["median", "trimmed", "geometric", "krum"]


class Robust(Layer):
    """At the coordinator: a rule that a few lies move little, in place of a method's means."""

    together = True

    def __init__(
        self, rule: Rule, means: Mapping[str, Mapping[str, str]], *, liars: int = 1, keep: int | None = None
    ) -> None:
        self.rule, self.means, self.liars, self.keep = rule, means, liars, keep
        self.replies: Mapping[str, Message] = {}
        """Those of the exchange that is going on."""

    @property
    def needed(self) -> int:
        """With fewer replies a majority could be lies."""
        return 2 * self.liars + 1

    def judge(
        self, replies: Mapping[str, Message], sent: Mapping[str, Message], step: str, cohort: Cohort
    ) -> Mapping[str, str]:
        """Nobody is left out; the replies are held until their sum is asked for."""
        del sent, cohort
        self.replies = dict(replies) if step in self.means else {}
        return {}

    def settle(self, total: Message, step: Step[Any, Any], names: tuple[str, ...], cohort: Cohort) -> Message:
        """What the rule makes of the replies, in place of their sum."""
        if step.name not in self.means:
            return total
        replies, self.replies = {name: self.replies[name] for name in names}, {}
        fields = self.means[step.name].items()
        return replace(total, **{field: self._ruled(replies, field, weight, cohort) for field, weight in fields})

    def _ruled(self, replies: Mapping[str, Message], field: str, weight: str, cohort: Cohort) -> Weights | Tensor:
        """One field's result, times what the sites weigh together."""
        weights = {name: float(getattr(reply, weight)) if weight else 1.0 for name, reply in replies.items()}
        names = [name for name in replies if weights[name] > 0]
        values = [getattr(replies[name], field) for name in names or replies]
        first: Weights | Tensor = values[0]
        if not names:  # nobody has an example, and the sum is one of nothing
            return first * 0.0
        if len(names) < self.needed:
            raise BelowQuorum(
                f"round {cohort.round}: {len(names)} sites gave a usable reply with examples behind it, and "
                f"robust.rule = {self.rule!r} with liars = {self.liars} needs at least {self.needed}"
            )
        flats = [value.flat if isinstance(value, Weights) else value.reshape(-1) for value in values]
        rows = [flat / weights[name] for name, flat in zip(names, flats, strict=True)]
        ruled = self._of(rows, names, cohort) * sum(weights.values())
        if isinstance(first, Weights):
            return Weights.of_flat(ruled.to(first.flat.dtype), first.layout)
        return (ruled.to(first.dtype) if first.is_floating_point() else ruled).reshape(first.shape)

    def _of(self, rows: list[Tensor], names: list[str], cohort: Cohort) -> Tensor:
        if self.rule == "median":
            return middle(rows)
        if self.rule == "trimmed":
            return middle(rows, self.liars)
        squared = apart(rows)
        shares = geometric(squared) if self.rule == "geometric" else krum(squared, self.liars, self.keep)
        cohort.noted[NOTED] = {name: {"share": share} for name, share in zip(names, shares.tolist(), strict=True)}
        return mixed(rows, shares)
