"""Readers as a federation takes them.

A reader knows its `labels` and yields documents by split; `AsCorpus` pools them, so that a partition can cut
them into sites: by dialogue, by label skew, evenly. Generated hospitals stream site by site instead.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Protocol

from wardround.text.document import Document
from wardround.text.reading import Problems, digest
from wardround.text.shown import called, named_sources, note_of, occurring
from wardround.text.texts import Texts

__all__ = ["AsCorpus", "Elsewhere", "Reader"]


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
