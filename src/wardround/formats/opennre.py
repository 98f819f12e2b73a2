"""Relation files as OpenNRE has them: a JSON object per line, or an array of them.

    {"text": "Aspirin gave her a rash .", "h": {"pos": [0, 7]}, "t": {"pos": [19, 23]}, "relation": "causes"}
    {"token": ["Aspirin", "gave", "her", "a", "rash"], "h": {"pos": [0, 1]}, "t": {"pos": [4, 5]}, "relation": "causes"}
    {"sentence": "Aspirin gave a rash .", "head": {"word": "Aspirin"}, "tail": {"word": "rash"}, "relation": "causes"}

Han et al., "OpenNRE", EMNLP 2019. With `text`, `pos` counts characters; with `token`, tokens, which are then joined by
blanks; ends are excluded in both. If both are there `text` counts, as in OpenNRE. `h` is `e1`, `t` is `e2`; their type
is `type` or, where there is none, `ENTITY`, and their `id` the concept that they name. A `name` that stands right
beside its `pos` is an error which `fix_offsets` repairs; one that is not there at all may be the knowledge base's, and
is counted. A pair that overlaps is skipped and counted. Each line may also have an `id`, a `source` and a `patient`.
The third way is that of OpenNRE's first versions and of BERE; without a `pos`, an entity is the first place where its
`word` (or `name`) stands as a whole word, and if there are several that is counted.

A bag is the sentences of one (h.id, relation, t.id), as in NYT10. Where there is no `id`, an `entity_pair` of the line
stands for both ends, as in the files that the authors of Lazy MIL made of MIRGENE; where there is neither, the `name`,
counted; a mention outside its text is then counted, too, and its sentence left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path

from wardround.formats.json_values import json_lines, string, whole
from wardround.formats.offsets import nearest_place
from wardround.formats.options import Options
from wardround.text.document import Document, Entity, Placed, overlap
from wardround.text.facts import sentence
from wardround.text.pairs import pair
from wardround.text.reading import DataError, Problems
from wardround.text.shown import own_source, unnamed

SHAPE = '{"text": …, "h": {"pos": [0, 7]}, "t": {"pos": [9, 12]}, "relation": …}'
NEAR = 3


class Outside(DataError):
    """A mention that is not in its text."""


def read_opennre(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The pairs of a file; with `concepts`, the sentences of bags."""
    for line, row in json_lines(path, options.encoding, problems, SHAPE):
        with problems.refusing():
            document = _document(row, path, line, problems, options)
            if document is not None:
                yield Placed(document, path, line)


def _document(
    row: Mapping[str, object], path: Path, line: int, problems: Problems, options: Options
) -> Document | None:
    row = _as_now(row)
    if not isinstance(row.get("h"), dict) and not isinstance(row.get("t"), dict):
        raise DataError(path, line, 'neither "h" nor "t"', SHAPE)
    place = _Place(*_text(row, path, line, problems), path, line, problems, options.fix_offsets)
    try:
        head, tail = (place.entity(row.get(end), end) for end in ("h", "t"))
    except Outside:
        if not options.concepts:
            raise
        problems.note("mention outside the text, sentence left out", path, line)
        return None
    label = string(row.get("relation"), "relation", path, line, problems)
    if not label.strip():
        raise DataError(path, line, "empty label", "label or remove the relation")
    if overlap(head, tail):
        problems.note("entities overlap, pair skipped", path, line)
        return None
    name = whole(str(row.get("id") or unnamed(path.name, line)))
    source, patient = (whole(str(row.get(key) or "")) for key in ("source", "patient"))
    if not options.concepts:
        return pair(name, place.text, head, tail, label, source=source, language=options.language, patient=patient)
    head, tail = (
        replace(entity, id=place.concept(row, entity, end), concepts=()) for entity, end in ((head, "h"), (tail, "t"))
    )
    source = source or own_source(name, path.name, line)
    return sentence(name, place.text, head, tail, label, source=source, language=options.language, patient=patient)


