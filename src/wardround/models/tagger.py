"""A tagger of words, put together from parts; leaving parts out gives the taggers of the literature.

    tagger = Tagger(Parts(characters=200, contextual=384, cnn=200, lstm=200), vocabulary=20_000, tags=7)
    emissions = tagger(sentences)                       # (B, L, tags)
    loss = -tagger.crf(emissions, tags, lengths).mean()

FedNER (Ge et al. 2020), section 3.1: word vector ⊕ character CNN ⊕ frozen contextual vector → word CNN → BiLSTM → CRF.
Modules by name, which a study may make private: `words`, `characters`, `cnn`, `lstm`, `crf` (the last holds the layer
that scores tags, too). Padding changes no score of a real word.

A convolution adds up, per place, what each neighbour contributes: the product of its vector and its part of the filter.
So it is a product and some additions of shifted rows, which a CPU does in less time. There are few characters, so for
them the products are a small table, looked up instead of multiplied out; each form of a word is seen once per batch.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from wardround.models.crf import CRF, Separate

PADDING = 0
CHARACTERS = 256
"""Numbers of characters: 1–127 ASCII, the rest by a hash; 0 is padding."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Which parts a tagger has: sizes, 0 for none."""

    characters: int = 0
    """Filters of the character CNN."""
    contextual: int = 0
    """Width of the frozen contextual vectors."""
    cnn: int = 0
    """Filters of the word CNN, for each of `widths`."""
    widths: tuple[int, ...] = (3,)
    lstm: int = 0
    """Hidden states in each direction."""
    layers: int = 1
    """BiLSTMs on top of each other."""


def named_parts(model: str, filters: int, hidden: int, contextual: int) -> Parts:
    """What each of the taggers of FedNER's table is made of."""
    return {
        "elmoner": Parts(characters=filters, contextual=contextual, cnn=filters, lstm=hidden),
        "cnn-crf": Parts(cnn=filters),
        "lstm-crf": Parts(lstm=hidden),
        "gram-cnn": Parts(characters=filters, cnn=filters, widths=(1, 3, 5)),
        "cnn-lstm-crf": Parts(characters=filters, lstm=hidden),
        "s-lstm-crf": Parts(lstm=hidden, layers=2),
        "cnn-clstm-crf": Parts(characters=filters, cnn=filters, lstm=hidden),
    }[model]


@dataclass(frozen=True, eq=False)
class Sentences:
    """A batch: word numbers (B, L), lengths (B,), forms (B, L) into characters (U, C), contextual vectors (B, L, D)."""

    words: Tensor
    lengths: Tensor
    forms: Tensor
    characters: Tensor
    contextual: Tensor | None = None


class Tagger(nn.Module):
    """Scores of each tag at each word, for a CRF to put in order."""

    def __init__(
        self,
        parts: Parts,
        *,
        vocabulary: int,
        tags: int,
        embedding: int = 100,
        character: int = 100,
        dropout: float = 0.2,
        vectors: Tensor | None = None,
        freeze: bool = False,
    ) -> None:
        """With `vectors` (vocabulary, embedding) the words begin with these; frozen ones are used as they are."""
        super().__init__()
        self.words = nn.Embedding(vocabulary, embedding, padding_idx=PADDING, _weight=vectors if freeze else None)
        if vectors is not None and not freeze:
            with torch.no_grad():
                self.words.weight.copy_(vectors)
        self.words.weight.requires_grad_(not freeze)
        width = embedding + parts.characters + parts.contextual
        self.characters = LetterFilters(character, parts.characters) if parts.characters else None
        self.cnn = WordCNN(width, parts.cnn, parts.widths) if parts.cnn else None
        width = parts.cnn * len(parts.widths) if parts.cnn else width
        self.lstm = BiLSTM(width, parts.lstm, parts.layers) if parts.lstm else None
        self.crf = Scored(2 * parts.lstm if parts.lstm else width, tags)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Sentences) -> Tensor:
        """Emission scores (B, L, tags)."""
        real = (torch.arange(batch.words.shape[1]) < batch.lengths[:, None]).unsqueeze(2)  # (B, L, 1)
        seen = [self.words(batch.words)]  # (B, L, embedding)
        if self.characters is not None:
            seen.append(self.characters(batch.characters)[batch.forms])  # (B, L, filters)
        if batch.contextual is not None:
            seen.append(batch.contextual)  # (B, L, D)
        states = self.dropout(torch.cat(seen, 2)) * real  # (B, L, width)
        if self.cnn is not None:
            states = self.dropout(self.cnn(states))  # (B, L, filters)
        if self.lstm is not None:
            states = self.dropout(self.lstm(states, batch.lengths))  # (B, L, 2 · hidden)
        emissions: Tensor = self.crf.emit(states)  # (B, L, tags)
        return emissions


