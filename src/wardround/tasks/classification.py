"""Texts to classes, in Chinese and English.

    [task]
    name = "classification"
    model = "logistic"                   # or "lstm", or "encoder" with encoder = "models/biobert", freeze = 4, …
    tokens = "characters"                # or "jieba", "words"; by the texts' language if not given
    ngrams = 3                           # runs of up to 3 tokens count too
    beside = "words"                     # beside characters; beside words "stems", or "none"
    terms = "symptoms.txt"               # added to jieba's dictionary
    vectors = "vectors.npz"              # .npz, GloVe or word2vec text, plain or gzip

The vocabulary does not leak: tokens are numbered by a hash, or by their place in a public vector file.
Logistic regression takes a bag of words and of runs of words, or with `vectors` the mean vector of a text; the LSTM
reads the words, an encoder their pieces (`encoded_texts`). What a study leaves open (`tokens`, `ngrams`, `buckets`,
`class_weights`, and a method's rate) is filled in when it is read, by what studies/baselines measured.
Word vectors stay as they are unless `train_vectors` says so: of trained ones, changed rows give away a site's words.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from torch.nn import functional

from wardround.metrics.measures import ONE_CLASS, SEVERAL, Measures
from wardround.models.encoded import Pool
from wardround.models.linear import Bag, Logistic, WeighedBag
from wardround.models.recurrent import LSTMClassifier
from wardround.tasks.batching import Ragged, grouped
from wardround.tasks.classes import ClassesTask, ClassifierTask
from wardround.tasks.encoders import EncoderSettings
from wardround.tasks.suited_text import lacking, misfits, suited, training
from wardround.tasks.task import Finds, TaskSettings, existing
from wardround.tasks.text_examples import (
    TextBatch,
    TextExamples,
    TextNumbers,
    class_weights,
    label_numbers,
    weighted_loss,
)
from wardround.tasks.unprotected import ByCounts
from wardround.tasks.weighing import DocumentsCounted
from wardround.tasks.words import Beside, Tokens, refuse_useless
from wardround.text.document import Placed
from wardround.text.prediction import Label, Prediction
from wardround.text.reading import DataError, Problems
from wardround.text.sentences import Scope
from wardround.text.texts import Texts

OF_ENCODERS = ("encoder", "layers", "freeze", "last", "adapter", "pool")
OF_WORDS = ("tokens", "ngrams", "beside", "terms", "buckets", "vectors", "embedding", "hidden")


@dataclass(frozen=True, kw_only=True)
class Classification(EncoderSettings, TaskSettings):
    """The settings of the task."""

    takes: ClassVar[str] = "labels"
    finds: ClassVar[Finds] = "labels"
    does: ClassVar[str] = "sorts texts into classes"

    model: Literal["logistic", "lstm", "encoder"] = "logistic"
    """Logistic regression over a bag of words or a mean vector, an LSTM that reads the words, or an `encoder`."""
    pool: Pool = "cls"
    """What the classifier sees of an encoder's states: that of [CLS], or the mean of all."""
    tokens: Tokens | None = None
    """What a text is cut into; if not given, what suits the corpus's language."""
    ngrams: Annotated[int, Ge(1)] | None = None
    """The longest run of tokens that a bag of words counts; if not given, 2 words or 3 characters."""
    beside: Beside | None = None
    """What a bag counts too: `stems` of words (how they begin), jieba's `words` beside characters; else what suits."""
    terms: str | None = None
    """A file of words, one per line, that are added to jieba's dictionary."""
    buckets: Annotated[int, Ge(2)] | None = None
    """Numbers that tokens are hashed to, if there are no `vectors`; if not given, 2¹⁶ with runs and 2¹⁴ without."""
    class_weights: Literal["none", "root", "balanced"] | None = None
    """How much more rare classes count in training; if not given, a bag of words has it."""
    class_counts: Literal["all", "own"] | None = None
    """Whose labels weigh classes: of all sites, which tell rounded counts with `weighting`, or a site's own; or all."""
    weighting: Literal["none", "documents"] | None = None
    """Whether words count by how few texts have them (sites tell counts once); if not given, in a bag of words."""
    rarest: Annotated[int, Ge(1)] | None = None
    """A site tells of no word that fewer of its texts have, and of labels multiples of it; if not given, 5."""
    shrinkage: Annotated[float, Ge(0)] | None = None
    """How hard a weighed bag is pulled to zero: λ times the texts of all sites, or 1/C; if not given, 0.5."""
    vectors: str | None = None
    """A file of word vectors: .npz, GloVe or word2vec text, plain or gzip; without one, tokens are hashed."""
    train_vectors: bool = False
    """Whether the vectors of the file are trained; their changes then give away a site's words."""
    embedding: Annotated[int, Ge(1)] = 64
    """Size of the LSTM's word vectors, if no file gives them."""
    hidden: Annotated[int, Ge(1)] = 64
    """Size of the LSTM's state."""
    summary: Literal["mean", "last"] | None = None
    """What the LSTM makes of a text: the mean of its states, or the last one; if not given, the mean."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """The share of features that training leaves out at random."""
    longest: Annotated[int, Ge(1)] = 400
    """Tokens read of a text, or pieces by an encoder; the rest is left out, and counted."""
    several: bool = False
    """Whether a text may have several labels, or none."""
    remember: bool = True
    """Whether the numbers of a text's tokens, or the states of frozen layers, are kept on disk for later runs."""

    def __post_init__(self) -> None:
        self.refuse_idle(self.model, of_encoders=OF_ENCODERS, of_words=OF_WORDS)
        for problem in misfits(self):
            raise ValueError(problem)

    @property
    def counts_documents(self) -> bool:
        """Whether sites tell in how many of their texts words stand."""
        return self.weighting == "documents"

    @property
    def counts_labels(self) -> bool:
        """Whether sites tell how many of their texts have each label."""
        return self.counts_documents and self.class_counts == "all" and self.class_weights in ("root", "balanced")

    @property
    def undecided(self) -> bool:
        """Whether the texts' language decides on the tokens."""
        return self.tokens is None and not self.terms and self.model != "encoder"

    @property
    def bag(self) -> bool:
        """Whether the model adds up words: it has no features then, and no classifier over them."""
        return self.model == "logistic" and not self.vectors

    def suited(self, language: str, *, spaced: bool = True) -> dict[str, Any]:  # noqa: ARG002 -- characters either way
        """What suits texts of this language, where a study leaves it open; nothing about tokens if it is not known."""
        return {} if self.model == "encoder" else suited(self, language)

    @property
    def training(self) -> Mapping[str, Mapping[str, Any]]:
        """By optimiser, the preferred first, the settings of local training that suit the model."""
        return self.encoder_training if self.model == "encoder" else training(self)

    def bind(self, corpus: Any) -> "ClassificationTask":
        """The task on a corpus with these labels."""
        if self.model == "encoder":
            from wardround.tasks.encoded_texts import encoded_task  # noqa: PLC0415 -- it builds on this module's tasks

            return encoded_task(self, tuple(corpus.labels))
        if self.tokens is None:
            raise ValueError(
                "task.tokens is missing, and nothing says which language the texts are in; add language = "
                '"en" (or "zh", …) to [corpus], or tokens = "words" (or "characters", "jieba") to [task]'
            )
        kind = ClassificationTask if self.several or self.bag else OneLabelTask
        return kind(self, tuple(corpus.labels))

    def restore(self, about: Any) -> "ClassificationTask":
        """The task of a trained model, which keeps nothing of a text."""
        return replace(self, remember=False).bind(about)

    def files(self) -> dict[str, Path]:
        """Word vectors and terms, or the encoder."""
        encoder = {"encoder": self.encoder_folder} if self.model == "encoder" else {}
        return existing(self.folder, vectors=self.vectors, terms=self.terms) | encoder

    def check(self, placed: Placed, problems: Problems, scope: Scope) -> None:  # noqa: ARG002 -- of relations
        """Documents without a label are left out, those with several need a setting."""
        labels, line = placed.document.labels, placed.line or 1
        if self.several:
            return
        if not labels:
            problems.note("document without a label, left out", placed.path, line)
        elif len(labels) > 1:
            remedy = "set several = true in [task], or keep one of them"
            problems.refuse(DataError(placed.path, line, "text with several labels", remedy))

    def lacks(self, survey: Any) -> Iterator[tuple[str, str]]:
        """Two labels, and texts that something can be learnt from."""
        return lacking(self, survey)


