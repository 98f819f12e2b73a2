"""Words as numbers, and their vectors: from a public file of vectors, or by a hash.

words = WordTable("glove.npz", folder, buckets=2**14)
words.vocabulary("aspirin"), words.size, words.width(50), words.vectors

Either way the vocabulary leaks nothing: a file is public, and a hash needs no list.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from wardround.text.reading import found_path
from wardround.text.segment import Hashed, Listed, Vocabulary
from wardround.text.vectors import WordVectors, read_vectors

__all__ = ["WordTable"]


@dataclass(frozen=True)
class WordTable:
    """Words to numbers: their places in a file of vectors, if one is named, or one of so many buckets."""

    file: str | None
    folder: str
    buckets: int

    @cached_property
    def _read(self) -> WordVectors | None:
        return read_vectors(found_path(self.file, self.folder)) if self.file else None

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The number of each word."""
        return Listed(self._read.words) if self._read else Hashed(buckets=self.buckets)

    @cached_property
    def vectors(self) -> Tensor | None:
        """The file's vectors by number (V + 2, D): zeros for padding and for words that it does not have."""
        if self._read is None:
            return None
        vectors = torch.from_numpy(self._read.vectors.copy())
        return torch.cat([torch.zeros(2, vectors.shape[1]), vectors])

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.buckets if self.vectors is None else len(self.vectors)

    def width(self, otherwise: int) -> int:
        """The size of the file's vectors, or that of those that are trained without one."""
        return otherwise if self.vectors is None else self.vectors.shape[1]

    def frozen(self, *, train: bool) -> bool:
        """Whether the vectors stay as they are: those of a file, unless they are to be trained."""
        return self.vectors is not None and not train
