"""Multinomial logistic regression."""

from torch import Tensor, nn

__all__ = ["Logistic"]


class Logistic(nn.Module):
    """Scores of each class, linear in the features."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, features: Tensor) -> Tensor:
        """Class scores, before the softmax."""
        scores: Tensor = self.linear(features)  # (B, classes)
        return scores
