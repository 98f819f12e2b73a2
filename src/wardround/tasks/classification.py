"""Texts to classes, in Chinese and English.

    [task]
    name = "classification"
    model = "logistic"                   # or "lstm"
    tokens = "characters"                # or "jieba", "words"; by the texts' language if not given
    ngrams = 3                           # runs of up to 3 tokens count too
    terms = "symptoms.txt"               # added to jieba's dictionary
    vectors = "vectors.npz"              # .npz, GloVe or word2vec text, plain or gzip

The vocabulary does not leak: tokens are numbered by a hash, or by their place in a public vector file.
Logistic regression takes a bag of words and of runs of words, or with `vectors` the mean vector of a text; the LSTM
reads the words. What a study leaves open (`tokens`, `ngrams`, `buckets`, `class_weights`, and a method's rate) is
filled in when it is read, by what studies/baselines measured; the run's own study file has it.
Word vectors stay as they are unless `train_vectors` says so: trained ones travel, and the rows that changed
give away the words of a site's texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.task import Batch, Examples
from wardround.core.weights import Layout
from wardround.metrics.classes import class_counts, class_layout, class_metrics
from wardround.metrics.constant import class_constant, label_constant
from wardround.metrics.labels import label_counts, label_layout, label_metrics
from wardround.models.linear import Bag, Logistic
from wardround.models.recurrent import LSTMClassifier
from wardround.tasks.batching import Ragged, grouped
from wardround.tasks.tokenising import Tokens, refuse_useless, tokens_for
from wardround.text.reading import found_path
from wardround.text.segment import Cache, Characters, Grams, Hashed, Jieba, Listed, Segmenter, Vocabulary, Words
from wardround.text.shown import called, shown
from wardround.text.texts import Texts
from wardround.text.vectors import WordVectors, read_vectors

__all__ = ["Classification", "ClassificationTask"]

EVALUATED_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The settings of the task."""

    takes: ClassVar[str] = "labels"

    model: Literal["logistic", "lstm"] = "logistic"
    tokens: Tokens | None = None
    """What a text is cut into; if not given, what suits the corpus's language."""
    ngrams: Annotated[int, Ge(1)] | None = None
    """The longest run of tokens that a bag of words counts; if not given, 2 words or 3 characters."""
    terms: str | None = None
    buckets: Annotated[int, Ge(2)] | None = None
    """Numbers that tokens are hashed to, if there are no `vectors`; if not given, 2¹⁶ with runs and 2¹⁴ without."""
    class_weights: Literal["none", "root", "balanced"] | None = None
    """How much more rare classes count in training, by a site's own counts; if not given, a bag of words has it."""
    vectors: str | None = None
    train_vectors: bool = False
    embedding: Annotated[int, Ge(1)] = 64
    """Size of the LSTM's word vectors, if no file gives them."""
    hidden: Annotated[int, Ge(1)] = 64
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    longest: Annotated[int, Ge(1)] = 400
    """Tokens read of a text; the rest is left out, and counted."""
    several: bool = False
    """Whether a text may have several labels, or none."""
    remember: bool = True
    """Whether the numbers of a text's tokens are kept on disk for later runs."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    def __post_init__(self) -> None:
        if self.terms and self.tokens not in ("jieba", None):
            raise ValueError(f'terms goes with tokens = "jieba", not {self.tokens!r}')
        if (self.ngrams or 1) > 1 and not self.bag:
            raise ValueError(f'ngrams = {self.ngrams} goes with model = "logistic" without vectors; leave it out')
        if self.train_vectors and not self.vectors:
            raise ValueError("train_vectors needs a file of vectors to start from; without one the LSTM trains its own")

    @property
    def bag(self) -> bool:
        """Whether the model adds up words: it has no features then, and no classifier over them."""
        return self.model == "logistic" and not self.vectors

    def suited(self, language: str) -> dict[str, Any]:
        """What suits texts of this language, where a study leaves it open; nothing about tokens if it is not known."""
        tokens = self.tokens or ("jieba" if self.terms else None)
        if tokens is None and language:
            tokens = tokens_for(language, listed=bool(self.vectors))
        ngrams = self.ngrams or (3 if tokens == "characters" else 2) if self.bag else 1
        chosen: dict[str, Any] = {"tokens": tokens, "buckets": 2**16 if ngrams > 1 else 2**14}
        if self.bag:
            chosen |= {"ngrams": ngrams, "class_weights": "balanced" if self.several else "root"}
        return {key: value for key, value in chosen.items() if value is not None}

    @property
    def training(self) -> Mapping[str, Mapping[str, Any]]:
        """By optimiser, the preferred first, the settings of local training that suit the model."""
        if self.bag:  # inputs of length 1 in thousands of directions: small steps would take hundreds of rounds
            return {"sgd": {"lr": 8.0, "batch": 16}, "adam": {"lr": 0.02, "batch": 16}}
        if self.model == "lstm" and not self.vectors:
            return {"adam": {"lr": 0.003, "batch": 16}, "sgd": {"lr": 0.5, "batch": 16}}
        return {}  # somebody else's vectors: their scale decides

    def bind(self, corpus: Any) -> "ClassificationTask":
        """The task on a corpus with these labels."""
        if self.tokens is None:
            raise ValueError(
                "task.tokens is missing, and nothing says which language the texts are in; add language = "
                '"en" (or "zh", …) to [corpus], or tokens = "words" (or "characters", "jieba") to [task]'
            )
        kind = ClassificationTask if self.several or self.bag else OneLabelTask
        return kind(self, tuple(corpus.labels))


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Token numbers padded with 0 (B, L), or mean vectors (B, D), and labels (B,) or (B, labels)."""

    inputs: Tensor
    labels: Tensor
    rows: Tensor
    """Where the texts stand among the examples (B,)."""
    weights: Tensor | None = None
    """How much each class counts in training (labels,)."""

    def __len__(self) -> int:
        return len(self.labels)


