"""All that methods need to know of a task: text → batches → loss → predictions → score.

A task's examples and batches are opaque to everybody else. What a method needs beyond a `Task` it declares: a
`ClassTask` has a linear classifier to look into, a `BagTask` has sentences that claim public facts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from wardround.core.weights import Layout


class Batch(Protocol):
    """Some examples as the model takes them; opaque to all but the task."""

    def __len__(self) -> int: ...


class Examples(Protocol):
    """The examples of one split at one site; opaque to all but the task."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Units:
    """What differential privacy protects as a whole at one site: examples, documents or patients."""

    rows: Sequence[Tensor]
    """The training examples of each unit, by their row numbers."""
    apart: Callable[[str], Iterable[Examples]]
    """The examples of a split, those of each unit by themselves."""
    mixed: bool = False
    """Whether these parts hold several units each: sentences, say, of which a document's are counted together."""

    @property
    def count(self) -> int:
        """How many units there are to train on."""
        return len(self.rows)

    @cached_property
    def sizes(self) -> Tensor:
        """How many examples each has (units,)."""
        return torch.tensor([len(rows) for rows in self.rows], dtype=torch.int64)

    @cached_property
    def single(self) -> Tensor | None:
        """The row of each unit (units,), if each has just one."""
        return torch.cat(list(self.rows)) if self.rows and bool((self.sizes == 1).all()) else None

    def take(self, units: Tensor) -> tuple[Tensor, Tensor | None]:
        """The rows of these units, and for each row the place of its unit among them; none if each unit has one."""
        if self.single is not None:
            return self.single.index_select(0, units), None
        rows = [self.rows[unit] for unit in units.tolist()]
        return torch.cat(rows), torch.repeat_interleave(self.sizes[units])


@dataclass(frozen=True)
class SiteData:
    """What one site has, by split; `public` is what everybody may see."""

    train: Examples
    test: Examples
    valid: Examples | None = None
    public: Examples | None = None
    units: Units | None = None
    """Under differential privacy, what is protected as a whole."""

    def split(self, name: str) -> Examples:
        """The examples of the split of this name."""
        examples: Examples | None = vars(self).get(name)
        if examples is None:
            raise ValueError(f"this site has no {name!r} examples")
        return examples


class Task(Protocol):
    """Text → batches → loss → predictions → score; each task gives models, examples and batches types of its own."""

    def model(self) -> nn.Module:
        """A new model, initialised from torch's generator."""

    def batches(self, examples: Any, size: int, rng: torch.Generator | None) -> Iterator[Any]:
        """One pass over the examples, shuffled if there is a generator; size 0 is all in one."""

    def loss(self, model: Any, batch: Any) -> Tensor:
        """The mean loss over a batch."""

    def count(self, model: Any, examples: Any) -> Mapping[str, Tensor]:
        """What evaluation counts: numbers that can be added over sites."""

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """Named figures from added-up counts."""

    def sizes(self) -> dict[str, int]:
        """Sizes that messages may name in their shapes, such as the number of classes."""


@runtime_checkable
class ClassTask(Task, Protocol):
    """A task whose model ends in a linear classifier over features: what methods for skewed labels look into."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the model's scores."""

    @property
    def classifier(self) -> str:
        """The name of the classifier's weight (classes, features) among the model's parameters."""

    def features(self, model: Any, batch: Any) -> Tensor:
        """What the classifier sees of each example (B, features)."""

    def scores(self, model: Any, features: Tensor) -> Tensor:
        """The classifier's scores (B, classes), before the softmax."""

    def targets(self, batch: Any) -> Tensor:
        """The class of each example (B,)."""

    def rows(self, batch: Any) -> Tensor:
        """Where each example of a batch stands among those that `batches` was given (B,)."""

    def tally(self, examples: Any) -> Tensor:
        """How many examples of each class there are (classes,)."""


class WeighedTask(Task, Protocol):
    """A task whose model has parts that are measured, not learnt: how much words tell, by counts of documents."""

    @property
    def measured(self) -> tuple[str, ...]:
        """The names of these parts; none if the task's settings have no use for them."""

    def document_counts(self, examples: Any) -> Tensor:
        """In how many of the examples each number that a word can have stands (buckets,)."""

    def label_counts(self, examples: Any) -> Tensor:
        """How many of the examples have each label, rounded (labels,); of no label where nobody is to know."""

    def weighed(
        self, counts: Tensor, documents: int, labels: Tensor | None = None, labelled: int = 0
    ) -> Mapping[str, Tensor]:
        """What counts over all sites make of the measured parts, those of labels from so many of the documents."""


@runtime_checkable
class UnitTask(Task, Protocol):
    """A task whose examples can be taken one by one: what differential privacy draws and clips."""

    def batch(self, examples: Any, rows: Tensor) -> Any:
        """The examples of these rows as the model takes them."""


class Surest(NamedTuple):
    """For each fact of a site: its public number, the largest probability of a sentence, and that sentence's row."""

    facts: Tensor
    scores: Tensor
    rows: Tensor


@runtime_checkable
class BagTask(Task, Protocol):
    """A task whose sentences claim public facts, and mostly wrongly: what methods that choose among them look into."""

    def surest(self, model: Any, examples: Any) -> Surest:
        """For each fact of the site, its surest sentence and how sure the model is of it."""

    def only(self, examples: Any, rows: Tensor) -> Any:
        """These sentences alone, each an example of its own."""

    def unrelated(self, examples: Any) -> Tensor:
        """The sentences of pairs without a fact."""

    def expressed(self, examples: Any, rows: Tensor) -> tuple[float, float]:
        """Of these sentences, how many claim a fact of which the truth is known, and how many of those truly say it."""
