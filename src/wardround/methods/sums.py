"""Sums over rows of features and labels, and the classifier that they give; the formulas are in `ridge.py`.

system = System(sums)              # taken apart once
weights, bias = system.head(10.0)  # for each λ
"""

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn import functional

from wardround.core.bench import Bench
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.task import ClassTask
from wardround.core.training import AT_ONCE
from wardround.core.weights import Weights

CONSTANT = 1e-10  # a feature that varies less, beside its size, is rounding


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
        """What the others' rows add up to."""
        fields = ("rows", "inputs", "gram", "targets", "labels")
        return Sums(*(getattr(self, name) - getattr(other, name) for name in fields))


class System:
    """The normal equations of these sums, taken apart so that every λ is cheap; without `centred` there is no bias."""

    def __init__(self, sums: Sums, *, centred: bool = True) -> None:
        width, rows = len(sums.inputs), sums.rows
        self.sums, self.centred = sums, centred
        full = torch.zeros(width, width, dtype=torch.float64)
        full[tuple(torch.triu_indices(width, width))] = sums.gram
        full = full + full.triu(1).T
        self.mean = sums.inputs / rows if centred else torch.zeros(width, dtype=torch.float64)
        spread = full - rows * torch.outer(self.mean, self.mean)  # S
        variance = spread.diagonal() / rows
        varies = variance > CONSTANT * full.diagonal() / rows
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
    task, train = cast("ClassTask", site.task), site.data.train
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
