"""A site runs declared steps only, and nothing but the declared message leaves."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from wardround.core.answer import answer, step_of
from wardround.core.cohort import Cohort
from wardround.core.exchange import Exchange, Fault
from wardround.core.layer import Layer
from wardround.core.memory import Memory
from wardround.core.method import Counts, Exam, Global, Method, Step, on_site
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.task import SiteData, Task
from wardround.core.weights import Weights
from wardround.engines.host import Host

NOTE = "patient Jane Doe, +49 30 1234567"
NOTHING = SiteData(train=(), test=())


class Question(Message):
    """What is asked."""

    number: int = reveals("nothing")


class Answer(Message):
    """What is answered."""

    number: int = reveals("a number")


class Longer(Answer):
    """An answer that says more than was declared."""

    more: str = reveals("everything")


class Secret(Private):
    """What stays."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Double(Method[Global]):
    """Doubles numbers; its other steps do what steps must not."""

    factor: int = 2

    def start(self, weights: Weights, cohort: Cohort) -> Global:
        del cohort
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        cohort.total(self.double, Question(1))
        return state

    @on_site
    def double(self, question: Question, site: Site) -> Answer:
        """Double it."""
        del site
        return Answer(question.number * self.factor)

    @on_site
    def other(self, question: Question, site: Site) -> Answer:
        del site
        return cast("Answer", question)

    @on_site
    def more(self, question: Question, site: Site) -> Answer:
        del site
        return Longer(question.number, NOTE)

    @on_site
    def private(self, question: Question, site: Site) -> Answer:
        del question, site
        return cast("Answer", Secret(NOTE))

    @on_site
    def nothing(self, question: Question, site: Site) -> Answer:
        del question, site
        return cast("Answer", None)

    @on_site
    def draw(self, question: Question, site: Site) -> Answer:
        del site
        return Answer(int(torch.randint(0, 1 << 30, (question.number,))[-1]))

    @on_site
    def fail(self, question: Question, site: Site) -> Answer:
        raise ValueError(f"{NOTE}: {question.number} notes of {site.name} cannot be read")

    @on_site
    def fail_deep(self, question: Question, site: Site) -> Answer:
        try:
            return self.fail.run(question, site)
        except ValueError as error:
            raise UnicodeError(NOTE) from error

    def helper(self, question: Question, site: Site) -> Answer:
        """Not a step."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Quadruple(Double):
    """Says what its parent says, twice."""

    @on_site
    def double(self, question: Question, site: Site) -> Answer:
        return Answer(2 * super().double.run(question, site).number)


class Doors(Layer):
    """Notes what leaves."""

    def __init__(self) -> None:
        self.left: list[Message] = []

    def leave(self, reply: Message, site: Site) -> Message:
        del site
        self.left.append(reply)
        return reply


def at(step: str, name: str = "a") -> Site:
    return Site(name, cast("Task", None), lambda: NOTHING, Memory(Path("nowhere")), Exchange(step, 1, 1, 0, 0))


def served(step: str, message: Message | None = None, method: Method[Any] | None = None) -> Message:
    return answer(method or Double(), message or Question(21), at(step), ())


# what runs


def test_the_declared_step_runs() -> None:
    assert Answer(42) == served("double")
    assert Answer(63) == served("double", method=Double(factor=3))


@pytest.mark.parametrize("name", ["helper", "start", "round", "factor", "__init__", "__class__", "no such", ""])
def test_nothing_but_a_declared_step_can_be_asked_for(name: str) -> None:
    with pytest.raises(LookupError, match=f"Double has no step {name!r}"):
        served(name)


def test_every_declared_step_is_known_with_its_messages() -> None:
    names = ["evaluate", "double", "other", "more", "private", "nothing", "draw", "fail", "fail_deep"]
    assert names == list(Double.declared())
    assert (Question, Answer) == Double.declared()["double"].kinds()
    assert (Exam, Counts) == Double.declared()["evaluate"].kinds()
    step = step_of(Double(), "double")
    assert ("double", Question, Answer) == (step.name, step.message, step.reply)


def test_a_step_can_build_on_its_parents_time_and_again() -> None:
    method = Quadruple()
    assert [Answer(84)] * 3 == [served("double", method=method) for _ in range(3)]
    assert isinstance(method.double, Step)


@pytest.mark.parametrize("message", [Answer(1), Global(Weights({}))], ids=["another message", "another again"])
def test_a_step_gets_only_the_message_that_it_takes(message: Message) -> None:
    with pytest.raises(TypeError, match=f"double takes a Question, not a {type(message).__name__}"):
        served("double", message)


# what leaves


@pytest.mark.parametrize(
    ("step", "kind"), [("other", "Question"), ("more", "Longer"), ("private", "Secret"), ("nothing", "NoneType")]
)
def test_what_a_step_did_not_declare_does_not_leave(step: str, kind: str) -> None:
    doors = Doors()
    with pytest.raises(TypeError, match=f"{step} declares that a Answer leaves the site, but a {kind} would"):
        answer(Double(), Question(1), at(step), (doors,))
    assert [] == doors.left


def test_what_leaves_has_passed_every_layer_in_order() -> None:
    class Add(Layer):
        def __init__(self, term: int, factor: int) -> None:
            self.term, self.factor = term, factor

        def leave(self, reply: Message, site: Site) -> Message:
            del site
            return Answer(cast("Answer", reply).number * self.factor + self.term)

    assert Answer((2 * 10 + 1) * 100) == answer(Double(), Question(1), at("double"), (Add(1, 10), Add(0, 100)))


def test_a_step_that_takes_or_returns_anything_but_messages_cannot_be_declared() -> None:
    def takes(self: object, secret: Secret, site: Site) -> Answer: ...  # type: ignore[empty-body]
    def returns(self: object, question: Question, site: Site) -> Secret: ...  # type: ignore[empty-body]
    def number(self: object, question: Question, site: Site) -> int: ...  # type: ignore[empty-body]
    def untold(self, question, site): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202

    for function, name in ((takes, "Secret"), (returns, "Secret"), (number, "int"), (untold, "None")):
        with pytest.raises(TypeError, match=rf"step .*{function.__name__} takes and returns messages, and {name} is"):
            on_site(function)


# chance


def test_a_step_draws_the_same_whoever_drew_before_and_disturbs_nobody() -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first = served("draw", Question(1))
    served("draw", Question(9))
    assert first == served("draw", Question(1))
    assert torch.equal(expected, torch.rand(2))
    assert first != answer(Double(), Question(1), at("draw", "b"), ())


# faults


class Federation:
    """One site without data."""

    names: Sequence[str] = ("a",)

    def open(self, name: str) -> SiteData:
        raise OSError(f"{name}: {NOTE}")


@pytest.mark.parametrize(
    ("step", "detail"),
    [
        ("fail", r"ValueError at test_answer\.py:\d+"),
        ("fail_deep", r"UnicodeError at test_answer\.py:\d+"),
        ("other", r"TypeError at answer\.py:\d+"),
        ("no such", r"LookupError at answer\.py:\d+"),
    ],
)
def test_an_error_at_a_site_becomes_a_code_without_its_text(step: str, detail: str, tmp_path: Path) -> None:
    doors = Doors()
    host = Host(Double(), cast("Task", None), Federation(), tmp_path, (doors,))
    fault = host.answer("a", Exchange(step, 1, 1, 0, 0), Question(1))
    assert isinstance(fault, Fault)
    assert "failed" == fault.code
    assert re.fullmatch(detail, fault.detail)
    assert not set(NOTE.split()) & set(str(fault).split())
    assert [] == doors.left
    assert isinstance(host.error, Exception)  # for those who may read it


def test_an_error_while_data_are_opened_is_a_fault_too(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Look(Double):
        @on_site
        def double(self, question: Question, site: Site) -> Answer:
            del question
            return Answer(len(site.data.train))

    host = Host(Look(), cast("Task", None), Federation(), tmp_path)
    fault = host.answer("a", Exchange("double", 1, 1, 0, 0), Question(1))
    assert isinstance(fault, Fault)
    assert re.fullmatch(r"OSError at test_answer\.py:\d+", fault.detail)


def test_a_host_serves_what_leaves(tmp_path: Path) -> None:
    host = Host(Double(), cast("Task", None), Federation(), tmp_path)
    assert Answer(4) == host.answer("a", Exchange("double", 1, 1, 0, 0), Question(2))
    assert host.error is None
