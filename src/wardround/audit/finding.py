"""What an attack was able to tell, as a figure that has a chance level beside it.

Finding("words", "nothing switched on", "share of the site's words that were named", 1.0, 0.04, "…")
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

NEAR = 0.15  # of the way from chance to certainty: as good as nothing


@dataclass(frozen=True)
class AttackResult:
    """One attack under one set of protections."""

    attack: str
    protection: str
    figure: str
    """What `value` is."""
    value: float | None
    """None where it was not tried; `why` says the reason."""
    chance: float = 0.0
    """What guessing would have."""
    best: float = 1.0
    """What certainty would have."""
    why: str = ""
    """What it means, or why there is none."""

    @property
    def tells(self) -> str:
        """In a word, how much the attack tells."""
        if self.value is None:
            return "not tried"
        part = (self.value - self.chance) / (self.best - self.chance) if self.best != self.chance else 0.0
        return "next to nothing" if part < NEAR else "something" if part < 0.6 else "much" if part < 0.95 else "all"


def auc(inside: Sequence[float] | Tensor, outside: Sequence[float] | Tensor) -> float:
    """How often one of the first has a higher score than one of the second; half for equals."""
    first, second = [float(x) for x in inside], [float(x) for x in outside]
    if not first or not second:
        return 0.5
    marked = sorted([(x, 1) for x in first] + [(x, 0) for x in second])
    ranks, at = 0.0, 0
    while at < len(marked):
        end = at
        while end < len(marked) and marked[end][0] == marked[at][0]:
            end += 1
        ranks += (at + 1 + end) / 2 * sum(mark for _, mark in marked[at:end])  # equals share their mean rank
        at = end
    return (ranks - len(first) * (len(first) + 1) / 2) / (len(first) * len(second))


def named_at(inside: Sequence[float], outside: Sequence[float], wrong: float = 0.01) -> float:
    """The share of the first above a limit that at most this share of the second is above."""
    ordered = sorted(outside, reverse=True)
    allowed = int(wrong * len(ordered))
    limit = ordered[allowed] if allowed < len(ordered) else float("-inf")
    return sum(score > limit for score in inside) / max(len(inside), 1)
