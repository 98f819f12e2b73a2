"""Sentences as a bag model takes them, and what they belong to: facts, pairs, and the units of training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from wardround.tasks.batching import Ragged
from wardround.tasks.encoders import EncoderParts
from wardround.tasks.marking import Marked, Marker
from wardround.tasks.pair_examples import PairExamples
from wardround.text.facts import BagSentence

OF_PCNN: Mapping[str, Mapping[str, Any]] = {"sgd": {"lr": 0.3, "batch": 16}, "adam": {"lr": 0.003, "batch": 16}}
"""By optimiser, the local training that suits a PCNN, as studies/baselines measured it."""


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
    """Sentences as numbers; of those that an encoder reads, head and tail are where the entities' pieces begin."""

    tokens: Ragged
    heads: Tensor
    tails: Tensor
    relations: Tensor
    expressed: Tensor
    """1 if the sentence truly says its fact, 0 if not, -1 if nobody knows."""
    shortened: int
    pairs: PairExamples | None = None
    """The same as an encoder takes them."""

    def take(self, rows: Tensor) -> tuple[Tensor, ...]:
        """These rows as the model takes them: tokens, heads and tails; or pieces, and which of them count as what."""
        if self.pairs is None:
            return self.tokens.padded(rows), self.heads[rows], self.tails[rows]
        batch = self.pairs.batch(rows)
        return batch.inputs, batch.real, batch.places, batch.parts

    def truly(self, rows: Tensor, weights: Tensor) -> tuple[float, float]:
        """By weight, how much of these claims a fact of which the truth is known, and how much truly says it."""
        claims = (self.relations[rows] > 0) & (self.expressed[rows] >= 0)
        return float(weights[claims].sum()), float((weights * (self.expressed[rows] == 1))[claims].sum())


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
    """Sentences of some bags as the model takes them, the bag of each (S,), and the bags' relations (bags,)."""

    inputs: tuple[Tensor, ...]
    owner: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, numbers: Numbers, rows: Tensor, owner: Tensor, labels: Tensor) -> "BagBatch":
        """These sentences of a site's."""
        return cls(numbers.take(rows), owner, labels)


def window(ids: list[int], head: int, tail: int, most: int) -> tuple[list[int], int, int, bool]:
    """At most so many tokens around the entities, the places of these among them, and whether some were left out."""
    first, second = sorted((head, tail))
    # Entities in the middle of what is kept; if they are too far apart, the first decides.
    start = max(0, min(first - (most - (second - first)) // 2, len(ids) - most, first))
    kept = ids[start : start + most]
    end = max(len(kept) - 1, 0)
    return kept, min(head - start, end), min(tail - start, end), len(kept) < len(ids)


def numbered(keys: Sequence[Any]) -> Tensor:
    """Each key's number in order of first appearance."""
    places: dict[Any, int] = {}
    return torch.tensor([places.setdefault(key, len(places)) for key in keys], dtype=torch.int64)


def encoded(rows: Sequence[BagSentence], parts: EncoderParts, longest: int, *, blind: bool) -> list[Marked]:
    """Sentences as an encoder takes them.

    Where no markers fit, since head and tail overlap or are too long, [CLS] stands for both, and the sentence
    is counted.
    """
    marker = Marker(parts.pretrained, blind, markers=True, longest=longest)
    return [_marked(row, marker) for row in rows]


def _marked(row: BagSentence, marker: Marker) -> Marked:
    head, tail = row.entities
    try:
        return marker.marked(replace(row, entities=(replace(head, id="e1"), replace(tail, id="e2"))))
    except ValueError:
        encoder = marker.encoder
        ids = encoder.tokenizer.encode(row.text, add_special_tokens=False).ids[: marker.longest - 2]
        return Marked([encoder.start, *ids, encoder.end], (0, 1), (0, 1), windowed=True)
