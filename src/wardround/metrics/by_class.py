"""What was told of each class apart, as precision, recall and F1, and which class was taken for which.

    each_class(confusion_counts(truth, answers, 3), ("flu", "cold", "none"))

Counts add over files and sites. A *confusion* matrix counts examples by true class (rows) and answered class (columns);
where there can be an answer without an example, or none to one, as with entities, the last row and the last column are
for nothing. A task whose examples have several classes at once counts hits, false alarms and misses instead. Where
nothing could be right or wrong (0 / 0), a figure is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["ByClass", "confusion_counts", "each_class"]


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


def each_class(counts: Mapping[str, Tensor], names: Sequence[str]) -> tuple[ByClass, ...]:
    """The figures of each class, from a confusion matrix or from hits, false alarms and misses."""
    if "confusion" in counts:
        whole, hits = counts["confusion"], counts["confusion"].diagonal()
        answered, there = whole.sum(0), whole.sum(1)
    else:
        hits = counts["hits"]
        answered, there = hits + counts["false_alarms"], hits + counts["misses"]
    rows = zip(names, hits.tolist(), answered.tolist(), there.tolist(), strict=False)  # nothing is no class
    return tuple(
        ByClass(name, _share(hit, told), _share(hit, true), _share(2 * hit, told + true), int(true), int(told))
        for name, hit, told, true in rows
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