@dataclass(frozen=True, eq=False)
class ClassificationTask(DocumentsCounted, ByCounts, ClassesTask):
    """Texts to one of `labels`, or to any number of them."""

    settings: Classification
    labels: tuple[str, ...]

    at_once: ClassVar[int] = 256
    to_classify: ClassVar[str] = 'set task.model = "encoder" or task.vectors, and leave task.several out'
    references: ClassVar[tuple[str, ...]] = ("majority", "chance", "tfidf")
    not_exported: ClassVar[Mapping[str, tuple[str, str]]] = {
        "transformers": (
            "it is a bag of words or an LSTM over hashed words, which transformers has no model for", "use --to spacy",
        )
    }  # fmt: skip

    def __post_init__(self) -> None:
        if len(self.labels) < 2 and not self.settings.several:
            known = f"classification needs at least 2 labels, and the corpus has {len(self.labels)}"
            raise ValueError(f"{known}; give its texts labels, or choose another task")

    @property
    def fewest(self) -> int:
        """Two labels, unless a text may have several or none."""
        return 0 if self.settings.several else 2

    # text → numbers

    @cached_property
    def numbers(self) -> TextNumbers:
        """What makes numbers of a text."""
        return TextNumbers.of(self.settings)

    def examples(self, texts: Texts) -> TextExamples:
        """A site's documents as numbers; segmented once, and remembered on disk."""
        tokens, beyond = self.numbers.read(document.text for document in texts.documents)
        labels = self._labels(texts)
        shortened = sum(count > 0 for count in beyond)
        weights = class_weights(labels, len(self.labels), self.settings.class_weights, several=self.settings.several)
        return TextExamples(tokens, labels, self._mean(tokens), shortened, weights)

    def refuse(self, texts: Iterable[Texts]) -> None:
        """Raise an error if tokens of these texts, cut like this, cannot be learnt from."""
        for some in texts:
            written = [document.text for document in some.documents]
            rows = self.numbers.whole(written)
            refuse_useless(written, rows, tokens=self.settings.tokens or "words", listed=self.settings.vectors)

    def unlabelled(self, texts: Sequence[str]) -> tuple[TextExamples, list[int]]:
        """Texts as numbers, of which no label is known, and how many tokens of each are beyond `longest`."""
        tokens, beyond = self.numbers.read(texts)
        nothing = torch.zeros(len(tokens), dtype=torch.int64)
        unread = [count // self.numbers.ngrams for count in beyond]  # each further token ends as many runs
        return TextExamples(tokens, nothing, self._mean(tokens), 0), unread

    def _mean(self, tokens: Ragged) -> Tensor | None:
        return self.numbers.means(tokens) if self.settings.model == "logistic" and self.settings.vectors else None

    def _labels(self, texts: Texts) -> Tensor:
        return label_numbers(texts, self.labels, several=self.settings.several)

    def known(self, texts: Texts) -> tuple[Texts, Counter[str]]:
        """The texts with a label of its own; where there may be several or none, all, each with those that it knows."""
        mine, labels = super().known(texts)
        if self.settings.several:
            named = (tuple(name for name in one.labels if name in self.labels) for one in texts.documents)
            mine = Texts(tuple(replace(one, labels=kept) for one, kept in zip(texts.documents, named, strict=True)))
        return mine, labels

    # numbers → model → score

    def model(self) -> nn.Module:
        """A new model."""
        chosen, classes, words = self.settings, len(self.labels), self.numbers.words
        if chosen.model == "logistic":
            if words.vectors is not None:
                return Logistic(words.vectors.shape[1], classes)
            if not chosen.counts_documents:
                return Bag(words.size, classes)
            halves = chosen.beside not in (None, "none")
            return WeighedBag(words.size, classes, balanced=chosen.counts_labels, halves=halves)
        return LSTMClassifier(
            words.size,
            words.width(chosen.embedding),
            chosen.hidden,
            classes,
            dropout=chosen.dropout,
            summary=chosen.summary or "mean",
            **words.begin(train=chosen.train_vectors),
        )

    def batches(self, examples: TextExamples, size: int, rng: torch.Generator | None) -> Iterator[TextBatch]:
        """One pass over the texts, similar lengths together; shuffled if there is a generator."""
        for rows in grouped(examples.tokens.lengths, size, rng):
            yield examples.batch(rows)

    def loss(self, model: nn.Module, batch: TextBatch) -> Tensor:
        """Mean cross-entropy, by `class_weights`, and the pull to zero of a bag that is weighed."""
        scores, weights = self.scored(model, batch), batch.weights
        if weights is None:
            loss = self.loss_of(scores, batch.labels)
        else:
            weights = model.class_weights(weights) if isinstance(model, WeighedBag) else weights
            loss = weighted_loss(scores, batch, weights, several=self.settings.several)
        return loss + model.pull() if isinstance(model, WeighedBag) else loss

    def loss_of(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of these scores, every class counting the same."""
        if self.settings.several:
            return functional.binary_cross_entropy_with_logits(scores, labels)
        return functional.cross_entropy(scores, labels)

    @property
    def measures(self) -> Measures:
        """By class, or label by label."""
        return SEVERAL if self.settings.several else ONE_CLASS

    @property
    def one_answer(self) -> bool:
        """Unless a text may have several labels."""
        return not self.settings.several

    def counted(self, scores: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The counts of one batch, and its summed loss."""
        return self.measures.counts(scores, labels, self.loss_of(scores, labels) * len(labels))

    def plain(self, texts: Texts) -> tuple[list[str], Tensor]:
        """Texts and labels, as a model that is not ours takes them."""
        return [document.text for document in texts.documents], self._labels(texts)

    # the trained model

    def summary(self) -> str:
        """The classes."""
        return f"Sorts texts: {', '.join(self.labels)}"

    def predict(self, model: nn.Module, texts: Sequence[Prediction]) -> list[Prediction]:
        """The label of each text, or all that are likelier than not; and how many of its tokens were not read."""
        examples, beyond = self.unlabelled([one.text for one in texts])
        labels, margins = [tuple[Label, ...]()] * len(texts), [1.0] * len(texts)
        several = self.settings.several
        for batch in self.asked(examples):
            scores = self.scored(model, batch)  # (B, labels)
            odds = scores.sigmoid() if several else scores.softmax(1)  # (B, labels)
            for row, mine in zip(batch.rows.tolist(), odds, strict=True):
                chosen = (mine > 0.5).nonzero().flatten().tolist() if several else [int(mine.argmax())]
                labels[row] = tuple(Label(self.labels[at], float(mine[at])) for at in chosen)
                best = mine.topk(min(2, len(mine))).values
                margins[row] = float((2 * mine - 1).abs().min() if several else best[0] - best[1:].sum())
        return [
            Prediction(one.text, labels=mine, cut=cut, margin=margin)
            for one, mine, cut, margin in zip(texts, labels, beyond, margins, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class OneLabelTask(ClassificationTask, ClassifierTask):
    """Texts to one of `labels`, by a linear classifier over features."""

    classifier: ClassVar[str] = "linear.weight"

    def features(self, model: nn.Module, batch: TextBatch) -> Tensor:
        """The LSTM's summary, or the mean vector (B, features)."""
        return model.features(batch.inputs) if isinstance(model, LSTMClassifier) else batch.inputs