@dataclass(frozen=True)
class _Place:
    """A line's text, and where its tokens start and end if that is what positions count."""

    text: str
    starts: list[int] | None
    ends: list[int] | None
    path: Path
    line: int
    problems: Problems
    fix: bool

    def entity(self, value: object, end: str) -> Entity:
        """Head or tail, without an id."""
        text, path, line, problems = self.text, self.path, self.line, self.problems
        if not isinstance(value, dict):
            raise DataError(path, line, f'no "{end}"', SHAPE)
        first, last = self.named(value, end) or _pos(value.get("pos"), end, path, line)
        size, unit = (len(text), "characters") if self.starts is None else (len(self.starts), "tokens")
        if last > size:
            raise Outside(path, line, f"{end}.pos ends at {last}, but there are {size} {unit}", "ends are excluded")
        by_token = self.starts is not None and self.ends is not None
        start, stop = (self.starts[first], self.ends[last - 1]) if by_token else (first, last)  # type: ignore[index]
        if not text[start:stop].strip():
            raise Outside(path, line, f"{end}.pos covers blanks only", "0 ≤ start < end; the end is excluded")
        kind = string(value.get("type", "ENTITY"), f"{end}.type", path, line, problems) or "ENTITY"
        name = value.get("name")
        if isinstance(name, str) and name and _bare(name) != _bare(text[start:stop]):
            place = None if by_token else nearest_place(text.casefold(), name.casefold(), start)
            # Some letters grow when folded; then places in the folded text mean nothing.
            if place is None or abs(place - start) > NEAR or _bare(text[place : place + len(name)]) != _bare(name):
                problems.note("name differs from the words at pos", path, line)
            elif self.fix:
                problems.note("offsets repaired", path, line)
                start, stop = place, place + len(name)
            else:
                what = f"{end}.name stands at {place}, not at {end}.pos [{first}, {last}]"
                raise DataError(path, line, what, "offsets look shifted; try fix_offsets = true")
        concept = value.get("id")
        return Entity("", kind, start, stop, concepts=(whole(str(concept)),) if concept else ())

    def named(self, value: Mapping[str, object], end: str) -> tuple[int, int] | None:
        """Where the name of head or tail stands as a whole word, if there is one and no `pos`."""
        name = value.get("name")
        if "pos" in value or self.starts is not None or not isinstance(name, str) or not name.strip():
            return None
        matches = re.finditer(rf"(?<!\w){re.escape(name.strip())}(?!\w)", self.text)
        places = list(islice(matches, 2))
        if not places:
            raise Outside(self.path, self.line, f"{end}.name is not a word of the text", "add its place as pos")
        if len(places) > 1:
            self.problems.note("name occurs several times, the first taken", self.path, self.line)
        return places[0].span()

    def concept(self, row: Mapping[str, object], entity: Entity, end: str) -> str:
        """The public id of head or tail."""
        value = row[end]
        known = value if isinstance(value, dict) else {}
        if concept := known.get("id") or row.get("entity_pair"):
            return whole(str(concept))
        self.problems.note("entity without an id, its name stands for it", self.path, self.line)
        return whole(str(known.get("name") or self.text[entity.start : entity.end])).casefold()


def _as_now(row: Mapping[str, object]) -> Mapping[str, object]:
    """The line with today's names, where it has those of OpenNRE's first versions."""
    if "sentence" not in row or "head" not in row or "tail" not in row:
        return row
    ends = {now: row[before] for now, before in (("h", "head"), ("t", "tail"))}
    named = {
        end: {**value, "name": value.get("word", value.get("name"))} if isinstance(value, dict) else value
        for end, value in ends.items()
    }
    return {**row, "text": row["sentence"], **named}


def _bare(words: str) -> str:
    return "".join(words.casefold().split())


def _text(
    row: Mapping[str, object], path: Path, line: int, problems: Problems
) -> tuple[str, list[int] | None, list[int] | None]:
    """The text, and where its tokens start and end if that is what positions count."""
    if "text" in row or "token" not in row:
        text = string(row.get("text"), "text", path, line, problems)
        if not text.strip():
            raise DataError(path, line, "no text", "remove the line")
        return text, None, None
    tokens = row["token"]
    if not isinstance(tokens, list) or not tokens:
        raise DataError(path, line, '"token" is not a list of strings', SHAPE)
    words = [string(token, "token", path, line, problems) for token in tokens]
    starts = [0, *accumulate(len(word) + 1 for word in words)][:-1]
    return " ".join(words), starts, [start + len(word) for start, word in zip(starts, words, strict=True)]


def _pos(pos: object, end: str, path: Path, line: int) -> tuple[int, int]:
    if not isinstance(pos, list) or len(pos) != 2 or not all(type(part) is int for part in pos):
        raise DataError(path, line, f"{end}.pos is not two whole numbers", SHAPE)
    first, last = pos
    if not 0 <= first < last:
        raise Outside(path, line, f"{end}.pos [{first}, {last}] is not a span", "0 ≤ start < end; the end is excluded")
    return first, last
