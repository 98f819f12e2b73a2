"""Random texts of random classes and a small LSTM that reads them: the same cost per step as real ones.

A study names them as `tokens:Tokens` and `tokens:Reading`, so that worker processes can build them too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from wardround.core.exchange import seeded
from wardround.corpora.synthetic import Rows
from wardround.models.recurrent import LSTMClassifier
from wardround.tasks.features import FeaturesTask
from wardround.tasks.task import TaskSettings

__all__ = ["Reading", "Tokens"]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Texts of up to `length` token numbers, padded with 0."""

    sites: int = 20
    texts: int = 100
    """Per site."""
    vocabulary: int = 2000
    length: int = 30
    classes: int = 4
    seed: int = 0

    def names(self) -> Sequence[str]:
        """From `site-00` on, in order."""
        return [f"site-{site:02d}" for site in range(self.sites)]

    def open(self, name: str) -> tuple[Rows, Rows]:
        """The site's texts; the first few are to test."""
        rng = np.random.default_rng(seeded(self.seed, name))
        ids = rng.integers(1, self.vocabulary, (self.texts, self.length))
        lengths = rng.integers(self.length // 2, self.length + 1, self.texts)
        ids[np.arange(self.length) >= lengths[:, None]] = 0
        rows: Any = Rows(ids, rng.integers(0, self.classes, self.texts))  # type: ignore[arg-type]  # ids for features
        return rows.take(np.arange(10, self.texts)), rows.take(np.arange(10))


@dataclass(frozen=True, kw_only=True)
class Reading(TaskSettings):
    """The settings of the task."""

    embedding: int = 64
    hidden: int = 64

    def bind(self, corpus: Any) -> "ReadingTask":
        """The task on a corpus with this many words and classes."""
        return ReadingTask(corpus.vocabulary, corpus.classes, self.embedding, self.hidden)


@dataclass(frozen=True)
class ReadingTask(FeaturesTask):
    """Texts of a vocabulary of `inputs` token numbers to one of `classes`."""

    embedding: int
    hidden: int

    def model(self) -> nn.Module:
        """A new LSTM."""
        return LSTMClassifier(self.inputs, self.embedding, self.hidden, self.classes)
