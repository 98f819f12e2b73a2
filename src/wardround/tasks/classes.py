"""What tasks with classes have in common: the loop that counts, and the classifier that methods for skewed labels see.

A batch has `inputs`, `labels` (B,) and `rows` (B,), where its examples stand among those it was drawn from; examples
have `labels`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.weights import Layout
from wardround.metrics.measures import ONE_CLASS, Measures
from wardround.tasks.task import BoundTask


class ClassesTask(BoundTask):
    """Examples to one of `names()`: how they are scored and counted."""

    at_once: ClassVar[int]
    """How many examples are evaluated together."""

    @property
    def measures(self) -> Measures:
        """How its answers are counted, and what is made of that."""
        return ONE_CLASS

    def through(self, examples: Any) -> Iterator[Any]:
        """All examples in batches, for what learns nothing of them."""
        yield from self.batches(examples, self.at_once, None)

    def asked(self, examples: Any) -> Iterator[Any]:
        """The same for answers, which may be rounded in another way."""
        return self.through(examples)

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

    def slopes(self, model: Any, batch: Any) -> tuple[Tensor, Tensor] | None:
        """The scores of a batch (B, classes), and the gradient of its summed cross-entropy for them: p − y.

        None where classes are weighed, an example has several, or the model adds a pull to the loss.
        """
        if not self.one_answer or getattr(batch, "weights", None) is not None or hasattr(model, "pull"):
            return None
        scores = self.scored(model, batch)
        slopes, labels = scores.softmax(1), batch.labels.unsqueeze(1)
        return scores, slopes.scatter_add_(1, labels, slopes.new_full((), -1.0).expand_as(labels))

    def counted(self, scores: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The counts of one batch, and its summed loss."""
        return self.measures.counts(scores, labels, functional.cross_entropy(scores, labels, reduction="sum"))

    @torch.no_grad()
    def count(self, model: Any, examples: Any) -> Mapping[str, Tensor]:
        """Hits, false alarms and misses per class, which was taken for which, and the summed loss."""
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in self.counts().shapes.items()}
        for batch in self.through(examples):
            counts = self.counted(self.scored(model, batch), batch.labels)
            total = {name: total[name] + counts[name] for name in total}
        return total

    @property
    def one_answer(self) -> bool:
        """Each example has one class."""
        return True

    @torch.no_grad()
    def each(self, model: Any, texts: Any) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """The counts of each example."""
        for batch in self.through(self.examples(texts)):
            scores = self.scored(model, batch)  # (B, classes)
            for at, row in enumerate(batch.rows.tolist()):
                one = slice(at, at + 1)
                yield row, self.counted(scores[one], batch.labels[one])

    def redrawn(self, counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> Mapping[str, Tensor]:
        """From the confusion matrix, or label by label."""
        return self.measures.redrawn(counts, rng, draws)

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return self.measures.layout(len(self.names()))

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """The figures, the one to rank by first."""
        return self.measures.metrics(counts)

    def constant(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What the best constant answer would have counted."""
        return self.measures.constant(counts)

    def chance(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What answers drawn at random would have counted."""
        return self.measures.chance(counts)

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
