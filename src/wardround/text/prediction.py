"""What a model says of a text: labels, entities and relations, with offsets and confidence.

    prediction = model("Aspirin gave her a rash")
    prediction.entities[0]              # Entity(id="T1", type="DRUG", start=0, end=7), and its confidence, 0.98
    prediction.plain()                  # for JSON; the form that docs/predict.md documents

Offsets count characters of the text, from 0, the end excluded. Entities are T1, T2, … in their order, and a relation
names its ends by these. What confidence is: of a label, its probability; of an entity, the probability of its very tags
at its tokens under the CRF, all ways to tag the rest added up; of a relation, its probability given the two entities.
Those are the model's own: a model trained on few notes can be sure and wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from wardround.text.document import Entity, Relation

OUTPUTS = ("jsonl", "csv", "brat", "label-studio", "doccano", "omop", "fhir")
"""The forms in which predictions are written (`trained.outputs`)."""
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Label:
    """A class of the text."""

    name: str
    confidence: float


@dataclass(frozen=True)
class Prediction:
    """All that was found in one text."""

    text: str
    labels: tuple[Label, ...] = ()
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    id: str = ""
    """The text's own, where it came with one."""
    cut: int = 0
    """How many tokens at the end were beyond what the model reads."""
    margin: float | None = None
    """By how much the nearest decision about a label or a pair of entities was made, be the answer that they are
    unrelated: 0 at a tie, 1 where nothing else was likely."""

    @property
    def certainty(self) -> float:
        """The least sure of all that was said: the margin of labels and pairs, the confidence of an entity."""
        values = [one.confidence for one in self.entities if not one.given]
        values += [self.margin, *(one.confidence for one in self.relations)]
        return min((value for value in values if value is not None), default=1.0)

    def at_least(self, least: float) -> "Prediction":
        """Only what the model is so sure of, and what came with the text."""
        entities = tuple(one for one in self.entities if one.given or sure(one.confidence) >= least)
        kept = {one.id for one in entities}
        relations = (one for one in self.relations if sure(one.confidence) >= least and {one.head, one.tail} <= kept)
        labels = tuple(one for one in self.labels if one.confidence >= least)
        return replace(self, labels=labels, entities=entities, relations=tuple(relations))

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each entity stands among the others, by its id."""
        return {entity.id: place for place, entity in enumerate(self.entities)}

    def words(self, entity: str) -> str:
        """The text of the entity with this id."""
        chosen = self.entities[self.places[entity]]
        return self.text[chosen.start : chosen.end]

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON, without the text; relations name entities by their places, counted from 0."""
        values: dict[str, Any] = {"id": self.id} if self.id else {}
        values["labels"] = [{"name": one.name, "confidence": rounded(one.confidence)} for one in self.labels]
        values["entities"] = [
            {
                "type": one.type, "start": one.start, "end": one.end, "confidence": rounded(one.confidence),
                "words": self.text[one.start : one.end], **({"given": True} if one.given else {}),
            }
            for one in self.entities
        ]  # fmt: skip
        values["relations"] = [
            {
                "type": one.type, "head": self.places[one.head], "tail": self.places[one.tail],
                "confidence": rounded(one.confidence),
            }
            for one in self.relations
        ]  # fmt: skip
        return values


def numbered(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    """The entities as T1, T2, … in this order."""
    return tuple(replace(entity, id=f"T{number}") for number, entity in enumerate(entities, 1))


def sure(confidence: float | None) -> float:
    """Confidence as a number: what an annotator or another program has given is certain."""
    return 1.0 if confidence is None else confidence


def rounded(confidence: float | None) -> float:
    """Confidence as it is written down."""
    return round(sure(confidence), DIGITS)
