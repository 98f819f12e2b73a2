"""What tasks that find entities have in common: how their answers are counted, by type and by document."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from wardround.core.weights import Layout
from wardround.metrics.constant import entity_constant
from wardround.metrics.entities import Spans, entity_classes, entity_counts, entity_layout, entity_metrics
from wardround.metrics.redrawn import entity_redrawn
from wardround.tasks.task import BoundTask
from wardround.text.dictionary import Dictionary
from wardround.text.reading import Problems
from wardround.text.texts import Texts
from wardround.text.tokens import Sentence

CHAINED_TAGS = {
    "onnx": ("a CRF's best path is a search, which ONNX cannot hold", "use --to spacy"),
    "transformers": ("it is a tagger with a CRF, which transformers has no model for", "use --to spacy"),
}
"""Why a tagger with a CRF is not exported, and what to do."""
SEPARATE_TAGS = {
    "onnx": ("what makes word pieces of a text is not in the network", "use --to spacy"),
    "transformers": ("it reads sentences and words as wardround cuts them, and not as transformers does",
                     "use --to spacy"),
}  # fmt: skip
"""The same for one that is an encoder and a linear layer."""


@dataclass(frozen=True)
class Tried:
    """A batch of sentences: which they are, and of each true and predicted entities, repaired ones and the loss."""

    rows: list[int]
    pairs: Sequence[tuple[Spans, Spans]]
    repaired: list[int]
    losses: Tensor


class EntitiesTask(BoundTask):
    """Sentences to entities of `names()`."""

    constant_answer: ClassVar[str] = "no entity at all"
    references: ClassVar[tuple[str, ...]] = ("dictionary",)

    @abstractmethod
    def tried(self, model: Any, examples: Any) -> Iterator[Tried]:
        """What a model finds in all sentences, batch by batch."""

    @abstractmethod
    def sentences(self, texts: Texts, problems: Problems) -> list[Sentence]:
        """The documents' sentences, in order."""

    def count(self, model: Any, examples: Any) -> Mapping[str, Tensor]:
        """Entities predicted, there, and right, per type of the study; repairs, sentences and the summed loss."""
        pairs: list[tuple[Spans, Spans]] = []
        repaired, loss = 0, torch.zeros((), dtype=torch.float64)
        for batch in self.tried(model, examples):
            pairs += batch.pairs
            repaired += sum(batch.repaired)
            loss += batch.losses.sum()
        return entity_counts(pairs, len(self.names()), repaired, loss)

    def each(self, model: Any, texts: Texts) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """The counts of each sentence, and its document."""
        homes = self.homes(texts)
        for batch in self.tried(model, self.examples(texts)):
            for row, pair, broken, loss in zip(batch.rows, batch.pairs, batch.repaired, batch.losses, strict=True):
                yield homes[row], entity_counts([pair], len(self.names()), broken, loss)

    def homes(self, texts: Texts) -> Sequence[int]:
        """The document of each sentence."""
        mine = [len(self.sentences(Texts((document,)), Problems())) for document in texts.documents]
        return [document for document, count in enumerate(mine) for _ in range(count)]

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return entity_layout(len(self.names()))

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """Strict and relaxed figures over all entities and per type."""
        return entity_metrics(counts, self.names())

    def by_class(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Strictly; and the confusion of entities with the same ends, where what stands alone is taken for nothing."""
        return entity_classes(counts)

    def constant(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What finding nothing would have counted."""
        return entity_constant(counts)

    def looked_up(self, train: Texts, test: Texts) -> Mapping[str, Tensor]:
        """What a dictionary of the training texts' entities would have counted on the test texts; no loss is known."""
        known = Dictionary.of(self.sentences(train, Problems()))
        places = {kind: number for number, kind in enumerate(self.names())}
        pairs = [
            [
                [(places[kind], start, end) for kind, start, end in spans]
                for spans in (one.spans, known.spans(one.words))
            ]
            for one in self.sentences(test, Problems())
        ]
        unknown = torch.tensor(torch.nan)
        return entity_counts([(true, answers) for true, answers in pairs], len(places), 0, unknown)

    def redrawn(self, counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> Mapping[str, Tensor]:
        """Entity by entity."""
        return entity_redrawn(counts, rng, draws)

    def sizes(self) -> dict[str, int]:
        """How many entity types there are."""
        return {"types": len(self.names())}
