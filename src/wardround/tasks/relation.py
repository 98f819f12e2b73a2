"""Sentences with two marked entities to the relation that they state between these.

    [task]
    name = "relation"
    encoder = "minilm"              # or a folder with config.json, model.safetensors and tokenizer.json
    layers = 6                      # the first 6; "all" by default
    freeze = 4                      # embeddings and 4 layers stay as they are; "nothing" by default
    negative = "none"               # the label of unrelated pairs, if the corpus does not say

FedED (Sui et al., EMNLP 2020): `blind`, `markers`, `cls` and `bias` on, `normalise` off. FedCMC: `cls` and `bias`
off. MOON: `projection = 256`. The papers sum an entity's states as they are; here each sum is normalised unless told
otherwise, without which a classifier hardly moves at the papers' learning rates.

What is frozen is no weight: it does not travel, and it is run once per sentence, not once per step (see `trunk`).
Everything else of the encoder is trained and sent; its embeddings too, unless frozen, and then the rows that changed
give away the words of a site's sentences.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from wardround.core.task import Batch, Examples
from wardround.core.weights import Layout
from wardround.federation.readers import AsCorpus
from wardround.metrics.classes import class_counts, class_layout
from wardround.metrics.constant import class_constant
from wardround.metrics.relations import relation_metrics
from wardround.models.encoder import Encoder, Shape
from wardround.models.pretrained import EncoderError, Pretrained, packaged, read_encoder
from wardround.models.relation import RelationModel
from wardround.tasks.batching import Ragged, grouped
from wardround.tasks.marking import LIKE, EntitiesTooLong, Marked, Marker, blinded, marker_rows
from wardround.tasks.trunk import Trunk
from wardround.text.document import Document
from wardround.text.reading import found_path
from wardround.text.shown import called, shown
from wardround.text.texts import Texts

__all__ = ["Relation", "RelationTask"]

EVALUATED_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Relation:
    """The settings of the task."""

    takes: ClassVar[str] = "pairs"

    encoder: str = "minilm"
    """A folder, or `minilm` for the packaged all-MiniLM-L6-v2."""
    layers: Annotated[int, Ge(1)] | Literal["all"] = "all"
    """How many layers are used, from the first on."""
    freeze: Annotated[int, Ge(0)] | Literal["nothing"] = "nothing"
    """How many layers stay as they are, and the embeddings with them."""
    blind: bool = True
    """Whether an entity's words are replaced by its type."""
    markers: bool = True
    """Whether <e1>, </e1>, <e2> and </e2> stand around the entities."""
    cls: bool = True
    """Whether the state of [CLS] is one of the features."""
    bias: bool = True
    """Whether the classifier has one."""
    normalise: bool = True
    """Whether each part of the features is normalised, which is a sum over an entity's tokens."""
    projection: Annotated[int, Ge(0)] = 0
    """Width of a two-layer head between features and classifier; 0 for none."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.1
    longest: Annotated[int, Ge(8)] = 128
    """Tokens of a sentence; longer ones are cut to a window around the entities, and counted."""
    negative: str | None = None
    """The label of unrelated pairs, left out of micro-F1; if not given, the corpus's own; empty for none."""
    remember: bool = True
    """Whether the states of frozen layers are kept on disk for later runs."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    def bind(self, corpus: Any) -> "RelationTask":
        """The task on a corpus of labelled pairs."""
        negative = getattr(corpus, "negative", "") if self.negative is None else self.negative
        found = packaged() if self.encoder == "minilm" else found_path(self.encoder, self.folder)
        task = RelationTask(self, tuple(corpus.labels), negative, read_encoder(found))
        # What is wrong with weights or documents is found here, where it can be told: a site's errors are not shown.
        task.model()
        for part in corpus.pool() if hasattr(corpus, "pool") else corpus.open(corpus.names()[0]):
            windowed = task.check(part)
            for document in windowed if isinstance(corpus, AsCorpus) else ():
                kind = f"longer than {self.longest} tokens, a window around the pair"
                corpus.problems.at(kind, called(document.id))
        return task


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Token numbers (B, L) or states (B, L, width), which of them are real, which count as what, and the labels."""

    inputs: Tensor
    real: Tensor
    places: Tensor
    parts: Tensor
    labels: Tensor
    rows: Tensor
    """Where each pair stands among the site's."""

    def __len__(self) -> int:
        return len(self.labels)


