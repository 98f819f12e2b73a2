"""How words begin: "migraines" begins like "migraine", and so does what is misspelt further on.

Stems(First(Words(), longest=400))("no nausea")     # "no", "nause"

Runs of letters from all over a word would tell a little more about a text (studies/baselines). But they overlap, so
that whoever sees which of them a site has can put its words together; one run of each word cannot be put together.
"""

from dataclasses import dataclass

from wardround.text.segment import Segmenter

SIZE = 5


@dataclass(frozen=True)
class Stems:
    """How each word begins that another segmenter finds."""

    segmenter: Segmenter

    @property
    def settings(self) -> str:
        """The other's, and how long a stem is."""
        return f"{self.segmenter.settings} stems={SIZE}"

    def __call__(self, text: str) -> list[str]:
        """Word by word."""
        return [word[:SIZE] for word in self.segmenter(text) if word.isalnum()]


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
