"""The coordinator's two verbs: a sum that no order changes, bad replies left out by name, and a quorum."""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from wardround.core.codec import decode
from wardround.core.cohort import BelowQuorum, Cohort, Seen
from wardround.core.exchange import Exchange, Fault
from wardround.core.layer import Layer
from wardround.core.manifest import Manifest
from wardround.core.memory import Memory
from wardround.core.method import Step
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.task import SiteData, Task
from wardround.core.weights import Layout, Weights


class Question(Message):
    """What the coordinator asks."""

    text: str = reveals("nothing")


class Answer(Message):
    """What a site answers."""

    change: Weights = reveals("how the notes move the model")
    scores: Tensor = reveals("scores", shape=("classes",))
    found: Tensor = reveals("as many as there are", shape=("any",), dtype=torch.int64)
    count: int = reveals("how many examples")
    by_label: dict[str, int] = reveals("how many examples of each label")
    version: str = reveals("nothing")


class Secret(Private):
    """What may not be sent."""

    text: str


LAYOUT = Layout([("a", (2, 3)), ("b", (4,))])
MANIFEST = Manifest({"model": LAYOUT}, {"classes": 2})
NAMES = ("ann", "bob", "cyd", "dan")


def answer(name: str, **changes: Any) -> Answer:
    """A good answer, different for each site, and rounding differently in each order of addition."""
    rng = torch.Generator().manual_seed(sum(map(ord, name)))
    plain: dict[str, Any] = {
        "change": Weights.of_flat(
            torch.randn(10, generator=rng) * 10 ** torch.randint(-4, 5, (10,), generator=rng), LAYOUT
        ),
        "scores": torch.randn(2, generator=rng),
        "found": torch.tensor([1, 2, 3]),
        "count": 10,
        "by_label": {name: 1},
        "version": "1",
    }
    return Answer(**(plain | changes))


Reply = Message | Fault


class Engine:
    """Answers from a table, in a given order; what is asked is written down."""

    def __init__(self, replies: Mapping[str, Reply], order: Iterable[str] | None = None) -> None:
        self.replies, self.order = replies, order
        self.asked: list[Mapping[str, Message]] = []

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any]]:
        del exchange, step
        self.asked.append(messages)
        for name in self.order or messages:
            if name in messages:
                yield name, self.replies[name]


STEP = Step("fit", Question, Answer, cast("Callable[[Question, Site], Answer]", None))
ASK = Question("how?")


def cohort(replies: Mapping[str, Reply], order: Iterable[str] | None = None, **options: Any) -> Cohort:
    data = SiteData(train=(), test=())
    hub = Site("hub", cast("Task", None), lambda: data, Memory(Path("nowhere")), Exchange("hub", 3, 0, 0, 0))
    engine = Engine(replies, order)
    return Cohort(tuple(sorted(replies)), 9, 3, 0, engine, MANIFEST, hub, **options)


def good(*names: str) -> dict[str, Reply]:
    return {name: answer(name) for name in names or NAMES}


# the two verbs


def test_total_is_the_sum_and_ask_is_each_reply_by_name() -> None:
    expected = answer("ann") + answer("bob") + answer("cyd") + answer("dan")
    total = cohort(good()).total(STEP, ASK)
    assert expected == total
    assert type(total) is Answer
    replies = cohort(good()).ask(STEP, ASK)
    assert good() == replies
    assert list(NAMES) == list(replies)


@pytest.mark.parametrize("order", list(itertools.permutations(NAMES)), ids="-".join)
def test_the_order_of_replies_changes_no_bit(order: tuple[str, ...]) -> None:
    assert cohort(good()).total(STEP, ASK) == cohort(good(), order).total(STEP, ASK)
    assert list(NAMES) == list(cohort(good(), order).ask(STEP, ASK))


