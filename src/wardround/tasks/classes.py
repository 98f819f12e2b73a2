"""What tasks with classes have in common: the loop that counts, and the classifier that methods for skewed labels see.

A batch has `inputs`, `labels` (B,) and `rows` (B,), where its examples stand among those it was drawn from; examples
have `labels`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.weights import Layout
from wardround.metrics.by_class import confusion_counts
from wardround.metrics.classes import class_counts, class_layout
from wardround.metrics.constant import class_constant
from wardround.tasks.task import BoundTask

__all__ = ["ClassesTask", "ClassifierTask"]


class ClassesTask(BoundTask):
    """Examples to one of `names()`: how they are scored and counted."""

    at_once: ClassVar[int]
    """How many examples are evaluated together."""

    def scored(self, model: Any, batch: Any) -> Tensor:
        """The scores of a batch (B, classes), before the softmax."""
        scores: Tensor = model(batch.inputs)
        return scores

    def loss(self, model: Any, batch: Any) -> Tensor:
        """Mean cross-entropy."""
        return self.loss_of(self.scored(model, batch), batch.labels)

    def loss_of(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of these scores, every class counting the same."""
        return functional.cross_entropy(scores, labels)

    def counted(self, scores: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The counts of one batch, and its summed loss."""
        return class_counts(scores, labels, functional.cross_entropy(scores, labels, reduction="sum"))

    @torch.no_grad()
    def count(self, model: Any, examples: Any) -> Mapping[str, Tensor]:
        """Hits, false alarms and misses per class, and the summed loss."""
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in self.counts().shapes.items()}
        for batch in self.batches(examples, self.at_once, None):
            counts = self.counted(self.scored(model, batch), batch.labels)
            total = {name: total[name] + counts[name] for name in total}
        return total

    @torch.no_grad()
    def by_class(self, model: Any, examples: Any) -> Mapping[str, Tensor]:
        """The confusion matrix."""
        classes = len(self.names())
        total = torch.zeros(classes, classes, dtype=torch.float64)
        for batch in self.batches(examples, self.at_once, None):
            total += confusion_counts(batch.labels, self.scored(model, batch).argmax(1), classes)
        return {"confusion": total}

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return class_layout(len(self.names()))

    def constant(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What always answering the commonest class would have counted."""
        return class_constant(counts)

    def sizes(self) -> dict[str, int]:
        """How many classes there are."""
        return {"classes": len(self.names())}


class ClassifierTask(ClassesTask):
    """The same, by a linear classifier over features: a `core.site.ClassTask`."""

    classifier: ClassVar[str]

    def scores(self, model: nn.Module, features: Tensor) -> Tensor:
        """Linear in the features (B, classes)."""
        scores: Tensor = model.get_submodule(self.classifier.removesuffix(".weight"))(features)
        return scores

    def targets(self, batch: Any) -> Tensor:
        """The class of each example (B,)."""
        labels: Tensor = batch.labels
        return labels

    def rows(self, batch: Any) -> Tensor:
        """Where each example stands among those that `batches` was given (B,)."""
        rows: Tensor = batch.rows
        return rows

    def tally(self, examples: Any) -> Tensor:
        """How many examples of each class there are (classes,)."""
        return torch.bincount(examples.labels, minlength=len(self.names()))
