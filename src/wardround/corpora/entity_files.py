"""What readers of entities share: documents with character spans, whatever the format; and splits.

The one form inside is text with character spans (`Document.entities`). Tokens with tags become it: the tokens joined by
blanks, the entities at their characters. How spans become tags again is the tagging task's business.

A user's own files have one file per split, or one per split and hospital:

    train = { north = "north/train.conll", south = "south/train.conll" }
    test = { north = "north/test.conll", south = "south/test.conll" }

`types` declares the entity types: any other is an error that names file and line. `rename` maps a hospital's own names
to the study's.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Lt

from wardround.federation.partition import held_out
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems, found_path, nearest, one_of
from wardround.text.shown import names_of, shown

__all__ = ["EntityCorpus", "EntityFiles", "Halved"]


class EntityCorpus(ABC):
    """A corpus whose documents have entities."""

    views: ClassVar[tuple[str, ...]] = ("entities",)

    types: ClassVar[tuple[str, ...]]
    labels: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def whole(self, problems: Problems) -> Iterator[Document]:
        """All its documents, whatever splits it has."""


@dataclass(frozen=True, kw_only=True)
class Halved(EntityCorpus):
    """A corpus without a published split: the study's seed sets a share of its texts aside."""

    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    test: Annotated[float, Gt(0), Lt(1)] = 0.2
    by: Literal["sentence", "source"] = "sentence"
    """Whether single sentences are drawn, or all of an article, a post or another source together."""
    seed: Annotated[int, Ge(0)] = 0

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The documents of one split; equal texts are never in both."""
        wanted = one_of(split, self.splits) == "test"
        found = list(self.whole(Problems() if problems is None else problems))
        keys = [document.text if self.by == "sentence" else document.source for document in found]
        aside = held_out(keys, self.test, np.random.default_rng([self.seed, 1]))
        return (
            replace(document, source="")
            for document, set_aside in zip(found, aside, strict=True)
            if set_aside == wanted
        )


@dataclass(frozen=True, kw_only=True)
class EntityFiles(ABC):
    """A user's own files of tagged or marked texts."""

    views: ClassVar[tuple[str, ...]] = ("entities",)

    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    labels: ClassVar[tuple[str, ...]] = ()
    train: str | dict[str, str]
    test: str | dict[str, str]
    types: tuple[str, ...] = ()
    """If given, any other type is an error; without it, the types are those that occur in training."""
    rename: dict[str, str] | None = None
    encoding: str | None = None
    language: str = ""
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences or notes of one split."""
        found = Problems() if problems is None else problems
        for source, path in self._paths(one_of(split, self.splits)).items():
            for document in self._read(path, found):
                yield replace(document, source=source or document.source, language=document.language or self.language)

    def _paths(self, split: str) -> dict[str, Path]:
        named: str | dict[str, str] = getattr(self, split)
        each = {"": named} if isinstance(named, str) else named
        return {source: found_path(path, self.folder) for source, path in each.items()}

    @abstractmethod
    def _read(self, path: Path, problems: Problems) -> Iterator[Document]: ...

    @cached_property
    def _renamed(self) -> Mapping[str, str]:
        return self.rename or {}

    def _names(self) -> frozenset[str]:
        """Those of the files' types that may be shown; they are read once more, at the end of all reading."""
        counts, bare = Counter[str](), replace(self, types=(), rename=None)
        for split in self.splits:
            with suppress(DataError):
                for document in bare.documents(split):
                    counts.update(entity.type for entity in document.entities)
        return names_of(counts)

    def _type(self, said: str, path: Path, line: int) -> str:
        kind = self._renamed.get(said, said)
        if not kind.strip():
            raise DataError(path, line, "an entity without a type", "name its type")
        if self.types and kind not in self.types:
            name, close = shown(said, self._names()), nearest(kind, self.types) or "…"
            remedy = (
                f'map it: rename = {{ {name} = "{close}" }}'
                if name.startswith('"')
                else f'map it with rename, or repair it; the nearest is "{close}"'
            )
            raise DataError(path, line, f"type {name} is not in the study", remedy)
        return kind
