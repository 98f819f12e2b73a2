"""Heads over a pretrained encoder: a classifier of texts, and a tagger of words.

    scores = TextEncoder(encoder, width=384, classes=5)(pieces)             # (B, classes)
    emissions = EncodedTagger(encoder, width=384, tags=7)(windows)          # (B, L, tags), for its `crf`

The classifier sees the state of [CLS] (Devlin et al., NAACL 2019), for which the last layer is computed at one place
only, or the mean of all states (Reimers and Gurevych, EMNLP 2019). A word has the state of its first piece; without a
chain, each tag stands for itself.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from wardround.core.device import entry
from wardround.models.encoder import AnyEncoder
from wardround.models.tagger import Scored, SeparatelyScored

Pool = Literal["cls", "mean"]


class Pieces(NamedTuple):
    """Numbers (B, L) or states (B, L, width), and which are real (B, L); or vectors of texts (B, width), with none.

    Or numbers (T,) or states (T, width) of texts one behind another, and the length of each.
    """

    inputs: Tensor
    real: Tensor | None
    lengths: Sequence[int] | None = None


class TextEncoder(nn.Module):
    """Scores of each class, linear in one vector for each text."""

    def __init__(
        self, encoder: AnyEncoder, width: int, classes: int, *, pool: Pool = "cls", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.encoder, self.pool = encoder, pool
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, pieces: Pieces) -> Tensor:
        """Class scores, before the softmax."""
        scores: Tensor = self.linear(self.features(pieces))  # (B, classes)
        return scores

    @entry
    def features(self, pieces: Pieces) -> Tensor:
        """What the classifier sees of each text."""
        inputs, real, lengths = pieces
        first = torch.zeros(len(lengths or inputs), 1, dtype=torch.int64, device=inputs.device)  # (B, 1)
        if lengths is not None and self.pool == "cls":
            vectors = self.encoder.ragged(inputs, lengths, first).squeeze(1)  # (B, width)
        elif lengths is not None:
            each = torch.split(self.encoder.ragged(inputs, lengths), [*lengths])
            vectors = torch.stack([states.mean(0) for states in each])  # (B, width)
        elif real is None:
            vectors = inputs  # (B, width)
        elif self.pool == "cls":
            vectors = self.encoder(inputs, real, first).squeeze(1)  # (B, width)
        else:
            shares = real.to(torch.float32) / real.sum(1, keepdim=True)  # (B, L)
            vectors = (shares.unsqueeze(1) @ self.encoder(inputs, real)).squeeze(1)  # (B, width)
        features: Tensor = self.dropout(vectors)  # (B, width)
        return features


class Windows(NamedTuple):
    """Sentences of B, as pieces in R windows of which the longest sentences have several.

    Numbers (R, P) or states (R, P, width), which are real (R, P), and for each word where it begins among those R · P
    (B, L); or the words' states (B, L, width) by themselves; or numbers (T,) or states (T, width) of windows one behind
    another, the length of each, and where words begin among those T.
    """

    inputs: Tensor
    real: Tensor | None
    homes: Tensor | None
    lengths: Tensor
    """Words of each sentence (B,)."""
    sizes: Sequence[int] | None = None
    """Pieces of each window, if these are not padded."""


class EncodedTagger(nn.Module):
    """Scores of each tag at each word, for a CRF to put in order, or each by itself."""

    def __init__(self, encoder: AnyEncoder, width: int, tags: int, *, chain: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.crf = Scored(width, tags) if chain else SeparatelyScored(width, tags)

    def forward(self, batch: Windows) -> Tensor:
        """Emission scores (B, L, tags)."""
        states = batch.inputs  # (B, L, width)
        if batch.homes is not None:
            if batch.sizes is None:
                pieces = self.encoder(batch.inputs, batch.real).flatten(0, 1)  # (R · P, width)
            else:
                pieces = self.encoder.ragged(batch.inputs, batch.sizes)  # (T, width)
            states = pieces.index_select(0, batch.homes.flatten()).unflatten(0, batch.homes.shape)  # (B, L, width)
        emissions: Tensor = self.crf.emit(self.dropout(states))  # (B, L, tags)
        return emissions
