"""What writers share: telling what a format cannot hold.

A writer is a context that gives a sink for documents; its file or folder takes its name only at the end, when all is
well. What the format has no place for is noted in `losses` by kind, with the place it was read from, so that it is
listed and never dropped in silence. Names within a file (ids of entities) may change; what annotators said may not.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wardround.core.files import fresh
from wardround.text.document import Document, Placed
from wardround.text.reading import LONGEST_LINE, DataError, Problems
from wardround.text.shown import unnamed

Sink = Callable[[Placed], object]


def lost(placed: Placed, losses: Problems, kind: str, count: int = 1) -> None:
    """So many of a kind have no place in the format."""
    for _ in range(count):
        losses.note(kind, placed.path, placed.line or 1)


def lost_fields(placed: Placed, losses: Problems, *fields: str) -> None:
    """The fields of a document that a format has no place for, if they hold something."""
    document = placed.document
    for field in fields:
        value = getattr(document, field)
        if field == "id":
            given = value != unnamed(placed.path.name, placed.line)  # else only the place where it was read
            lost(placed, losses, "id", int(given))
        else:
            lost(placed, losses, field, len(value) if isinstance(value, tuple) else int(bool(value)))


def one_word(name: str, placed: Placed, losses: Problems, what: str = "the name of a type") -> str:
    """A name as one word; blanks become `_`."""
    word = re.sub(r"\s+", "_", name)
    lost(placed, losses, f"blanks in {what}, written as _", int(word != name))
    return word


def flat(text: str, placed: Placed, losses: Problems) -> str:
    """A text on one line and in one cell: each line break or tab becomes a blank, so that offsets stay true."""
    line = re.sub(r"[\t\r\n]", " ", text)
    lost(placed, losses, "line breaks and tabs, written as blanks", int(line != text))
    return line


def repeatable(placed: Placed) -> Document:
    """The document, if its entities' words can be repeated: many that span a long text are more than memory holds."""
    document = placed.document
    if (
        sum(end - start for one in document.entities for start, end in one.parts or [(one.start, one.end)])
        > LONGEST_LINE
    ):
        what = f"entities of more than {LONGEST_LINE:,} characters together"
        raise DataError(placed.path, placed.line or 1, what, "cut the document into notes; do entities span all of it?")
    return document


class Named:
    """Names that were given, so that none is given twice."""

    def __init__(self, mark: str = "-") -> None:
        self.mark, self.given, self.last = mark, set[str](), dict[str, int]()

    def unique(self, name: str, *, fold: bool = False) -> str:
        """The name, with a number if it was given before; `fold` for places that do not tell capitals apart."""
        key = name.casefold() if fold else name
        free, number = key, self.last.get(key, 1)
        while free in self.given:
            number += 1
            free = f"{key}{self.mark}{number}"
        self.given.add(free)
        self.last[key] = number
        return name + free[len(key) :]


@contextmanager
def text_file(path: Path) -> Iterator[Callable[[str], object]]:
    """A function that writes text to a fresh file in UTF-8."""
    with fresh(path) as file:
        yield lambda text: file.write(text.encode())


@contextmanager
def json_file(path: Path, row: Callable[[Document], object]) -> Iterator[Sink]:
    """A sink that writes a line of JSON per document, as `row` has it."""
    with text_file(path) as write:
        yield lambda placed: write(json.dumps(row(placed.document), ensure_ascii=False) + "\n")
