"""Marked pairs as a relation model takes them: token numbers, or the states of a frozen trunk."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.tasks.batching import Ragged
from wardround.tasks.marking import Marked
from wardround.tasks.trunk import Trunk


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
        self, marked: list[Marked], labels: Tensor, trunk: Trunk | None, shortened: int, *, summed: bool = False
    ) -> None:
        self.rows, self.labels, self._trunk, self.summed = [row.ids for row in marked], labels, trunk, summed
        self.tokens = Ragged(self.rows)
        places = [[0, *range(*row.first), *range(*row.second)] for row in marked]
        parts = [[1] + [2] * _length(row.first) + [3] * _length(row.second) for row in marked]
        self.places, self.parts = Ragged(places), Ragged(parts)
        self.shortened = shortened

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _states(self) -> list[Tensor] | None:
        return None if self._trunk is None else self._trunk.states(self.rows)

    @cached_property
    def _sums(self) -> Tensor:
        """The state of [CLS] and the sum of each entity's (pairs, 3, width)."""
        sums = []
        for row, states in enumerate(self._trunk.states(self.rows) if self._trunk else ()):
            places, parts = (ragged.padded(torch.tensor([row]))[0] for ragged in (self.places, self.parts))  # (Q,)
            sums.append(torch.stack([states[places[parts == part]].sum(0) for part in (1, 2, 3)]))
        return torch.stack(sums)

    def batch(self, rows: Tensor) -> PairBatch:
        """These rows as the model takes them."""
        if self.summed:
            each = torch.arange(3).expand(len(rows), 3)  # (B, 3)
            return PairBatch(self._sums[rows], each >= 0, each, each, self.labels[rows], rows)
        lengths = self.tokens.lengths[rows]  # (B,)
        real = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, L)
        states = self._states
        inputs = (
            self.tokens.padded(rows)  # (B, L)
            if states is None
            else pad_sequence([states[row] for row in rows.tolist()], batch_first=True)  # (B, L, width)
        )
        parts = self.parts.padded(rows) - 1  # (B, Q): -1 where there is nothing
        return PairBatch(inputs, real, self.places.padded(rows), parts, self.labels[rows], rows)


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]
