"""The documents of one split at one site, as a federation takes and cuts them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wardround.text.document import Document
from wardround.text.facts import BagSentence
from wardround.text.reading import digest


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
        bags = [document for document in self.documents if isinstance(document, BagSentence)]
        if not bags:
            return None
        return ["\t".join(entity.id for entity in document.entities) for document in bags]

    def take(self, rows: npt.NDArray[np.int64]) -> "Texts":
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
