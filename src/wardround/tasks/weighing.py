"""How much each word tells, from counts of documents that add up over sites: the IDF of TF-IDF.

    counts = document_counts(examples.tokens, buckets, rarest=5)       # at a site
    tensors = measured(total, documents, rarest=5, shrinkage=0.5)      # at the coordinator

A word that stands in d of all n texts, and t times in this one, counts (ln((1 + n) / (1 + d)) + 1) (ln t + 1), and
every text has length 1. Numbers are hashes of words and of runs of words. A site tells of none that stands in fewer
than `rarest` of its texts: such a word is weighed as if it stood in `rarest` texts of all (studies/baselines).
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wardround.models.linear import WeighedBag
from wardround.tasks.batching import Ragged

RAREST = 5
SHRINKAGE = 0.5  # C = 2: C = 1 costs real corpora up to 0.026, C = 3 generated texts 0.004
MOST = 10**9  # texts: no federation has more


def document_counts(tokens: Ragged, buckets: int, rarest: int) -> Tensor:
    """In how many texts each number stands (buckets,); 0 where they are fewer than `rarest`."""
    texts = torch.repeat_interleave(torch.arange(len(tokens)), tokens.lengths)  # (tokens,)
    once = torch.unique(texts * buckets + tokens.values) % buckets  # each number of each text
    counts = torch.bincount(once, minlength=buckets)
    return counts * (counts >= rarest)


def measured(counts: Tensor, documents: int, rarest: int, shrinkage: float) -> dict[str, Tensor]:
    """How much each number counts (buckets,), and the λ of the model's pull to zero (1,)."""
    among = counts.clamp(min=rarest).double()
    importance = (math.log(1 + documents) - (1 + among).log() + 1).clamp(min=1.0)
    return {"importance": importance.float(), "shrinkage": torch.tensor([shrinkage / max(documents, 1)])}


class DocumentsCounted:
    """A task on texts whose words may be weighed by document counts: a `core.task.WeighedTask`."""

    settings: Any
    numbers: Any

    @property
    def measured(self) -> tuple[str, ...]:
        """The parts of the model that document counts give; none if words are not weighed."""
        return WeighedBag.measured if self.settings.counts_documents else ()

    def document_counts(self, examples: Any) -> Tensor:
        """In how many of the examples each number stands, where these are enough."""
        return document_counts(examples.tokens, self.numbers.words.size, self.settings.rarest or RAREST)

    def weighed(self, counts: Tensor, documents: int) -> Mapping[str, Tensor]:
        """What counts over all sites, of so many documents, make of the model's measured parts."""
        chosen = self.settings
        shrinkage = SHRINKAGE if chosen.shrinkage is None else chosen.shrinkage
        return measured(counts, documents, chosen.rarest or RAREST, shrinkage)

    def plausible(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether document counts can have given these: else one word could be made to count, and no other."""
        importance, shrinkage = (weights[name] for name in self.measured)
        inside = (importance >= 1) & (importance <= math.log(1 + MOST) + 1)
        return bool(inside.all()) and 0 <= float(shrinkage) <= max(self.settings.shrinkage or 0.0, SHRINKAGE)
