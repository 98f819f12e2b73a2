"""How much each word tells, from counts of documents that add up over sites: the IDF of TF-IDF.

    counts = document_counts(examples.tokens, buckets, rarest=5)       # at a site
    labels = rounded(label_counts(examples.labels, …), 5)              # likewise
    tensors = measured(total, documents, rarest=5, shrinkage=0.5)      # at the coordinator

A word that stands in d of all n texts, and t times in this one, counts (ln((1 + n) / (1 + d)) + 1) (ln t + 1), and
every text has length 1. Numbers are hashes of words and of runs of words. A site tells of none that stands in fewer
than `rarest` of its texts: such a word is weighed as if it stood in `rarest` texts of all (studies/baselines).

How much a class counts in training follows from counts of labels in the same way. A site tells each rounded
down to a multiple of `rarest`: zeros and exact others would give a small one away by what is missing from all its
texts, and rounded up one below a site's `smallest_count` would leave. Of a class that sites together tell of fewer than
twice `rarest`, or of fewer than what is untold comes to, each site's own counts decide, as they do if nobody tells any.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wardround.models.linear import WeighedBag
from wardround.tasks.batching import Ragged
from wardround.tasks.text_examples import label_counts, weights_by

RAREST = 5
SHRINKAGE = 0.5  # C = 2: C = 1 costs real corpora up to 0.026, C = 3 generated texts 0.004
MOST = 10**9  # texts: no federation has more
HEAVIEST = 1000.0  # a class whose weight is beyond would make every other count for nothing


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


def rounded(counts: Tensor, step: int) -> Tensor:
    """Each down to a multiple, so that what is told is no more than there is."""
    return counts // step * step


def balance(counts: Tensor, labelled: int, settings: Any) -> Tensor:
    """How much each class counts (labels,) by what sites told of so many texts; 0 where a site's own labels decide."""
    rarest = settings.rarest or RAREST
    untold = 0.0 if settings.several else max(labelled - int(counts.sum()), 0) / max(len(counts), 1)
    # What sites kept back, because it was few, is spread evenly; of a class that has less, their own labels decide.
    there = counts.double().clamp(min=1) + untold
    weights = weights_by(there, labelled, len(counts), settings.class_weights, several=settings.several)
    return (weights.clamp(1 / HEAVIEST, HEAVIEST) * (counts >= max(2 * rarest, untold))).float()


class DocumentsCounted:
    """A task on texts whose words may be weighed by document counts: a `core.task.WeighedTask`."""

    settings: Any
    labels: Any
    numbers: Any

    @property
    def measured(self) -> tuple[str, ...]:
        """The parts of the model that counts give; none if words are not weighed."""
        if not self.settings.counts_documents:
            return ()
        return (*WeighedBag.measured, "balance") if self.settings.counts_labels else WeighedBag.measured

    def document_counts(self, examples: Any) -> Tensor:
        """In how many of the examples each number stands, where these are enough."""
        return document_counts(examples.tokens, self.numbers.words.size, self.settings.rarest or RAREST)

    def label_counts(self, examples: Any) -> Tensor:
        """How many of the examples have each label, rounded; of no label where each site's own decide."""
        if not self.settings.counts_labels:
            return torch.zeros(0, dtype=torch.int64)
        counts = label_counts(examples.labels, len(self.labels), several=self.settings.several)
        return rounded(counts, self.settings.rarest or RAREST)

    def weighed(
        self, counts: Tensor, documents: int, labels: Tensor | None = None, labelled: int = 0
    ) -> Mapping[str, Tensor]:
        """What counts over all sites, of so many documents, make of the model's measured parts."""
        chosen = self.settings
        shrinkage = SHRINKAGE if chosen.shrinkage is None else chosen.shrinkage
        parts = measured(counts, documents, chosen.rarest or RAREST, shrinkage)
        if chosen.counts_labels:
            told = torch.zeros(len(self.labels), dtype=torch.int64) if labels is None else labels
            parts["balance"] = balance(told, labelled, chosen)
        return parts

    def plausible(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether counts can have given these: else one word or class could be made to count, and no other."""
        importance, shrinkage, *classes = (weights[name] for name in self.measured)
        inside = [(importance >= 1) & (importance <= math.log(1 + MOST) + 1)]
        inside += [(part == 0) | ((part >= 1 / HEAVIEST) & (part <= HEAVIEST)) for part in classes]
        pull = 0 <= float(shrinkage) <= max(self.settings.shrinkage or 0.0, SHRINKAGE)
        return pull and all(bool(part.all()) for part in inside)
