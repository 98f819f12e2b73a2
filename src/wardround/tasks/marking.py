"""A sentence with two entities becomes token numbers: blinded, marked, and cut to a window if it is too long.

    [CLS] … <e1> gene </e1> … <e2> disease </e2> … [SEP]

- *Blinding*: an entity's words are replaced by its type, as lower-case words (`CHEMICAL-OR-GENE` → chemical or gene).
- *Markers* are four token numbers beyond the vocabulary. Their vectors start as copies of those of `<`, `>`, `[` and
  `]`, the same everywhere: frozen embeddings need rows that the layers above can make sense of from the first step.
- *Windows*: of a sentence with more than `longest` tokens, the entities stay whole and what is around them is cut:
  as much on the left as on the right if there is room for all between them, else the middle between them is left
  out and each of the four sides keeps the same number of tokens, as far as it has them. An entity that does not fit
  at all is an error. Windows are counted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from wardround.models.pretrained import Pretrained
from wardround.text.document import Document, Entity
from wardround.text.shown import called

LIKE = ("<", ">", "[", "]")
"""The tokens that <e1>, </e1>, <e2> and </e2> begin as."""


class EntitiesTooLong(ValueError):
    """Two entities have more tokens than the model reads."""


class Marked(NamedTuple):
    """A sentence as token numbers, and where its entities are in it (start, end)."""

    ids: list[int]
    first: tuple[int, int]
    second: tuple[int, int]
    windowed: bool


def check_pair(document: Document) -> tuple[Entity, Entity]:
    """The document's entities e1 and e2, if it is a pair document: both within the text and apart."""
    ends = {entity.id: entity for entity in document.entities}
    missing = [name for name in ("e1", "e2") if name not in ends]
    if missing or len(document.entities) != 2:
        raise ValueError(
            f"document {called(document.id)} has {len(document.entities)} entities"
            + (f", and no {' and no '.join(missing)}" if missing else "")
            + "; the task relation takes pairs, e1 and e2, as the relation corpora give them"
        )
    for entity in ends.values():
        if not 0 <= entity.start < entity.end <= len(document.text):
            raise ValueError(
                f"document {called(document.id)}: entity {entity.id} goes from {entity.start} to {entity.end}, the "
                f"text has {len(document.text)} characters; offsets count characters, the end excluded"
            )
    one, other = ends["e1"], ends["e2"]
    if one.start < other.end and other.start < one.end:
        raise ValueError(
            f"document {called(document.id)}: e1 ({one.start} to {one.end}) and e2 ({other.start} to {other.end}) "
            "overlap; no marker fits around both: leave the pair out"
        )
    return one, other


@dataclass(frozen=True)
class Marker:
    """From pair documents to token numbers, each once."""

    encoder: Pretrained
    blind: bool
    markers: bool
    longest: int
    done: dict[Document, Marked] = field(default_factory=dict)

    def __call__(self, document: Document) -> Marked:
        """The document's tokens, with those of [CLS] and [SEP] around them."""
        if document not in self.done:
            self.done[document] = self.marked(document)
        return self.done[document]

    def marked(self, document: Document) -> Marked:
        """The same, without remembering it."""
        one, other = check_pair(document)
        turned = one.start > other.start
        left, right = (other, one) if turned else (one, other)
        text = document.text
        pieces = [
            self._tokens(text[: left.start]),
            self._entity(text, left),
            self._tokens(text[left.end : right.start]),
            self._entity(text, right),
            self._tokens(text[right.end :]),
        ]
        room = self.longest - 2  # [CLS] and [SEP]
        windowed = sum(map(len, pieces)) > room
        if windowed:
            pieces = self._window(pieces, room, document.id)
        before, a, between, b, after = pieces
        edge = int(self.markers)  # states of the markers themselves are not summed
        start = 1 + len(before)
        left_span = (start + edge, start + len(a) - edge)
        start += len(a) + len(between)
        right_span = (start + edge, start + len(b) - edge)
        ids = [self.encoder.start, *before, *a, *between, *b, *after, self.encoder.end]
        first, second = (right_span, left_span) if turned else (left_span, right_span)
        return Marked(ids, first, second, windowed)

    def _tokens(self, text: str) -> list[int]:
        text = text.rstrip()  # byte-level vocabularies have a blank at a word's start, not at the end of the one before
        return list(self.encoder.tokenizer.encode(text, add_special_tokens=False).ids) if text else []

    def _entity(self, text: str, entity: Entity) -> list[int]:
        words = re.sub(r"[\W_]+", " ", entity.type).lower() if self.blind else text[entity.start : entity.end]
        blank = " " if text[: entity.start][-1:].isspace() else ""
        inside = self._tokens(blank + words.strip()) or [self.encoder.unknown]
        if not self.markers:
            return inside
        opening = self.encoder.shape.vocabulary + (0 if entity.id == "e1" else 2)
        return [opening, *inside, opening + 1]

    def _window(self, pieces: Sequence[list[int]], room: int, name: str) -> list[list[int]]:
        before, a, between, b, after = pieces
        room -= len(a) + len(b)
        if room < 0:
            raise EntitiesTooLong(
                f"document {called(name)}: its entities take {len(a) + len(b)} tokens, longest = {self.longest} leaves "
                f"{self.longest - 2}; raise it, or blind them"
            )
        if len(between) <= room:
            left, right = shared_out(room - len(between), [len(before), len(after)])
            return [before[len(before) - left :], a, between, b, after[:right]]
        half = len(between) // 2
        sides = [len(before), half, len(between) - half, len(after)]
        left, inner, outer, right = shared_out(room, sides)
        kept = between[:inner] + between[len(between) - outer :]
        return [before[len(before) - left :], a, kept, b, after[:right]]


def shared_out(room: int, wishes: Sequence[int]) -> list[int]:
    """Room in equal shares, none larger than wished; what one does not need goes to the others."""
    shares = [0] * len(wishes)
    left = room
    for number, index in enumerate(sorted(range(len(wishes)), key=wishes.__getitem__)):
        shares[index] = min(wishes[index], left // (len(wishes) - number))
        left -= shares[index]
    return shares


def marker_rows(encoder: Pretrained, embeddings: Tensor) -> Tensor:
    """The markers' first vectors (4, width)."""
    numbers = [encoder.tokenizer.token_to_id(token) for token in LIKE]
    if None not in numbers:
        return embeddings[torch.tensor(numbers)].clone()
    generator = torch.Generator().manual_seed(0)  # a vocabulary without brackets: any vectors, the same everywhere
    return torch.randn(len(LIKE), embeddings.shape[1], generator=generator) * embeddings.std()


def blinded(document: Document) -> str:
    """The text with `first…` and `second…` and their types in place of its entities: words that no other text has."""
    text = document.text
    spans = zip(("first", "second"), check_pair(document), strict=True)
    for name, entity in sorted(spans, key=lambda pair: -pair[1].start):
        kind = re.sub(r"\W+", "", entity.type.lower())
        text = f"{text[: entity.start]} {name}{kind} {text[entity.end :]}"
    return text
