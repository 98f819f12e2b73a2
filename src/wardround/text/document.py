"""What every text reader yields: a document with what its annotators said of it, or a model (see `prediction`).

Offsets count characters of `text`, from 0, the end excluded. A reader keeps `text` as it stands in the
file (after decoding), so that offsets stay true; cleaning is a task's business.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Document", "Entity", "Placed", "Relation", "overlap"]


@dataclass(frozen=True, slots=True)
class Entity:
    """A span of text that names something: `text[start:end]` is of this `type`."""

    id: str
    type: str
    start: int
    end: int
    confidence: float | None = field(default=None, repr=False)
    """How sure a model is of it; an annotator does not say."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of this `type` from entity `head` to entity `tail`, by their ids."""

    type: str
    head: str
    tail: str
    confidence: float | None = field(default=None, repr=False)
    """Likewise."""


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

    def plain(self) -> dict[str, Any]:
        """All of it as plain values; what nobody knows, such as an annotator's confidence, is left out."""
        return asdict(self, dict_factory=lambda items: {key: value for key, value in items if value is not None})


class Placed(NamedTuple):
    """A document and where it stands; line 0 means that the file is the document."""

    document: Document
    path: Path
    line: int
    lines: Sequence[tuple[int, int]] = ()
    """Where a document goes over several lines: with which character each begins, and its number."""
    related: Sequence[tuple[Path, int]] = ()
    """Where each relation is written down, if that is another file."""

    def line_at(self, offset: int) -> int:
        """The line of the file where this character of the document stands."""
        if self.lines:
            return self.lines[bisect_right(self.lines, offset, key=itemgetter(0)) - 1][1]
        return self.line or 1 + max(self.document.text.count(end, 0, offset) for end in "\r\n")


def overlap(one: Entity, other: Entity) -> bool:
    """Whether two spans share a character."""
    return one.start < other.end and other.start < one.end