class PairExamples:
    """A site's pairs as token numbers; the frozen trunk's states of them once they are needed.

    Under a trunk that is all of the encoder (`summed`), only the sums that the classifier sees are kept of them.
    """

    def __init__(
        self, marked: list[Marked], labels: Tensor, trunk: Trunk | None, shortened: int, *, summed: bool = False
    ) -> None:
        self.rows, self.labels, self._trunk, self.summed = [row.ids for row in marked], labels, trunk, summed
        self.tokens = Ragged(self.rows)
        places = [[0, *range(*row.first), *range(*row.second)] for row in marked]
        parts = [[1] + [2] * _length(row.first) + [3] * _length(row.second) for row in marked]
        self.places, self.parts = Ragged(places), Ragged(parts)
        self.shortened = shortened

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _states(self) -> list[Tensor] | None:
        return None if self._trunk is None else self._trunk.states(self.rows)

    @cached_property
    def _sums(self) -> Tensor:
        """The state of [CLS] and the sum of each entity's (pairs, 3, width)."""
        found = []
        for row, states in enumerate(cast("Trunk", self._trunk).states(self.rows)):
            places, parts = (ragged.padded(torch.tensor([row]))[0] for ragged in (self.places, self.parts))  # (Q,)
            found.append(torch.stack([states[places[parts == part]].sum(0) for part in (1, 2, 3)]))
        return torch.stack(found)

    def batch(self, rows: Tensor) -> PairBatch:
        """These rows as the model takes them."""
        if self.summed:
            each = torch.arange(3).expand(len(rows), 3)  # (B, 3)
            return PairBatch(self._sums[rows], each >= 0, each, each, self.labels[rows], rows)
        lengths = self.tokens.lengths[rows]  # (B,)
        real = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, L)
        states = self._states
        inputs = (
            self.tokens.padded(rows)  # (B, L)
            if states is None
            else pad_sequence([states[row] for row in rows.tolist()], batch_first=True)  # (B, L, width)
        )
        parts = self.parts.padded(rows) - 1  # (B, Q): -1 where there is nothing
        return PairBatch(inputs, real, self.places.padded(rows), parts, self.labels[rows], rows)


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


