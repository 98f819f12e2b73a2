"""Sums over rows of features and labels, and the classifier that they give; the formulas are in `ridge.py`.

system = System(sums)              # taken apart once
weights, bias = system.head(10.0)  # for each λ
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from wardround.core.bench import Bench
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.training import AT_ONCE
from wardround.core.weights import Weights

SLACK = 1e-8  # of rounding, where a sum is added up in another order
CURVED = 1e-6  # of rounding, in the directions of a matrix
CONSTANT = 1e-10  # a feature that varies less, beside its size, is rounding
DEAD = 1e-16  # a feature whose variance is less, beside the widest one's, is off: its weight would be beyond measure


class Sums(Message):
    """Sums over a site's rows of what the classifier sees of them: they tell whether a given text is among the rows."""

    delicate: ClassVar[bool] = True

    rows: int = reveals("how many training examples the site has", weighs="train")
    inputs: Tensor = reveals("the mean of the site's rows", shape=("features",), dtype=torch.float64)
    gram: Tensor = reveals(
        "a Gram matrix: whoever has a candidate text can tell whether it is among the rows, surely where these are "
        "fewer than the features, and likely up to several times as many",
        shape=("products",),
        dtype=torch.float64,
    )
    targets: Tensor = reveals(
        "for each class the sum of its rows: of a class with one row, that row", shape=("features", "classes"),
        dtype=torch.float64,
    )  # fmt: skip
    labels: Tensor = reveals("how many examples of each class the site has", shape=("classes",), dtype=torch.float64)

    def __sub__(self, other: "Sums") -> "Sums":
        """What the others' rows add up to; a feature of which rounding alone is left has not been there."""
        rows, inputs, gram, targets, labels = (
            getattr(self, name) - getattr(other, name) for name in ("rows", "inputs", "gram", "targets", "labels")
        )
        there = (self.squares - other.squares) > CONSTANT * self.squares  # (features,)
        one, two = torch.triu_indices(len(there), len(there))
        return Sums(rows, inputs * there, gram * (there[one] & there[two]), targets * there[:, None], labels)

    @property
    def squares(self) -> Tensor:
        """Σ x² of each feature."""
        return squares(self.gram, len(self.inputs))

    def row_length(self) -> float | None:
        """By the squares of all features."""
        return math.sqrt(max(float(self.squares.sum()), 0.0) / self.rows) if self.rows > 0 else None

    def flaw(self) -> str | None:
        """Why no rows can have these sums: Σ y = n, Σ B = s, and products that no rows have."""
        if round(float(self.labels.sum())) != self.rows or (self.labels < 0).any():
            return "Sums.labels do not add up to its rows"
        if why := no_gram(self.labels, self.targets, self.gram):
            return f"Sums.gram is {why}"
        lengths = self.squares.sqrt()
        apart = (self.targets.sum(1) - self.inputs).abs() > lengths * math.sqrt(self.rows) * SLACK
        if apart.any():
            return "Sums.targets are not those of its rows"
        return None


