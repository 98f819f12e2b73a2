"""A text classifier that reads from left to right: embedding → LSTM → mean or last state → class scores.

    model = LSTMClassifier(vocabulary=20_000, embedding=100, hidden=128, classes=6, dropout=0.3)
    scores = model(tokens)  # tokens: numbers (B, L), padded at the end with 0, L at least 1

Padding changes no score. An LSTM of one direction has seen nothing of the padding when it leaves the last real
token, and the states after that have no weight: the same as packing, in less than half of its time on a CPU.
An empty text has the summary zero.

Frozen embeddings are no trainable parameters: they are not sent, and so cannot give away the words of a batch.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from wardround.core.device import entry

PADDING = 0


class LSTMClassifier(nn.Module):
    """Scores of each class, from the states of an LSTM at the real tokens."""

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        hidden: int,
        classes: int,
        *,
        dropout: float = 0.0,
        summary: Literal["mean", "last"] = "mean",
        vectors: Tensor | None = None,
        freeze: bool = False,
    ) -> None:
        """With `vectors` (vocabulary, embedding) the embeddings start from a copy of these."""
        super().__init__()
        if vectors is not None and vectors.shape != (vocabulary, embedding):
            raise ValueError(
                f"the word vectors have shape {list(vectors.shape)}, not [{vocabulary}, {embedding}]; "
                f"give one row per token number, row {PADDING} for padding"
            )
        self.summary = summary
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PADDING)
        if vectors is not None:
            with torch.no_grad():
                self.embedding.weight.copy_(vectors)
                self.embedding.weight[PADDING] = 0
        self.embedding.weight.requires_grad_(not freeze)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(hidden, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Class scores, before the softmax."""
        scores: Tensor = self.linear(self.features(tokens))  # (B, classes)
        return scores

    @entry
    def features(self, tokens: Tensor) -> Tensor:
        """What the classifier sees of each text."""
        real = tokens != PADDING  # (B, L)
        lengths = real.sum(1, keepdim=True)  # (B, 1)
        inputs = self.dropout(self.embedding(tokens))  # (B, L, embedding)
        states, _ = self.lstm(inputs)  # (B, L, hidden)
        if self.summary == "mean":
            weights = real.to(states.dtype) / lengths.clamp(min=1)  # (B, L): 1/length at each real token
        else:
            weights = (real & (real.cumsum(1) == lengths)).to(states.dtype)  # (B, L): 1 at the last real token
        text = (weights.unsqueeze(1) @ states).squeeze(1)  # (B, hidden)
        features: Tensor = self.dropout(text)  # (B, hidden)
        return features
