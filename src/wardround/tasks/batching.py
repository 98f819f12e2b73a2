"""Batches of sequences: similar lengths together, padded to their own longest."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

TOKENS = 2048  # of a batch in which nothing is learnt: more gain nothing, and pad short sentences to long ones
PACKED = 1024  # of one without padding
WINDOW = 32  # batches that are sorted together: longer sorts better, shorter shuffles better


def grouped(lengths: Tensor, size: int, rng: torch.Generator | None) -> list[Tensor]:
    """Row numbers of each batch of one pass: shuffled, but with similar lengths together.

    Without a generator, in order of length: nothing is learnt in that order, and padding is least.
    """
    count = len(lengths)
    if not count:
        return []
    size = size or count
    if rng is None:
        return list(torch.split(torch.argsort(lengths, stable=True), size))
    order = torch.randperm(count, generator=rng)
    batches = [
        part
        for window in torch.split(order, size * WINDOW)
        for part in torch.split(window[torch.argsort(lengths[window], stable=True)], size)
    ]
    return [batches[index] for index in torch.randperm(len(batches), generator=rng).tolist()]


def budgeted(lengths: Tensor, tokens: int = TOKENS) -> list[Tensor]:
    """Row numbers of each batch in order of length, each of as many rows as have so many tokens with their padding."""
    order = torch.argsort(lengths, stable=True)
    batches: list[Tensor] = []
    first = 0
    for at, length in enumerate(lengths[order].tolist()):
        if at > first and (at + 1 - first) * length > tokens:
            batches.append(order[first:at])
            first = at
    return [*batches, order[first:]] if len(order) else []


def packed(lengths: Sequence[int], tokens: int = PACKED) -> Iterator[list[int]]:
    """Row numbers of each batch in order of length, each of as many rows as have so many tokens without padding.

    And no more than twice as many with it, for an encoder of another family pads all the same.
    """
    rows: list[int] = []
    size = 0
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if rows and (size + lengths[row] > tokens or (len(rows) + 1) * lengths[row] > 2 * tokens):
            yield rows
            rows, size = [], 0
        rows.append(row)
        size += lengths[row]
    if rows:
        yield rows


class Ragged:
    """Sequences of numbers of any length in one buffer; rows come out padded with 0."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        self.starts = torch.cumsum(self.lengths, 0) - self.lengths
        self.values = torch.tensor([value for row in rows for value in row], dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, rows: Tensor) -> Tensor:
        """These rows, each at least 1 long, padded to the longest among them."""
        lengths = self.lengths[rows]  # (B,)
        longest = max(int(lengths.max()), 1) if len(rows) else 1
        columns = torch.arange(longest)  # (L,)
        inside = columns < lengths[:, None]  # (B, L)
        places = torch.where(inside, self.starts[rows][:, None] + columns, 0)  # (B, L)
        values = self.values[places] if len(self.values) else torch.zeros_like(places)
        return torch.where(inside, values, 0)  # (B, L)
