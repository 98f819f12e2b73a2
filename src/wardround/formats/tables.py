"""Labelled texts from CSV, TSV and JSONL files.

    table = Table(files={"train": Path("train.csv")}, format="csv", text="note", label="department")
    for document in table.documents("train"): ...

A column is a name from the header (JSONL: a key), or a number counted from 1. Several labels per text come
as a list (JSONL), as one cell with a `separator`, or as `flags`: columns of 0 and 1 that name the label.
Rows without text are skipped and counted; repeated texts and ids are counted and kept.
A column `source` or `language` is used if there is one.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from wardround.formats.options import Options
from wardround.formats.spreadsheet import guarded, plain
from wardround.formats.writing import Sink, flat, lost, lost_fields, text_file
from wardround.text.document import Document, Placed
from wardround.text.reading import (
    LONGEST_LINE,
    DataError,
    Problems,
    digest,
    lines_with_ends,
    nearest,
    one_of,
    open_text,
    parse_json,
)
from wardround.text.shown import names_of, shown

__all__ = ["Column", "Table", "read_csv", "read_tsv", "write_csv", "write_tsv"]

Column = str | int
Row = Mapping[str, object]
DELIMITERS = {"csv": ",", "tsv": "\t"}
FLAGS: dict[object, bool] = {"0": False, "1": True, 0: False, 1: True}
HEADER = ("id", "text", "label", "source", "language")
USUAL = {
    "text": ("text", "note_text", "note", "sentence", "content", "document", "report"),
    "label": ("label", "labels", "class", "category"),
}
"""Names under which columns are found if nobody names them."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One file per split, and which of its columns mean what."""

    files: Mapping[str, Path]
    format: Literal["csv", "tsv", "jsonl"]
    text: Column | tuple[Column, ...] = "text"
    """Several columns, such as a title and a body, are joined by line feeds."""
    label: Column | None = "label"
    flags: tuple[Column, ...] = ()
    """Columns of 0 and 1; they replace `label`."""
    separator: str = ""
    id: Column | None = None
    """Without it a column `id` is used if there is one, else file and line."""
    source: Column | None = None
    labels: tuple[str, ...] = ()
    """If given, any other label is an error."""
    header: bool = True
    quoting: bool | None = None
    """Whether quotes enclose cells; without it yes in CSV, no in TSV."""
    encoding: str | None = None
    language: str = ""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names under which files were given."""
        return tuple(self.files)

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The texts of one file, in its order."""
        return (row.document for row in self.placed(split, problems))

    def placed(self, split: str, problems: Problems | None = None) -> Iterator[Placed]:
        """The same texts with the lines where they stand."""
        found = Problems() if problems is None else problems
        path = self.files[one_of(split, self.splits)]
        texts, ids = set[bytes](), set[bytes]()
        for line, row in self._rows(path, found):
            try:
                document = self._document(row, path, line, found)
            except DataError as error:
                found.refuse(error)
                continue
            text = document.text
            if not text.strip():
                found.note("row without text, skipped", path, line)
                continue
            for kind, value, known in (("repeated text", text, texts), ("repeated id", document.id, ids)):
                if (mark := digest(value)) in known:
                    found.note(kind, path, line)
                known.add(mark)
            yield Placed(document, path, line)

    def _document(self, row: Row, path: Path, line: int, problems: Problems) -> Document:
        text = self._text(row, path, line, problems)
        return Document(
            id=self._optional(row, self.id, "id", path, line) or f"{path.name}:{line}",
            text=text,
            labels=self._labels(row, path, line) if text.strip() else (),
            source=self._optional(row, self.source, "source", path, line),
            language=self._optional(row, None, "language", path, line) or self.language,
        )

    def columns(self, split: str) -> list[str]:
        """The names in the first row."""
        path = self.files[one_of(split, self.splits)]
        return [name.strip() for name in next(self._cells(path, Problems()), (1, []))[1]]

    def _rows(self, path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
        if self.format == "jsonl":
            yield from self._objects(path, problems)
            return
        cells = self._cells(path, problems)
        first = next(cells, None)
        if first is None:
            raise DataError(path, None, "the file is empty", "give a file with at least a header or a row")
        start, names = first
        names = [name.strip() for name in names] if self.header else [str(n + 1) for n in range(len(names))]
        ours = tuple(names) == HEADER  # others' apostrophes are left alone
        wanted = [column for column in self._columns() if column is not None]
        if twice := [name for name in wanted if isinstance(name, str) and names.count(name) > 1]:
            raise DataError(path, start, f'column "{twice[0]}" stands twice', "rename one of them")
        numbered = {str(n): n - 1 for n in wanted if isinstance(n, int) and 0 < n <= len(names)}
        for column in wanted:
            self._cell(dict.fromkeys([*names, *numbered]), column, path, start)
        for line, row in cells if self.header else chain([first], cells):
            if len(row) != len(names):
                what = f"{len(row)} cells where the first row has {len(names)}"
                problems.refuse(DataError(path, line, what, "look for a stray delimiter, quote or line break"))
                continue
            values = [plain(cell) for cell in row] if ours else row
            yield line, dict(zip(names, values, strict=True)) | {n: values[at] for n, at in numbered.items()}

    def _columns(self) -> tuple[Column | None, ...]:
        texts = self.text if isinstance(self.text, tuple) else (self.text,)
        return (*texts, *(self.flags or (self.label,)), self.id, self.source)

    def _cells(self, path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
        quoting = self.format == "csv" if self.quoting is None else self.quoting
        delimiter = DELIMITERS[self.format]
        if not quoting:
            for line, text in enumerate(open_text(path, self.encoding, problems=problems), 1):
                if text:
                    yield line, text.split(delimiter)
            return
        # The module's own limit is 131,072 characters, and there is one for the whole process.
        csv.field_size_limit(LONGEST_LINE)
        lines = lines_with_ends(path, self.encoding, problems=problems)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
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

    def _objects(self, path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
        for line, text in enumerate(open_text(path, self.encoding, problems=problems), 1):
            if not text.strip():
                continue
            value = parse_json(text, path, line)
            if not isinstance(value, dict):
                raise DataError(path, line, f"a JSON {type(value).__name__}", 'write {"text": …, "label": …}')
            yield line, value

    def _cell(self, row: Row, column: Column, path: Path, line: int) -> object:
        if (name := str(column)) in row:
            return row[name]
        close = nearest(name, row)
        remedy = f'did you mean "{close}"?' if close else "name the column in [corpus], or set header = false"
        raise DataError(path, line, f'no column "{name}"', remedy)

    def _text(self, row: Row, path: Path, line: int, problems: Problems) -> str:
        columns = self.text if isinstance(self.text, tuple) else (self.text,)
        parts = []
        for column in columns:
            part = self._cell(row, column, path, line)
            if not isinstance(part, str):
                raise DataError(path, line, f'"{column}" is a {type(part).__name__}', "it must be a string")
            parts.append(part)
        # JSON can spell half a character pair (a cut emoji), which no encoding can write.
        text, halves = re.subn("[\ud800-\udfff]", "\ufffd", "\n".join(parts))
        if halves:
            problems.note("half a character, replaced by U+FFFD", path, line)
        return text

    def _optional(self, row: Row, column: Column | None, usual: str, path: Path, line: int) -> str:
        if column is None and usual not in row:
            return ""
        value = self._cell(row, usual if column is None else column, path, line)
        return "" if value is None else str(value)

    def _labels(self, row: Row, path: Path, line: int) -> tuple[str, ...]:
        if self.flags:
            return tuple(str(column) for column in self.flags if self._flag(row, column, path, line))
        if self.label is None:
            return ()
        value = self._cell(row, self.label, path, line)
        if isinstance(value, str):
            parts: list[object] = [*value.split(self.separator)] if self.separator else [value]
            if self.separator and not value.strip():
                return ()
        else:
            parts = value if isinstance(value, list) else [value]
        return tuple(self._label(part, path, line) for part in parts)

    def _names(self, path: Path) -> frozenset[str]:
        """Those of a file's labels that may be shown; it is read once more, at the end of all reading."""
        counts, bare = Counter[str](), replace(self, labels=(), files={"all": path})
        with suppress(DataError):
            for document in bare.documents("all"):
                counts.update(document.labels)
        return names_of(counts)

    def _flag(self, row: Row, column: Column, path: Path, line: int) -> bool:
        value = self._cell(row, column, path, line)
        if not isinstance(value, str | int) or value not in FLAGS:
            raise DataError(path, line, f'flag "{column}" is neither 0 nor 1', "is it a flag column?")
        return FLAGS[value]

    def _label(self, value: object, path: Path, line: int) -> str:
        if not isinstance(value, str | int):
            raise DataError(path, line, f"label is a {type(value).__name__}", "use a string or a list of them")
        label = str(int(value) if isinstance(value, bool) else value).strip()
        if not label:
            raise DataError(path, line, "empty label", "label or remove the row")
        if self.labels and label not in self.labels:
            close = nearest(label, self.labels)
            remedy = f'did you mean "{close}"?' if close else f"known are {len(self.labels)} others; add or map it"
            raise DataError(path, line, f"unknown label {shown(label, self._names(path))}", remedy)
        return label


def read_csv(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The rows of a CSV file, its columns as named or by their usual names."""
    return _read(path, problems, options, "csv")


def read_tsv(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The same with tabs."""
    return _read(path, problems, options, "tsv")


def _read(path: Path, problems: Problems, options: Options, form: Literal["csv", "tsv"]) -> Iterator[Placed]:
    names = Table(files={"all": path}, format=form, encoding=options.encoding).columns("all")
    wishes = (options.text, options.label, options.id, options.source)
    if any(name.isdecimal() and name not in names for name in wishes):
        return _numbered(path, problems, options, form, names)
    folded = {name.casefold(): name for name in reversed(names)}
    text, label = (
        getattr(options, column) or next((folded[usual] for usual in USUAL[column] if usual in folded), "")
        for column in ("text", "label")
    )
    table = Table(
        files={"all": path},
        format=form,
        text=text or "text",
        label=(label or None) if options.labelled else None,
        separator=options.separator,
        id=options.id or folded.get("id"),
        source=options.source or folded.get("source"),
        encoding=options.encoding,
        language=options.language,
    )
    return table.placed("all", problems)


def _numbered(
    path: Path, problems: Problems, options: Options, form: Literal["csv", "tsv"], names: list[str]
) -> Iterator[Placed]:
    """The rows of a table whose columns are named by number; without a header, unless a name says that it has one."""

    def column(name: str) -> Column | None:
        return int(name) if name.isdecimal() and name not in names else name or None

    wishes = (options.text, options.label, options.id, options.source)
    table = Table(
        files={"all": path},
        format=form,
        text=column(options.text) or "text",
        label=column(options.label) if options.labelled else None,
        id=column(options.id),
        source=column(options.source),
        separator=options.separator,
        header=any(name in names for name in wishes) or _usual(names),
        encoding=options.encoding,
        language=options.language,
    )
    return table.placed("all", problems)


def _usual(names: list[str]) -> bool:
    """Whether a first row is a header: it has a usual name."""
    known = {name for usual in USUAL.values() for name in usual} | set(HEADER)
    return any(name.casefold() in known for name in names)


@contextmanager
def write_csv(path: Path, losses: Problems, options: Options) -> Iterator[Sink]:
    """A row per document, quoted as RFC 4180 has it."""
    with text_file(path) as write:

        def row(*cells: str) -> None:
            line = io.StringIO(newline="")
            csv.writer(line, lineterminator="\r\n").writerow(map(guarded, cells))
            write(line.getvalue())

        def sink(placed: Placed) -> None:
            row(*_cells(placed, losses, options))

        row(*HEADER)
        yield sink


@contextmanager
def write_tsv(path: Path, losses: Problems, options: Options) -> Iterator[Sink]:
    """A line per document, without quotes, so that no cell can hold a tab or a line break."""
    with text_file(path) as write:

        def sink(placed: Placed) -> None:
            cells = (guarded(flat(cell, placed, losses)) for cell in _cells(placed, losses, options))
            write("\t".join(cells) + "\n")

        write("\t".join(HEADER) + "\n")
        yield sink


def _cells(placed: Placed, losses: Problems, options: Options) -> tuple[str, ...]:
    document = placed.document
    lost_fields(placed, losses, "entities", "relations")
    labels = document.labels
    if options.separator:
        lost(placed, losses, "label that holds the separator", sum(options.separator in label for label in labels))
    elif len(labels) > 1:
        lost(placed, losses, "second and further labels: give a separator", len(labels) - 1)
        labels = labels[:1]
    lost(placed, losses, "text without a letter", int(not document.text.strip()))
    return document.id, document.text, options.separator.join(labels), document.source, document.language
