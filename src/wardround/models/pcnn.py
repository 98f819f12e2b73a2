"""A sentence as the most striking of what stands before, between and after its two entities (PCNN).

    model = PCNN(vocabulary=20_000, embedding=50, relations=5, dropout=0.5)
    vectors = model.encode(tokens, heads, tails)       # (S, 3 · filters)
    scores = model(tokens, heads, tails)               # (S, relations)

Zeng et al., "Distant Supervision for Relation Extraction via Piecewise Convolutional Neural Networks", EMNLP 2015.
Each token is its word vector and its distances to both entities; a convolution looks at three tokens at a time; its
outputs are cut into three pieces at the entities, an entity's first token ending its piece; of each filter and piece
the maximum stays, through tanh. An empty piece gives 0. Distances beyond 30 tokens are taken as 30 (Lin et al. 2016).

`tokens` are numbers padded at the end with 0; `heads` and `tails` are the places of the entities' first tokens.
Frozen word vectors are no trainable parameters: they are not sent, and so cannot give away the words of a batch.
"""

import torch
from torch import Tensor, nn

from wardround.core.device import entry

PADDING = 0
REACH = 30
PIECES = 3


def pieces(heads: Tensor, tails: Tensor, lengths: Tensor, longest: int) -> Tensor:
    """Which piece each token is in: 1, 2 or 3, and 0 for padding."""
    place = torch.arange(longest)  # (L,)
    first, second = torch.minimum(heads, tails)[:, None], torch.maximum(heads, tails)[:, None]  # (S, 1)
    piece = 1 + (place > first).long() + (place > second).long()  # (S, L)
    return torch.where(place < lengths[:, None], piece, 0)  # (S, L)


def pooled(outputs: Tensor, piece: Tensor) -> Tensor:
    """The maxima of outputs (S, filters, L) over each piece, 0 for an empty one; piece after piece (S, 3 · filters)."""
    maxima = []
    for number in range(1, PIECES + 1):
        outside = (piece != number)[:, None, :]  # (S, 1, L)
        most = outputs.masked_fill(outside, -torch.inf).amax(2)  # (S, filters)
        maxima.append(most.masked_fill(outside.all(2), 0.0))  # (S, filters)
    return torch.cat(maxima, 1)  # (S, 3 · filters)


class PCNN(nn.Module):
    """Scores of each relation, from the three pieces of a sentence."""

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        relations: int,
        *,
        position: int = 5,
        filters: int = 230,
        dropout: float = 0.0,
        vectors: Tensor | None = None,
        freeze: bool = False,
    ) -> None:
        """With `vectors` (vocabulary, embedding) the words start from a copy of these."""
        super().__init__()
        self.words = nn.Embedding(vocabulary, embedding, padding_idx=PADDING)
        if vectors is not None:
            if vectors.shape != (vocabulary, embedding):
                raise ValueError(f"vectors have shape {list(vectors.shape)}, not {[vocabulary, embedding]}")
            self.words.weight.data.copy_(vectors)
        self.words.weight.requires_grad_(not freeze)
        self.to_head = nn.Embedding(2 * REACH + 1, position)
        self.to_tail = nn.Embedding(2 * REACH + 1, position)
        self.convolution = nn.Conv1d(embedding + 2 * position, filters, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(PIECES * filters, relations)

    @entry
    def encode(self, tokens: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        """The vector of each sentence."""
        real = tokens != PADDING  # (S, L)
        place = torch.arange(tokens.shape[1])  # (L,)
        parts = [
            self.words(tokens),  # (S, L, embedding)
            self.to_head((place - heads[:, None]).clamp(-REACH, REACH) + REACH),  # (S, L, position)
            self.to_tail((place - tails[:, None]).clamp(-REACH, REACH) + REACH),  # (S, L, position)
        ]
        inputs = torch.cat(parts, 2) * real[:, :, None]  # (S, L, embedding + 2 · position)
        outputs = self.convolution(inputs.transpose(1, 2))  # (S, filters, L)
        piece = pieces(heads, tails, real.sum(1), tokens.shape[1])  # (S, L)
        return torch.tanh(pooled(outputs, piece))  # (S, 3 · filters)

    @entry
    def scores(self, vectors: Tensor) -> Tensor:
        """The scores of sentence or bag vectors (…, 3 · filters)."""
        return self.classifier(self.dropout(vectors))  # type: ignore[no-any-return]  # (…, relations)

    def forward(self, tokens: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        """The scores of each sentence by itself."""
        return self.scores(self.encode(tokens, heads, tails))  # (S, relations)
