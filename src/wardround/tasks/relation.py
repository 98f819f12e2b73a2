"""Sentences with two marked entities to the relation that they state between these.

    [task]
    name = "relation"
    encoder = "minilm"              # or a folder with config.json, model.safetensors and tokenizer.json
    layers = 6                      # the first 6; "all" by default
    freeze = 4                      # embeddings and 4 layers stay as they are; "nothing" by default
    negative = "none"               # the label of unrelated pairs, if the corpus does not say

FedED (Sui et al., EMNLP 2020): `blind`, `markers`, `cls` and `bias` on, `normalise` off. FedCMC: `cls` and `bias`
off. MOON: `projection = 256`. The papers sum an entity's states as they are; here each sum is normalised unless told
otherwise, without which a classifier hardly moves at the papers' learning rates. With `entities` off, [CLS] is all that
the classifier sees. What is frozen, and what travels: see `encoders`.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from wardround.core.wanted import go_on
from wardround.federation.sites import Sites
from wardround.metrics.relations import relation_metrics
from wardround.models.family import KINDS
from wardround.models.pretrained import Pretrained
from wardround.models.relation import RelationModel
from wardround.tasks.batching import budgeted, grouped, packed
from wardround.tasks.candidates import Candidates, Pair, related, within_limit
from wardround.tasks.classes import ClassifierTask
from wardround.tasks.encoders import EncoderParts, EncoderSettings
from wardround.tasks.marking import EntitiesTooLong, Marked, Marker, blinded
from wardround.tasks.pair_examples import PairBatch, PairExamples
from wardround.tasks.task import Finds, TaskSettings
from wardround.tasks.trunk import Trunk
from wardround.text.document import Document, Placed
from wardround.text.pairs import pairs
from wardround.text.prediction import Prediction
from wardround.text.reading import Problems
from wardround.text.sentences import Scope
from wardround.text.shown import called, shown
from wardround.text.texts import Texts

NO_RELATION = frozenset({"na", "none", "norelation", "norel", "notrelated", "unrelated", "无", "无关", "无关系"})
"""What the label of unrelated pairs is usually called, in letters alone."""
OF_TWO = frozenset({"no", "negative", "false"})
"""And what it is called beside one other: among several, an effect may be negative."""

ALL_UNKNOWN = 0.95  # word pieces: where less is, types, markers and marks of punctuation still tell something


@dataclass(frozen=True, kw_only=True)
class Relations(EncoderSettings, TaskSettings):
    """The settings of the task."""

    takes: ClassVar[str] = "pairs"
    finds: ClassVar[Finds] = "relations"
    needs: ClassVar[tuple[str, str]] = ("relations", "relation")
    does: ClassVar[str] = "tells how two marked entities of a sentence are related"
    generated: ClassVar[Mapping[str, Any]] = {"name": "clinic-pairs", "hospitals": 3, "notes": 20, "test_notes": 10}
    of_corpus: ClassVar[tuple[str, ...]] = ("negative",)

    blind: bool = True
    """Whether an entity's words are replaced by its type."""
    markers: bool = True
    """Whether <e1>, </e1>, <e2> and </e2> stand around the entities."""
    cls: bool = True
    """Whether the state of [CLS] is one of the features."""
    entities: bool = True
    """Whether the sum of the states of each entity is one of the features."""
    bias: bool = True
    """Whether the classifier has one."""
    normalise: bool = True
    """Whether each part of the features is normalised, which is a sum over an entity's tokens."""
    projection: Annotated[int, Ge(0)] = 0
    """Width of a two-layer head between features and classifier; 0 for none."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.1
    """The share of features that training leaves out at random."""
    longest: Annotated[int, Ge(8)] = 128
    """Tokens of a sentence; longer ones are cut to a window around the entities, and counted."""
    negative: str | None = None
    """The label of unrelated pairs, left out of micro-F1; if not given, the corpus's own, or one that is called so
    (`NA`, `none`, `no relation`, …; of two labels also `no`, `false`, `negative`); empty for none."""
    remember: bool = True
    """Whether the states of frozen layers are kept on disk for later runs."""

    def __post_init__(self) -> None:
        if not self.cls and not self.entities:
            raise ValueError("cls and entities are both false, and nothing is left to judge by; set one of them")

    def bind(self, corpus: Any) -> "RelationTask":
        """The task on a corpus of labelled pairs."""
        task = self.on(corpus.labels, getattr(corpus, "negative", "") or called_unrelated(corpus.labels))
        # What is wrong with weights or documents shows here, where it can be reported: a site's errors are not.
        task.parts.look_through()
        if isinstance(corpus, Sites):
            kind = f"longer than {self.longest} tokens, a window around the pair"
            for document in (document for part in corpus.pool() for document in task.windowed(cast("Texts", part))):
                corpus.problems[0].at(kind, called(document.id))
        elif hasattr(corpus, "open"):
            for part in corpus.open(corpus.names()[0]):
                task.windowed(part)
        return task

    def restore(self, about: Any) -> "RelationTask":
        """The task of a trained model, which keeps nothing of a text."""
        return replace(self, remember=False).on(about.labels, about.negative, Candidates.of(about))

    def on(self, labels: Sequence[str], negative: str, candidates: Candidates | None = None) -> "RelationTask":
        """The task with these labels, whatever the texts are."""
        chosen = negative if self.negative is None else self.negative
        parts = self.encoder_parts(self.dropout, self.longest, markers=self.markers)
        return RelationTask(self, tuple(labels), chosen, parts, candidates or Candidates())

    def files(self) -> dict[str, Path]:
        """The encoder."""
        return {"encoder": self.encoder_folder}

    def check(self, placed: Placed, problems: Problems, scope: Scope) -> None:
        """Relations that no candidate covers are left out."""
        document = placed.document
        types = {entity.id: entity.type for entity in document.entities}
        allowed = {(types[relation.head], types[relation.tail]) for relation in document.relations}
        for _ in pairs(placed, allowed, "", scope=scope, problems=problems):
            pass

    def lacks(self, survey: Any) -> Iterator[tuple[str, str]]:
        """Relations, and two labels to tell apart, one of which may be that of unrelated pairs."""
        yield from super().lacks(survey)
        if len(survey.relations) == 1 and not _two_labels(survey):
            yield (
                "one type of relation, and no pair of its types that is not related: nothing to tell apart",
                "add texts with entities of these types that nobody related, or mark another type of relation",
            )


def _two_labels(survey: Any) -> bool:
    """Whether the documents give pairs of two labels, as a study reads them that says nothing of pairs."""
    related, labels = set[tuple[str, str]](), set[str]()
    for placed, _ in survey.again():
        types = {entity.id: entity.type for entity in placed.document.entities}
        related.update((types[one.head], types[one.tail]) for one in placed.document.relations)
    for placed, usual in survey.again():
        if "labels" in usual:  # which a study of this format has without a word
            return True
        rules = {"scope": usual.get("scope", "sentence"), "both_ways": usual.get("both_ways", True)}
        labels.update(row.document.labels[0] for row in pairs(placed, related, **rules))
        if len(labels) > 1:
            return True
    return False


def called_unrelated(labels: Iterable[str]) -> str:
    """The one label whose name says that there is no relation; nothing if none does, or several do."""
    every = list(labels)
    names = NO_RELATION | OF_TWO if len(every) == 2 else NO_RELATION
    named = [label for label in every if re.sub(r"[\W_]", "", label).casefold() in names]
    return named[0] if len(named) == 1 else ""


@dataclass(frozen=True, eq=False)
class RelationTask(ClassifierTask):
    """Sentences with two entities to one of `labels`."""

    settings: Relations
    labels: tuple[str, ...]
    negative: str
    parts: EncoderParts
    candidates: Candidates = field(default_factory=Candidates)
    """Which pairs of a text it is asked about once it is trained."""

    classifier: ClassVar[str] = "classifier.weight"
    at_once: ClassVar[int] = 64
    references: ClassVar[tuple[str, ...]] = ("majority", "chance", "tfidf")
    not_exported: ClassVar[Mapping[str, tuple[str, str]]] = {
        "onnx": ("what marks the entities is not in the network", "use --to transformers")
    }

    def __post_init__(self) -> None:
        if len(self.labels) < 2:
            raise ValueError(
                f"relation needs at least 2 labels, and the corpus has {len(self.labels)}; mark how its entities are "
                "related, or choose another task"
            )
        if self.negative and self.negative not in self.labels:
            raise ValueError(f"negative = {self.negative!r} is not among the labels {list(self.labels)}")

    def why_not(self, target: str) -> tuple[str, str]:
        """What is not for ONNX is for transformers only where that can be exported."""
        what, remedy = super().why_not(target)
        return what, remedy if self.encoder.kind in KINDS and self.settings.last == 1 else "use --to spacy"

    @property
    def encoder(self) -> Pretrained:
        """The encoder as its folder has it."""
        return self.parts.pretrained

    # text → numbers

    @cached_property
    def _marker(self) -> Marker:
        chosen = self.settings
        return Marker(self.encoder, chosen.blind, chosen.markers, chosen.longest)

    @property
    def trunk(self) -> Trunk | None:
        """What is frozen of the encoder, if anything is."""
        return self.parts.trunk

    def windowed(self, texts: Texts) -> list[Document]:
        """The documents of which only a window is read; an error if one is no pair, or has no label of this task's."""
        for document in texts.documents:
            if len(document.labels) != 1 or document.labels[0] not in self.labels:
                given = shown(document.labels[0]) if len(document.labels) == 1 else f"{len(document.labels)} labels"
                raise ValueError(f"document {called(document.id)}: {given}, wanted: one of {list(self.labels)}")
        return [document for document in texts.documents if self._marker(document).windowed]

    def examples(self, texts: Texts) -> PairExamples:
        """A site's documents as numbers."""
        shortened = len(self.windowed(texts))
        marked = [self._marker(document) for document in texts.documents]
        places = {label: index for index, label in enumerate(self.labels)}
        labels = torch.tensor([places[document.labels[0]] for document in texts.documents], dtype=torch.int64)
        return PairExamples(marked, labels, self.parts, shortened, summed=self.parts.all_frozen)

    def refuse(self, texts: Iterable[Texts]) -> None:
        """Raise an error if the encoder knows next to nothing of these texts."""
        for some in texts:
            self.parts.refuse([document.text for document in some.documents], ALL_UNKNOWN)

    def unlabelled(self, documents: Sequence[Document]) -> tuple[PairExamples, list[int]]:
        """Pairs as numbers, of which no label is known, and their rows: those whose entities are not too long."""
        marked, rows = [], []
        for row, document in enumerate(documents):
            with contextlib.suppress(EntitiesTooLong):
                marked.append(self._marker.marked(document))
                rows.append(row)
        return self._unlabelled(marked), rows

    def _unlabelled(self, marked: list[Marked]) -> PairExamples:
        return PairExamples(marked, torch.zeros(len(marked), dtype=torch.int64), self.parts, 0)

    # numbers → model → score

    def model(self) -> RelationModel:
        """The pretrained layers that train, under a new classifier."""
        chosen = self.settings
        return RelationModel(
            self.parts.trained(),
            self.parts.width,
            len(self.labels),
            cls=chosen.cls,
            entities=chosen.entities,
            bias=chosen.bias,
            normalise=chosen.normalise,
            projection=chosen.projection,
            dropout=chosen.dropout,
        )

    def batches(self, examples: PairExamples, size: int, rng: torch.Generator | None) -> Iterator[PairBatch]:
        """One pass over the pairs, similar lengths together; shuffled if there is a generator."""
        for rows in grouped(examples.tokens.lengths, size, rng):
            yield examples.batch(rows)

    def through(self, examples: PairExamples) -> Iterator[PairBatch]:
        """All pairs, as many at once as have so many tokens."""
        return (examples.batch(rows) for rows in budgeted(examples.tokens.lengths))

    def features(self, model: RelationModel, batch: PairBatch) -> Tensor:
        """What the classifier sees of each pair (B, features)."""
        return model.features(batch.inputs, batch.real, batch.places, batch.parts)

    def scored(self, model: RelationModel, batch: PairBatch) -> Tensor:
        """The scores of a batch (B, classes), before the softmax."""
        return self.scores(model, self.features(model, batch))

    def plain(self, texts: Texts) -> tuple[list[str], Tensor]:
        """Sentences with the types of e1 and e2 in place of their words, and labels."""
        labels = [self.labels.index(document.labels[0]) for document in texts.documents]
        return [blinded(document) for document in texts.documents], torch.tensor(labels, dtype=torch.int64)

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """F1 in its several forms, accuracy and loss."""
        return relation_metrics(counts, self.labels, self.negative)

    # the trained model

    def answers(self) -> dict[str, Any]:
        """The labels, and which of them says that there is no relation."""
        return {"labels": self.labels, "negative": self.negative}

    def summary(self) -> str:
        """The relations."""
        return f"Relates entities: {', '.join(label for label in self.labels if label != self.negative)}"

    def limits(self, scope: str) -> tuple[str, ...]:
        """Pairs far apart, and unrelated ones if it was shown none."""
        alone = () if self.negative else ("It was never shown unrelated pairs, so it names a relation for every pair.",)
        return (within_limit(scope), *alone)

    def predict(self, model: RelationModel, texts: Sequence[Prediction]) -> list[Prediction]:
        """The relations between the entities of each text."""

        def scores(pairs: Sequence[Pair]) -> tuple[Sequence[Pair], Tensor]:
            read, homes = [], []
            distinct: dict[tuple[object, ...], Marked] = {}  # what reads the same is the same to the model
            for one in pairs:
                with contextlib.suppress(EntitiesTooLong):
                    row = self._marker.marked(one.document)
                    key = (*row.ids, row.first, row.second)
                    distinct.setdefault(key, row)
                    homes.append(key)
                    read.append(one)
            places = {key: place for place, key in enumerate(distinct)}
            examples = self._unlabelled([*distinct.values()])
            scores = torch.zeros(len(distinct), len(self.labels))
            for rows in packed(examples.tokens.lengths.tolist()):
                go_on()
                scores[rows] = self.scores(model, model.ragged(*examples.packed(rows)))
            return read, scores[torch.tensor([places[key] for key in homes], dtype=torch.int64)]

        return related(self.candidates, texts, self.labels, self.negative, scores)
