"""Each class by itself: precision, recall and F1, and which class was taken for which.

    each_class({"hits": …, "false_alarms": …, "misses": …}, ("flu", "cold", "none"))

Counts add over files and sites. A *confusion* matrix counts examples by true class (rows) and answered class (columns);
where there can be an answer without an example, or none to one, as with entities, the last row and the last column are
for nothing. A task whose examples have several classes at once, or very many, has none. Where nothing could be right or
wrong (0 / 0), a figure is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ByClass:
    """One class: its figures, how many examples it has, and how many were answered with it."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int
    answered: int


def confusion_counts(truth: Tensor, answers: Tensor, classes: int) -> Tensor:
    """How many examples of each class (rows) were answered with each (columns)."""
    places = truth * classes + answers  # (B,)
    return torch.bincount(places, minlength=classes * classes).reshape(classes, classes).double()


def each_class(counts: Mapping[str, Sequence[float]], names: Sequence[str]) -> tuple[ByClass, ...]:
    """The figures of each class, from hits, false alarms and misses."""
    apart = zip(names, *(counts[name] for name in ("hits", "false_alarms", "misses")), strict=True)
    return tuple(
        ByClass(
            name,
            _share(hits, hits + alarms),
            _share(hits, hits + misses),
            _share(2 * hits, 2 * hits + alarms + misses),
            int(hits + misses),
            int(hits + alarms),
        )
        for name, hits, alarms, misses in apart
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
