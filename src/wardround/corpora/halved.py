"""Public corpora of entities: with published splits, or halved by the study's seed.

The one form inside is text with character spans (`Document.entities`). How spans become tags is the tagging task's
business.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Lt

from wardround.federation.partition import held_out
from wardround.text.document import Document
from wardround.text.reading import Problems, one_of


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
    """The share of texts that is set aside for testing."""
    by: Literal["sentence", "source"] = "sentence"
    """Whether single sentences are drawn, or all of an article, a post or another source together."""
    seed: Annotated[int, Ge(0)] = 0
    """The seed that the test split is drawn by; if not given, the study's."""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The documents of one split; equal texts are never in both."""
        wanted = one_of(split, self.splits) == "test"
        documents = list(self.whole(Problems() if problems is None else problems))
        keys = [document.text if self.by == "sentence" else document.source for document in documents]
        aside = held_out(keys, self.test, np.random.default_rng([self.seed, 1]))
        return (
            replace(document, source="")
            for document, set_aside in zip(documents, aside, strict=True)
            if set_aside == wanted
        )