def test_many_sites_in_any_order_give_the_same_bits() -> None:
    replies = good(*(f"site-{number}" for number in range(40)))
    shuffled = random.Random(1).sample(sorted(replies), 40)  # noqa: S311 -- no secret
    assert cohort(replies).total(STEP, ASK) == cohort(replies, shuffled).total(STEP, ASK)


def test_a_message_per_site_reaches_only_that_site() -> None:
    letters = {"ann": Question("to ann"), "cyd": Question("to cyd")}
    asked = cohort(good())
    assert ["ann", "cyd"] == list(asked.ask(STEP, letters))
    assert [letters] == cast("Engine", asked.engine).asked


def test_exchanges_are_numbered_within_the_round() -> None:
    seen: list[Exchange] = []

    class Watch(Layer):
        def send(self, messages: Mapping[str, Message], exchange: Exchange) -> Mapping[str, Message]:
            seen.append(exchange)
            return messages

    both = cohort(good(), layers=(Watch(),), settled=2)
    both.ask(STEP, ASK)
    both.total(STEP, ASK)
    assert [Exchange("fit", 3, 1, 2, 0), Exchange("fit", 3, 2, 2, 0)] == seen


def test_only_the_message_that_a_step_takes_is_sent() -> None:
    wrongs: list[Any] = [answer("ann"), {"ann": Secret("x")}, {"ann": ASK, "bob": answer("bob")}]
    for wrong in wrongs:
        asked = cohort(good())
        with pytest.raises(TypeError, match=r"fit takes a Question, not a (Answer|Secret)"):
            asked.total(STEP, wrong)
        assert [] == cast("Engine", asked.engine).asked
    with pytest.raises(TypeError):
        cohort(good()).ask(STEP, Secret("x"))  # type: ignore[arg-type]


def test_ask_is_refused_where_a_layer_allows_only_sums() -> None:
    class Masked(Layer):
        only_sums = "a test says so"

    masked = cohort(good(), layers=(Layer(), Masked()))
    with pytest.raises(PermissionError, match=r"Masked lets the coordinator see only sums.*'fit'.*cohort\.total"):
        masked.ask(STEP, ASK)
    assert [] == cast("Engine", masked.engine).asked
    assert cohort(good()).total(STEP, ASK) == masked.total(STEP, ASK)


def test_layers_send_in_order_and_receive_in_reverse() -> None:
    calls: list[str] = []

    class Noted(Layer):
        def __init__(self, mark: str) -> None:
            self.mark = mark

        def send(self, messages: Mapping[str, Message], exchange: Exchange) -> Mapping[str, Message]:
            calls.append(f"send {self.mark}{exchange.number}")
            return messages

        def arrive(self, reply: Message, name: str, exchange: Exchange) -> Message:
            calls.append(f"arrive {self.mark}{exchange.number} {name}")
            return reply

        def settle(self, total: Message, step: Step[Any, Any], names: tuple[str, ...], cohort: Cohort) -> Message:
            calls.append(f"settle {self.mark}{cohort.exchanges} {step.name} {' '.join(names)}")
            return total

    cohort(good("ann"), layers=(Noted("x"), Noted("y"))).total(STEP, ASK)
    assert ["send x1", "send y1", "arrive y1 ann", "arrive x1 ann", "settle y1 fit ann", "settle x1 fit ann"] == calls


def test_a_watcher_sees_every_exchange() -> None:
    watch: list[Seen] = []
    cohort(good("ann", "bob"), watch=watch).ask(STEP, ASK)
    assert [Seen("fit", "ask", ASK, answer("ann")), Seen("fit", "ask", ASK, answer("bob"))] == watch


# traffic


def test_traffic_is_what_is_encoded() -> None:
    both = cohort(good())
    both.ask(STEP, ASK)
    both.total(STEP, {"bob": Question("a longer question"), "dan": ASK})
    asked = 4 * len(ASK.encode()) + len(Question("a longer question").encode()) + len(ASK.encode())
    assert asked == both.traffic.down
    assert sum(len(answer(name).encode()) for name in (*NAMES, "bob", "dan")) == both.traffic.up


