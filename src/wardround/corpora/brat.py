"""BRAT standoff: a folder of `.txt` notes with their `.ann` beside them, sub-folders included.

    BRAT(train="notes/train", test="notes/test", pairs=[("treatment", "problem")])

    T1<tab>treatment 0 7<tab>Aspirin
    T2<tab>problem 19 23<tab>rash
    R1<tab>causes Arg1:T1 Arg2:T2

The first argument is the head. Events, attributes, normalisations and comments are ignored and counted, with the
relations that name an event. A discontinuous entity counts from its first to its last character. A note without
`.ann` is skipped and counted; one without `.txt` is an error. The words in each T line must stand at its offsets:
if they do not, the error says how the offsets seem to count (bytes, UTF-16 units, no carriage returns, shifted), and
`fix_offsets` converts them, each conversion counted. Messages quote a note's words only with `show_text`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from wardround.corpora.document import Document, Entity, Relation
from wardround.corpora.pair_files import NoteFiles, files_under
from wardround.corpora.pairs import Placed, nearest_place
from wardround.corpora.reading import DataError, Problems, lines_with_ends, open_text, shown

__all__ = ["BRAT"]

REACH = 100  # characters from where it should be that a repaired entity may stand
IGNORED = {
    "E": "event, ignored",
    "A": "attribute, ignored",
    "M": "attribute, ignored",
    "N": "normalisation, ignored",
    "#": "comment, ignored",
    "*": "equivalence, ignored",
}
ENTITY = re.compile(r"(T\d\w*)\t(\S+) (-?\d{1,12} -?\d{1,12}(?:;-?\d{1,12} -?\d{1,12})*)(?:\t(.*))?")
RELATION = re.compile(r"(R\d\w*)\t(\S+) [^\s:]+:(\S+) [^\s:]+:(\S+)\s*")
SHAPES = {
    "T": "write T1, tab, type start end, tab, the words",
    "R": "write R1, tab, type Arg1:T1 Arg2:T2",
}


@dataclass(frozen=True, slots=True)
class _Said:
    """A T line."""

    id: str
    type: str
    parts: tuple[tuple[int, int], ...]
    words: str | None
    line: int


@dataclass(frozen=True, kw_only=True)
class BRAT(NoteFiles):
    """One folder per split; a note's path in it, without ending, is its id."""

    fix_offsets: bool = False
    show_text: bool = False

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        folder = self.path(split)
        texts = {path.with_suffix("") for path in files_under(folder, ".txt")}
        annotated = {path.with_suffix("") for path in files_under(folder, ".ann")}
        if not texts:
            raise DataError(folder, None, "no .txt file in this folder", "name the folder that holds the notes")
        for path in sorted(texts | annotated):
            note, annotations = path.with_name(path.name + ".txt"), path.with_name(path.name + ".ann")
            if path not in texts:
                raise DataError(annotations, None, "its note is missing", f"copy {note.name} beside it")
            if path not in annotated:
                problems.note("note without .ann, skipped", note, 1)
                continue
            yield Placed(self.note(note, annotations, path.relative_to(folder).as_posix(), problems), note, 0)

    def note(self, note: Path, annotations: Path, name: str, problems: Problems) -> Document:
        """One note with its annotations, wherever these lie."""
        text = "".join(lines_with_ends(note, self.encoding, problems=problems))
        entities, relations = self._read(annotations, text, problems)
        return Document(name, text, (), entities, relations, source=name, language=self.language)

    def _read(self, path: Path, text: str, problems: Problems) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
        said: list[_Said] = []
        told: list[tuple[int, re.Match[str]]] = []
        lines: dict[str, int] = {}
        for number, line in enumerate(open_text(path, self.encoding, problems=problems), 1):
            if not line.strip():
                continue
            if line[0] in IGNORED and re.match(r"\S+\t", line):
                problems.note(IGNORED[line[0]], path, number)
                continue
            found = (ENTITY if line[0] == "T" else RELATION).fullmatch(line)
            if found is None:
                what = f"not a line of BRAT's {line[0]} kind" if line[0] in SHAPES else "not a line of BRAT's"
                raise DataError(path, number, what, SHAPES.get(line[0], "each begins with T, R, E, A, M, N, # or *"))
            if found[1] in lines:
                what = f"{shown(found[1])} is already in line {lines[found[1]]}"
                raise DataError(path, number, what, "ids must differ within a note")
            lines[found[1]] = number
            if line[0] == "T":
                parts = tuple((int(start), int(end)) for start, end in map(str.split, found[3].split(";")))
                said.append(_Said(found[1], found[2], parts, found[4], number))
            else:
                told.append((number, found))
        entities = tuple(
            self._entity(entity, text, path, problems) for entity in self._counted(said, text, path, problems)
        )
        return entities, tuple(self._relations(told, {entity.id for entity in entities}, path, problems))

    def _relations(
        self, told: Sequence[tuple[int, re.Match[str]]], known: set[str], path: Path, problems: Problems
    ) -> Iterator[Relation]:
        for line, found in told:
            ends = found[3], found[4]
            unknown = [end for end in ends if end not in known]
            if any(end.startswith("E") for end in unknown):
                problems.note("relation of an event, left out", path, line)
            elif unknown:
                what = f"{shown(found[1])} names {shown(unknown[0])}, which is not in this file"
                raise DataError(path, line, what, "add the entity or remove the relation")
            else:
                yield Relation(self._label(found[2], path, line), *ends)

    def _counted(self, said: Sequence[_Said], text: str, path: Path, problems: Problems) -> Sequence[_Said]:
        """The entities with offsets in characters, however the file counts."""
        if not self.fix_offsets or all(_fits(entity, text) for entity in said):
            return said
        name, convert = _reading(said, text)
        if convert is None:
            return said
        problems.note(f"offsets count {name}, converted", path, 1)
        return [convert(entity) for entity in said]

    def _entity(self, said: _Said, text: str, path: Path, problems: Problems) -> Entity:
        name = shown(said.id).strip('"')
        for start, end in said.parts:
            if not 0 <= start < end:
                raise DataError(path, said.line, f"{name} goes from {start} to {end}", "0 ≤ start < end")
        start, end = min(first for first, _ in said.parts), max(last for _, last in said.parts)
        if not _fits(said, text):
            place = nearest_place(text, said.words or "", start)
            near = place is not None and abs(place - start) <= REACH and len(said.parts) == 1
            if not (self.fix_offsets and near and place is not None):
                raise self._misplaced(said, text, path, place if near else None)
            problems.note("offsets repaired", path, said.line)
            start, end = place, place + len(said.words or "")
        if said.words is None:
            problems.note("entity without its words, offsets unchecked", path, said.line)
        if len(said.parts) > 1:
            problems.note("discontinuous entity, taken from first to last character", path, said.line)
        return Entity(said.id, said.type, start, end)

    def _misplaced(self, said: _Said, text: str, path: Path, place: int | None) -> DataError:
        name, (start, end) = shown(said.id).strip('"'), said.parts[0]
        if said.words is None:
            return DataError(path, said.line, f"{name} ends at {end}, the note has {len(text)} characters")
        what = f"{name} says {len(said.words)} characters, text[{start}:{end}] differs"
        if self.show_text:
            what = f'{name} says "{said.words}", text[{start}:{end}] is "{text[start:end]}"'
        how, convert = _reading([said], text)
        if place == start:
            how = f"its words end at {start + len(said.words)}"
        elif place is not None and abs(place - start) < 3:
            how = f"offsets look shifted by {('one', 'two')[abs(place - start) - 1]}"
        elif convert is not None:
            how = f"offsets look as if they count {how}"
        elif place is not None:
            how = f"offsets look shifted by {abs(place - start)}"
        else:
            return DataError(
                path, said.line, what, "its words are nowhere near; is the .txt the one that was annotated?"
            )
        return DataError(path, said.line, what, f"{how}; try fix_offsets = true")