class TextExamples:
    """A site's texts as numbers."""

    def __init__(
        self, tokens: Ragged, labels: Tensor, means: Tensor | None, shortened: int, weights: Tensor | None = None
    ) -> None:
        self.tokens, self.labels, self.means, self.shortened, self.weights = tokens, labels, means, shortened, weights

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Tensor) -> TextBatch:
        """These rows as the model takes them."""
        inputs = self.tokens.padded(rows) if self.means is None else self.means[rows]
        return TextBatch(inputs, self.labels[rows], rows, self.weights)


@dataclass(frozen=True, eq=False)
class ClassificationTask:
    """Texts to one of `labels`, or to any number of them."""

    settings: Classification
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.labels) < 2 and not self.settings.several:
            raise ValueError(f"classification needs at least 2 labels; the corpus has {len(self.labels)}")

    # text → numbers

    @cached_property
    def _vectors(self) -> WordVectors | None:
        chosen = self.settings.vectors
        return read_vectors(found_path(chosen, self.settings.folder)) if chosen else None

    @cached_property
    def _segmenter(self) -> Segmenter:
        chosen = self.settings
        if chosen.tokens == "jieba" or chosen.terms:
            return Jieba(terms=found_path(chosen.terms, chosen.folder) if chosen.terms else None)
        return Characters() if chosen.tokens == "characters" else Words()

    @property
    def ngrams(self) -> int:
        """The longest run of tokens that has a number."""
        return self.settings.ngrams or 1

    @property
    def buckets(self) -> int:
        """How many numbers tokens are hashed to."""
        return self.settings.buckets or 2**14

    @cached_property
    def _longest(self) -> int:
        """Numbers read of a text, which are more than its tokens where runs count too."""
        return Grams(self._segmenter, self.ngrams).count(self.settings.longest)

    @cached_property
    def _encoded(self) -> Cache:
        segmenter = Grams(self._segmenter, self.ngrams) if self.ngrams > 1 else self._segmenter
        vocabulary: Vocabulary = Listed(self._vectors.words) if self._vectors else Hashed(buckets=self.buckets)
        return Cache(segmenter, vocabulary, remember=self.settings.remember)

    @cached_property
    def _table(self) -> Tensor:
        """Vectors by token number: zeros for padding and for words that the file does not have."""
        vectors = cast("WordVectors", self._vectors).vectors
        return torch.cat([torch.zeros(2, vectors.shape[1]), torch.from_numpy(vectors.copy())])  # (V + 2, D)

    def examples(self, texts: Texts) -> TextExamples:
        """A site's documents as numbers; segmented once, and remembered on disk."""
        rows = list(self._encoded.encode(document.text for document in texts.documents))
        shortened = sum(len(row) > self._longest for row in rows)
        tokens, labels = Ragged([row[: self._longest] for row in rows]), self._labels(texts)
        return TextExamples(tokens, labels, self._mean(tokens), shortened, self._weights(labels))

    def refuse(self, texts: Texts) -> None:
        """Raise an error if tokens of these texts, cut like this, cannot be learnt from."""
        written = [document.text for document in texts.documents]
        rows = list(self._encoded.encode(written))
        refuse_useless(written, rows, tokens=self.settings.tokens or "words", listed=self.settings.vectors)

    def unlabelled(self, texts: Sequence[str]) -> tuple[TextExamples, list[int]]:
        """Texts as numbers, of which no label is known, and how many tokens of each are beyond `longest`."""
        rows = list(self._encoded.encode(texts))
        tokens = Ragged([row[: self._longest] for row in rows])
        nothing = torch.zeros(len(rows), dtype=torch.int64)
        beyond = [max(len(row) - self._longest, 0) // self.ngrams for row in rows]  # each further token ends as many
        return TextExamples(tokens, nothing, self._mean(tokens), 0), beyond

    def _mean(self, tokens: Ragged) -> Tensor | None:
        return self._means(tokens) if self.settings.model == "logistic" and self._vectors else None

    def _weights(self, labels: Tensor) -> Tensor | None:
        """Of each class, its weight by how rare it is here; of a label that may be absent, that of its presence."""
        chosen, count = self.settings.class_weights or "none", len(labels)
        if chosen == "none" or not count:
            return None
        if self.settings.several:
            there = labels.sum(0).clamp(min=1)  # (labels,)
            shares = (count - there).clamp(min=1) / there
        else:
            there = torch.bincount(labels, minlength=len(self.labels))  # (labels,)
            shares = count / ((there > 0).sum() * there.clamp(min=1))
        return shares.sqrt() if chosen == "root" else shares

    def _means(self, tokens: Ragged) -> Tensor:
        means = torch.zeros(len(tokens), self._table.shape[1])
        for rows in grouped(tokens.lengths, EVALUATED_AT_ONCE, None):
            ids = tokens.padded(rows)  # (B, L)
            known = (ids > 1).sum(1, keepdim=True).clamp(min=1)  # (B, 1)
            means[rows] = self._table[ids].sum(1) / known  # (B, D)
        return means

    def _labels(self, texts: Texts) -> Tensor:
        places = {label: index for index, label in enumerate(self.labels)}
        for document in texts.documents:
            for label in document.labels:
                if label not in places:
                    raise ValueError(
                        f"document {called(document.id)}: label {shown(label)} is not among {list(self.labels)}"
                    )
            if len(document.labels) != 1 and not self.settings.several:
                raise ValueError(
                    f"document {called(document.id)} has {len(document.labels)} labels; set several = true in [task]"
                )
        if not self.settings.several:
            return torch.tensor([places[document.labels[0]] for document in texts.documents], dtype=torch.int64)
        found = torch.zeros(len(texts), len(self.labels))
        for row, document in enumerate(texts.documents):
            for label in document.labels:
                found[row, places[label]] = 1.0
        return found

    # numbers → model → score

    def model(self) -> nn.Module:
        """A new model."""
        chosen, classes = self.settings, len(self.labels)
        if chosen.model == "logistic":
            return Logistic(self._table.shape[1], classes) if self._vectors else Bag(self.buckets, classes)
        table = self._table if self._vectors else None
        return LSTMClassifier(
            self.buckets if table is None else len(table),
            chosen.embedding if table is None else table.shape[1],
            chosen.hidden,
            classes,
            dropout=chosen.dropout,
            vectors=table,
            freeze=table is not None and not chosen.train_vectors,
        )

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:
        """One pass over the texts, similar lengths together; shuffled if there is a generator."""
        texts = cast("TextExamples", examples)
        for rows in grouped(texts.tokens.lengths, size, rng):
            yield texts.batch(rows)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean cross-entropy, by `class_weights`; binary, label by label, where a text may have several."""
        texts = cast("TextBatch", batch)
        scores, weights = model(texts.inputs), texts.weights
        if weights is None:
            return self.loss_of(scores, texts.labels)
        if self.settings.several:  # summed over labels: a rate then means the same however many there are
            each = functional.binary_cross_entropy_with_logits(
                scores, texts.labels, pos_weight=weights, reduction="none"
            )  # (B, labels)
            return each.sum(1).mean()
        return (functional.cross_entropy(scores, texts.labels, reduction="none") * weights[texts.labels]).mean()

    def loss_of(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of these scores, every class counting the same."""
        if self.settings.several:
            return functional.binary_cross_entropy_with_logits(scores, labels)
        return functional.cross_entropy(scores, labels)

    @torch.no_grad()
    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:
        """Hits, false alarms and misses per label, and the summed loss."""
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in self.counts().shapes.items()}
        counted = label_counts if self.settings.several else class_counts
        for batch in self.batches(examples, EVALUATED_AT_ONCE, None):
            texts = cast("TextBatch", batch)
            scores = model(texts.inputs)  # (B, labels)
            counts = counted(scores, texts.labels, self.loss_of(scores, texts.labels) * len(texts))
            total = {name: total[name] + counts[name] for name in total}
        return total

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return label_layout(len(self.labels)) if self.settings.several else class_layout(len(self.labels))

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracy or micro-F1, macro-F1 and loss."""
        return label_metrics(counts) if self.settings.several else class_metrics(counts)

    def constant(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What the best constant answer would have counted."""
        return label_constant(counts) if self.settings.several else class_constant(counts)

    def plain(self, texts: Texts) -> tuple[list[str], Tensor]:
        """Texts and labels, as a model that is not ours takes them."""
        return [document.text for document in texts.documents], self._labels(texts)

    def sizes(self) -> dict[str, int]:
        """How many labels there are."""
        return {"classes": len(self.labels)}


@dataclass(frozen=True, eq=False)
class OneLabelTask(ClassificationTask):
    """Texts to one of `labels`, by a linear classifier over features."""

    classifier: ClassVar[str] = "linear.weight"

    def features(self, model: nn.Module, batch: Batch) -> Tensor:
        """The LSTM's summary, or the mean vector (B, features)."""
        inputs = cast("TextBatch", batch).inputs
        return model.features(inputs) if isinstance(model, LSTMClassifier) else inputs

    def scores(self, model: nn.Module, features: Tensor) -> Tensor:
        """Linear in the features (B, labels)."""
        scores: Tensor = model.get_submodule("linear")(features)
        return scores

    def targets(self, batch: Batch) -> Tensor:
        """The label of each text (B,)."""
        return cast("TextBatch", batch).labels

    def rows(self, batch: Batch) -> Tensor:
        """Where the texts stand among the examples (B,)."""
        return cast("TextBatch", batch).rows

    def tally(self, examples: Examples) -> Tensor:
        """How many texts of each label there are (labels,)."""
        return torch.bincount(cast("TextExamples", examples).labels, minlength=len(self.labels))
