"""What every text reader yields: a document with what its annotators said of it.

Offsets count characters of `text`, from 0, the end excluded. A reader keeps `text` as it stands in the
file (after decoding), so that offsets stay true; cleaning is a task's business.
"""

from dataclasses import dataclass

__all__ = ["Document", "Entity", "Relation"]


@dataclass(frozen=True, slots=True)
class Entity:
    """A span of text that names something: `text[start:end]` is of this `type`."""

    id: str
    type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of this `type` from entity `head` to entity `tail`, by their ids."""

    type: str
    head: str
    tail: str


@dataclass(frozen=True, slots=True)
class Document:
    """One text as it is annotated: a sentence, a dialogue turn or a whole note."""

    id: str
    text: str
    labels: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    source: str = ""
    """Where it comes from, if known: a dialogue, an article, a hospital. Sites can be cut along it."""
    language: str = ""
    """`en` or `zh`, or empty where the format does not say."""
