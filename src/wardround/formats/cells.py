"""The cells of a table's rows, and the sign that stands between them.

    delimiter_of(path, None, ("text", "label"))     # "," or, as Excel writes it in much of Europe, ";" or a tab
    for line, row in cells(path, ";", quoting=True, encoding=None, problems=problems): ...

A CSV file does not say which sign it has, but for a first line such as `sep=;`, so its first rows decide. A sign can be
it if it parts the first row; of several, it is the one by which the other rows have as many cells, or else the one by
which the first row has a name that is looked for. A file that could still be two tables is refused: a wrong guess would
cut notes into other cells.
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from wardround.text.reading import LONGEST_LINE, DataError, Problems, lines_with_ends, open_text

COMMA = ","
SIGNS = {COMMA: "commas", ";": "semicolons", "\t": "tabs"}
DECLARED = re.compile(r"sep=(.)\r?\n?")
ROWS = 0.8  # of a table's rows, at least, have as many cells as its first
LOOKED_AT, LINES = 200, 1000  # rows, and lines of which these may be made


def delimiter_of(path: Path, encoding: str | None, names: Collection[str], *, quoting: bool = True) -> str:
    """The sign between the cells of a CSV file; an error if it could be two."""
    able = delimiters(_readable(islice(lines_with_ends(path, encoding), LINES)), names, quoting=quoting)
    if len(able) > 1:
        what = f"{' and '.join(SIGNS[sign] for sign in able)} both part the first row into cells"
        remedy = f"say which of them it is: set delimiter = {' or '.join(map(_written, able))}"
        raise DataError(path, 1, what, remedy)
    return able[0] if able else COMMA


def _readable(lines: Iterable[str]) -> Iterator[str]:
    """Those before one that cannot be read, which whoever reads the table is told of."""
    with suppress(DataError):
        yield from lines


def delimiters(lines: Iterable[str], names: Collection[str], *, quoting: bool = True) -> Sequence[str]:
    """The signs that could stand between the cells of these lines, of which one column may have one of these names."""
    lines = iter(lines)
    first = next(lines, "")
    if declared := DECLARED.fullmatch(first):
        return declared[1]
    sample = [first, *lines]
    readings = {sign: rows_of(sample, sign, quoting=quoting) for sign in SIGNS}
    tables = {sign: rows for sign, rows in readings.items() if rows and len(rows[0]) > 1}
    even = [sign for sign, rows in tables.items() if is_even(rows)] or [*tables]
    known = {name.casefold() for name in names}
    named = [sign for sign in even if any(name.strip().casefold() in known for name in tables[sign][0])]
    return (named or even) if len(even) > 1 else even


def rows_of(lines: Iterable[str], sign: str, *, quoting: bool = True, strict: bool = True) -> list[list[str]]:
    """The rows that lines make if this sign parts their cells, up to what cannot be read."""
    if not quoting:
        return [line.rstrip("\r\n").split(sign) for line in lines if line.strip("\r\n")]
    rows = csv.reader(lines, delimiter=sign, strict=strict)
    made: list[list[str]] = []
    with suppress(csv.Error):
        made.extend(islice((row for row in rows if row), LOOKED_AT))
    return made


def is_even(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows are those of a table, and not sentences with commas; the last may be cut."""
    whole = rows[1:-1] or rows[1:]
    return bool(whole) and sum(len(row) == len(rows[0]) for row in whole) >= ROWS * len(whole)


def cells(
    path: Path, sign: str, *, quoting: bool, encoding: str | None, problems: Problems
) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row that is not empty, and the line in which it begins."""
    if not quoting:
        for line, text in enumerate(open_text(path, encoding, problems=problems), 1):
            if text and not (line == 1 and DECLARED.fullmatch(text)):
                yield line, text.split(sign)
        return
    # The module's own limit is 131,072 characters, and there is one for the whole process.
    csv.field_size_limit(LONGEST_LINE)
    lines = lines_with_ends(path, encoding, problems=problems)
    first = next(lines, "")
    reader = csv.reader(chain(["\n" if DECLARED.fullmatch(first) else first], lines), delimiter=sign, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            remedy = "double the quotes within quoted cells, or set quoting = false"
            raise DataError(path, line, f"unreadable row: {error}", remedy) from None
        if row is None:
            return
        if row:
            yield line, row


def _written(sign: str) -> str:
    """A sign as a study has it."""
    return '"\\t"' if sign == "\t" else f'"{sign}"'
