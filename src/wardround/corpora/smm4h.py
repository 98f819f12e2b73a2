"""SMM4H's extraction task as its organisers publish it: tweets with adverse reactions, tab-separated.

    SMM4H(path="smm4h/task2.tsv")

    tweet_id<tab>begin<tab>end<tab>type<tab>extraction<tab>drug<tab>tweet<tab>meddra_code<tab>meddra_term

Weissenbacher et al., SMM4H 2019 (by agreement: not ours to ship). A row per reaction, or one row with `-` as offsets
for a tweet without any; a header is optional. All rows of a tweet become one document. The drug is named, not placed:
its occurrences in the tweet, capitals aside and as whole words, become entities of type Drug; where there is none,
that is counted. Words that do not stand at their offsets are looked for nearby, and counted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wardround.corpora.halved import Halved
from wardround.formats.offsets import nearest_place
from wardround.text.document import Document, Entity
from wardround.text.reading import DataError, Problems, existing_path, open_text

COLUMNS = "tweet_id, begin, end, type, extraction, drug, tweet"
NONE = ("", "-")


@dataclass(frozen=True, kw_only=True)
class SMM4H(Halved):
    """One document per tweet."""

    types: ClassVar[tuple[str, ...]] = ("ADE", "Drug")
    language: ClassVar[str] = "en"
    path: str = "$WARDROUND_DATA/smm4h/task2.tsv"
    """The file with the corpus; the variable is that of the environment."""
    encoding: str | None = None
    """Of the file, if it is not UTF-8."""
    folder: str = ""
    """Where a relative path starts; a study fills in its own folder."""

    def whole(self, problems: Problems) -> Iterator[Document]:
        """Every tweet."""
        path = existing_path(self.path, self.folder)
        texts: dict[str, str] = {}
        spans_of: dict[str, dict[tuple[str, int, int], None]] = {}
        for line, row in enumerate(open_text(path, self.encoding, problems=problems), 1):
            cells = [cell.strip("\r") for cell in row.split("\t")]
            if not row.strip() or (line == 1 and cells[0].casefold() == "tweet_id"):
                continue
            if len(cells) < 7:
                raise DataError(path, line, f"{len(cells)} columns, at least 7 are needed", COLUMNS)
            name, begin, end, _, words, drug, text = cells[:7]
            if not text.strip():
                problems.note("row without text, skipped", path, line)
                continue
            if texts.setdefault(name, text) != text:
                raise DataError(path, line, "two texts for one tweet_id", "give each tweet an id of its own")
            mine = spans_of.setdefault(name, {})
            if begin not in NONE:
                mine["ADE", *_placed(text, words, begin, end, path, line, problems)] = None
            if drug not in NONE:
                places = list(re.finditer(rf"(?<!\w){re.escape(drug)}(?!\w)", text, re.IGNORECASE))
                mine |= {("Drug", place.start(), place.end()): None for place in places}
                if not places:
                    problems.note("drug not in its tweet by this name", path, line)
        for name, text in texts.items():
            spans = sorted(spans_of[name], key=lambda span: span[1:])
            entities = tuple(Entity(f"T{number}", *span) for number, span in enumerate(spans, 1))
            yield Document(name, text, entities=entities, source=name, language="en")


def _placed(text: str, words: str, begin: str, end: str, path: Path, line: int, problems: Problems) -> tuple[int, int]:
    try:
        start, stop = int(begin), int(end)
    except ValueError:
        raise DataError(path, line, "an offset that is not a whole number", COLUMNS) from None
    if 0 <= start < stop <= len(text) and text[start:stop].casefold() == words.casefold():
        return start, stop
    place = nearest_place(text.casefold(), words.casefold(), start) if words else None
    if place is None or len(text) != len(text.casefold()):
        raise DataError(
            path, line, f"its words are not in the tweet, near {start} or elsewhere", "repair or remove the row"
        )
    problems.note("offsets repaired", path, line)
    return place, place + len(words)
