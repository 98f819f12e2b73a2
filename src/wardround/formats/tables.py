"""Labelled texts from CSV and TSV files.

    table = Table(files={"train": Path("train.csv")}, format="csv", text="note", label="department")
    for document in table.documents("train"): ...

A column is a name from the header, or a number counted from 1. Several labels per text come as one cell with a
`separator`, or as `flags`: columns of 0 and 1 that name the label. Rows without text are skipped and counted; repeated
ids are counted and kept.
What stands between the cells of CSV shows in its first rows (`formats.cells`).
A column `source`, `patient` or `language` is used if there is one.
"""

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from wardround.formats.cells import COMMA, SIGNS, cells, delimiter_of
from wardround.formats.details import lost_confidence
from wardround.formats.header import HEADER, KNOWN, LOOKED_AT, has_usual, headed, missing, usual_columns
from wardround.formats.options import Column, Options
from wardround.formats.spreadsheet import guarded, plain
from wardround.formats.writing import Sink, flat, lost, lost_fields, text_file
from wardround.text.document import Document, Placed
from wardround.text.reading import (
    DataError,
    Problems,
    digest,
    nearest,
    one_of,
)
from wardround.text.shown import names_of, shown

Row = Mapping[str, str]
HEADED = "the first row looks like a header and is taken for one"
FLAGS: dict[object, bool] = {"0": False, "1": True, 0: False, 1: True}


