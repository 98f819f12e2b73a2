"""Multinomial logistic regression, over numbers or over words."""

from typing import Any, ClassVar

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

    adds_up: ClassVar[bool] = True
    """The scores are a sum of what each part gives, so each part's output has the scores' gradient."""

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


class WeighedBag(nn.Module):
    """Scores of each class, linear in the words of a text, each by how often it stands there and how much it tells.

    What tells how much is measured, not learnt: no gradient reaches it, and it comes first, where no step does.
    """

    measured: ClassVar[tuple[str, ...]] = ("importance", "shrinkage")

    def __init__(self, vocabulary: int, classes: int, *, balanced: bool = False, halves: bool = False) -> None:
        super().__init__()
        self.importance = nn.Parameter(torch.ones(vocabulary))
        self.shrinkage = nn.Parameter(torch.zeros(1))
        self.upper = vocabulary // 2 if halves else 0  # from where on numbers are of another kind; 0: nowhere
        if balanced:  # by the labels of all sites; 0 where each site's own decide
            self.balance = nn.Parameter(torch.zeros(classes))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.words = nn.EmbeddingBag(vocabulary, classes, mode="sum", padding_idx=0)
        nn.init.zeros_(self.words.weight)  # convex, as above

    def forward(self, ids: Tensor) -> Tensor:
        """Class scores, before the softmax, from token numbers padded with 0."""
        ids = ids.sort(1, descending=True).values  # (B, L): equal ones side by side, padding last
        new = torch.cat(
            [torch.ones_like(ids[:, :1]), (ids[:, 1:] != ids[:, :-1]).long()], 1
        )  # (B, L): first of its kind
        kind = new.cumsum(1) - 1  # (B, L)
        times = torch.zeros_like(ids).scatter_add(1, kind, torch.ones_like(ids)).gather(1, kind)  # (B, L): how often
        parts = self.importance.detach()[ids] * (1 + times.log()) * (new * (ids > 0))  # (B, L)
        if self.upper:  # both kinds of numbers have the same length, however many there are of each
            above = (ids >= self.upper).to(parts.dtype)  # (B, L)
            lengths = _length(parts * above) * above + _length(parts * (1 - above)) * (1 - above)  # (B, L)
            parts = parts / (lengths * 2**0.5)
        else:
            parts = parts / _length(parts)  # (B, L): a text has length 1
        scores: Tensor = self.words(ids, per_sample_weights=parts) + self.bias  # (B, classes)
        return scores

    def class_weights(self, own: Tensor) -> Tensor:
        """How much each class counts in training (labels,): as all sites' labels have it, or else as a site's own."""
        shared: Tensor | None = getattr(self, "balance", None)
        if shared is None:
            return own
        shared = shared.detach().cpu()  # whoever asks is beyond the model's border
        return torch.where(shared > 0, shared, own)

    def pull(self) -> Tensor:
        """λ/2 ‖W‖², by which words that stand in few texts do not decide alone."""
        pull: Tensor = _Pull.apply(self.words.weight, float(self.shrinkage.detach()))  # type: ignore[no-untyped-call]
        return pull


def _length(rows: Tensor) -> Tensor:
    """Of each row (B, 1)."""
    return rows.square().sum(1, keepdim=True).sqrt().clamp(min=1e-6)


class _Pull(torch.autograd.Function):
    """λ/2 ‖W‖² with a gradient of one pass over W, where torch's own takes several and most of a step's time."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, shrinkage: float) -> Tensor:
        """Its value."""
        ctx.save_for_backward(weight)
        ctx.shrinkage = shrinkage
        flat = weight.flatten()
        return shrinkage / 2 * flat.dot(flat)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """∇ = λ W."""
        (weight,) = ctx.saved_tensors
        return weight * (gradient * ctx.shrinkage), None
