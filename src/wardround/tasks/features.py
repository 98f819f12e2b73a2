"""Rows of numbers to a class, by multinomial logistic regression: the task of the Synthetic studies."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wardround.models.linear import Logistic
from wardround.tasks.classes import ClassifierTask
from wardround.tasks.task import TaskSettings


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Examples, or a batch of them: one row of inputs per label."""

    inputs: Tensor
    labels: Tensor
    rows: Tensor | None = None
    """Of a batch: where its rows stand among the examples."""

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Tensor) -> "FeatureRows":
        """These rows."""
        return FeatureRows(self.inputs.index_select(0, rows), self.labels.index_select(0, rows), rows)


@dataclass(frozen=True, kw_only=True)
class Features(TaskSettings):
    """The settings of the task."""

    takes: ClassVar[str] = "rows"
    does: ClassVar[str] = "sorts rows of numbers into classes"
    generated: ClassVar[Mapping[str, Any]] = {
        "name": "synthetic", "sites": 3, "features": 60, "classes": 10, "largest": 40,
    }  # fmt: skip

    def bind(self, corpus: Any) -> "FeaturesTask":
        """The task on a corpus with this many features and classes."""
        return FeaturesTask(corpus.features, corpus.classes)


@dataclass(frozen=True)
class FeaturesTask(ClassifierTask):
    """Rows of `inputs` numbers to one of `classes`."""

    inputs: int
    classes: int
    called: tuple[str, ...] = field(default=(), kw_only=True)
    """The names of the classes, if they have any."""

    classifier: ClassVar[str] = "linear.weight"
    at_once: ClassVar[int] = 8192

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes' names, or their numbers."""
        return self.called or tuple(map(str, range(self.classes)))

    def named(self, texts: Any) -> Counter[str]:  # noqa: ARG002 -- rows are no texts
        """Rows have no names that a site could spell in another way."""
        return Counter()

    def model(self) -> nn.Module:
        """A new logistic regression."""
        return Logistic(self.inputs, self.classes)

    def examples(self, texts: Any) -> FeatureRows:
        """A corpus's rows as tensors."""
        return FeatureRows(torch.from_numpy(texts.features), torch.from_numpy(texts.labels))

    def batches(self, examples: FeatureRows, size: int, rng: torch.Generator | None) -> Iterator[FeatureRows]:
        """One pass over the rows, shuffled if there is a generator; size 0 is all in one."""
        inputs, labels = examples.inputs, examples.labels
        order = torch.arange(len(examples)) if rng is None else torch.randperm(len(examples), generator=rng)
        if rng is not None:
            inputs, labels = inputs[order], labels[order]
        size = size or max(len(examples), 1)
        for start in range(0, len(examples), size):
            part = slice(start, start + size)
            yield FeatureRows(inputs[part], labels[part], order[part])

    def features(self, model: nn.Module, batch: FeatureRows) -> Tensor:  # noqa: ARG002 -- nothing is learnt before them
        """The inputs as they are."""
        return batch.inputs
