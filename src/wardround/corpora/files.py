"""A user's own files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from wardround.formats.tables import Column, Table
from wardround.text.document import Document
from wardround.text.reading import Problems, found_path

__all__ = ["Files"]


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
