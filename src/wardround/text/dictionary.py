"""Entities by looking them up: what a tagger should be better than.

    known = Dictionary.of(train)          # sentences with their entities
    known.spans(("aspirin", "gave"))      # [("Drug", 0, 1)]

Every entity of the training sentences is an entry, as it is written there, with the type that it has most often (of two
that it has as often, the first by name). From left to right, the longest run of words that is an entry is an entity.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from wardround.text.tags import Span
from wardround.text.tokens import Sentence


@dataclass(frozen=True)
class Dictionary:
    """Runs of words, each with its type."""

    entries: Mapping[tuple[str, ...], str]
    longest: int

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> Self:
        """The entities of these sentences."""
        types: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            for kind, start, end in sentence.spans:
                types[sentence.words[start:end]][kind] += 1
        entries = {words: min(kinds, key=lambda kind: (-kinds[kind], kind)) for words, kinds in types.items()}
        return cls(entries, max(map(len, entries), default=0))

    def spans(self, words: Sequence[str]) -> list[Span]:
        """The entities of a sentence, which do not overlap."""
        entities: list[Span] = []
        at = 0
        while at < len(words):
            ends = range(min(at + self.longest, len(words)), at, -1)
            end = next((end for end in ends if tuple(words[at:end]) in self.entries), None)
            if end is None:
                at += 1
            else:
                entities.append((self.entries[tuple(words[at:end])], at, end))
                at = end
        return entities