# bad replies

NAN, INFINITY = float("nan"), float("inf")


def changed(index: int, value: float) -> Weights:
    flat = torch.zeros(10)
    flat[index] = value
    return Weights.of_flat(flat, LAYOUT)


def shaped(**shapes: tuple[int, ...]) -> Weights:
    return Weights({name: torch.zeros(shape) for name, shape in shapes.items()})


BAD: dict[str, tuple[Reply, str]] = {
    "NaN": (answer("bob", change=changed(3, NAN)), "invalid: Answer.change holds NaN or infinity"),
    "infinity": (answer("bob", change=changed(9, -INFINITY)), "invalid: Answer.change holds NaN or infinity"),
    "NaN in a tensor": (answer("bob", scores=torch.tensor([1, NAN])), "invalid: Answer.scores holds NaN or infinity"),
    "wrong shape of weights": (
        answer("bob", change=shaped(a=(3, 2), b=(4,))),
        "invalid: Answer.change does not fit: a has shape [3, 2], not [2, 3]",
    ),
    "missing tensor": (answer("bob", change=shaped(a=(2, 3))), "invalid: Answer.change does not fit: b is missing"),
    "extra tensor": (
        answer("bob", change=shaped(a=(2, 3), b=(4,), Jane=(1,))),
        "invalid: Answer.change does not fit: it has a tensor that is not part of the model",
    ),
    "other order": (
        answer("bob", change=shaped(b=(4,), a=(2, 3))),
        "invalid: Answer.change does not fit: the tensors come in another order",
    ),
    "wrong dtype of weights": (
        answer("bob", change=Weights.of_flat(torch.zeros(10).double(), LAYOUT)),
        "invalid: Answer.change has dtype float64, not float32",
    ),
    "wrong shape": (answer("bob", scores=torch.zeros(3)), "invalid: Answer.scores has shape [3], not [2]"),
    "wrong rank": (answer("bob", scores=torch.zeros(2, 1)), "invalid: Answer.scores has shape [2, 1], not [2]"),
    "wrong dtype": (
        answer("bob", scores=torch.zeros(2).half()),
        "invalid: Answer.scores has dtype float16, not float32",
    ),
    "count −1": (answer("bob", count=-1), "invalid: Answer.count is outside 0 … 1,000,000,000"),
    "count 10**12": (answer("bob", count=10**12), "invalid: Answer.count is outside 0 … 1,000,000,000"),
    "count −1 in a dict": (
        answer("bob", by_label={"Jane": -1}),
        "invalid: Answer.by_label is outside 0 … 1,000,000,000",
    ),
    "another message": (ASK, "invalid: a Question came in place of a Answer"),
    "fault": (Fault("failed", "ValueError at notes.py:7"), "failed: ValueError at notes.py:7"),
    "late": (Fault("late", "no reply in 60 s"), "late: no reply in 60 s"),
}
UNFIT: dict[str, tuple[Reply, str]] = {  # only the other replies tell that these are bad
    "free size": (
        answer("bob", found=torch.tensor([1])),
        "invalid: found has another shape or dtype at another site and cannot be added",
    ),
    "text": (answer("bob", version="Jane"), "invalid: version differs between sites and cannot be added"),
}


@pytest.mark.parametrize(("reply", "why"), (BAD | UNFIT).values(), ids=list(BAD | UNFIT))
def test_a_bad_reply_is_left_out_of_the_sum_by_name_and_with_a_reason(reply: Reply, why: str) -> None:
    summed = cohort(good() | {"bob": reply})
    assert answer("ann") + answer("cyd") + answer("dan") == summed.total(STEP, ASK)
    assert {"bob": f"fit: {why}"} == summed.left_out
    assert "Jane" not in summed.left_out["bob"]


