"""Sentences as a bag model takes them, and what they belong to: facts, pairs, and the units of training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wardround.tasks.batching import Ragged


class Groups:
    """Sentences by what they belong to: a bag, a pair, or each by itself."""

    def __init__(self, owner: Tensor) -> None:
        """From the number of each sentence's owner; owners are 0, 1, …, each with at least one sentence."""
        self.rows = torch.argsort(owner, stable=True)  # (S,)
        self.sizes = torch.bincount(owner)  # (G,)
        self.starts = torch.cumsum(self.sizes, 0) - self.sizes  # (G,)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def first(self) -> Tensor:
        """One sentence of each group (G,)."""
        return self.rows[self.starts]

    def take(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """The sentences of these groups, and for each the place of its group among them."""
        sizes = self.sizes[groups]
        owner = torch.repeat_interleave(sizes)  # (S,)
        within = torch.arange(len(owner)) - (torch.cumsum(sizes, 0) - sizes)[owner]  # (S,)
        return self.rows[self.starts[groups][owner] + within], owner

    def longest(self, lengths: Tensor) -> Tensor:
        """The length of the longest sentence of each group (G,)."""
        owner = torch.repeat_interleave(self.sizes)
        return lengths.new_zeros(len(self)).scatter_reduce(0, owner, lengths[self.rows], "amax")


@dataclass(frozen=True, eq=False)
class Numbers:
    """Sentences as numbers."""

    tokens: Ragged
    heads: Tensor
    tails: Tensor
    relations: Tensor
    expressed: Tensor
    """1 if the sentence truly says its fact, 0 if not, -1 if nobody knows."""
    shortened: int


@dataclass(frozen=True, eq=False)
class BagExamples:
    """A site's sentences, grouped by fact, by pair, and by what training takes as one example."""

    numbers: Numbers
    bags: Groups
    facts: Tensor
    """The public number of each bag's fact."""
    pairs: Groups
    truths: Tensor
    """(pairs, relations): what is true of each pair."""
    units: Groups

    def __len__(self) -> int:
        return len(self.units)

    def batch(self, chosen: Tensor) -> "BagBatch":
        """These units as the model takes them."""
        rows, owner = self.units.take(chosen)
        return BagBatch.of(self.numbers, rows, owner, self.numbers.relations[self.units.first[chosen]])


@dataclass(frozen=True, eq=False)
class BagBatch:
    """Sentences (S, L) of some bags, the bag of each (S,), and the bags' relations (bags,)."""

    tokens: Tensor
    heads: Tensor
    tails: Tensor
    owner: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, numbers: Numbers, rows: Tensor, owner: Tensor, labels: Tensor) -> "BagBatch":
        """These sentences of a site's."""
        return cls(numbers.tokens.padded(rows), numbers.heads[rows], numbers.tails[rows], owner, labels)


def numbered(keys: Sequence[Any]) -> Tensor:
    """Each key's number in order of first appearance."""
    places: dict[Any, int] = {}
    return torch.tensor([places.setdefault(key, len(places)) for key in keys], dtype=torch.int64)
