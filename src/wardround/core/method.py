"""A method is one class with two halves that face each other: `round` at the coordinator, steps at the sites.

    class FedAvg(LocalTraining):
        def round(self, state, cohort):
            total = cohort.total(self.fit, state)
            return Global(state.weights + total.change / total.examples)

        @on_site
        def fit(self, model: Global, site: Site) -> Update: ...

The halves meet only through messages: a step's annotations say which. A method's settings are the fields of
its frozen dataclass; it holds no other state. State goes in and comes out.
"""

import inspect
import typing
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, overload

import torch

from wardround.core.bench import Bench
from wardround.core.record import Message, Record, reveals
from wardround.core.site import Site
from wardround.core.task import Task
from wardround.core.weights import Weights

if typing.TYPE_CHECKING:
    from wardround.core.cohort import Cohort

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)


class State(Protocol):
    """What a method carries from round to round: a record with the shared weights in it."""

    @property
    def weights(self) -> Weights: ...  # noqa: D102 -- the class says it

    @property
    def nbytes(self) -> int: ...  # noqa: D102 -- likewise

    def encode(self) -> bytes: ...  # noqa: D102 -- likewise


S = TypeVar("S", bound=State)


class Global(Message):
    """The shared model as it stands; the same for every site."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")


class Exam(Message):
    """The shared model and the split on which it is to be tried."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    split: str = reveals("nothing; the name of a split")


class Counts(Message):
    """How the model did on a site's own examples, as numbers that add up over sites."""

    numbers: Weights = reveals(
        "by class or by score, how many of the site's examples the model got right and wrong, which class it took for "
        "which, and the summed loss",
        like="counts",
        dtype=torch.float64,
    )


@dataclass(frozen=True)
class Step(Generic[M, R]):
    """One thing a site can be asked to do: a message comes in, a message goes out."""

    name: str
    message: type[M]
    reply: type[R]
    run: Callable[[M, Site], R]
    limit: int | None = None
    """How many bytes a reply on the wire can have at most, where that is known."""


