"""Relation files as OpenNRE has them: a JSON object per line.

    {"text": "Aspirin gave her a rash .", "h": {"pos": [0, 7]}, "t": {"pos": [19, 23]}, "relation": "causes"}
    {"token": ["Aspirin", "gave", "her", "a", "rash"], "h": {"pos": [0, 1]}, "t": {"pos": [4, 5]}, "relation": "causes"}

Han et al., "OpenNRE", EMNLP 2019. With `text`, `pos` counts characters; with `token`, tokens, which are then joined by
blanks; ends are excluded in both. If both are there `text` counts, as in OpenNRE. `h` is `e1`, `t` is `e2`; their type
is `type` or, where there is none, `ENTITY`. A `name` that stands right beside its `pos` is an error which
`fix_offsets` repairs; one that is not there at all may be the knowledge base's, and is counted. A pair that overlaps
is skipped and counted. Each line may also have an `id` and a `source`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from wardround.corpora.pair_files import PairFiles
from wardround.formats.json_values import json_lines, string
from wardround.formats.offsets import nearest_place
from wardround.text.document import Entity, Placed, overlap
from wardround.text.pairs import pair
from wardround.text.reading import DataError, Problems

__all__ = ["OpenNRE"]

SHAPE = '{"text": …, "h": {"pos": [0, 7]}, "t": {"pos": [9, 12]}, "relation": …}'
NEAR = 3


class Outside(DataError):
    """A mention that is not in its text."""


@dataclass(frozen=True, kw_only=True)
class OpenNRE(PairFiles):
    """One file per split."""

    fix_offsets: bool = False

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        return (made for made, _ in self.rows(split, problems))

    def rows(
        self, split: str, problems: Problems, *, lenient: bool = False
    ) -> Iterator[tuple[Placed, Mapping[str, object]]]:
        """The pairs of one file, each with its object; `lenient` counts mentions outside the text and goes on."""
        path = self.path(split)
        for line, row in json_lines(path, self.encoding, problems, SHAPE):
            if not isinstance(row.get("h"), dict) and not isinstance(row.get("t"), dict):
                raise DataError(path, line, 'neither "h" nor "t"', SHAPE)
            text, starts, ends = _text(row, path, line, problems)
            try:
                head, tail = (self._span(row, end, text, starts, ends, path, line, problems) for end in ("h", "t"))
            except Outside:
                if not lenient:
                    raise
                problems.note("mention outside the text, sentence left out", path, line)
                continue
            label = self._label(string(row.get("relation"), "relation", path, line, problems), path, line)
            if overlap(head, tail):
                problems.note("entities overlap, pair skipped", path, line)
                continue
            name = str(row.get("id") or f"{path.name}:{line}")
            source = str(row.get("source") or "")
            made = pair(name, text, head, tail, label, source=source, language=self.language)
            yield Placed(made, path, line), row

    def _span(
        self, row: Mapping[str, object], end: str, text: str, starts: list[int] | None, ends: list[int] | None,
        path: Path, line: int, problems: Problems,
    ) -> Entity:  # fmt: skip
        entity = row.get(end)
        if not isinstance(entity, dict):
            raise DataError(path, line, f'no "{end}"', SHAPE)
        first, last = _pos(entity.get("pos"), end, path, line)
        size, unit = (len(text), "characters") if starts is None else (len(starts), "tokens")
        if last > size:
            raise Outside(path, line, f"{end}.pos ends at {last}, but there are {size} {unit}", "ends are excluded")
        start, stop = (first, last) if starts is None or ends is None else (starts[first], ends[last - 1])
        if not text[start:stop].strip():
            raise Outside(path, line, f"{end}.pos covers blanks only", "0 ≤ start < end; the end is excluded")
        kind = string(entity.get("type", "ENTITY"), f"{end}.type", path, line, problems) or "ENTITY"
        name = entity.get("name")
        if isinstance(name, str) and name and _bare(name) != _bare(text[start:stop]):
            place = nearest_place(text.casefold(), name.casefold(), start) if starts is None else None
            # Some letters grow when folded; then places in the folded text mean nothing.
            if place is None or abs(place - start) > NEAR or _bare(text[place : place + len(name)]) != _bare(name):
                problems.note("name differs from the words at pos", path, line)
            elif self.fix_offsets:
                problems.note("offsets repaired", path, line)
                start, stop = place, place + len(name)
            else:
                what = f"{end}.name stands at {place}, not at {end}.pos [{first}, {last}]"
                raise DataError(path, line, what, "offsets look shifted; try fix_offsets = true")
        return Entity("", kind, start, stop)


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
        raise Outside(path, line, f"{end}.pos [{first}, {last}] is no span", "0 ≤ start < end; the end is excluded")
    return first, last