@dataclass(frozen=True, kw_only=True)
class Table:
    """One file per split, and which of its columns mean what."""

    files: Mapping[str, Path]
    format: Literal["csv", "tsv"]
    text: Column | tuple[Column, ...] = "text"
    label: Column | None = "label"
    flags: tuple[Column, ...] = ()
    """Columns of 0 and 1; they replace `label`."""
    unlabelled: bool = False
    """Whether an empty label, where we have written the file, says that there is none."""
    separator: str = ""
    id: Column | None = None
    """Without it a column `id` is used if there is one, else file and line."""
    source: Column | None = None
    patient: Column | None = None
    labels: tuple[str, ...] = ()
    """If given, any other label is an error."""
    header: bool = True
    quoting: bool | None = None
    """Whether quotes enclose cells; without it yes in CSV, no in TSV."""
    delimiter: str | None = None
    """What stands between the cells of CSV; without it, what its first rows show."""
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
        problems = Problems() if problems is None else problems
        path = self.files[one_of(split, self.splits)]
        ids = set[bytes]()
        for line, row in self._rows(path, problems):
            try:
                document = self._document(row, path, line)
            except DataError as error:
                problems.refuse(error)
                continue
            if not document.text.strip():
                problems.note("row without text, skipped", path, line)
                continue
            if (mark := digest(document.id)) in ids:
                problems.note("repeated id", path, line)
            ids.add(mark)
            yield Placed(document, path, line)

    def _document(self, row: Row, path: Path, line: int) -> Document:
        columns = self.text if isinstance(self.text, tuple) else (self.text,)
        text = "\n".join(row[str(column)] for column in columns)
        return Document(
            id=_optional(row, self.id, "id") or f"{path.name}:{line}",
            text=text,
            labels=self._labels(row, path, line) if text.strip() else (),
            source=_optional(row, self.source, "source"),
            language=_optional(row, None, "language") or self.language,
            patient=_optional(row, self.patient, "patient"),
        )

    def columns(self, split: str) -> list[str]:
        """The names in the first row."""
        return next(self.rows(split), [])

    def rows(self, split: str) -> Iterator[list[str]]:
        """The cells of every row, the first one's too."""
        path = self.files[one_of(split, self.splits)]
        return ([cell.strip() for cell in row] for _, row in self._cells(path, Problems()))

    def unread(self, split: str) -> dict[str, Counter[str]]:
        """By name or number, the columns that nothing is read from, with what stands in the first rows of each."""
        path = self.files[one_of(split, self.splits)]
        usual = {"id": self.id, "source": self.source, "patient": self.patient, "language": None}
        read = {str(column) for column in self.wanted if column is not None}
        read |= {name for name, column in usual.items() if column is None}
        read |= {name for at, name in enumerate(self.columns(split), 1) if str(at) in read}
        values: dict[str, Counter[str]] = {}
        for _, row in islice(self._rows(path, Problems()), LOOKED_AT):
            for name, cell in row.items():
                if name not in read and cell.strip():
                    values.setdefault(name, Counter())[cell.strip()] += 1
        return values

    def _rows(self, path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
        cells = self._cells(path, problems)
        first = next(cells, None)
        if first is None:
            raise DataError(path, None, "the file is empty", "give a file with at least a header or a row")
        start, names = first
        names = [name.strip() for name in names] if self.header else [str(n + 1) for n in range(len(names))]
        ours = tuple(names) == HEADER  # others' apostrophes are left alone
        wanted = [column for column in self.wanted if column is not None]
        if twice := [name for name in wanted if isinstance(name, str) and names.count(name) > 1]:
            raise DataError(path, start, f'column "{twice[0]}" occurs twice', "rename one of them")
        numbered = {str(n): n - 1 for n in wanted if isinstance(n, int) and 0 < n <= len(names)}
        for column in wanted:
            if str(column) not in (*names, *numbered):
                meaning = next(
                    (one for one in ("label", "id", "source", "patient") if getattr(self, one) == column), ""
                )
                rows = [row for _, row in islice(cells, LOOKED_AT)]
                remedy = missing(column, meaning, names, rows, header=self.header, form=self.format)
                raise DataError(path, start, f'no column "{column}"', remedy)
        for line, row in cells if self.header else chain([first], cells):
            if len(row) != len(names):
                what = f"{len(row)} cells where the first row has {len(names)}"
                problems.refuse(DataError(path, line, what, "look for a stray delimiter, quote or line break"))
                continue
            values = [plain(cell) for cell in row] if ours else row
            yield line, dict(zip(names, values, strict=True)) | {n: values[at] for n, at in numbered.items()}

    @property
    def wanted(self) -> tuple[Column | None, ...]:
        """The columns that are read."""
        texts = self.text if isinstance(self.text, tuple) else (self.text,)
        return (*texts, *(self.flags or (self.label,)), self.id, self.source, self.patient)

    def _cells(self, path: Path, problems: Problems) -> Iterator[tuple[int, list[str]]]:
        quoting = self.format == "csv" if self.quoting is None else self.quoting
        return cells(path, self._sign(path, problems), quoting=quoting, encoding=self.encoding, problems=problems)

    def _sign(self, path: Path, problems: Problems) -> str:
        """What stands between the cells of a file, which is told if it is not what the format says."""
        if self.format == "tsv":
            return "\t"
        if not self.delimiter and not self.header and {*self.wanted} <= {1, None}:
            return COMMA  # a list of notes, whose own signs part no cells
        names = (*KNOWN, *map(str, self.wanted))
        sign = self.delimiter or delimiter_of(path, self.encoding, names, quoting=self.quoting is not False)
        if sign != COMMA:
            problems.note(f"{SIGNS.get(sign, 'other signs')} between cells instead of commas", path, 1)
        return sign

    def _labels(self, row: Row, path: Path, line: int) -> tuple[str, ...]:
        if self.flags:
            return tuple(str(name) for name in self.flags if flag(row[str(name)], name, path, line))
        if self.label is None:
            return ()
        cell = row[str(self.label)]
        if self.unlabelled and not cell.strip() and tuple(row) == HEADER:  # as we write notes without a label
            return ()
        if not self.separator:
            return (self._label(cell, path, line),)
        return tuple(self._label(part, path, line) for part in cell.split(self.separator) if cell.strip())

    def _names(self, path: Path) -> frozenset[str]:
        """Those of a file's labels that may be shown; it is read once more, at the end of all reading."""
        counts, bare = Counter[str](), replace(self, labels=(), files={"all": path})
        with suppress(DataError):
            for document in bare.documents("all"):
                counts.update(document.labels)
        return names_of(counts)

    def _label(self, cell: str, path: Path, line: int) -> str:
        label = cell.strip()
        if not label:
            raise DataError(path, line, "empty label", "label or remove the row")
        if self.labels and label not in self.labels:
            close = nearest(label, self.labels)
            remedy = f'did you mean "{close}"?' if close else f"known are {len(self.labels)} others; add or map it"
            raise DataError(path, line, f"unknown label {shown(label, self._names(path))}", remedy)
        return label


def _optional(row: Row, column: Column | None, usual: str) -> str:
    return "" if column is None and usual not in row else row[str(column or usual)]


def flag(value: object, name: Column, path: Path, line: int) -> bool:
    """Whether a column of 0 and 1, which names a label, says that the text has it."""
    if not isinstance(value, str | int) or value not in FLAGS:
        raise DataError(path, line, f'flag "{name}" is neither 0 nor 1', "is it a flag column?")
    return FLAGS[value]


def read_csv(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The rows of a CSV file, its columns as named or by their usual names."""
    return _read(path, problems, options, "csv")


def read_tsv(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The same with tabs."""
    return _read(path, problems, options, "tsv")


def _read(path: Path, problems: Problems, options: Options, form: Literal["csv", "tsv"]) -> Iterator[Placed]:
    table = table_of(path, options, form)
    if by_looks(table, options):
        problems.note(HEADED, path, 1)
    return table.placed("all", problems)


def by_looks(table: Table, options: Options) -> bool:
    """Whether a first row is taken for a header by its looks alone: then it may be a note, and is not shown."""
    return options.header is None and table.header and not _told(table.wanted, table.columns("all"))


def _told(wishes: Collection[Column | None], names: Collection[str]) -> bool:
    """Whether names say that the first row is a header: all columns are called by one, or it has one of these."""
    return not any(isinstance(name, int) for name in wishes) or not {*wishes}.isdisjoint(names) or has_usual(names)


def table_of(path: Path, options: Options, form: Literal["csv", "tsv"]) -> Table:
    """A file as a table, its columns as named or by their usual names."""
    bare = Table(files={"all": path}, format=form, quoting=options.quoting, encoding=options.encoding)
    if form == "csv":
        bare = replace(bare, delimiter=options.delimiter or _delimiter(path, options))
    names = bare.columns("all")
    usual = usual_columns(names)

    def column(name: Column) -> Column | None:
        """A column as it was named, or by its number."""
        number = isinstance(name, str) and name.isdecimal() and name not in names
        return int(name) if number else name or None

    texts = options.text if isinstance(options.text, tuple) else (options.text,)
    chosen = tuple(name for name in map(column, texts) if name is not None)
    label, id_, source, patient = map(column, (options.label, options.id, options.source, options.patient))
    wishes = {*chosen, *options.flags, label, id_, source, patient}
    header = options.header
    if header is None:
        header = _told(wishes, names) or headed(names, islice(bare.rows("all"), 1, LOOKED_AT))
    if header:
        chosen = chosen or tuple(filter(None, [usual.get("text")]))
        label, id_, source = label or usual.get("label"), id_ or usual.get("id"), source or usual.get("source")
        patient = patient or usual.get("patient")
    if "labels" in options.needs:
        label = label or "label"
    return replace(
        bare,
        text=chosen or "text",
        label=label if options.labelled else None,
        flags=options.flags if options.labelled else (),
        unlabelled="labels" not in options.needs,
        separator=options.separator,
        id=id_,
        source=source,
        patient=patient,
        header=header,
        language=options.language,
    )


def _delimiter(path: Path, options: Options) -> str:
    columns = (options.text, options.label, *options.flags, options.id, options.source, options.patient)
    texts = chain.from_iterable(one if isinstance(one, tuple) else (one,) for one in columns)
    return delimiter_of(path, options.encoding, (*KNOWN, *map(str, texts)), quoting=options.quoting is not False)


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
    lost_fields(placed, losses, "entities", "relations", "patient")
    lost_confidence(placed, losses, "labels")
    labels = document.labels
    if options.separator:
        lost(placed, losses, "label that holds the separator", sum(options.separator in label for label in labels))
    elif len(labels) > 1:
        lost(placed, losses, "second and further labels: give a separator", len(labels) - 1)
        labels = labels[:1]
    lost(placed, losses, "text without a letter", int(not document.text.strip()))
    return document.id, document.text, options.separator.join(labels), document.source, document.language
