"""Texts as the classifiers take them: token numbers, or the mean of their words' vectors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from wardround.core.refusal import Misfit
from wardround.tasks.batching import Ragged, grouped
from wardround.tasks.words import Beside, Tokens, WordTable, segmenter_for
from wardround.text.reading import existing_path
from wardround.text.segment import Cache, Grams, Hashed, Jieba, Segmenter, Vocabulary
from wardround.text.shown import called, shown
from wardround.text.stems import First, Stems
from wardround.text.texts import Texts

AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Token numbers padded with 0 (B, L), mean vectors (B, D) or an encoder's pieces; labels (B,) or (B, labels)."""

    inputs: Any
    labels: Tensor
    rows: Tensor
    """Where the texts stand among the examples (B,)."""
    weights: Tensor | None = None
    """How much each class counts in training (labels,)."""

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class TextExamples:
    """A site's texts as numbers."""

    tokens: Any
    """`Ragged` numbers of words, or the `TextSequences` of an encoder."""
    labels: Tensor
    means: Tensor | None
    shortened: int
    weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Tensor) -> TextBatch:
        """These rows as the model takes them."""
        inputs = self.tokens.padded(rows) if self.means is None else self.means[rows]
        return TextBatch(inputs, self.labels[rows], rows, self.weights)


@dataclass(frozen=True, eq=False)
class TextNumbers:
    """From texts to the numbers of their tokens, of runs of up to `ngrams` tokens and of what is `beside`; cut once.

    What is beside has the upper half of the numbers to itself.
    """

    tokens: Tokens
    terms: Path | None
    ngrams: int
    words: WordTable
    longest: int
    remember: bool
    beside: Beside = "none"

    @classmethod
    def of(cls, chosen: Any) -> "TextNumbers":
        """As a task's settings have it."""
        words = WordTable(chosen.vectors, chosen.folder, chosen.buckets or 2**14)
        terms = existing_path(chosen.terms, chosen.folder) if chosen.terms else None
        tokens: Tokens = chosen.tokens or "words"
        beside: Beside = chosen.beside or "none"
        return cls(tokens, terms, chosen.ngrams or 1, words, chosen.longest, chosen.remember, beside)

    @cached_property
    def _segmenter(self) -> Segmenter:
        return segmenter_for(self.tokens, self.terms)

    @cached_property
    def _most(self) -> int:
        """Numbers read of a text, which are more than its tokens where runs count too."""
        return Grams(self._segmenter, self.ngrams).count(self.longest)

    @cached_property
    def _cache(self) -> Cache:
        segmenter = Grams(self._segmenter, self.ngrams) if self.ngrams > 1 else self._segmenter
        return Cache(segmenter, self._vocabulary, remember=self.remember)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return self.words.vocabulary if self.beside == "none" else Hashed(buckets=self.words.buckets // 2)

    @cached_property
    def _beside(self) -> Cache:
        stems = self.beside == "stems"
        read = First(self._segmenter if stems else Jieba(), self.longest)
        return Cache(Stems(read) if stems else read, self._vocabulary, remember=self.remember)

    def whole(self, texts: Iterable[str]) -> list[list[int]]:
        """The numbers of all tokens of each text, and of their runs."""
        return list(self._cache.encode(texts))

    def read(self, texts: Iterable[str]) -> tuple[Ragged, list[int]]:
        """As many as the model reads, and how many tokens and runs of each text are beyond that."""
        texts = list(texts)
        rows, half = self.whole(texts), self.words.buckets // 2
        beyond = [max(len(row) - self._most, 0) for row in rows]
        rows = [row[: self._most] for row in rows]
        if self.beside != "none":
            others = self._beside.encode(texts)
            rows = [[*row, *(half + number for number in other)] for row, other in zip(rows, others, strict=True)]
        return Ragged(rows), beyond

    def means(self, tokens: Ragged) -> Tensor:
        """The mean vector of each text's known words (texts, D)."""
        vectors = self.words.vectors
        assert vectors is not None  # noqa: S101 -- asked for with a file of vectors only
        whole = torch.zeros(len(tokens), vectors.shape[1])
        for rows in grouped(tokens.lengths, AT_ONCE, None):
            ids = tokens.padded(rows)  # (B, L)
            known = (ids > 1).sum(1, keepdim=True).clamp(min=1)  # (B, 1)
            whole[rows] = vectors[ids].sum(1) / known  # (B, D)
        return whole


def label_counts(labels: Tensor, classes: int, *, several: bool) -> Tensor:
    """How many texts have each label (labels,)."""
    return labels.sum(0).long() if several else torch.bincount(labels, minlength=classes)


def class_weights(labels: Tensor, classes: int, chosen: str | None, *, several: bool) -> Tensor | None:
    """Of each class, its weight by how rare it is here; of a label that may be absent, that of its presence."""
    if chosen in (None, "none") or not len(labels):
        return None
    there = label_counts(labels, classes, several=several)
    return weights_by(there.clamp(min=1), len(labels), int((there > 0).sum()), chosen, several=several)


def weights_by(there: Tensor, count: int, classes: int, chosen: str | None, *, several: bool) -> Tensor:
    """The same from how many of `count` texts have each label, of so many classes that occur."""
    shares = (count - there).clamp(min=1) / there if several else count / (classes * there)
    return shares.sqrt() if chosen == "root" else shares


def weighted_loss(scores: Tensor, batch: TextBatch, weights: Tensor, *, several: bool) -> Tensor:
    """Mean cross-entropy with classes by these weights; binary, label by label, where a text may have several."""
    if several:  # summed over labels: a rate then means the same however many there are
        each = functional.binary_cross_entropy_with_logits(scores, batch.labels, pos_weight=weights, reduction="none")
        even = (1 + weights.reciprocal()) / 2  # balanced: presence and absence weigh n/2 together, however rare
        return (each * even).sum(1).mean()  # of (B, labels)
    return (functional.cross_entropy(scores, batch.labels, reduction="none") * weights[batch.labels]).mean()


def label_numbers(texts: Texts, known: Sequence[str], *, several: bool) -> Tensor:
    """The number of each text's label (texts,), or which it has of several (texts, labels)."""
    places = {label: index for index, label in enumerate(known)}
    for document in texts.documents:
        for label in document.labels:
            if label not in places:
                raise Misfit(f"document {called(document.id)}: label {shown(label)} is not among {list(known)}")
        if len(document.labels) != 1 and not several:
            many = f"has {len(document.labels)} labels; set several = true in [task]"
            raise Misfit(f"document {called(document.id)} {many}")
    if not several:
        return torch.tensor([places[document.labels[0]] for document in texts.documents], dtype=torch.int64)
    flags = torch.zeros(len(texts), len(known))
    for row, document in enumerate(texts.documents):
        for label in document.labels:
            flags[row, places[label]] = 1.0
    return flags
