"""A user's own files, whatever their format, as examples of what the task takes.

    [corpus]
    format = "brat"                 # jsonl, conll, i2b2, pubtator, bioc, bioc-json, label-studio, doccano, csv, …
    train = "notes/train"
    test = "notes/test"

The format says how documents are read (`wardround.formats`), and the task which *view* of them it takes: labels of
texts, entities in texts, pairs of entities, bags of sentences (`wardround.corpora.views`). Each split is a file or a
folder, or one per hospital:

    train = { north = "north/train.conll", south = "south/train.conll" }
    test = { north = "north/test.conll", south = "south/test.conll" }
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, Literal

from wardround.formats.options import VIEWS, Column, Options, View, text_twice
from wardround.formats.recognise import recognised
from wardround.formats.register import FORMATS, Format, misuses
from wardround.text.document import Document, Placed
from wardround.text.reading import DataError, Problems, existing_path, nearest, one_of
from wardround.text.shown import names_of, shown
from wardround.text.tags import Scheme


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files of one's own, and how they are read; each view adds what it makes of the documents."""

    view: ClassVar[View]
    wanted: ClassVar[Options] = Options()
    """What the view asks of every reader."""

    format: str
    """How the files are read: `csv`, `jsonl`, `conll`, `brat`, … (`wardround data check` recognises them)."""
    train: str | dict[str, str]
    """The file or folder of training texts, or one per hospital, by name."""
    test: str | dict[str, str]
    """The same of test texts."""
    valid: str | dict[str, str] | None = None
    """The same of validation texts."""
    text: Column | tuple[Column, ...] | None = None
    """The column or key of the text; several, such as a title and a body, are joined by line feeds."""
    label: Column | None = None
    """The column or key of the label; without it, one of the usual names."""
    id: Column | None = None
    """The column or key of a text's id; without it `id`, or else file and line."""
    source: Column | None = None
    """The column or key that says where a text comes from; sites can be cut along it."""
    patient: Column | None = None
    """The column or key that says whom a text is about: validation examples can be drawn by it."""
    flags: tuple[Column, ...] | None = None
    """Columns of 0 and 1 that name the labels; they replace `label`."""
    separator: str | None = None
    """What separates the labels of one cell."""
    header: bool | None = None
    """Whether a table's first row has names; without it yes, unless columns are numbers and it looks like any row."""
    quoting: bool | None = None
    """Whether quotes enclose cells; without it yes in CSV, no in TSV."""
    delimiter: str | None = None
    """What stands between the cells of CSV; without it a comma, a semicolon or a tab, as the first rows show."""
    token: int | None = None
    """The column of the token, from 1, or from the end: -1; without it the first."""
    tag: int | None = None
    """The column of the tag; without it the last."""
    scheme: Scheme | None = None
    """Only to count what breaks it; BIO and BIOES are read without it."""
    bare: str | None = None
    """The type of tags that name none."""
    tags: tuple[str, str] | None = None
    """What marks head and tail in MIRGENE's sentences."""
    fix_offsets: bool | None = None
    """Whether entities that are not at their offsets are moved to where their words stand nearby."""
    show_text: bool | None = None
    """Whether messages about offsets quote the note."""
    encoding: str | None = None
    """Of the files; without it UTF-8, unless a mark at their beginning says otherwise."""
    language: str = ""
    """What the texts are written in, such as `en` or `zh`; without it, what they seem to be in."""
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    def __post_init__(self) -> None:
        if wrong := misuses(self.format, {one.name: getattr(self, one.name) for one in fields(self)}):
            raise ValueError("; ".join(wrong))
        if twice := text_twice(self):
            raise ValueError(f"text and {twice} name the same column; a text is no {twice}")
        if self.view not in self.form.holds:
            able = [name for name, form in FORMATS.items() if self.view in form.holds and form.writes]
            remedy = (
                f"convert the files to {able[0] if 'jsonl' not in able else 'jsonl'} and add them"
                if able and self.form.holds
                else "it holds no annotation at all: use another"
            )
            raise ValueError(
                f"format = {self.format!r} has no place for {VIEWS[self.view]}, which the task takes; {remedy}"
            )

    @property
    def form(self) -> Format:
        """The format."""
        return FORMATS[self.format]

    @property
    def splits(self) -> tuple[str, ...]:
        """Those for which there are files."""
        return ("train", "valid", "test") if self.valid else ("train", "test")

    @property
    def sources_are_files(self) -> bool:
        """Whether a note that names no source is its own."""
        return bool(self.form.folder)

    def paths(self, split: str) -> dict[str, Path]:
        """The files or folders of a split, by hospital if they are."""
        named: str | dict[str, str] = getattr(self, one_of(split, self.splits))
        each = {"": named} if isinstance(named, str) else named
        return {source: existing_path(path, self.folder) for source, path in each.items()}

    def path(self, split: str) -> Path:
        """One of them, for a message about all."""
        return next(iter(self.paths(split).values()))

    def placed(self, split: str, problems: Problems) -> Iterator[Placed]:
        """The documents of a split as the files have them, each with its place and its source."""
        chosen = {name: value for name in self.form.options if (value := getattr(self, name)) is not None}
        options = replace(self.wanted, encoding=self.encoding, language=self.language, **chosen)
        for hospital, path in self.paths(split).items():
            for file, form in recognised(path, self.format, self.encoding, problems):
                for row in form.read(file, problems, options):
                    document = row.document
                    source = hospital or document.source or (document.id if form.folder else "")
                    whole = replace(document, source=source, language=document.language or self.language)
                    yield row._replace(document=whole)

    def renamed(
        self, word: str, words: Mapping[str, str] | None, known: Sequence[str], what: Literal["label", "type"],
        place: tuple[Path, int],
    ) -> str:  # fmt: skip
        """A file's word for a label or a type as the study's; an error if the study has no such."""
        name = (words or {}).get(word, word)
        if not name.strip():
            raise DataError(*place, f"empty {what}", f"name the {what}, or remove what has it")
        if known and name not in known:
            quoted, close = shown(word, self._names()), nearest(name, known)
            if quoted.startswith('"'):
                remedy = f'map it: rename = {{ {quoted} = "{close or "…"}" }}'
            else:
                end = (
                    f'; the nearest is "{close}"' if close else "; none of the study's is like it: are columns swapped?"
                )
                remedy = f"map it with rename, or repair it{end}"
            raise DataError(*place, f"{what} {quoted} is not in the study", remedy)
        return name

    def _names(self) -> frozenset[str]:
        """Those of the files' words that may be shown; they are read once more, at the end of all reading."""
        counts = Counter[str]()
        for split in self.splits:
            own = Counter[str]()
            with suppress(DataError):
                for row in self.placed(split, Problems()):
                    own.update(self.words(row.document))
            counts |= own  # the more of both: a note that is in two splits does not repeat
        return names_of(counts)

    @staticmethod
    def words(document: Document) -> Iterator[str]:
        """The words of a document that the study must know."""
        return iter(document.labels)
