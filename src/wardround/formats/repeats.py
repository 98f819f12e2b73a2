"""Which documents are about the same: those of one text, or of one pair where files have a line for each pair.

    texts = Texts[Placed]()
    texts.add(document, file, placed)
    for group in texts.groups(): ...
    for group in texts.by_text(): ...      # whatever pair of it they are

A text comes again with every other pair in it where documents are pairs by their format, or where all that a text has
are two entities and at most one relation each, and one file has it with several. Digests alone are held.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from wardround.text.document import Document
from wardround.text.pairs import is_pair
from wardround.text.reading import digest

T = TypeVar("T")
PAIR = 2  # entities


@dataclass(frozen=True, slots=True)
class _Row(Generic[T]):
    item: T
    file: Path
    places: bytes
    pair: bool
    """Whether it is one pair, and no text."""
    like_pair: bool
    """Whether it could be."""


class Texts(Generic[T]):
    """Documents by what they are about."""

    def __init__(self, mark: Callable[[str], bytes] = digest) -> None:
        self._mark = mark
        self._rows: dict[bytes, list[_Row[T]]] = {}
        self._related = False

    def add(self, document: Document, file: Path, item: T, *, pair: bool = False) -> None:
        """One more, which stands in this file; `pair` if its format has nothing but pairs."""
        self._related = self._related or bool(document.relations)
        like_pair = len(document.entities) == PAIR and len(document.relations) <= 1
        places = digest(repr([(one.start, one.end) for one in document.entities]))
        row = _Row(item, file, places, pair or is_pair(document), like_pair)
        self._rows.setdefault(self._mark(document.text), []).append(row)

    def by_text(self) -> Iterator[list[T]]:
        """Those of one text: another pair of a sentence that was learnt from gives it away as well."""
        return ([row.item for row in rows] for rows in self._rows.values())

    def groups(self, *, pairs: bool | None = None) -> Iterator[list[T]]:
        """Those about the same, in the order in which they came; `pairs` if it is known whether they are meant."""
        for rows in self._rows.values():
            whole = [row for row in rows if not row.pair]
            apart = self._are_pairs(whole, pairs)
            groups: dict[bytes, list[T]] = {}
            for row in rows:  # what has nothing but a pair is about that pair, beside whatever
                groups.setdefault(row.places if row.pair or apart else b"", []).append(row.item)
            yield from groups.values()

    def _are_pairs(self, rows: list[_Row[T]], wanted: bool | None) -> bool:
        if len(rows) == 1 or all(row.pair for row in rows):
            return True
        if wanted is not None or not self._related or not all(row.like_pair for row in rows):
            return wanted is True and all(row.like_pair for row in rows)
        return len({(row.file, row.places) for row in rows}) > len({row.file for row in rows})
