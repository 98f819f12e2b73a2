"""Entities as a file says them (offsets, and often their words too), checked against the text.

    for entity in Offsets(text, path, problems).entities(said): ...

The words must stand at their offsets. If they do not, the error says how the offsets seem to count (bytes, UTF-16
units, no carriage returns, shifted), and with `fix` they are converted or moved to the nearest place within `REACH`
characters, each conversion counted. Messages quote a note's words only with `show`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from wardround.text.document import Entity
from wardround.text.reading import DataError, Problems
from wardround.text.shown import called

__all__ = ["Offsets", "Said", "nearest_place"]

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
class Said:
    """An entity as a line of the file has it; `words` is None where the format does not repeat them."""

    id: str
    type: str
    parts: tuple[tuple[int, int], ...]
    words: str | None
    line: int


@dataclass(frozen=True)
class Offsets:
    """The entities of one text."""

    text: str
    path: Path
    problems: Problems
    fix: bool = False
    show: bool = False

    def entities(self, said: Sequence[Said]) -> Iterator[Entity]:
        """The entities that stand where they are said to, or are brought there; the others are refused."""
        for entity in self._counted(said):
            with self.problems.refusing():
                yield self.entity(entity)

    def counted(self, said: Sequence[Said], unit: str) -> Sequence[Said]:
        """The entities of a file that is known to count in this unit, unless its words say that it does not."""
        if self._table(unit)[-1] == len(self.text):
            return said
        converted = [self._converted(entity, unit) for entity in said]
        return converted if sum(map(self._fits, converted)) >= sum(map(self._fits, said)) else said

    def _counted(self, said: Sequence[Said]) -> Sequence[Said]:
        """The entities with offsets in characters, however the file counts."""
        fitting = sum(map(self._fits, said))
        if not self.fix or fitting == len(said):
            return said
        unit = max(UNITS, key=lambda unit: sum(self._fits(self._converted(entity, unit)) for entity in said))
        converted = [self._converted(entity, unit) for entity in said]
        if sum(map(self._fits, converted)) <= fitting:
            return said
        self.problems.note(f"offsets count {unit}, converted", self.path, said[0].line)
        return converted

    def entity(self, said: Said) -> Entity:
        """One entity, checked and if so wished moved, or an error."""
        name = called(said.id)
        for start, end in said.parts:
            if not 0 <= start < end:
                raise DataError(self.path, said.line, f"{name} goes from {start} to {end}", "0 ≤ start < end")
        start, end = min(first for first, _ in said.parts), max(last for _, last in said.parts)
        if not self._fits(said):
            place = nearest_place(self.text, said.words or "", start)
            near = place is not None and abs(place - start) <= REACH and len(said.parts) == 1
            if not (self.fix and near and place is not None):
                raise self._misplaced(said, place if near else None)
            self.problems.note("offsets repaired", self.path, said.line)
            start, end = place, place + len(said.words or "")
        if len(said.parts) > 1:
            self.problems.note("discontinuous entity, taken from first to last character", self.path, said.line)
        return Entity(said.id, said.type, start, end)

    def _misplaced(self, said: Said, place: int | None) -> DataError:
        name, (start, end) = called(said.id), said.parts[0]
        if said.words is None:
            what = f"{name} ends at {max(last for _, last in said.parts)}, the note has {len(self.text)} characters"
            return DataError(self.path, said.line, what, "offsets count characters, from 0, the end excluded")
        what = f"{name} says {len(said.words)} characters, text[{start}:{end}] differs"
        if self.show:
            what = f'{name} says "{said.words}", text[{start}:{end}] is "{self.text[start:end]}"'
        units = [unit for unit in UNITS if self._fits(self._converted(said, unit))]
        if place == start:
            how = f"its words end at {start + len(said.words)}"
        elif place is not None and abs(place - start) < 3:
            how = f"offsets look shifted by {('one', 'two')[abs(place - start) - 1]}"
        elif units:
            how = f"offsets look as if they count {units[0]}"
        elif place is not None:
            how = f"offsets look shifted by {abs(place - start)}"
        else:
            remedy = "its words are nowhere near; is the text the one that was annotated?"
            return DataError(self.path, said.line, what, remedy)
        return DataError(self.path, said.line, what, f"{how}; try fix_offsets = true")

    def _fits(self, said: Said) -> bool:
        if not all(0 <= start < end <= len(self.text) for start, end in said.parts):
            return False
        found = " ".join(self.text[start:end] for start, end in said.parts)
        return said.words is None or found == said.words or _squeezed(found) == _squeezed(said.words)

    @cached_property
    def _tables(self) -> dict[str, Sequence[int]]:
        return {}

    def _table(self, unit: str) -> Sequence[int]:
        """How many units stand before each character, and in all."""
        if unit not in self._tables:
            plain = unit != "no carriage returns" and self.text.isascii()
            widths = accumulate(map(UNITS[unit], self.text))
            self._tables[unit] = range(len(self.text) + 1) if plain else [0, *widths]
        return self._tables[unit]

    def _converted(self, said: Said, unit: str) -> Said:
        table = self._table(unit)
        parts = ((bisect_left(table, start), bisect_left(table, end)) for start, end in said.parts)
        return replace(said, parts=tuple(parts))


def _squeezed(text: str) -> str:
    """BRAT writes a line break within an entity as a blank."""
    return re.sub(r"\s+", " ", text)