class LetterFilters(nn.Module):
    """A word from its letters: the largest answer of each filter of width 3 anywhere in it."""

    def __init__(self, character: int, filters: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(CHARACTERS, character, padding_idx=PADDING)
        self.filters = nn.Linear(character, 3 * filters, bias=False)  # a character's part on the left, middle, right
        self.bias = nn.Parameter(torch.zeros(filters))

    def forward(self, characters: Tensor) -> Tensor:
        """Vectors (U, filters) of forms (U, C); 0 for a form without characters."""
        left, middle, right = self.filters(self.vectors.weight).chunk(3, 1)  # (256, filters)
        windows = functional.embedding(characters, middle, PADDING)  # (U, C, filters)
        windows[:, 1:] += functional.embedding(characters[:, :-1], left, PADDING)
        windows[:, :-1] += functional.embedding(characters[:, 1:], right, PADDING)
        real = (characters != PADDING).unsqueeze(2)  # (U, C, 1)
        return functional.relu(windows.masked_fill(~real, -torch.inf).amax(1) + self.bias)  # (U, filters)


class WordCNN(nn.Module):
    """Filters over neighbouring words, of one or several widths."""

    def __init__(self, width: int, filters: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.widths = widths
        self.filters = nn.ModuleList(nn.Linear(width, size * filters, bias=False) for size in widths)
        self.bias = nn.Parameter(torch.zeros(len(widths) * filters))

    def forward(self, states: Tensor) -> Tensor:
        """States (B, L, filters · widths) of states (B, L, width) that are 0 behind the end."""
        sums = []
        for size, linear in zip(self.widths, self.filters, strict=True):
            parts = linear(states).chunk(size, 2)  # (B, L, filters) of each neighbour
            total = parts[size // 2].clone()
            for shift in range(1, size // 2 + 1):
                total[:, shift:] += parts[size // 2 - shift][:, :-shift]  # those before
                total[:, :-shift] += parts[size // 2 + shift][:, shift:]  # those after
            sums.append(total)
        return functional.relu(torch.cat(sums, 2) + self.bias)

    def each_gradient(self, inputs: tuple[Any, ...], states: Tensor, gradient: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Of each sentence, the gradient of the bias, from that of its states."""
        return {"bias": (gradient * (states > 0)).sum(1)}


class BiLSTM(nn.Module):
    """Layers that read a sentence from both ends; the way back begins at its last word, not in the padding."""

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        widths = [width] + [2 * hidden] * (layers - 1)
        self.forth = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in widths)
        self.back = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in widths)

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """States (B, L, 2 · hidden); what stands behind the end means nothing."""
        places = torch.arange(states.shape[1])
        turned = lengths[:, None] - 1 - places  # (B, L)
        turned = torch.where(turned < 0, places, turned).unsqueeze(2)  # its own inverse
        for forth, back in zip(self.forth, self.back, strict=True):
            ahead, _ = forth(states)  # (B, L, hidden)
            behind, _ = back(states.take_along_dim(turned, 1))
            states = torch.cat([ahead, behind.take_along_dim(turned, 1)], 2)  # (B, L, 2 · hidden)
        return states


class Scored(CRF):
    """A CRF and the layer that scores tags for it."""

    def __init__(self, width: int, tags: int) -> None:
        super().__init__(tags)
        self.emit = nn.Linear(width, tags)


class SeparatelyScored(Separate):
    """The same for tags that do not depend on each other."""

    def __init__(self, width: int, tags: int) -> None:
        super().__init__()
        self.emit = nn.Linear(width, tags)
