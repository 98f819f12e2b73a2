"""Rows of numbers to a class, by multinomial logistic regression: the task of the Synthetic studies."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.task import Batch, Examples
from wardround.core.weights import Layout
from wardround.metrics.classes import class_counts, class_layout, class_metrics
from wardround.models.linear import Logistic

__all__ = ["FeatureRows", "Features", "FeaturesTask"]

EVALUATED_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Examples, or a batch of them: one row of inputs per label."""

    inputs: Tensor
    labels: Tensor
    rows: Tensor | None = None
    """Of a batch: where its rows stand among the examples."""

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class Features:
    """The settings of the task."""

    takes: ClassVar[str] = "rows"

    def bind(self, corpus: Any) -> "FeaturesTask":
        """The task on a corpus with this many features and classes."""
        return FeaturesTask(corpus.features, corpus.classes)


@dataclass(frozen=True)
class FeaturesTask:
    """Rows of `inputs` numbers to one of `classes`."""

    inputs: int
    classes: int

    classifier: ClassVar[str] = "linear.weight"

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes' numbers."""
        return tuple(map(str, range(self.classes)))

    def model(self) -> nn.Module:
        """A new logistic regression."""
        return Logistic(self.inputs, self.classes)

    def examples(self, rows: Any) -> FeatureRows:
        """A corpus's rows as tensors."""
        return FeatureRows(torch.from_numpy(rows.features), torch.from_numpy(rows.labels))

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:
        """One pass over the rows, shuffled if there is a generator; size 0 is all in one."""
        rows = cast("FeatureRows", examples)
        inputs, labels = rows.inputs, rows.labels
        order = torch.arange(len(rows)) if rng is None else torch.randperm(len(rows), generator=rng)
        if rng is not None:
            inputs, labels = inputs[order], labels[order]
        size = size or max(len(rows), 1)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            yield FeatureRows(inputs[part], labels[part], order[part])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean cross-entropy."""
        rows = cast("FeatureRows", batch)
        return functional.cross_entropy(model(rows.inputs), rows.labels)

    def features(self, model: nn.Module, batch: Batch) -> Tensor:  # noqa: ARG002 -- nothing is learnt before them
        """The inputs as they are."""
        return cast("FeatureRows", batch).inputs

    def scores(self, model: nn.Module, features: Tensor) -> Tensor:
        """Linear in the features (B, classes)."""
        scores: Tensor = model(features)
        return scores

    def targets(self, batch: Batch) -> Tensor:
        """The class of each row (B,)."""
        return cast("FeatureRows", batch).labels

    def rows(self, batch: Batch) -> Tensor:
        """Where the rows stand among the examples (B,)."""
        return cast("Tensor", cast("FeatureRows", batch).rows)

    def tally(self, examples: Examples) -> Tensor:
        """How many rows of each class there are (classes,)."""
        return torch.bincount(cast("FeatureRows", examples).labels, minlength=self.classes)

    @torch.no_grad()
    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:
        """Hits, false alarms and misses per class, and the summed loss."""
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in self.counts().shapes.items()}
        for batch in self.batches(examples, EVALUATED_AT_ONCE, None):
            rows = cast("FeatureRows", batch)
            scores = model(rows.inputs)  # (B, classes)
            loss = functional.cross_entropy(scores, rows.labels, reduction="sum")
            counts = class_counts(scores, rows.labels, loss)
            total = {name: total[name] + counts[name] for name in total}
        return total

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return class_layout(self.classes)

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """Accuracy (weighted by site test size), macro-F1 and loss."""
        return class_metrics(counts)

    def sizes(self) -> dict[str, int]:
        """How many classes there are."""
        return {"classes": self.classes}
