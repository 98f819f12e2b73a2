"""What a model says of a text: labels, entities and relations, with offsets and confidence.

    told = model("Aspirin gave her a rash")
    told.entities[0]                    # Found(type="DRUG", start=0, end=7, confidence=0.98)
    told.plain()                        # for JSON; the form that docs/predict.md documents

Offsets count characters of the text, from 0, the end excluded. A relation names its ends by their places among the
entities. What confidence is: of a label, its probability; of an entity, the probability of its very tags at its
tokens under the CRF, all ways to tag the rest added up; of a relation, its probability given the two entities. Those
are the model's own: a model trained on few notes can be sure and wrong.
"""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Found", "Label", "Link", "Prediction"]

DIGITS = 4


@dataclass(frozen=True, slots=True)
class Label:
    """A class of the text."""

    name: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Found:
    """An entity: `text[start:end]` is of this type."""

    type: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Link:
    """A relation from one entity to another, by their numbers in the prediction."""

    type: str
    head: int
    tail: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """All that was found in one text."""

    text: str
    labels: tuple[Label, ...] = ()
    entities: tuple[Found, ...] = ()
    relations: tuple[Link, ...] = ()
    id: str = ""
    """The text's own, where it came with one."""
    cut: int = 0
    """How many tokens at the end were beyond what the model reads."""

    def words(self, number: int) -> str:
        """The text of an entity."""
        entity = self.entities[number]
        return self.text[entity.start : entity.end]

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON, without the text; `words` of each entity beside its offsets."""
        told: dict[str, Any] = {"id": self.id} if self.id else {}
        told["labels"] = [_rounded(label) for label in self.labels]
        told["entities"] = [
            {**_rounded(entity), "words": self.words(number)} for number, entity in enumerate(self.entities)
        ]
        told["relations"] = [_rounded(link) for link in self.relations]
        return told


def _rounded(told: Label | Found | Link) -> dict[str, Any]:
    return {**asdict(told), "confidence": round(told.confidence, DIGITS)}
