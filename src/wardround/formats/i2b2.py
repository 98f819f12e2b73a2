"""The 2010 i2b2/VA challenge: problems, tests and treatments in notes, and how they relate within a line.

Uzuner et al., JAMIA 2011; the notes need an agreement with their owners (n2c2). A `.txt` has a sentence per line and
blanks between tokens, a `.con` the concepts, a `.rel` the relations; lines count from 1, tokens from 0, ends included:

    c="aspirin" 3:0 3:0||t="treatment"
    c="aspirin" 3:0 3:0||r="TrCP"||c="a rash" 3:3 3:4

The three may lie in one folder or in three beside each other (`txt`, `concept`, `rel`), and a note is its own source.
The pairs are treatment and problem, test and problem, and two problems, in this order; of two problems the first in the
line is the head. Pairs of a line without a relation are `none`. Notes without `.con` or `.rel` are skipped and counted,
for their pairs would all seem unrelated; so is a concept that goes over a line's end. Where there is an `.ast`, whose
lines end in `||a="absent"`, its concepts have the attribute `assertion`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from wardround.formats.options import Options
from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems, files_under, open_text

CONCEPT = r'c="(.*)" (\d{1,9}):(\d{1,9}) (\d{1,9}):(\d{1,9})'
CON = re.compile(rf'{CONCEPT}\|\|t="([^"]*)"\s*')
REL = re.compile(rf'{CONCEPT}\|\|r="([^"]*)"\|\|{CONCEPT}\s*')
AST = re.compile(rf'{CONCEPT}\|\|t="[^"]*"\|\|a="([^"]*)"\s*')
TOKEN = re.compile(r"[^ \t]+")
PAIRS = (("treatment", "problem"), ("test", "problem"), ("problem", "problem"))
"""The types of head and tail that the challenge relates."""
LABELS = ("TrIP", "TrWP", "TrCP", "TrAP", "TrNAP", "TeRP", "TeCP", "PIP", "none")

Place = tuple[int, int, int]
"""Line, first and last token."""


def read_i2b2(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The notes under a folder; a note's name without ending is its id."""
    texts = files_under(path, ".txt")
    if not texts:
        raise DataError(path, None, "no .txt file in this folder", "name the folder that holds txt, concept and rel")
    beside = {kind: _by_name(path, kind) for kind in (".con", ".rel", ".ast")}
    for text in texts:
        with problems.refusing():
            concepts, relations, assertions = (_partner(text, named) for named in beside.values())
            if concepts is None or relations is None:
                problems.note(f"note without {'.con' if concepts is None else '.rel'}, skipped", text, 1)
                continue
            lines = list(open_text(text, options.encoding, problems=problems))
            entities: dict[Place, Entity | None] = {}
            for number, place, entity in _concepts(concepts, lines, problems, options.encoding):
                if entity is not None and entities.get(place):
                    problems.note("concept occurs twice, the first taken", concepts, number)
                elif entity is not None or place not in entities:
                    entities[place] = entity
            if assertions is not None:
                entities.update(_asserted(assertions, entities, problems, options.encoding))
            listed = dict(_relations(relations, entities, problems, options.encoding))
            document = Document(
                id=text.stem,
                text="\n".join(lines),
                entities=tuple(filter(None, entities.values())),
                relations=tuple(listed.values()),
                language=options.language,
            )
            yield Placed(document, text, 0, related=[(relations, line) for line in listed])


def _concepts(
    path: Path, lines: list[str], problems: Problems, encoding: str | None
) -> Iterator[tuple[int, Place, Entity | None]]:
    """Line, place and entity of each concept; no entity if the concept goes over a line's end."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for number, row in _rows(path, CON, 'write c="…" 3:0 3:1||t="problem"', problems, encoding):
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


def _asserted(
    path: Path, entities: Mapping[Place, Entity | None], problems: Problems, encoding: str | None
) -> Iterator[tuple[Place, Entity]]:
    """Place and entity of each concept of which something is asserted."""
    for number, row in _rows(path, AST, 'write c="…" 3:0 3:1||t="problem"||a="present"', problems, encoding):
        place = _known(row, 2, entities, path, number)
        if entity := entities[place]:
            yield place, replace(entity, attributes=(Attribute("assertion", row[6]),))


def _known(row: re.Match[str], at: int, entities: Mapping[Place, Entity | None], path: Path, number: int) -> Place:
    """The place that a line names, if the .con has a concept there."""
    place = line, start, end = int(row[at]), int(row[at + 1]), int(row[at + 3])
    if place not in entities:
        what = f"no concept at {line}:{start} {line}:{end} in the .con"
        raise DataError(path, number, what, "add the concept or remove the line")
    return place


def _relations(
    path: Path, entities: Mapping[Place, Entity | None], problems: Problems, encoding: str | None
) -> Iterator[tuple[int, Relation]]:
    """Line and relation."""
    for number, row in _rows(path, REL, 'write c="…" 3:0 3:1||r="TrAP"||c="…" 3:4 3:4', problems, encoding):
        head, tail = (entities[_known(row, at, entities, path, number)] for at in (2, 8))
        if head is None or tail is None:
            problems.note("relation of a concept over a line's end, left out", path, number)
            continue
        if (head.type, tail.type) not in PAIRS and (tail.type, head.type) in PAIRS:
            problems.note("problem named first, turned", path, number)
            head, tail = tail, head
        yield number, Relation(row[6], head.id, tail.id)


def _rows(
    path: Path, shape: re.Pattern[str], remedy: str, problems: Problems, encoding: str | None
) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(open_text(path, encoding, problems=problems), 1):
        if not line.strip():
            continue
        row = shape.fullmatch(line)
        if row is None:
            raise DataError(path, number, f"not a line of a {path.suffix} file", remedy)
        yield number, row


def _bare(words: str) -> str:
    return " ".join(words.casefold().split())


def _by_name(folder: Path, kind: str) -> dict[str, list[Path]]:
    named: dict[str, list[Path]] = {}
    for path in files_under(folder, kind):
        named.setdefault(path.stem, []).append(path)
    return named


def _partner(text: Path, named: Mapping[str, list[Path]]) -> Path | None:
    """The file of the same name that lies nearest: hospitals may have used the same names."""
    near = [
        path
        for path in named.get(text.stem, [])
        if path.parent == text.parent or path.parent.parent == text.parent.parent
    ] or named.get(text.stem, [])
    if len(near) > 1:
        raise DataError(near[1], None, f"a second {near[1].name}, as good for {text.name}", "one folder per hospital")
    return near[0] if near else None
