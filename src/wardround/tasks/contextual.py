"""Contextual vectors of words from a frozen encoder, in ELMo's place.

    vectors = Contextual(read_encoder(packaged()), folder).vectors([("aspirin", "gave", "rash")])     # [(3, 384)]

A word's vector is the mean of the encoder's last states of its pieces. States are computed once per sentence and found
on disk afterwards (see `trunk`, also for what that means for privacy). Sentences with more pieces than the encoder has
places for are encoded part by part; a word with no piece has the vector 0.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from wardround.models.pretrained import Pretrained
from wardround.tasks.trunk import Trunk

LOOKED_AT = 50  # letters of a word that the encoder looks at; no word of a language is longer


class Contextual:
    """Words to vectors, sentence by sentence."""

    def __init__(self, encoder: Pretrained, folder: Path | None = None, *, remember: bool = True) -> None:
        self.encoder, self.folder, self.remember, self.width = encoder, folder, remember, encoder.shape.width

    @cached_property
    def _trunk(self) -> Trunk:
        whole = self.encoder.part(range(self.encoder.shape.layers), embeddings=True)
        return Trunk(whole, self.folder, remember=self.remember)

    def vectors(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """A (words, width) tensor for each sentence, in half precision: there are many."""
        room = self.encoder.shape.longest - 2
        rows: list[list[int]] = []
        homes: list[list[int]] = []
        firsts = [0]
        for words in sentences:
            pieces = self.encoder.tokenizer.encode([*words], is_pretokenized=True, add_special_tokens=False)
            for start in range(0, max(len(pieces.ids), 1), room):
                rows.append([self.encoder.start, *pieces.ids[start : start + room], self.encoder.end])
                homes.append([cast("int", word) for word in pieces.word_ids[start : start + room]])
            firsts.append(len(rows))
        states = self._trunk.states(rows)
        return [
            _pooled(states[first:last], homes[first:last], len(words))
            for words, (first, last) in zip(sentences, pairwise(firsts), strict=True)
        ]


def _pooled(states: Sequence[Tensor], homes: Sequence[Sequence[int]], words: int) -> Tensor:
    """The mean over each word's pieces (words, width)."""
    pieces = torch.cat([part[1:-1] for part in states])  # (P, width), without the ends
    home = torch.tensor([word for part in homes for word in part], dtype=torch.int64)  # (P,)
    total = torch.zeros(words, pieces.shape[1]).index_add_(0, home, pieces)
    return (total / torch.bincount(home, minlength=words).clamp(min=1)[:, None]).half()
