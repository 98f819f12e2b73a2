"""What readers of a user's own relation files share: one file or folder per split, labels, candidate pairs.

`labels` is the study's set: any other label is an error that names file and line. `rename` maps a hospital's own
labels to the study's. Texts that stand in a training and in the test split are counted; `dedupe = true` drops
them from training.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from wardround.corpora.pairs import read_pairs
from wardround.text.document import Document, Placed
from wardround.text.pairs import pairs
from wardround.text.reading import DataError, Problems, found_path, nearest, one_of
from wardround.text.sentences import Scope
from wardround.text.shown import names_of, shown

__all__ = ["NoteFiles", "PairFiles"]


@dataclass(frozen=True, kw_only=True)
class PairFiles(ABC):
    """Files of labelled pairs."""

    views: ClassVar[tuple[str, ...]] = ("pairs",)

    train: str
    test: str
    valid: str = ""
    labels: tuple[str, ...] = ()
    """If given, any other label is an error; without it, the labels are those that occur in training."""
    rename: Mapping[str, str] | None = None
    """From a label in the files to one of the study's."""
    dedupe: bool = False
    encoding: str | None = None
    language: str = ""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Those for which there are files."""
        return ("train", "valid", "test") if self.valid else ("train", "test")

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The pair documents of one split."""
        return read_pairs(self._rows, split, self.splits, problems, drop=self.dedupe)

    def path(self, split: str) -> Path:
        """The file or folder of a split."""
        return found_path(getattr(self, one_of(split, self.splits)), self.folder)

    @abstractmethod
    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]: ...

    def _names(self) -> frozenset[str]:
        """Those of the files' labels that may be shown; they are read once more, at the end of all reading."""
        counts, bare = Counter[str](), replace(self, labels=(), rename=None)
        for split in self.splits:
            with suppress(DataError):
                for document in bare.documents(split):
                    counts.update(relation.type for relation in document.relations)
        return names_of(counts)

    def _label(self, said: str, path: Path, line: int) -> str:
        label = (self.rename or {}).get(said, said)
        if not label.strip():
            raise DataError(path, line, "empty label", "label or remove the relation")
        if self.labels and label not in self.labels:
            name, close = shown(said, self._names()), nearest(label, self.labels) or "…"
            remedy = (
                f'map it: rename = {{ {name} = "{close}" }}'
                if name.startswith('"')
                else f'map it with rename, or repair it; the nearest is "{close}"'
            )
            raise DataError(path, line, f"label {name} is not in the study", remedy)
        return label


@dataclass(frozen=True, kw_only=True)
class NoteFiles(PairFiles):
    """Files of annotated notes, from which candidate pairs are made (see `pairs`)."""

    pairs: tuple[tuple[str, str], ...] = ()
    """The types of head and tail that may be related; without it, those of the relations in training."""
    none: str = "none"
    """The label of candidates that nobody related; if empty, these are left out."""
    scope: Scope = "sentence"
    both_ways: bool = True
    """Whether two entities of one type are a candidate in both orders, or only in that of the text."""

    def __post_init__(self) -> None:
        if self.labels and self.none and self.none not in self.labels:
            remedy = 'add it, or set none = "" to leave unrelated pairs out'
            raise ValueError(f"labels lacks {self.none!r}, the label of unrelated pairs; {remedy}")

    @property
    def negative(self) -> str:
        """The label of unrelated pairs."""
        return self.none

    def notes(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The whole notes of one split, with all their entities and relations."""
        found = Problems() if problems is None else problems
        return (row.document for row in self._notes(one_of(split, self.splits), found))

    @abstractmethod
    def _notes(self, split: str, problems: Problems) -> Iterator[Placed]: ...

    @cached_property
    def _allowed(self) -> Collection[tuple[str, str]]:
        if self.pairs:
            return frozenset(self.pairs)
        found = set[tuple[str, str]]()
        for document in self.notes("train"):
            types = {entity.id: entity.type for entity in document.entities}
            found.update((types[relation.head], types[relation.tail]) for relation in document.relations)
        if not found:
            remedy = 'was the export made without relations? Else name the types: pairs = [["drug", "problem"]]'
            raise DataError(self.path("train"), None, "no relation in any note", remedy)
        return frozenset(found)

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        allowed, types = self._allowed, set[str]()
        for note in self._notes(split, problems):
            types.update(entity.type for entity in note.document.entities)
            yield from pairs(note, allowed, self.none, scope=self.scope, both_ways=self.both_ways, problems=problems)
        folded = {name.casefold(): name for name in types}
        for wanted in sorted({name for both in allowed for name in both} - types):
            if close := folded.get(wanted.casefold()):
                raise DataError(self.path(split), None, f'no entity of type "{wanted}"', f'in pairs, write "{close}"')
