"""What to take for the mean of several vectors when some of them may be lies: the formulas, on rows of equal length.

    middle(rows)                 # each coordinate's median
    middle(rows, cut=1)          # each coordinate's mean without the smallest and the largest
    geometric(distances)         # shares that make the point with the least sum of distances
    krum(distances, liars=1)     # equal shares of those that have the nearest neighbours

Yin et al., ICML 2018 (median, trimmed mean); Pillutla et al., IEEE TSP 2022 (geometric median); Blanchard et al.,
NeurIPS 2017 (Krum), scored over the n − f − 1 nearest as in Farhadkhani et al., ICML 2022, and averaged over n − f
(multi-Krum). The last two need no more of the rows than how far apart they are: their result is a mean with shares.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

AT_ONCE = 1 << 20  # numbers of each row: the rows together may be larger than what is free
STEPS = 1000
NEARLY = 1e-13
TOUCHING = 1e-12  # beside the largest distance: the point is as good as on a row


def _pieces(rows: Sequence[Tensor]) -> Iterator[Tensor]:
    """The rows side by side (rows, some of their numbers), in double precision."""
    for start in range(0, len(rows[0]), AT_ONCE):
        yield torch.stack([row[start : start + AT_ONCE].double() for row in rows])


def middle(rows: Sequence[Tensor], cut: int | None = None) -> Tensor:
    """For each coordinate the mean without so many at either end; if not given, all but one or two: the median."""
    cut = (len(rows) - 1) // 2 if cut is None else cut
    kept = [piece.sort(0).values[cut : len(rows) - cut].mean(0) for piece in _pieces(rows)]
    return torch.cat(kept) if kept else rows[0].double()


def apart(rows: Sequence[Tensor]) -> Tensor:
    """Squared distances of each two rows (rows, rows)."""
    squared = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for piece in _pieces(rows):
        for at in range(len(rows) - 1):
            squared[at, at + 1 :] += (piece[at + 1 :] - piece[at]).square().sum(1)
    return squared + squared.T


def geometric(squared: Tensor) -> Tensor:
    """The shares (rows,) of the geometric median, by Weiszfeld's steps.

    The point is z = Σ s_j x_j with Σ s_j = 1, so ‖x_i − z‖² = Σ_j s_j d_ij − ½ Σ_jk s_j s_k d_jk.
    """
    shares = torch.full((len(squared),), 1 / len(squared), dtype=torch.float64)
    least = TOUCHING * float(squared.max().sqrt())
    if not least:
        return shares
    for _ in range(STEPS):
        far = squared @ shares
        distances = (far - shares @ far / 2).clamp(min=0).sqrt().clamp(min=least)
        before, shares = shares, 1 / distances / (1 / distances).sum()
        if float((shares - before).abs().max()) < NEARLY:
            break
    return shares


def krum(squared: Tensor, liars: int, keep: int | None = None) -> Tensor:
    """Equal shares (rows,) of the rows whose nearest neighbours are nearest, and none for the others."""
    count = len(squared)
    near = squared.sort(1).values[:, 1 : count - liars].sum(1)  # the first is the row itself
    chosen = near.argsort(stable=True)[: count - liars if keep is None else keep]
    shares = torch.zeros(count, dtype=torch.float64)
    shares[chosen] = 1 / len(chosen)
    return shares


def mixed(rows: Sequence[Tensor], shares: Tensor) -> Tensor:
    """The rows' mean with these shares; a row without one is not looked at."""
    total = torch.zeros(len(rows[0]), dtype=torch.float64)
    for row, share in zip(rows, shares.tolist(), strict=True):
        if share:
            total.add_(row.double(), alpha=share)
    return total