class on_site(Generic[M, R]):  # noqa: N801 -- reads as the decorator it is
    """Declares a method's step: the part that runs at a site and answers with a message."""

    def __init__(self, function: Callable[[Any, M, Site], R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        with suppress(NameError):  # what names a class further down is checked when it is first used
            self.kinds()

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, method: None, owner: type) -> Self: ...
    @overload
    def __get__(self, method: object, owner: type) -> Step[M, R]: ...
    def __get__(self, method: object | None, owner: type) -> Self | Step[M, R]:
        if method is None:
            return self
        message, reply = self.kinds()
        name = self.name if isinstance(method, Method) else f"{owner.__name__}.{self.name}"  # a layer's own
        step = Step(name, message, reply, self.function.__get__(method))
        if getattr(type(method), self.name, None) is self:  # and not a parent's, reached by super()
            method.__dict__[self.name] = step  # found there first from now on
        return step

    def kinds(self) -> tuple[type[M], type[R]]:
        """The message that comes in and the one that goes out, from the step's annotations."""
        hints = typing.get_type_hints(self.function)
        _, first, *_ = [*inspect.signature(self.function).parameters, "", ""]  # self, then the message
        message, reply = hints.get(first), hints.get("return")
        for kind in (message, reply):
            if not (isinstance(kind, type) and issubclass(kind, Message)):
                name = getattr(kind, "__name__", kind)
                raise TypeError(
                    f"step {self.function.__qualname__} takes and returns messages, and {name} is none: "
                    f"only a Message may cross the wire; derive it from Message or keep it at the site"
                )
        return typing.cast("type[M]", message), typing.cast("type[R]", reply)


def steps_of(kind: type) -> dict[str, on_site[Any, Any]]:
    """The steps that a class declares or inherits, by name."""
    steps: dict[str, on_site[Any, Any]] = {}
    for parent in reversed(kind.__mro__):
        steps |= {name: step for name, step in vars(parent).items() if isinstance(step, on_site)}
    return steps


@dataclass(frozen=True, kw_only=True)
class Method(Generic[S]):
    """What all methods are: a start, a round, steps, and how the result is tried."""

    pooled: ClassVar[bool] = False
    """Whether the method needs all examples in one place, which only a simulation can offer."""
    shares: ClassVar[bool] = True
    """Whether there is a shared model in the end."""
    apart: ClassVar[bool] = False
    """Whether the models that sites try do not begin with the shared one: fitting that anew changes no figure."""
    twice: ClassVar[bool] = False
    """Whether a site trains the shared model and one of its own: private parts would be trained with both."""
    classifier: ClassVar[bool] = False
    """Whether the method looks into a linear classifier: it then runs on a `ClassTask` only."""
    public: ClassVar[bool] = False
    """Whether the method needs public examples, at every site and at the coordinator's desk."""
    repeats: ClassVar[int] = 0
    """How often a round may ask a step once more than `exchanges` says, with the same weights."""
    once: ClassVar[bool] = False
    """Whether a site is asked in the first round that draws it, and never again."""
    beyond_training: ClassVar[str] = "it has not said what its replies are made of"
    """What its replies tell of the notes beyond what `train` has learnt, and so without noise; empty if nothing.

    Each class says so for itself: what one adds to another's replies, no parent can know.
    """
    sometimes: ClassVar[tuple[str, ...]] = ()
    """The steps that not every round asks for."""
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """The steps whose total is a mean over sites: by field, the number a site multiplies it by; none: all alike."""
    rehearsal: ClassVar[str] = "features"
    """The task that the method is rehearsed on; most run on any."""

    @abstractmethod
    def start(self, weights: Weights, cohort: "Cohort") -> S:
        """The state before the first round; may already ask the sites: sizes, label sets."""

    @abstractmethod
    def round(self, state: S, cohort: "Cohort") -> S:
        """One round: from the state before to the state after."""

    @on_site
    def evaluate(self, exam: Exam, site: Site) -> Counts:
        """Try the shared model, with the site's private part if it has one, on the site's own examples."""
        return self.tried(self.weights_at(site, exam.weights), exam.split, site)

    def weights_at(self, site: Site, shared: Weights) -> Weights:  # noqa: ARG002 -- a hook
        """The weights that a site tries: the shared ones, unless it has a model of its own."""
        return shared

    @property
    def personal(self) -> bool:
        """Whether figures are those of models that sites have of their own, not of the shared one."""
        return type(self).weights_at is not Method.weights_at

    def tried(self, weights: Weights, split: str, site: Site) -> Counts:
        """The counts of these weights on one split of the site's."""
        model, examples = Bench.at(site, weights).model.eval(), site.data.split(split)
        if site.guard and site.guard.plan.count_noise:
            site.stands_on(site.size)
            numbers = site.guard.counts(split, lambda unit: site.task.count(model, unit), site.task.counts())
            return Counts(Weights(numbers))
        site.stands_on(len(examples))
        return Counts(Weights(site.task.count(model, examples)))

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- a hook
        """Why an honest site cannot have given this reply, by the method's own equations; None if it can."""
        return None

    def in_sums(self) -> Self:
        """The method as it works where the coordinator may see nothing but sums; itself, if it never asks for more."""
        return self

    def unruled(self) -> str:
        """Why no robust rule can take the place of a mean in this method, to follow its name; nothing if one can."""
        return "" if self.means else "does not say which of its totals are means (`means`)"

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:  # noqa: ARG002 -- a hook
        """Sizes beyond the task's that this method's messages name in their shapes."""
        return {}

    def farthest(self, site: Site, weights: Weights) -> float:  # noqa: ARG002 -- a hook
        """How far from these weights a round can lead, as one site sees it, beyond what training does."""
        return 0.0

    def dtypes(self) -> Mapping[str, torch.dtype]:
        """Dtypes that this method's messages name and its settings decide; without one it is the model's."""
        return {}

    def opening(self) -> tuple[str, ...]:
        """The steps that each site is asked for once, before the first round."""
        return ()

    def exchanges(self, examples: int) -> Mapping[str, int]:  # noqa: ARG002 -- a hook
        """How often a site is asked for each step in a round, with so many training examples at all sites together."""
        return {name: 1 for name in self.declared() if name != "evaluate" and name not in self.opening()}

    @classmethod
    @cache  # every exchange asks
    def declared(cls) -> dict[str, on_site[Any, Any]]:
        """Every step that a site can be asked for, by name."""
        return steps_of(cls)

    @classmethod
    def state_kind(cls) -> type[Record]:
        """The class of the state, from the annotation of `start`."""
        kind = typing.get_type_hints(cls.start, localns={"Cohort": object}).get("return")
        if not (isinstance(kind, type) and issubclass(kind, Record)):
            raise TypeError(f"{cls.__name__}.start must be annotated with the record that it returns")
        return kind