@dataclass(frozen=True, eq=False)
class RelationTask:
    """Sentences with two entities to one of `labels`."""

    settings: Relation
    labels: tuple[str, ...]
    negative: str
    encoder: Pretrained
    classifier: str = "classifier.weight"

    def __post_init__(self) -> None:
        chosen, shape = self.settings, self.encoder.shape
        if len(self.labels) < 2:
            raise ValueError(f"relation needs at least 2 labels; the corpus has {len(self.labels)}")
        if self.negative and self.negative not in self.labels:
            raise ValueError(f"negative = {self.negative!r} is not among the labels {list(self.labels)}")
        if self._layers > shape.layers:
            raise EncoderError(self.encoder.folder, f"layers = {self._layers}, it has {shape.layers}", "lower it")
        if chosen.freeze != "nothing" and chosen.freeze > self._layers:
            raise ValueError(f"freeze = {chosen.freeze}, but {self._layers} layers are used; lower it")
        if chosen.longest > shape.longest:
            raise EncoderError(
                self.encoder.folder, f"longest = {chosen.longest}, it has positions for {shape.longest}", "lower it"
            )

    @property
    def _layers(self) -> int:
        return self.encoder.shape.layers if self.settings.layers == "all" else self.settings.layers

    # text → numbers

    @cached_property
    def _marker(self) -> Marker:
        chosen = self.settings
        return Marker(self.encoder, chosen.blind, chosen.markers, chosen.longest)

    @cached_property
    def _shape(self) -> Shape:
        """The encoder's shape, with rows for the markers."""
        shape = self.encoder.shape
        return Shape(**{**vars(shape), "vocabulary": shape.vocabulary + len(LIKE) * self.settings.markers})

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        found, name = self.encoder.weights(), "embeddings.tokens.weight"
        if name not in found or len(found[name]) != self.encoder.shape.vocabulary:
            rows = len(found.get(name, ()))
            what = f"its token embeddings have {rows:,} rows, not the {self.encoder.shape.vocabulary:,} of config.json"
            raise EncoderError(self.encoder.folder, what, "take all files from the same model")
        if self.settings.markers:
            found[name] = torch.cat([found[name], marker_rows(self.encoder, found[name])])
        return found

    def _part(self, layers: range, *, embeddings: bool, dropout: float = 0.0) -> Encoder:
        """These layers of the encoder, with their pretrained weights."""
        with torch.device("meta"):  # draws nothing: whether a trunk was built before must not change a site's chance
            part = Encoder(self._shape, layers, embeddings=embeddings, dropout=dropout)
        for name, parameter in part.named_parameters():
            found = self._weights.get(name)
            if found is None or found.shape != parameter.shape:
                said = "are missing" if found is None else f"have shape {list(found.shape)}"
                what = f"the weights of {name} {said}, wanted: {list(parameter.shape)}"
                raise EncoderError(self.encoder.folder, what, "take all files from the same model")
        part.load_state_dict({name: self._weights[name].clone() for name in part.state_dict()}, assign=True)
        return part

    @cached_property
    def trunk(self) -> Trunk | None:
        """What is frozen of the encoder, if anything is."""
        frozen = self.settings.freeze
        if frozen == "nothing":
            return None
        return Trunk(self._part(range(frozen), embeddings=True), remember=self.settings.remember)

    def check(self, texts: Texts) -> list[Document]:
        """The documents of which only a window is read; an error if one is no pair, or has no label of this task's."""
        for document in texts.documents:
            if len(document.labels) != 1 or document.labels[0] not in self.labels:
                said = shown(document.labels[0]) if len(document.labels) == 1 else f"{len(document.labels)} labels"
                raise ValueError(f"document {called(document.id)}: {said}, wanted: one of {list(self.labels)}")
        return [document for document in texts.documents if self._marker(document).windowed]

    def examples(self, texts: Texts) -> PairExamples:
        """A site's documents as numbers."""
        shortened = len(self.check(texts))
        marked = [self._marker(document) for document in texts.documents]
        places = {label: index for index, label in enumerate(self.labels)}
        labels = torch.tensor([places[document.labels[0]] for document in texts.documents], dtype=torch.int64)
        return PairExamples(marked, labels, self.trunk, shortened, summed=self.settings.freeze == self._layers)

    def unlabelled(self, documents: Sequence[Document]) -> tuple[PairExamples, list[int]]:
        """Pairs as numbers, of which no label is known, and their rows: those whose entities are not too long."""
        marked, rows = [], []
        for row, document in enumerate(documents):
            with contextlib.suppress(EntitiesTooLong):
                marked.append(self._marker.marked(document))
                rows.append(row)
        return PairExamples(marked, torch.zeros(len(marked), dtype=torch.int64), self.trunk, 0), rows

    # numbers → model → score

    def model(self) -> nn.Module:
        """The pretrained layers that train, under a new classifier."""
        chosen = self.settings
        first = 0 if chosen.freeze == "nothing" else chosen.freeze
        layers = range(first, self._layers)
        encoder = self._part(layers, embeddings=chosen.freeze == "nothing", dropout=chosen.dropout)
        return RelationModel(
            encoder,
            self._shape.width,
            len(self.labels),
            cls=chosen.cls,
            bias=chosen.bias,
            normalise=chosen.normalise,
            projection=chosen.projection,
            dropout=chosen.dropout,
        )

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:
        """One pass over the pairs, similar lengths together; shuffled if there is a generator."""
        pairs = cast("PairExamples", examples)
        for rows in grouped(pairs.tokens.lengths, size, rng):
            yield pairs.batch(rows)

    def features(self, model: nn.Module, batch: Batch) -> Tensor:
        """What the classifier sees of each pair (B, features)."""
        b = cast("PairBatch", batch)
        return cast("RelationModel", model).features(b.inputs, b.real, b.places, b.parts)

    def scores(self, model: nn.Module, features: Tensor) -> Tensor:
        """The classifier's scores (B, classes), before the softmax."""
        found: Tensor = cast("RelationModel", model).classifier(features)
        return found

    def targets(self, batch: Batch) -> Tensor:
        """The class of each pair (B,)."""
        return cast("PairBatch", batch).labels

    def rows(self, batch: Batch) -> Tensor:
        """Where each pair of a batch stands among those that `batches` was given (B,)."""
        return cast("PairBatch", batch).rows

    def tally(self, examples: Examples) -> Tensor:
        """How many pairs of each class there are (classes,)."""
        return torch.bincount(cast("PairExamples", examples).labels, minlength=len(self.labels))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean cross-entropy."""
        return functional.cross_entropy(self.scores(model, self.features(model, batch)), self.targets(batch))

    @torch.no_grad()
    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:
        """Hits, false alarms and misses per relation, and the summed loss."""
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in self.counts().shapes.items()}
        for batch in self.batches(examples, EVALUATED_AT_ONCE, None):
            scores, labels = self.scores(model, self.features(model, batch)), self.targets(batch)
            loss = functional.cross_entropy(scores, labels, reduction="sum")
            counts = class_counts(scores, labels, loss)
            total = {name: total[name] + counts[name] for name in total}
        return total

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return class_layout(len(self.labels))

    def constant(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What the best constant answer would have counted."""
        return class_constant(counts)

    def loss_of(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of these scores."""
        return functional.cross_entropy(scores, labels)

    def plain(self, texts: Texts) -> tuple[list[str], Tensor]:
        """Sentences with the types of e1 and e2 in place of their words, and labels."""
        labels = [self.labels.index(document.labels[0]) for document in texts.documents]
        return [blinded(document) for document in texts.documents], torch.tensor(labels, dtype=torch.int64)

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """F1 in its several forms, accuracy and loss."""
        return relation_metrics(counts, self.labels, self.negative)

    def sizes(self) -> dict[str, int]:
        """How many relations there are."""
        return {"classes": len(self.labels)}
