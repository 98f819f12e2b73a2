"""What every text reader yields: a document with what its annotators said of it, or a model (see `prediction`).

Offsets count characters of `text`, from 0, the end excluded. A reader keeps `text` as it stands in the
file (after decoding), so that offsets stay true; cleaning is a task's business.

Beyond its type, an entity may have *attributes* (negation, certainty, whose it is: whatever a tool calls them), the
*concepts* of public vocabularies that it names, and, if it has gaps, its *parts*; a relation may have attributes. They
travel from format to format. A task that knows none of them takes a discontinuous entity from first to last character.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from wardround.text.reading import folded

YES = "true"
"""The value of an attribute that is only there or not, such as `negated`."""
DISCONTINUOUS = "discontinuous entity, taken from first to last character"
"""What tasks note of entities with gaps."""


class Attribute(NamedTuple):
    """What is said of an entity or a relation besides its type."""

    name: str
    value: str = YES


@dataclass(frozen=True, slots=True)
class Entity:
    """A span of text that names something: `text[start:end]` is of this `type`."""

    id: str
    type: str
    start: int
    end: int
    confidence: float | None = field(default=None, repr=False)
    """How sure a model is of it; an annotator does not say."""
    given: bool = field(default=False, repr=False)
    """In a prediction: whether it came with the text."""
    concepts: tuple[str, ...] = field(default=(), repr=False)
    """Ids of public concepts, such as `UMLS:C0004057`."""
    attributes: tuple[Attribute, ...] = field(default=(), repr=False)
    parts: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    """Start and end of each part, if there are several."""

    def words(self, text: str) -> str:
        """Its words in the document's text, without what stands in the gaps."""
        return " ".join(text[start:end] for start, end in self.parts or [(self.start, self.end)])

    def moved(self, by: int) -> "Entity":
        """The same in a text that begins so many characters earlier."""
        parts = tuple((start + by, end + by) for start, end in self.parts)
        return replace(self, start=self.start + by, end=self.end + by, parts=parts)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Entity":
        """The entity of plain values."""
        concepts, parts = tuple(values.get("concepts", ())), tuple(tuple(part) for part in values.get("parts", ()))
        return cls(
            **{**values, "concepts": concepts, "attributes": _attributes(values.get("attributes", ())), "parts": parts}
        )


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of this `type` from entity `head` to entity `tail`, by their ids."""

    type: str
    head: str
    tail: str
    confidence: float | None = field(default=None, repr=False)
    """Likewise."""
    attributes: tuple[Attribute, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Relation":
        """The relation of plain values."""
        return cls(**{**values, "attributes": _attributes(values.get("attributes", ()))})


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
    patient: str = field(default="", repr=False)
    """Whom it is about, where a column says so: validation examples can be drawn by it."""
    confidence: tuple[float, ...] = field(default=(), repr=False, kw_only=True)
    """How sure a model is of each label."""
    model: str = field(default="", repr=False, kw_only=True)
    """Which model has found what is in it, if one has, and no person."""

    @property
    def whom(self) -> str:
        """The patient by whom documents belong together, however blanks, capitals and full-width letters are typed."""
        return folded(self.patient)

    def plain(self) -> dict[str, Any]:
        """All of it as plain values; what nobody knows of an entity or relation is left out."""
        return asdict(self, dict_factory=_plain)


class Placed(NamedTuple):
    """A document and where it stands; line 0 means that the file is the document."""

    document: Document
    path: Path
    line: int
    lines: Sequence[tuple[int, int]] = ()
    """Where a document goes over several lines: with which character each begins, and its number."""
    related: Sequence[tuple[Path, int]] = ()
    """Where each relation is written down, if that is another file."""
    unseen: bool = False
    """Whether it comes from an annotation tool in which nobody has annotated it, or changed what a model found."""

    def line_at(self, offset: int) -> int:
        """The line of the file where this character of the document stands."""
        if self.lines:
            return self.lines[bisect_right(self.lines, offset, key=itemgetter(0)) - 1][1]
        return self.line or 1 + max(self.document.text.count(end, 0, offset) for end in "\r\n")


def overlap(one: Entity, other: Entity) -> bool:
    """Whether two spans share a character."""
    return one.start < other.end and other.start < one.end


OPTIONAL = frozenset({"confidence", "given", "concepts", "attributes", "parts", "model"})


def _plain(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {
        key: value
        for key, value in items
        if key not in OPTIONAL or (value is not None and value is not False and value not in ((), ""))
    }


def _attributes(listed: Iterable[Sequence[str]]) -> tuple[Attribute, ...]:
    return tuple(Attribute(*one) for one in listed)
