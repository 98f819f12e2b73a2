"""Who has the least or the most of something, where only sums may be seen.

Each party says in which of some buckets its number falls, as a row of zeros with a one (`one_hot`). Added up, that
tells which buckets somebody is in, and how many, but not who. The coordinator announces the outermost one that is
occupied (`lowest`, `highest`), and each party knows by itself whether it is in there. Of those that share it, all are.
"""

import torch
from torch import Tensor
from torch.nn import functional


def bucket(shares: Tensor, buckets: int) -> Tensor:
    """The bucket of each number from 0 to 1."""
    return (shares.double() * buckets).long().clamp(0, buckets - 1)


def one_hot(places: Tensor, buckets: int) -> Tensor:
    """Zeros with a one at each place (…, buckets); none for a place of −1."""
    return (functional.one_hot(places.clamp(min=0), buckets) * (places >= 0)[..., None]).to(torch.int8)


def lowest(histogram: Tensor) -> Tensor:
    """The first occupied bucket of each row (…,); the number of buckets, which nobody is in, if there is none."""
    occupied = histogram > 0
    return torch.where(occupied.any(-1), occupied.long().argmax(-1), histogram.shape[-1])


def highest(histogram: Tensor) -> Tensor:
    """The last occupied bucket of each row (…,); −1 if there is none."""
    return histogram.shape[-1] - 1 - lowest(histogram.flip(-1))


def proper(rows: Tensor) -> bool:
    """Whether each row is zeros with at most a one."""
    return bool(((rows == 0) | (rows == 1)).all() and (rows.sum(-1) <= 1).all())
