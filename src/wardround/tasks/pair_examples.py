"""Marked pairs as a relation model takes them: token numbers, or the states of a frozen trunk."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from wardround.tasks.batching import Ragged
from wardround.tasks.encoders import EncoderParts, Sequences
from wardround.tasks.marking import Marked


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Token numbers (B, L) or states (B, L, width), which of them are real, which count as what, and the labels."""

    inputs: Tensor
    real: Tensor
    places: Tensor
    parts: Tensor
    labels: Tensor
    rows: Tensor
    """Where each pair stands among the site's."""

    def __len__(self) -> int:
        return len(self.labels)


class PairExamples:
    """A site's pairs as token numbers; the frozen trunk's states of them once they are needed.

    Under a trunk that is all of the encoder (`summed`), only the sums that the classifier sees are kept of them.
    """

    def __init__(
        self, marked: list[Marked], labels: Tensor, parts: EncoderParts, shortened: int, *, summed: bool = False
    ) -> None:
        self.sequences, self.labels, self.summed = Sequences([row.ids for row in marked], parts), labels, summed
        self.tokens = self.sequences.tokens
        places = [[0, *range(*row.first), *range(*row.second)] for row in marked]
        owners = [[1] + [2] * _length(row.first) + [3] * _length(row.second) for row in marked]
        self.places, self.parts = Ragged(places), Ragged(owners)
        self.shortened = shortened

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _sums(self) -> Tensor:
        """The state of [CLS] and the sum of each entity's (pairs, 3, width)."""
        sums = []
        for row, states in enumerate(self.sequences.states or ()):
            places, parts = (ragged.padded(torch.tensor([row]))[0] for ragged in (self.places, self.parts))  # (Q,)
            sums.append(torch.stack([states[places[parts == part]].sum(0) for part in (1, 2, 3)]))
        return torch.stack(sums)

    def batch(self, rows: Tensor) -> PairBatch:
        """These rows as the model takes them."""
        if self.summed:
            each = torch.arange(3).expand(len(rows), 3)  # (B, 3)
            return PairBatch(self._sums[rows], each >= 0, each, each, self.labels[rows], rows)
        inputs, real = self.sequences.filled(rows)
        parts = self.parts.padded(rows) - 1  # (B, Q): -1 where there is nothing
        return PairBatch(inputs, real, self.places.padded(rows), parts, self.labels[rows], rows)

    def packed(self, rows: Sequence[int]) -> tuple[Tensor, list[int], Tensor, Tensor]:
        """Inputs (T, …) of these rows one behind another, their lengths, and places and parts (B, Q) as in a batch."""
        some = torch.tensor(rows)
        lengths = self.tokens.lengths[some].tolist()
        return self.sequences.packed(rows), lengths, self.places.padded(some), self.parts.padded(some) - 1


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]
