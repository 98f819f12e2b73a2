"""Sentences of common words with two entities in them, about as long as ChemProt's: what a step costs on real ones.

A study names them as `sentences:Sentences`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wardround.core.exchange import seeded
from wardround.text.document import Document, Entity
from wardround.text.pairs import pair

__all__ = ["Sentences"]

WORDS = ("in", "the", "of", "patients", "with", "and", "was", "dose", "cells", "at", "by", "study", "not", "effect")


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Pairs in sentences of 10 to 120 words, the median 45; relations are drawn by lot."""

    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    labels: ClassVar[tuple[str, ...]] = ("none", "inhibits", "activates", "binds", "transports")

    count: int = 400
    seed: int = 0

    def documents(self, split: str, problems: Any = None) -> Iterator[Document]:  # noqa: ARG002 -- nothing is odd here
        """The sentences of a split; to test there are few."""
        rng = np.random.default_rng(seeded(self.seed, split))
        for number in range(self.count if split == "train" else 8):
            length = int(np.clip(rng.lognormal(np.log(45), 0.5), 10, 120))
            words = rng.choice(WORDS, length).tolist()
            first, second = sorted(rng.choice(length, 2, replace=False).tolist())
            words[first], words[second] = "aspirin", "cyclooxygenase"
            text = " ".join(words)
            chemical, gene = (text.index(words[at]) for at in (first, second))
            head = Entity("", "chemical", chemical, chemical + len(words[first]))
            tail = Entity("", "gene", gene, gene + len(words[second]))
            yield pair(f"{split}-{number}", text, head, tail, self.labels[int(rng.integers(len(self.labels)))])
