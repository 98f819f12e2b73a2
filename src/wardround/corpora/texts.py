"""Documents as a federation takes them, and the readers behind one face.

A reader knows its `labels` and yields documents by split; `AsCorpus` pools them, so that a partition can cut
them into sites: by dialogue, by label skew, evenly. Generated hospitals stream site by site instead.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from wardround.corpora.facts import Sentence
from wardround.federation.partition import IntArray
from wardround.formats.tables import Column, Table
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems, digest
from wardround.text.shown import called, named_sources, note_of, occurring

__all__ = ["AsCorpus", "Elsewhere", "Files", "Reader", "Texts", "found_path"]


@dataclass(frozen=True, eq=False)
class Texts:
    """Documents of one split at one site."""

    documents: tuple[Document, ...]

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def classes(self) -> Sequence[str]:
        """The label of each document; several are joined."""
        return [" + ".join(document.labels) or "none" for document in self.documents]

    @property
    def sources(self) -> Sequence[str]:
        """Where each document comes from."""
        return [document.source for document in self.documents]

    @property
    def wholes(self) -> Sequence[str] | None:
        """What a test split must not tear apart: the pair of each sentence of a bag; None if documents stand alone."""
        bags = [document for document in self.documents if isinstance(document, Sentence)]
        if not bags:
            return None
        return ["\t".join(entity.id for entity in document.entities) for document in bags]

    def take(self, rows: IntArray) -> "Texts":
        """The documents of these rows."""
        return Texts(tuple(self.documents[row] for row in rows))

    @classmethod
    def joined(cls, parts: "Sequence[Texts]") -> "Texts":
        """The documents of all parts, in order."""
        return cls(tuple(document for part in parts for document in part.documents))

    @property
    def marks(self) -> Sequence[bytes]:
        """For each document, what stands for its text."""
        return [digest(document.text) for document in self.documents]

    def digest(self) -> bytes:
        """A hash of texts and annotations."""
        whole = hashlib.sha256()
        for document in self.documents:
            whole.update(repr(document).encode("utf-8", "surrogatepass"))
        return whole.digest()


class Reader(Protocol):
    """A corpus as a reader has it."""

    @property
    def splits(self) -> Sequence[str]:
        """The splits it has."""

    @property
    def labels(self) -> Sequence[str]:
        """Every label there is, or none if the files do not say."""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The documents of a split."""


