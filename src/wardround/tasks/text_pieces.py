"""Texts as an encoder takes them: word pieces between [CLS] and [SEP], or what a frozen trunk makes of them.

Chinese is cut by character, as the vocabularies of Chinese encoders are. `longest` counts pieces, both ends included.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from wardround.models.encoded import Pieces, Pool
from wardround.tasks.encoders import EncoderParts, Sequences


class TextSequences(Sequences):
    """A site's texts; under a trunk that is all of the encoder, one vector of each."""

    def __init__(self, rows: list[list[int]], parts: EncoderParts, pool: Pool) -> None:
        super().__init__(rows, parts)
        self._pool = pool

    @property
    def lengths(self) -> Tensor:
        """Pieces of each text."""
        return self.tokens.lengths

    @cached_property
    def _vectors(self) -> Tensor:
        """The state of [CLS], or the mean state (texts, width)."""
        trunk = self._parts.trunk
        states = trunk.states(self.rows) if trunk else []
        return torch.stack([one[0] if self._pool == "cls" else one.mean(0) for one in states])

    def padded(self, rows: Tensor) -> Pieces:
        """These texts as the model takes them."""
        return Pieces(self._vectors[rows], None) if self._parts.all_frozen else Pieces(*self.filled(rows))

    def unpadded(self, rows: list[int]) -> Pieces:
        """The same one behind another."""
        return Pieces(self.packed(rows), None, self.lengths[rows].tolist())


@dataclass(frozen=True, eq=False)
class TextPieces:
    """From texts to the numbers of their pieces."""

    parts: EncoderParts
    longest: int
    pool: Pool
    ngrams: int = 1
    """Tokens that end with each further number, as in `TextNumbers`."""

    def whole(self, texts: Iterable[str]) -> list[list[int]]:
        """All pieces of each text, without the ends."""
        encoded = self.parts.pretrained.tokenizer.encode_batch([*texts], add_special_tokens=False)
        return [list(one.ids) for one in encoded]

    def read(self, texts: Iterable[str]) -> tuple[TextSequences, list[int]]:
        """As many as the model reads, and how many of each text are beyond that."""
        whole, most, encoder = self.whole(texts), self.longest - 2, self.parts.pretrained
        rows = [[encoder.start, *row[:most], encoder.end] for row in whole]
        return TextSequences(rows, self.parts, self.pool), [max(len(row) - most, 0) for row in whole]
