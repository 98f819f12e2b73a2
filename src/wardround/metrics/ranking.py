"""How well two classes are told apart, whatever the threshold: the area under the ROC curve, from counts that add.

The area is the chance that an example of the second class has higher odds than one of the first. To add over sites,
each site counts its examples by class in 256 bands of the log-odds, narrow near 0 and wide far from it (asinh); within
a band the order is not known and counts half, which is all that the sum loses.
"""

import math

import torch
from torch import Tensor

BANDS = 256
NEAR, FAR = 0.01, 20.0  # log-odds: what is told apart near 0, and where the last band begins
EDGE = math.asinh(FAR / NEAR)


def ranking_counts(scores: Tensor, labels: Tensor) -> Tensor:
    """Examples by class and band (2, bands), the least likely of the second class first; scores are (B, 2)."""
    odds = (scores[:, 1] - scores[:, 0]).double().nan_to_num(0.0)
    place = ((torch.asinh(odds / NEAR) + EDGE) * (BANDS / (2 * EDGE))).clamp(0, BANDS - 1).long()  # (B,)
    return torch.bincount(labels * BANDS + place, minlength=2 * BANDS).reshape(2, BANDS).double()


def area(ranking: Tensor) -> float | None:
    """The area under the ROC curve; none if a class has no example."""
    first, second = ranking
    pairs = float(first.sum() * second.sum())
    below = first.cumsum(0) - first / 2  # those of its own band count half
    return float((second * below).sum()) / pairs if pairs else None
