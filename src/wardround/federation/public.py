"""Public examples: labelled, for every party to see, and in no site's training data.

    [public]
    fraction = 0.2          # of the training examples, drawn by the seed before they are cut into sites

    [public.corpus]         # or examples of their own: the training split of any corpus
    format = "jsonl"
    train = "public.jsonl"

Methods that need them (FedED) say so. With any other they are nobody's: a drawn fraction is missing from every site
all the same, and from what centralised training pools, so that all methods of a grid train on the same examples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from wardround.federation.partition import IntArray

__all__ = ["AT_HAND", "Public", "Withheld"]

AT_HAND = 128  # sites whose examples are held: the usual hundred; more would grow with the federation


@dataclass(frozen=True)
class Public:
    """Where public examples come from: a share of the training examples, or a corpus."""

    fraction: float | None = None
    corpus: Any = None


class Withheld:
    """A corpus less a share of its training examples, drawn over all its sites, each of which is opened for it."""

    def __init__(self, corpus: Any, fraction: float, seed: int) -> None:
        self.corpus, self._opened = corpus, lru_cache(maxsize=AT_HAND)(corpus.open)
        sizes = [len(self._opened(name)[0]) for name in corpus.names()]
        ends = np.cumsum(sizes)
        total = int(ends[-1])
        count = round(fraction * total)
        if not 0 < count < total:
            raise ValueError(
                f"public.fraction = {fraction} takes {count} of {total} training examples; it should take some and "
                f"leave some"
            )
        rows = np.sort(np.random.default_rng([seed, 1]).choice(total, count, replace=False))  # the cut draws from 0
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        self.drawn: dict[str, IntArray] = {
            name: part - (end - size) for name, part, end, size in zip(corpus.names(), parts, ends, sizes, strict=True)
        }

    def names(self) -> Sequence[str]:
        """The same sites."""
        names: Sequence[str] = self.corpus.names()
        return names

    def open(self, name: str) -> tuple[Any, Any]:
        """One site's training examples without those that were drawn, and its test examples."""
        train, test = self._opened(name)
        return train.take(np.delete(np.arange(len(train)), self.drawn[name])), test

    def public(self) -> Any:
        """The examples that were drawn, in the order of the sites."""
        parts = [self._opened(name)[0].take(rows) for name, rows in self.drawn.items() if len(rows)]
        return type(parts[0]).joined(parts)
