"""Whole notes with their entities, from the formats whose readers otherwise yield pairs for the relation task.

    BRATNotes(train="notes/train", test="notes/test")      # corpus name "brat-notes"
    I2B2Notes(train="i2b2/train", test="i2b2/test")        # corpus name "i2b2-notes"

Their settings are those of `brat` and `i2b2`; each note is a source. Relations are read and left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wardround.formats.brat import BRAT
from wardround.formats.i2b2 import I2B2
from wardround.text.document import Document
from wardround.text.reading import Problems

__all__ = ["BRATNotes", "I2B2Notes"]


@dataclass(frozen=True, kw_only=True)
class BRATNotes(BRAT):
    """BRAT standoff, note by note."""

    views: ClassVar[tuple[str, ...]] = ("entities",)

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The notes of one split."""
        return self.notes(split, problems)


@dataclass(frozen=True, kw_only=True)
class I2B2Notes(I2B2):
    """The 2010 i2b2/VA corpus, note by note."""

    views: ClassVar[tuple[str, ...]] = ("entities",)

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The notes of one split."""
        return self.notes(split, problems)