class AsCorpus:
    """A reader's documents, with each source as a site."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.problems = reader, Problems()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The reader's labels, or those that occur in its training split."""
        if self.reader.labels:
            return tuple(self.reader.labels)
        return self._names("labels", "labels", lambda document: document.labels)

    @property
    def negative(self) -> str:
        """The label of documents in which there is nothing to be found, if the reader says so."""
        found: str = getattr(self.reader, "negative", "")
        return found if found in self.labels else ""

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The reader's entity types, or those that occur in its training split."""
        if known := getattr(self.reader, "types", ()):
            return tuple(known)
        return self._names("types", "types", lambda document: [entity.type for entity in document.entities])

    def _names(self, what: str, key: str, said: Callable[[Document], Sequence[str]]) -> tuple[str, ...]:
        """The names that occur in training; an error if some are none (see `shown`)."""
        return occurring(
            what,
            key,
            [(said(d), d.id) for d in self.split("train").documents],
            [name for d in self.split("test").documents for name in said(d)],
            self._where("label") if what == "labels" else None,
        )

    def _where(self, meaning: str) -> Callable[[str], str] | None:
        """Where the document of an id stands, line and column, if the reader knows."""
        found: Callable[[str, str], str] | None = getattr(self.reader, "where", None)
        return partial(found, meaning) if found else None

    @cached_property
    def _splits(self) -> dict[str, Texts]:
        return {}

    def split(self, split: str) -> Texts:
        """All documents of a split, read once."""
        if split not in self._splits:
            documents = tuple(self.reader.documents(split, self.problems))
            if split == "train" and getattr(self.reader, "dedupe", False):
                documents = tuple(self._apart(documents))
            self._splits[split] = Texts(documents)
        return self._splits[split]

    def _apart(self, documents: Sequence[Document]) -> Iterator[Document]:
        """Those of which the test split does not have the text; the others are counted."""
        held = {*self.split("test").marks}
        for document in documents:
            if digest(document.text) in held:
                self.problems.at("text also in test, dropped", called(document.id))
            else:
                yield document

    @cached_property
    def _by_source(self) -> dict[str, tuple[Texts, Texts]]:
        found: dict[str, tuple[list[Document], list[Document]]] = {}
        for index, split in enumerate(("train", "test")):
            for document in self.split(split).documents:
                found.setdefault(document.source or "all", ([], []))[index].append(document)
        return {name: (Texts(tuple(train)), Texts(tuple(test))) for name, (train, test) in found.items()}

    def names(self) -> Sequence[str]:
        """The sources."""
        if not getattr(self.reader, "sources_are_files", False):
            documents = [document for split in ("train", "test") for document in self.split(split).documents]
            files = [name for split in (getattr(self.reader, "train", ""), getattr(self.reader, "test", ""))
                     if isinstance(split, dict) for name in split]  # fmt: skip
            # What nobody gave a source has its note's id for one.
            ids = {d.source for d in documents if d.source == d.id or d.id.startswith(f"{d.source}:")}
            notes = {(d.source, note_of(d.id)): d.id for d in documents}
            named_sources([(source, id_) for (source, _), id_ in notes.items()], ids, files, self._where("source"))
        return sorted(self._by_source)

    def open(self, name: str) -> tuple[Texts, Texts]:
        """One source's training and test documents."""
        return self._by_source[name]

    def pool(self) -> tuple[Texts, Texts]:
        """All documents, without going by source."""
        return self.split("train"), self.split("test")


class Elsewhere(AsCorpus):
    """A reader whose texts are at the sites: what a study alone says of them, and not a line of a file."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels that the study declares."""
        declared = getattr(self.reader, "declared", None)
        return tuple(self.reader.labels if declared is None else declared)

    def split(self, split: str) -> Texts:  # noqa: ARG002 -- none has any
        """No documents."""
        return Texts(())


def found_path(text: str, folder: str = "") -> Path:
    """A path of a study file: `~` and `$VARIABLES` resolved, then relative to the study file."""
    path = Path(os.path.expandvars(text)).expanduser()
    if "$" in str(path):
        raise DataError(path, None, "names a variable that is not set", "set it, e.g. export WARDROUND_DATA=…")
    return path if path.is_absolute() else Path(folder) / path


@dataclass(frozen=True, kw_only=True)
class Files:
    """A user's own files: CSV, TSV or JSONL, one per split."""

    views: ClassVar[tuple[str, ...]] = ("labels",)

    format: Literal["csv", "tsv", "jsonl"]
    train: str
    test: str
    text: Column | tuple[Column, ...] = "text"
    label: Column | None = "label"
    flags: tuple[Column, ...] = ()
    separator: str = ""
    id: Column | None = None
    source: Column | None = None
    labels: tuple[str, ...] = ()
    header: bool = True
    quoting: bool | None = None
    encoding: str | None = None
    language: str = ""
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    @property
    def splits(self) -> Sequence[str]:
        """Train and test."""
        return ("train", "test")

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The documents of a split."""
        return self._table.documents(split, problems)

    def where(self, meaning: Literal["label", "source"], id_: str) -> str:
        """File, line and column of what the text of an id has for a label or source."""
        rows = (row for split in self.splits for row in self._table.placed(split))
        row = next(row for row in rows if row.document.id == id_)
        column = getattr(self, meaning) or meaning
        return f'{row.path.name}:{row.line}, column "{column}"'

    @cached_property
    def _table(self) -> Table:
        files = {split: found_path(getattr(self, split), self.folder) for split in self.splits}
        options: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("format", "text", "label", "flags", "separator", "id", "source", "labels", "header", "quoting",
                         "encoding", "language")
        }  # fmt: skip
        return Table(files=files, **options)
