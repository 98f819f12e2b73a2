"""What a task is to everything around the methods: a run, a model's folder, its card, prediction, the page, exports.

A task is two classes in one file. `TaskSettings` are what a study's [task] says; `bind` makes the `BoundTask` of them
and a corpus, which methods train (`core.site.Task`). Whoever needs to know something of a task asks one of the two:
nothing else has a task's name in it. All hooks have a default, so a task of one's own writes those that it can answer
(examples/new_task.py).

    @dataclass(frozen=True, kw_only=True)
    class Wards(TaskSettings):
        def bind(self, corpus): return WardsTask(tuple(corpus.labels))
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from torch import Tensor

from wardround.core.task import Task
from wardround.models.pretrained import packaged
from wardround.text.document import Placed
from wardround.text.prediction import Prediction
from wardround.text.reading import Problems, existing_path
from wardround.text.sentences import Scope
from wardround.text.texts import Texts

Finds = Literal["entities", "relations", "labels", ""]
"""What a model of the task adds to a text; nothing, if it does not take text."""

CLINIC = {"name": "clinic", "hospitals": 3, "documents": 60, "test_documents": 30}
NOT_IN_NETWORK = ("what makes numbers of a text is not in the network", "use --to spacy")
NO_COUNTERPART = ("it is a model of another kind, which transformers has no model for", "use --to spacy")


class TaskSettings(ABC):
    """What a study says of a task, and what is known of the task before there is any data."""

    takes: ClassVar[str | None] = None
    """Which view of the corpus it takes: labels, entities, pairs, bags or rows; None: whatever the corpus gives."""
    finds: ClassVar[Finds] = ""
    does: ClassVar[str] = "is of a task of its own"
    """What a model of it does, after "it" on its card."""
    generated: ClassVar[Mapping[str, Any]] = CLINIC
    """A corpus of generated data that it can be rehearsed on, as a study's [corpus]."""
    small: ClassVar[Mapping[str, Any]] = {}
    """Settings of a model small enough for that."""
    needs: ClassVar[tuple[str, str] | None] = None
    """What documents must have for it, in the plural and one of it: ("entities", "entity")."""
    of_corpus: ClassVar[tuple[str, ...]] = ()
    """Its settings that name what stands in the texts: no use on other texts."""
    types: tuple[str, ...] | None = None
    """The types of entities that its settings declare; None if the corpus declares them."""

    @property
    def training(self) -> Mapping[str, Mapping[str, Any]]:
        """By optimiser, the preferred first, the settings of local training that suit the model."""
        return {}

    @property
    def undecided(self) -> bool:
        """Whether the language of the texts decides on something that the study leaves open."""
        return getattr(self, "tokens", "") is None

    @abstractmethod
    def bind(self, corpus: Any) -> "BoundTask":
        """The task on a corpus."""

    def restore(self, about: Any) -> "BoundTask":
        """The task of a trained model; `about` has what `BoundTask.answers` has told, as attributes."""
        return self.bind(about)

    def suited(self, language: str, *, spaced: bool = True) -> dict[str, Any]:  # noqa: ARG002 -- of classification
        """What suits texts of this language (empty if not known), blanks between words or not, where it is open."""
        return {"tokens": "words" if spaced else "characters"} if self.undecided else {}

    def files(self) -> dict[str, Path]:
        """By setting, the file or the encoder's folder that it names, and that a model's folder needs a copy of."""
        return {}

    def check(self, placed: Placed, problems: Problems, scope: Scope) -> None:  # noqa: B027 -- most have nothing to say
        """Note what the task would leave out of a document, for `wardround data check --task`.

        `scope` is within what the document's format has two entities make a pair.
        """

    def lacks(self, survey: Any) -> Iterator[tuple[str, str]]:
        """What a whole survey of documents lacks for the task, each with a remedy."""
        if self.needs and not getattr(survey, self.needs[0]):
            yield f"no {self.needs[1]} in any document", "was the export made without them?"


def existing(folder: str, **settings: str | None) -> dict[str, Path]:
    """By setting, the files that those settings name which are given."""
    return {name: existing_path(chosen, folder) for name, chosen in settings.items() if chosen}


def encoder_folder(name: str, folder: str) -> Path:
    """The folder of an encoder: the packaged `minilm`, or one that a study names."""
    return packaged() if name == "minilm" else existing_path(name, folder)


