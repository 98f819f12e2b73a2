"""Entities that come with texts and entities that models find: which are used, and whether any can be related.

    mentions = Mentions(model)
    mentions.take(document, prediction)
    for line in mentions.lines(): ...

Given and found entities are never mixed without a word. A file whose entities have none of the types that a model
relates gets no relation, and the reason is given; so is it where there are too many of them, at one place or in all.
"""

from collections.abc import Iterator

from wardround.tasks.candidates import FAR, MOST, Candidates
from wardround.text.document import Document
from wardround.text.pairs import CROWD, crowded
from wardround.text.prediction import Prediction
from wardround.trained.model import Entities, Model

USED: dict[Entities, str] = {
    "given": "they are used, and the tagging model is not asked",
    "found": "they are left out, and the tagging model's own are used",
    "both": "they stand beside the tagging model's own",
}
LISTED = 10


class Mentions:
    """Counts over all texts, by type as the models that relate entities call it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.texts = self.given = self.used = self.crowd = self.many = 0
        self.candidates = [Candidates.of(part.about) for part in model.parts if part.finds == "relations"]
        self.types = set[str]()

    def take(self, document: Document, prediction: Prediction) -> None:
        """One more text."""
        self.texts += bool(document.entities)
        self.given += len(document.entities)
        self.used += len(prediction.entities)
        entities = [self.model.called(entity) for entity in prediction.entities]
        self.types |= {entity.type for entity in entities}
        self.crowd += max(
            (len(crowded(prediction.text, entities, one.scope, FAR)) for one in self.candidates), default=0
        )
        self.many += any(one.too_many(prediction.text, entities) for one in self.candidates)

    def lines(self) -> Iterator[str]:
        """What is done with entities that came with texts, and which model can relate none of those used."""
        if self.given and self.model.tags:
            other = "given uses" if self.candidates else "both keeps"
            remedy = f"; --entities {other} them" if self.model.entities == "found" else ""
            told = f"entities that came with {_count(self.texts, 'text')}, {self.given:,}"
            yield f"{told}: {USED[self.model.entities]}{remedy}"
        for part in self.model.parts:
            wanted = sorted({kind for both in part.about.pairs or () for kind in both})
            if self.used and wanted and self.types.isdisjoint(wanted):
                what = "the only entity has no" if self.used == 1 else f"none of the {self.used:,} entities has a"
                more = f" and {len(wanted) - LISTED} more" if len(wanted) > LISTED else ""
                kinds = ", ".join(wanted[:LISTED]) + more
                yield (
                    f"{what} type that {part.folder} relates, so there is no relation; it relates {kinds}: "
                    f"say which is which with --rename TYPE={wanted[0]}"
                )
        if self.crowd:
            yield (
                f"{_count(self.crowd, 'entity', 'entities')} with more than {CROWD:,} others within {FAR:,} characters "
                f"behind: these pairs are not looked at; are the entities those of this text?"
            )
        if self.many:
            yield (
                f"{_count(self.many, 'text')} with more than {MOST:,} pairs of entities: none of them is looked at; "
                f"cut such a text into notes, or leave out entities of types that need not be related"
            )


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
