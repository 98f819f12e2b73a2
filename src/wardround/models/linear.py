"""Multinomial logistic regression, over numbers or over words."""

from typing import Any

import torch
from torch import Tensor, nn


class Logistic(nn.Module):
    """Scores of each class, linear in the features."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, features: Tensor) -> Tensor:
        """Class scores, before the softmax."""
        scores: Tensor = self.linear(features)  # (B, classes)
        return scores


class Bag(nn.Module):
    """Scores of each class, linear in the words of a text, however often and wherever they stand."""

    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocabulary, classes, mode="sum", padding_idx=0)
        self.bias = nn.Parameter(torch.zeros(classes))
        nn.init.zeros_(self.words.weight)  # convex: any start will do, and unseen words should say nothing

    def forward(self, ids: Tensor) -> Tensor:
        """Class scores, before the softmax, from token numbers padded with 0."""
        lengths = (ids > 0).sum(1, keepdim=True).clamp(min=1)  # (B, 1)
        shares = lengths.rsqrt().expand(ids.shape)  # (B, L): a text of n words has length 1, not n
        scores: Tensor = self.words(ids, per_sample_weights=shares) + self.bias  # (B, classes)
        return scores

    def each_gradient(self, inputs: tuple[Any, ...], scores: Tensor, gradient: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Of each text, the gradient of the bias, from that of its scores."""
        return {"bias": gradient}