class BoundTask(Task):
    """A task on a corpus: what methods need (`Task`), and what all others ask."""

    not_exported: ClassVar[Mapping[str, tuple[str, str]]] = {
        "onnx": NOT_IN_NETWORK, "transformers": NO_COUNTERPART,
    }  # fmt: skip
    """By target of `wardround export`, why a model of this task cannot be written for it, and what to do."""
    references: ClassVar[tuple[str, ...]] = ()
    """What its figures can be compared with: "majority" needs `constant`, "chance" `chance`,
    "tfidf" `plain` and `loss_of`, "dictionary" `looked_up`."""
    constant_answer: ClassVar[str] = "always the commonest answer"
    """The answer that `constant` counts, in words."""
    to_classify: ClassVar[str] = "choose another task"
    """What to set for a linear classifier of one label per example, where the settings do not make one."""

    def why_not(self, target: str) -> tuple[str, str]:
        """What `not_exported` says of the model at hand."""
        return self.not_exported[target]

    # data

    @abstractmethod
    def examples(self, texts: Any) -> Any:
        """A site's raw examples as numbers."""

    def batch(self, examples: Any, rows: Tensor) -> Any:
        """The examples of these rows as the model takes them."""
        return examples.batch(rows)

    def homes(self, texts: Any) -> Sequence[int]:
        """Which of the raw examples each example is of: itself, unless a text is cut into several."""
        return range(len(texts))

    def unprotected(self, unit: str, *, counted: bool, private: tuple[str, ...]) -> Iterator[str]:  # noqa: ARG002 -- likewise
        """Why its training, or its counts, would tell of notes beyond what noise covers; each with a remedy."""
        return iter(())

    def at(self, name: str, texts: Callable[[], Any], private: tuple[str, ...]) -> Self:  # noqa: ARG002 -- for those whom it concerns
        """The task as a site has it, if it differs by site; its training texts are read when they are asked for."""
        return self

    def refuse(self, texts: Iterable[Any]) -> None:
        """Raise an error if nothing can be learnt of texts such as these, of a few sites, which come when asked for."""

    @property
    def fewest(self) -> int:
        """How many of its names the training examples of all sites must hold for there to be something to learn."""
        return 0

    def names(self) -> tuple[str, ...]:
        """The labels, or the types of entities, that its data may hold."""
        return getattr(self, "labels", ())

    def named(self, texts: Any) -> Counter[str]:
        """How often each name stands in raw examples."""
        return Counter(label for document in texts.documents for label in document.labels)

    def known(self, texts: Texts) -> tuple[Texts, Counter[str]]:
        """The examples that it can be tried on, and how often there is each label that it does not know."""
        names = {*self.names()}
        labels = Counter(label for document in texts.documents for label in document.labels if label not in names)
        mine = (document for document in texts.documents if len(document.labels) == 1 and names & {*document.labels})
        return Texts(tuple(mine)), labels

    def survey(self, texts: Any, problems: Problems) -> Mapping[str, int]:  # noqa: ARG002 -- likewise
        """How many examples of each class there are, for the description of the data; oddities are noted."""
        return Counter(texts.classes)

    # figures

    def constant(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:  # noqa: ARG002 -- likewise
        """What the best constant answer would have counted; nothing if there is no such thing."""
        return {}

    def chance(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:  # noqa: ARG002 -- likewise
        """What answers drawn at random, as often as each class occurs, can expect to count; nothing likewise."""
        return {}

    def by_class(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Hits, false alarms and misses of each of `names()`, and their confusion, if these were counted."""
        apart = {name: counts[name] for name in ("hits", "false_alarms", "misses", "confusion") if name in counts}
        return apart if len(apart) >= 3 else {}

    @property
    def one_answer(self) -> bool:
        """Whether each example is counted once, in one class."""
        return False

    def each(self, model: Any, texts: Any) -> Iterable[tuple[int, Mapping[str, Tensor]]] | None:  # noqa: ARG002 -- likewise
        """The counts of each part of raw examples, and which of them it is of; none if it cannot tell them apart."""
        return None

    def redrawn(self, counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> Mapping[str, Tensor]:  # noqa: ARG002 -- likewise
        """Counts as other samples of as many answers would have them, see `metrics.redrawn`; nothing likewise."""
        return {}

    def plain(self, texts: Texts) -> tuple[list[str], Tensor]:
        """Texts and labels, as a model that is not ours takes them."""
        raise NotImplementedError(f"{type(self).__name__} has no plain texts with labels")

    def loss_of(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of such a model's scores."""
        raise NotImplementedError(f"{type(self).__name__} has no loss of plain scores")

    def curve(self, counts: Mapping[str, Tensor]) -> list[tuple[float, float]] | None:  # noqa: ARG002 -- likewise
        """Recall and precision along the curve, for the report, if it has one."""
        return None

    # the trained model

    def answers(self) -> dict[str, Any]:
        """What the model's folder says of its answers: labels, negative, types, scheme."""
        return {"labels": self.names()}

    def summary(self) -> str:
        """What the model does, in the words of the page that serves it."""
        return f"Answers: {', '.join(self.names())}"

    def limits(self, scope: str) -> tuple[str, ...]:  # noqa: ARG002 -- likewise
        """What the model cannot do, for its card; `scope` is what two entities that it relates have in common."""
        return ()

    def predict(self, model: Any, texts: Sequence[Prediction]) -> list[Prediction]:
        """What the model adds to each text: to its words, or to the entities that are known by then."""
        raise NotImplementedError(f"{type(self).__name__} does not take text")
