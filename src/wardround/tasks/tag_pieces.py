"""Sentences as an encoder that tags takes them: word pieces, and where each word begins among them.

A word has the state of its first piece; one without any, such as a mark that the vocabulary leaves out, is unknown. Of
tokens that are characters, each is a word. A sentence with more pieces than the encoder has places for is read in
several windows, each of whole words.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.models.encoded import Windows
from wardround.models.pretrained import Pretrained
from wardround.tasks.batching import Ragged, budgeted, packed
from wardround.tasks.encoders import EncoderParts, Sequences
from wardround.tasks.tag_examples import TagBatch
from wardround.text.tokens import LETTERS, Sentence


class PieceWindow(NamedTuple):
    """Pieces between the encoder's ends, and the place where each word begins."""

    ids: list[int]
    places: list[int]


class PieceExamples:
    """A site's sentences as pieces; the frozen trunk's states of them once they are needed."""

    def __init__(
        self, sentences: Sequence[Sentence], tags: Ragged, types: Mapping[str, int], parts: EncoderParts
    ) -> None:
        self.tags, self._parts = tags, parts
        self.lengths = tags.lengths
        self.gold = [[(types[kind], start, end) for kind, start, end in one.spans] for one in sentences]
        each = [windows(one.spaced(LETTERS), parts.pretrained) for one in sentences]
        self._sequences = Sequences([window.ids for mine in each for window in mine], parts)
        self._places = Ragged([window.places for mine in each for window in mine])
        counts = torch.tensor([len(mine) for mine in each], dtype=torch.int64)
        self._firsts = torch.cumsum(counts, 0) - counts  # (S,): each sentence's first window
        self._counts = counts
        self.sizes = torch.tensor([sum(len(window.ids) for window in mine) for mine in each], dtype=torch.int64)
        """Pieces of each sentence."""

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def _vectors(self) -> list[Tensor]:
        """Under a trunk that is all of the encoder, the states of each sentence's words (L, width)."""
        states = self._sequences.states or []
        each = [one[self._places.padded(torch.tensor([at]))[0]] for at, one in enumerate(states)]
        bounds = zip(self._firsts.tolist(), self._counts.tolist(), strict=True)
        return [torch.cat(each[first : first + count]) for first, count in bounds]

    def through(self, *, padded: bool) -> Iterator[TagBatch]:
        """All sentences, as many at once as have so many pieces."""
        if padded or self._parts.all_frozen:
            return map(self.batch, budgeted(self.sizes))
        return (self.batch(torch.tensor(rows), padded=False) for rows in packed(self.sizes.tolist()))

    def batch(self, rows: Tensor, *, padded: bool = True) -> TagBatch:
        """These rows as the model takes them."""
        lengths = self.lengths[rows]  # (B,)
        if self._parts.all_frozen:
            vectors = pad_sequence([self._vectors[row] for row in rows.tolist()], batch_first=True)  # (B, L, width)
            return TagBatch(Windows(vectors, None, None, lengths), self.tags.padded(rows), rows)
        firsts, counts = self._firsts[rows].tolist(), self._counts[rows].tolist()
        chosen = torch.tensor([first + at for first, count in zip(firsts, counts, strict=True) for at in range(count)])
        sizes = self._sequences.tokens.lengths[chosen]  # (R,)
        if padded:
            inputs, real = self._sequences.filled(chosen)  # (R, P)
            starts = inputs.shape[1] * torch.arange(len(chosen))  # (R,), of R · P
        else:
            inputs, real = self._sequences.packed(chosen.tolist()), None  # (T,)
            starts = sizes.cumsum(0) - sizes  # (R,), of T
        places = self._places.padded(chosen) + starts[:, None]  # (R, Q)
        filled = torch.arange(places.shape[1]) < self._places.lengths[chosen][:, None]  # (R, Q): a word each
        homes = torch.zeros(len(rows), int(lengths.max()), dtype=torch.int64)  # (B, L)
        homes[torch.arange(homes.shape[1]) < lengths[:, None]] = places[filled]
        windows = Windows(inputs, real, homes, lengths, None if padded else sizes.tolist())
        return TagBatch(windows, self.tags.padded(rows), rows)


def windows(words: Sequence[str], encoder: Pretrained) -> list[PieceWindow]:
    """A sentence's pieces in windows of whole words."""
    room = encoder.shape.longest - 2
    pieces = encoder.tokenizer.encode([*words], is_pretokenized=True, add_special_tokens=False)
    mine: list[list[int]] = [[] for _ in words]
    for number, word in zip(pieces.ids, pieces.word_ids, strict=True):
        if word is not None:
            mine[word].append(number)
    cut: list[list[list[int]]] = [[]]
    for word in mine:
        if sum(map(len, cut[-1])) + max(len(word), 1) > room:
            cut.append([])
        cut[-1].append(word[:room] or [encoder.unknown])
    return [_window(part, encoder) for part in cut]


def _window(words: list[list[int]], encoder: Pretrained) -> PieceWindow:
    places, ids = [], [encoder.start]
    for word in words:
        places.append(len(ids))
        ids += word
    return PieceWindow([*ids, encoder.end], places)
