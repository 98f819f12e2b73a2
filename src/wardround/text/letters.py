"""Runs of letters within words: "migraines" shares most of them with "migraine", and so does what is misspelt.

Letters(Words(), longest=400)("no fever")     # " no", "no ", " no ", " fe", "fev", …
"""

from dataclasses import dataclass

from wardround.text.segment import Segmenter

SIZES = (3, 5)


@dataclass(frozen=True)
class Letters:
    """Of each of the first `longest` words, with a blank at both ends, the runs of 3 to 5 characters."""

    segmenter: Segmenter
    longest: int

    @property
    def settings(self) -> str:
        """The other's, how long runs are, and how many words are read."""
        return f"{self.segmenter.settings} letters={SIZES} longest={self.longest}"

    def __call__(self, text: str) -> list[str]:
        """Word by word, the shorter runs first."""
        framed = (f" {word} " for word in self.segmenter(text)[: self.longest] if word.isalnum())
        return [
            word[start : start + size]
            for word in framed
            for size in range(SIZES[0], min(SIZES[1], len(word)) + 1)
            for start in range(len(word) - size + 1)
        ]


@dataclass(frozen=True)
class First:
    """The first `longest` tokens that another segmenter finds."""

    segmenter: Segmenter
    longest: int

    @property
    def settings(self) -> str:
        """The other's, and how many are read."""
        return f"{self.segmenter.settings} longest={self.longest}"

    def __call__(self, text: str) -> list[str]:
        """As many tokens as are read."""
        return self.segmenter(text)[: self.longest]