def _squeezed(text: str) -> str:
    """BRAT writes a line break within an entity as a blank."""
    return re.sub(r"\s+", " ", text)


def _fits(said: _Said, text: str) -> bool:
    if not all(0 <= start < end <= len(text) for start, end in said.parts):
        return False
    found = " ".join(text[start:end] for start, end in said.parts)
    return said.words is None or _squeezed(found) == _squeezed(said.words)


def _reading(said: Sequence[_Said], text: str) -> tuple[str, Callable[[_Said], _Said] | None]:
    """The way of counting under which more entities fit than as they are, and what converts from it."""
    widths: dict[str, Callable[[str], int]] = {
        "no carriage returns": lambda char: char != "\r",
        "UTF-8 bytes": lambda char: len(char.encode("utf-8", "surrogatepass")),
        "UTF-16 units": lambda char: 1 + (char > "\uffff"),
    }
    best, name, chosen = sum(_fits(entity, text) for entity in said), "", None
    for unit, width in widths.items():
        offsets = [0, *accumulate(map(width, text))]

        def convert(entity: _Said, offsets: list[int] = offsets) -> _Said:
            parts = ((bisect_left(offsets, start), bisect_left(offsets, end)) for start, end in entity.parts)
            return replace(entity, parts=tuple(parts))

        fitting = sum(_fits(convert(entity), text) for entity in said)
        if fitting > best:
            best, name, chosen = fitting, unit, convert
    return name, chosen
