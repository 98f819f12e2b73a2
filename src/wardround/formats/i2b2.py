"""The 2010 i2b2/VA challenge: problems, tests and treatments in notes, and how they relate within a line.

    I2B2(train="i2b2/train", test="i2b2/test")

Uzuner et al., JAMIA 2011; the notes need an agreement with their owners (n2c2). A `.txt` has a sentence per line and
blanks between tokens, a `.con` the concepts, a `.rel` the relations; lines count from 1, tokens from 0, ends included:

    c="aspirin" 3:0 3:0||t="treatment"
    c="aspirin" 3:0 3:0||r="TrCP"||c="a rash" 3:3 3:4

The three may lie in one folder or in three beside each other (`txt`, `concept`, `rel`). The pairs are treatment and
problem, test and problem, and two problems, in this order; of two problems the first in the line is the head. Pairs
of a line without a relation are `none`. Notes without `.con` or `.rel` are skipped and counted, for their pairs would
all seem unrelated; so is a concept that goes over a line's end.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

from wardround.corpora.pair_files import NoteFiles
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems, files_under, open_text
from wardround.text.sentences import Scope

__all__ = ["I2B2"]

CONCEPT = r'c="(.*)" (\d{1,9}):(\d{1,9}) (\d{1,9}):(\d{1,9})'
CON = re.compile(rf'{CONCEPT}\|\|t="([^"]*)"\s*')
REL = re.compile(rf'{CONCEPT}\|\|r="([^"]*)"\|\|{CONCEPT}\s*')
TOKEN = re.compile(r"[^ \t]+")
LABELS = ("TrIP", "TrWP", "TrCP", "TrAP", "TrNAP", "TeRP", "TeCP", "PIP", "none")

Place = tuple[int, int, int]
"""Line, first and last token."""


@dataclass(frozen=True, kw_only=True)
class I2B2(NoteFiles):
    """One folder per split; a note's name without ending is its id."""

    sources_are_files: ClassVar[bool] = True
    labels: tuple[str, ...] = LABELS
    pairs: tuple[tuple[str, str], ...] = (("treatment", "problem"), ("test", "problem"), ("problem", "problem"))
    scope: Scope = "line"
    both_ways: bool = False

    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]:
        folder = self.path(split)
        texts = files_under(folder, ".txt")
        if not texts:
            raise DataError(
                folder, None, "no .txt file in this folder", "name the folder that holds txt, concept and rel"
            )
        beside = {kind: _by_name(folder, kind) for kind in (".con", ".rel")}
        for path in texts:
            concepts, relations = (_partner(path, beside[kind]) for kind in (".con", ".rel"))
            if concepts is None or relations is None:
                problems.note(f"note without {'.con' if concepts is None else '.rel'}, skipped", path, 1)
                continue
            lines = list(open_text(path, self.encoding, problems=problems))
            starts = [0, *accumulate(len(line) + 1 for line in lines)]
            entities: dict[Place, Entity] = {}
            broken = set[Place]()
            for number, place, entity in self._concepts(concepts, lines, starts, problems):
                if entity is None:
                    broken.add(place)
                elif place in entities:
                    problems.note("concept stands twice, the first taken", concepts, number)
                else:
                    entities[place] = entity
            document = Document(
                id=path.stem,
                text="\n".join(lines),
                entities=tuple(entities.values()),
                relations=tuple(self._relations(relations, entities, broken, problems)),
                source=path.stem,
                language=self.language,
            )
            yield Placed(document, path, 0)

    def _concepts(
        self, path: Path, lines: list[str], starts: list[int], problems: Problems
    ) -> Iterator[tuple[int, Place, Entity | None]]:
        for number, row in self._rows_of(path, CON, 'write c="…" 3:0 3:1||t="problem"', problems):
            words, kind = row[1], row[6]
            first, start, last, end = map(int, row.groups()[1:5])
            if not 1 <= first <= last <= len(lines):
                what = f"lines {first} to {last}, but the note has {len(lines)}"
                raise DataError(path, number, what, "is the .txt the one that was annotated?")
            place = first, start, end
            if first != last:
                problems.note("concept over a line's end, left out", path, number)
                yield number, place, None
                continue
            tokens = list(TOKEN.finditer(lines[first - 1]))
            if not start <= end < len(tokens):
                what = f"tokens {start} to {end}, but line {first} has {len(tokens)}"
                raise DataError(path, number, what, "tokens count from 0, the last is included")
            left, right = tokens[start].start(), tokens[end].end()
            if _bare(lines[first - 1][left:right]) != _bare(words):
                what = f"its words are not tokens {start} to {end} of line {first}"
                raise DataError(path, number, what, "is the note tokenised as it was when annotated?")
            base = starts[first - 1]
            yield number, place, Entity(f"{first}.{start}.{end}", kind, base + left, base + right)

    def _relations(
        self, path: Path, entities: dict[Place, Entity], broken: set[Place], problems: Problems
    ) -> Iterator[Relation]:
        for number, row in self._rows_of(path, REL, 'write c="…" 3:0 3:1||r="TrAP"||c="…" 3:4 3:4', problems):
            places = [(int(row[at]), int(row[at + 1]), int(row[at + 3])) for at in (2, 8)]
            if any(place in broken for place in places):
                problems.note("relation of a concept over a line's end, left out", path, number)
                continue
            for line, start, end in places:
                if (line, start, end) not in entities:
                    what = f"no concept at {line}:{start} {line}:{end} in the .con"
                    raise DataError(path, number, what, "add the concept or remove the relation")
            head, tail = (entities[place] for place in places)
            if (head.type, tail.type) not in self.pairs and (tail.type, head.type) in self.pairs:
                problems.note("problem named first, turned", path, number)
                head, tail = tail, head
            yield Relation(self._label(row[6], path, number), head.id, tail.id)

    def _rows_of(
        self, path: Path, shape: re.Pattern[str], remedy: str, problems: Problems
    ) -> Iterator[tuple[int, re.Match[str]]]:
        for number, line in enumerate(open_text(path, self.encoding, problems=problems), 1):
            if not line.strip():
                continue
            row = shape.fullmatch(line)
            if row is None:
                raise DataError(path, number, f"not a line of a {path.suffix} file", remedy)
            yield number, row


def _bare(words: str) -> str:
    return " ".join(words.casefold().split())


def _by_name(folder: Path, kind: str) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in files_under(folder, kind):
        found.setdefault(path.stem, []).append(path)
    return found


def _partner(text: Path, found: dict[str, list[Path]]) -> Path | None:
    """The file of the same name that lies nearest: hospitals may have used the same names."""
    near = [
        path
        for path in found.get(text.stem, [])
        if path.parent == text.parent or path.parent.parent == text.parent.parent
    ] or found.get(text.stem, [])
    if len(near) > 1:
        raise DataError(near[1], None, f"a second {near[1].name}, as good for {text.name}", "one folder per hospital")
    return near[0] if near else None