@pytest.mark.parametrize(("reply", "why"), BAD.values(), ids=list(BAD))
def test_a_bad_reply_is_not_shown(reply: Reply, why: str) -> None:
    asked = cohort(good() | {"bob": reply})
    assert good("ann", "cyd", "dan") == asked.ask(STEP, ASK)
    assert {"bob": f"fit: {why}"} == asked.left_out


def test_a_site_that_was_left_out_is_not_asked_again_in_this_round() -> None:
    twice = cohort(good() | {"bob": Fault("late", "")})
    twice.total(STEP, ASK)
    twice.total(STEP, dict.fromkeys(NAMES, ASK))
    twice.ask(STEP, ASK)
    rest = ["ann", "cyd", "dan"]
    assert [list(NAMES), rest, rest] == [list(messages) for messages in cast("Engine", twice.engine).asked]


@pytest.mark.parametrize("silent", NAMES)
def test_a_site_that_gives_no_reply_at_all_is_left_out(silent: str) -> None:
    rest = [name for name in NAMES if name != silent]
    asked = cohort(good(), rest)
    assert rest == list(asked.ask(STEP, ASK))
    assert {silent: "fit: lost: no reply came"} == asked.left_out


def test_second_replies_and_replies_of_strangers_are_not_looked_at() -> None:
    class Echo(Engine):
        def deliver(
            self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
        ) -> Iterable[tuple[str, Any]]:
            for name in ("dan", "ann"):
                yield name, self.replies[name]
                yield name, answer(name, count=500)
                yield "eve", answer(name, count=700)
            yield from super().deliver(exchange, step, messages)

    asked = cohort(good())
    asked.engine = Echo(good())
    assert good() == asked.ask(STEP, ASK)
    assert {} == asked.left_out


def test_below_the_quorum_the_round_stops_and_says_why() -> None:
    replies = good() | {"bob": Fault("late", "no reply in 60 s"), "dan": answer("dan", count=-1)}
    enough = cohort(replies, quorum=2)
    assert answer("ann") + answer("cyd") == enough.total(STEP, ASK)
    for verb in ("ask", "total"):
        with pytest.raises(BelowQuorum) as caught:
            getattr(cohort(replies, quorum=3), verb)(STEP, ASK)
        assert (
            "round 3, fit: 2 of 4 sites gave a usable reply, the quorum is 3 (bob: fit: late: no reply in 60 s; "
            "dan: fit: invalid: Answer.count is outside 0 … 1,000,000,000)"
        ) == str(caught.value)


def test_there_is_no_round_without_any_reply() -> None:
    for replies in ({}, {"ann": Fault("lost", "")}):
        with pytest.raises(BelowQuorum, match=r"0 of \d sites"):
            cohort(replies, quorum=0).total(STEP, ASK)


# what the manifest makes of sizes


@given(
    st.dictionaries(st.text(max_size=40), st.lists(st.integers(0, 4), max_size=4).map(tuple), max_size=4),
    st.integers(0, 10**9),
)
def test_no_acceptable_message_is_above_the_limit(shapes: dict[str, tuple[int, ...]], count: int) -> None:
    change = Weights({name: torch.zeros(shape) for name, shape in shapes.items()})
    manifest = Manifest({"model": change.layout}, {"classes": 2})
    reply = answer("ann", change=change, count=count)
    assert manifest.refusal(Answer, reply) is None
    assert reply == decode(Answer, reply.encode(), limit=manifest.limit(Answer))


def test_the_limit_of_unknown_sizes_does_not_overflow() -> None:
    class Cube(Message):
        """As large as it likes."""

        cube: Tensor = reveals("much", shape=("depth", "width", "height", "time"))

    assert Manifest({}, {}).limit(Cube) > 8 * math.prod([1 << 20] * 4)


# chance at the coordinator


def test_chance_at_the_hub_depends_on_seed_and_round_alone() -> None:
    drawn = set()
    for disturbance in range(3):
        torch.rand(disturbance)
        cohort(good())
        drawn.add(float(torch.rand(1)))
    assert 1 == len(drawn)
