"""Entities as a file says them (offsets, and often their words too), checked against the text.

    for entity in Offsets(text, path, problems).entities(mentions): ...

The words must stand at their offsets. If they do not, the error says how the offsets seem to count (bytes, UTF-16
units, no carriage returns, shifted), and with `fix` they are converted or moved to the nearest place within `REACH`
characters, each conversion counted. Messages quote a note's words only with `show`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from wardround.text.document import Attribute, Entity, Relation
from wardround.text.reading import DataError, Problems
from wardround.text.shown import called, quoted

SLACK = 1000  # blanks that an entity may have where its words have one
REACH = 100  # characters from where it should be that a repaired entity may stand
UNITS: dict[str, Callable[[str], int]] = {
    "no carriage returns": lambda char: char != "\r",
    "UTF-8 bytes": lambda char: len(char.encode("utf-8", "surrogatepass")),
    "UTF-16 units": lambda char: 1 + (char > "\uffff"),
}


def nearest_place(text: str, words: str, start: int) -> int | None:
    """Where `words` stand in the text, as near to `start` as they do."""
    if not words:
        return None
    start = min(max(start, 0), len(text))
    places = (text.rfind(words, 0, start + len(words)), text.find(words, start))
    return min((place for place in places if place >= 0), key=lambda place: abs(place - start), default=None)


@dataclass(frozen=True, slots=True)
class Annotation:
    """An entity as a line of the file has it; `words` is None where the format does not repeat them."""

    id: str
    type: str
    parts: tuple[tuple[int, int], ...]
    words: str | None
    line: int
    concepts: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class Offsets:
    """The entities of one text."""

    text: str
    path: Path
    problems: Problems
    fix: bool = False
    show: bool = False

    def entities(self, mentions: Sequence[Annotation]) -> Iterator[Entity]:
        """The entities that stand where they are said to, or are brought there; the others are refused."""
        for entity in self._counted(mentions):
            with self.problems.refusing():
                yield self.entity(entity)

    def counted(self, mentions: Sequence[Annotation], unit: str) -> Sequence[Annotation]:
        """The entities of a file that is known to count in this unit, unless its words say that it does not."""
        if self._table(unit)[-1] == len(self.text):
            return mentions
        converted = [self._converted(entity, unit) for entity in mentions]
        return converted if sum(map(self._fits, converted)) >= sum(map(self._fits, mentions)) else mentions

    def _counted(self, mentions: Sequence[Annotation]) -> Sequence[Annotation]:
        """The entities with offsets in characters, however the file counts."""
        fitting = sum(map(self._fits, mentions))
        if not self.fix or fitting == len(mentions):
            return mentions
        unit = max(UNITS, key=lambda unit: sum(self._fits(self._converted(entity, unit)) for entity in mentions))
        converted = [self._converted(entity, unit) for entity in mentions]
        if sum(map(self._fits, converted)) <= fitting:
            return mentions
        self.problems.note(f"offsets count {unit}, converted", self.path, mentions[0].line)
        return converted

    def entity(self, mention: Annotation) -> Entity:
        """One entity, checked and if so wished moved, or an error."""
        name = called(mention.id)
        for start, end in mention.parts:
            if not 0 <= start < end:
                raise DataError(self.path, mention.line, f"{name} goes from {start} to {end}", "0 ≤ start < end")
        start, end = min(first for first, _ in mention.parts), max(last for _, last in mention.parts)
        if not self._fits(mention):
            place = self._place(mention.words or "", start)
            near = place is not None and len(mention.parts) == 1
            if not (self.fix and near and place is not None):
                raise self._misplaced(mention, place if near else None)
            self.problems.note("offsets repaired", self.path, mention.line)
            start, end = place, place + len(mention.words or "")
        return Entity(
            mention.id,
            mention.type,
            start,
            end,
            concepts=mention.concepts,
            attributes=mention.attributes,
            parts=mention.parts if len(mention.parts) > 1 else (),
        )

    def relations(
        self,
        links: Iterable[tuple[str, str, str]],
        mentions: Iterable[Annotation],
        entities: Iterable[Entity],
        line: int,
        noun: str = "entity",
    ) -> Iterator[Relation]:
        """The relations (type, head, tail) whose ends were kept; one that names what is not there is refused."""
        named, kept = {mention.id for mention in mentions}, {entity.id for entity in entities}
        for kind, head, tail in links:
            if unknown := [end for end in (head, tail) if end not in named]:
                what = f"a relation names {quoted(unknown[0])}, which is no {noun} here"
                self.problems.refuse(DataError(self.path, line, what, f"add the {noun} or remove the relation"))
            elif kept.issuperset((head, tail)):
                yield Relation(kind, head, tail)
            else:
                self.problems.note("relation of an entity that is left out, left out", self.path, line)

    def _place(self, words: str, start: int) -> int | None:
        """Where words stand near a place; a text may be long, and all its entities misplaced."""
        first = max(0, min(start, len(self.text)) - REACH)
        place = nearest_place(self.text[first : first + 2 * REACH + len(words)], words, start - first)
        return None if place is None or abs(place + first - start) > REACH else place + first

    def _misplaced(self, mention: Annotation, place: int | None) -> DataError:
        name, (start, end) = called(mention.id), mention.parts[0]
        if any(
            end - start == len(one) and self.text.startswith(one, start) for one in (mention.type, *mention.concepts)
        ):
            what = f"what stands for the words of text[{start}:{end}] differs, and stands for its type or id"
            return DataError(self.path, mention.line, what, "columns look swapped")
        if mention.words is None:
            what = f"{name} ends at {max(last for _, last in mention.parts)}, the note has {len(self.text)} characters"
            return DataError(self.path, mention.line, what, "offsets count characters, from 0, the end excluded")
        what = f"{name} says {len(mention.words)} characters, text[{start}:{end}] differs"
        if self.show and end - start <= 2 * len(mention.words) + SLACK:
            what = f'{name} says "{mention.words}", text[{start}:{end}] is "{self.text[start:end]}"'
        units = [unit for unit in UNITS if self._table(unit)[-1] != len(self.text)]
        units = [unit for unit in units if self._fits(self._converted(mention, unit))]
        if place == start:
            how = f"its words end at {start + len(mention.words)}"
        elif place is not None and abs(place - start) < 3:
            how = f"offsets look shifted by {('one', 'two')[abs(place - start) - 1]}"
        elif units:
            how = f"offsets look as if they count {units[0]}"
        elif place is not None:
            how = f"offsets look shifted by {abs(place - start)}"
        else:
            remedy = "its words are nowhere near; is the text the one that was annotated?"
            return DataError(self.path, mention.line, what, remedy)
        return DataError(self.path, mention.line, what, f"{how}; try fix_offsets = true")

    def _fits(self, mention: Annotation) -> bool:
        if not all(0 <= start < end <= len(self.text) for start, end in mention.parts):
            return False
        if mention.words is None:
            return True
        size = sum(end - start for start, end in mention.parts)
        if size > 2 * len(mention.words) + SLACK:  # each may span the whole text, and be wrong
            return False
        words = " ".join(self.text[start:end] for start, end in mention.parts)
        if words == mention.words:
            return True
        # Other words are told by their beginning: thousands may be wrong, and each as long as `SLACK` allows.
        first, wanted = words[:1], mention.words[:1]
        return (first == wanted or (first + wanted).isspace()) and _squeezed(words) == _squeezed(mention.words)

    @cached_property
    def _tables(self) -> dict[str, Sequence[int]]:
        return {}

    def _table(self, unit: str) -> Sequence[int]:
        """How many units stand before each character, and in all."""
        if unit not in self._tables:
            plain = "\r" not in self.text if unit == "no carriage returns" else self.text.isascii()
            widths = accumulate(map(UNITS[unit], self.text))
            self._tables[unit] = range(len(self.text) + 1) if plain else [0, *widths]
        return self._tables[unit]

    def _converted(self, mention: Annotation, unit: str) -> Annotation:
        table = self._table(unit)
        parts = ((bisect_left(table, start), bisect_left(table, end)) for start, end in mention.parts)
        return replace(mention, parts=tuple(parts))


def _squeezed(text: str) -> str:
    """BRAT writes a line break within an entity as a blank."""
    return re.sub(r"\s+", " ", text)