def squares(gram: Tensor, width: int) -> Tensor:
    """Σ x² of each feature: where the upper half of a Gram matrix has its diagonal."""
    places = torch.arange(width)
    return gram[..., places * width - places * (places - 1) // 2]


def whole(gram: Tensor, width: int) -> Tensor:
    """The symmetric matrix of this upper half."""
    full = torch.zeros(width, width, dtype=torch.float64)
    full[tuple(torch.triu_indices(width, width))] = gram
    return full + full.triu(1).T


def no_gram(counts: Tensor, sums: Tensor, gram: Tensor) -> str | None:
    """What products are instead that cannot be those of so many rows of each class (classes,) with these sums.

    `sums` (features, classes). Nothing is larger than its factors allow (Cauchy and Schwarz), and in no direction do
    the rows of a class vary by less than nothing: G − Σ b bᵀ / n over classes has no negative value. By features alone,
    sums along a direction in which no rows vary would pass, and a classifier that divides by it would follow them.
    """
    width, diagonal = len(sums), squares(gram, len(sums))
    lengths, more = diagonal.clamp(min=0).sqrt(), 1 + CONSTANT
    one, two = torch.triu_indices(width, width)
    most = lengths[:, None] * counts.sqrt() * more  # (features, classes)
    if (diagonal < 0).any() or (sums.abs() > most).any() or (gram.abs() > lengths[one] * lengths[two] * more).any():
        return "no Gram matrix of its rows"
    if not counts.any():
        return "of more rows than there are" if lengths.any() else None
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    means = sums / counts.clamp(min=torch.finfo(torch.float64).tiny).sqrt()  # of a class without rows, 0
    spread = scale[:, None] * (whole(gram, width) - means @ means.T) * scale
    beyond = torch.linalg.cholesky_ex(spread + CURVED * torch.eye(width, dtype=torch.float64)).info
    return "no Gram matrix of its rows" if beyond else None


class System:
    """The normal equations of these sums, taken apart so that every λ is cheap; without `centred` there is no bias."""

    def __init__(self, sums: Sums, *, centred: bool = True) -> None:
        width, rows = len(sums.inputs), sums.rows
        self.sums, self.centred = sums, centred
        full = whole(sums.gram, width)
        self.mean = sums.inputs / rows if centred else torch.zeros(width, dtype=torch.float64)
        spread = full - rows * torch.outer(self.mean, self.mean)  # S
        variance = spread.diagonal() / rows
        varies = (variance > CONSTANT * full.diagonal() / rows) & (variance > DEAD * variance.max())
        self.inverse = torch.where(varies, variance.clamp(min=torch.finfo(torch.float64).tiny).rsqrt(), 0.0)  # D⁻¹
        standard = self.inverse[:, None] * spread * self.inverse
        self.values, self.vectors = torch.linalg.eigh(standard)
        self.values = self.values.clamp(min=0.0)
        self.shared = sums.targets - torch.outer(self.mean, sums.labels)  # (features, classes)
        self.turned = self.vectors.T @ (self.inverse[:, None] * self.shared)  # (features, classes)

    def head(self, penalty: float) -> tuple[Tensor, Tensor]:
        """W (features, classes) and b (classes,) under this λ."""
        weights = self.inverse[:, None] * (self.vectors @ (self.turned / (self.values + penalty)[:, None]))
        bias = self.sums.labels / (self.sums.rows + penalty) - self.mean @ weights
        return weights, bias if self.centred else torch.zeros_like(bias)

    def doubt(self, penalty: float) -> float:
        """The error to expect on new rows, by generalised cross-validation, which the sums alone give."""
        rows, labels = self.sums.rows, self.sums.labels
        whole = rows - float(labels.square().sum()) / rows * self.centred  # Σ‖y − ȳ‖²
        shares = self.values / (self.values + penalty)
        fitted = (self.turned.square() / (self.values + penalty)[:, None]).sum(1)  # tr Wᵀ(B − μkᵀ), by direction
        error = whole - float((fitted * (2 - shares)).sum())
        free = rows - float(shares.sum()) - self.centred
        return error * rows / free**2 if free > 0 else float("inf")


@torch.no_grad()
def pooled_sums(site: Site, weights: Weights, dropped: Sequence[int] = ()) -> Sums:
    """The sums over a site's training rows, but for those of dropped classes, under a model."""
    task, train = site.class_task, site.data.train
    classes, width = weights[task.classifier].shape
    inputs, labels = (torch.zeros(size, dtype=torch.float64) for size in (width, classes))
    gram, targets = (torch.zeros(width, size, dtype=torch.float64) for size in (width, classes))
    model = Bench.at(site, weights).model.eval()
    for batch in task.batches(train, AT_ONCE, None) if len(train) else ():
        chosen = ~torch.isin(task.targets(batch), torch.tensor(dropped, dtype=torch.int64))  # (B,)
        features = task.features(model, batch)[chosen].double()  # (B, features)
        ones = functional.one_hot(task.targets(batch)[chosen], classes).double()  # (B, classes)
        inputs, labels = inputs + features.sum(0), labels + ones.sum(0)
        gram, targets = gram + features.T @ features, targets + features.T @ ones
    upper = gram[tuple(torch.triu_indices(width, width))]
    return Sums(int(labels.sum()), inputs, upper, targets, labels)
