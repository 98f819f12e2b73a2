"""One site cannot shout the others down: what is far out of line is left out, by name and with the reason."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from wardround.core.cohort import BelowQuorum, Cohort
from wardround.core.exchange import Exchange
from wardround.core.manifest import Manifest
from wardround.core.memory import Memory
from wardround.core.method import Counts, Exam, Global, Step
from wardround.core.record import Message
from wardround.core.site import Site
from wardround.core.task import SiteData, Task
from wardround.core.weights import Layout, Weights
from wardround.layers.bound import Bound, oversized
from wardround.methods.fedatt import Attended, Bounded, FedAtt
from wardround.methods.fedavg import FedAvg, Update
from wardround.methods.fedcmc import Vectors, Wanted

LAYOUT = Layout([("a", (2, 3)), ("b", (4,))])
COUNTS = Layout([("hits", (2,)), ("misses", (2,)), ("loss", ())])
MANIFEST = Manifest({"model": LAYOUT, "counts": COUNTS}, {"classes": 2, "features": 3, "groups": 2})
MODEL = Global(Weights.of_flat(torch.ones(10), LAYOUT))
NAMES = ("ann", "bob", "cyd")


class Engine:
    """Answers from a table."""

    def __init__(self, replies: Mapping[str, Message]) -> None:
        self.replies = replies
        self.asked: list[str] = []

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any]]:
        del exchange, step
        self.asked += messages
        yield from ((name, self.replies[name]) for name in messages)


def step_of(message: type[Message], reply: type[Message]) -> Step[Any, Any]:
    return Step("fit", message, reply, cast("Callable[[Any, Site], Any]", None))


def cohort(replies: Mapping[str, Message], bound: Bound | None, round_: int = 3, **options: Any) -> Cohort:
    data = SiteData(train=(), test=())
    hub = Site("hub", cast("Task", None), lambda: data, Memory(Path("nowhere")), Exchange("hub", 3, 0, 0, 0))
    layers = (bound,) if bound else ()
    return Cohort(tuple(sorted(replies)), 9, round_, 0, Engine(replies), MANIFEST, hub, layers, **options)


def update(length: float, weight: int = 100, seed: int = 0) -> Update:
    """A change of this length per example, times its weight."""
    flat = torch.randn(10, generator=torch.Generator().manual_seed(seed))
    return Update(Weights.of_flat(flat / flat.norm() * length * weight, LAYOUT), weight)


def honest(**changes: Message) -> dict[str, Message]:
    return {name: update(1.0 + seed / 10, seed=seed) for seed, name in enumerate(NAMES)} | changes


def left_out(replies: Mapping[str, Message], bound: Bound, sent: Message = MODEL) -> dict[str, str]:
    """Whom an exchange leaves out; what it adds up are the others, to the bit."""
    asked = cohort(replies, bound)
    kind = type(next(iter(replies.values())))
    total = asked.total(step_of(type(sent), kind), sent)
    good = {name: reply for name, reply in replies.items() if name not in asked.left_out}
    assert cohort(good, None).total(step_of(type(sent), kind), sent) == total
    return asked.left_out


def test_honest_sites_are_all_in_the_sum() -> None:
    assert {} == left_out(honest(), Bound())


@pytest.mark.parametrize(("times", "message"), [(100, "100"), (-10, "10"), (1e30, "1e+30")])
def test_an_update_many_times_as_long_as_the_others_is_left_out_by_name(times: float, message: str) -> None:
    lie = update(1.2)
    lie = dataclasses.replace(lie, change=lie.change * times)
    expected = {"bob": f"fit: invalid: Update.change is {message} times the median of this exchange's"}
    assert expected == left_out(honest(bob=lie), Bound())


def test_a_lie_is_measured_per_example() -> None:
    assert {} == left_out(honest(bob=update(1.0, weight=10_000)), Bound())
    hidden = dataclasses.replace(update(1.0, weight=10_000), weight=1)
    assert ["bob"] == list(left_out(honest(bob=hidden), Bound()))


def test_large_sites_may_go_farther_and_small_ones_too_as_far_as_they_weigh_less() -> None:
    large = {"ann": update(1.0, 30), "bob": update(1.0, 30), "cyd": update(50.0, 3000)}
    assert {} == left_out(large, Bound())
    small = {"ann": update(30.0, 30), "bob": update(1.0, 300), "cyd": update(1.0, 3000)}
    assert {} == left_out(small, Bound())
    sizes = {key: {"train": 4096, "test": 64} for key in NAMES}
    assert ["cyd"] == list(left_out(large, Bound(declared=sizes.get)))


def test_the_median_of_a_round_is_its_largest_so_far() -> None:
    bound = Bound()
    step = step_of(Global, Update)
    quiet: dict[str, Message] = {"ann": update(0.01), "bob": update(0.02), "cyd": update(1.0)}
    asked = cohort(honest(), bound)
    asked.total(step, MODEL)
    cast("Engine", asked.engine).replies = quiet
    asked.total(step, MODEL)
    assert {} == asked.left_out
    assert ["cyd"] == list(left_out(quiet, Bound()))  # in a round's first exchange there is nothing to go by


def rounds(bound: Bound, *exchanges: Mapping[str, Message], first: int = 1) -> list[tuple[list[str], Any]]:
    """Whom each of several rounds leaves out, and what it notes."""
    results = []
    for round_, replies in enumerate(exchanges, first):
        asked = cohort(replies, bound, round_)
        asked.total(step_of(Global, Update), MODEL)
        results.append((sorted(asked.left_out), asked.noted))
    return results


def test_a_site_that_comes_back_late_is_not_taken_for_a_liar() -> None:
    late: list[dict[str, Message]] = [{"ann": update(0.1), "bob": update(0.1), "cyd": update(x)} for x in (1.8, 1.2)]
    away: list[dict[str, Message]] = [{"ann": update(x), "bob": update(x)} for x in (0.3, 0.1)]
    told = [honest(), *away, *late]
    whole = rounds(Bound(), *told)
    assert [[], [], [], [], []] == [names for names, _ in whole]
    again = Bound()  # of a process that takes the run up after the third round
    again.recall([noted for _, noted in whole[:3]])
    assert whole[3:] == rounds(again, *late, first=4)


def test_a_site_that_was_there_all_along_may_not_go_as_far() -> None:
    told: list[dict[str, Message]] = [honest(), {name: update(0.1) for name in NAMES}]
    lie: dict[str, Message] = {"ann": update(0.1), "bob": update(0.1), "cyd": update(-1.0)}
    assert [[], [], ["cyd"]] == [names for names, _ in rounds(Bound(), *told, lie)]
    far: dict[str, Message] = {"ann": update(0.1), "bob": update(0.1), "cyd": update(-10.0)}
    away: dict[str, Message] = {name: update(0.1) for name in ("ann", "bob")}
    assert [[], [], ["cyd"]] == [names for names, _ in rounds(Bound(), honest(), away, far)]


def test_a_claim_beyond_what_was_declared_is_left_out() -> None:
    sizes = {key: {"train": 128, "test": 64} for key in NAMES}
    assert {} == left_out(honest(), Bound(declared=sizes.get))
    claims = honest(cyd=Update(MODEL.weights * 0.0, 10**9))
    expected = {"cyd": "fit: invalid: Update.weight is more than the site declared, at most 128"}
    assert expected == left_out(claims, Bound(declared=sizes.get))
    unknown = {name: size for name, size in sizes.items() if name != "ann"}
    expected = {"ann": "fit: invalid: Update.weight counts, and the site has not declared what it has"}
    assert expected == left_out(honest(), Bound(declared=unknown.get))


def test_under_a_uniform_mean_every_site_weighs_one() -> None:
    replies: dict[str, Message] = {name: update(1.0, 50 if name == "bob" else 1) for name in NAMES}
    method = FedAvg(mean="uniform")
    expected = {"bob": "fit: invalid: Update.weight should be 1"}
    assert expected == left_out(replies, Bound(contradiction=method.contradiction))
    assert {} == left_out(replies, Bound(contradiction=FedAvg().contradiction))


def test_a_sum_that_overflows_names_the_largest_and_nobody_else() -> None:
    huge = Update(Weights.of_flat(torch.full((10,), 3e38), LAYOUT), 10**9)
    for two in ({"ann": update(1.0), "cyd": huge}, {"ann": huge, "bob": update(1.0)}):
        liar = next(name for name, reply in two.items() if reply is huge)
        assert [liar] == list(left_out(two, Bound()))
    both = {"ann": huge, "bob": dataclasses.replace(huge, change=huge.change * 0.9)}
    found = left_out(both, Bound(factor=2.0), Global(MODEL.weights * 1e38))
    assert {"ann": "fit: invalid: Update.change is so large that the sum overflows"} == found


def test_of_two_sites_only_what_is_absurd_is_left_out() -> None:
    assert {} == left_out({"ann": update(1.0), "bob": update(900.0)}, Bound())
    found = left_out({"ann": update(1.0), "bob": update(1e30)}, Bound())
    assert ["bob"] == list(found)
    assert "times the model's own length" in found["bob"]


def test_sites_that_learnt_nothing_do_not_make_the_others_liars() -> None:
    assert {} == left_out({"ann": update(0.0), "bob": update(0.0), "cyd": update(1.0)}, Bound())
    assert {} == left_out({name: update(0.0) for name in NAMES}, Bound())


def test_attention_must_follow_from_the_change() -> None:
    method, sent = FedAtt(), Bounded(MODEL.weights, torch.zeros(2, dtype=torch.float64))
    bound = Bound(contradiction=method.contradiction)

    def attended(length: float, seed: int) -> Attended:
        change = update(length, 1, seed).change
        distance = method.distance(change)
        return Attended(change.scaled(distance.exp()), distance.exp(), distance, 1)

    replies: dict[str, Message] = {name: attended(1.0 + seed, seed) for seed, name in enumerate(NAMES)}
    assert {} == left_out(replies, bound, sent)
    lie = cast("Attended", replies["bob"])
    loud = dataclasses.replace(lie, attention=lie.attention * 1e6, change=lie.change * 1e6)
    expected = {"bob": "fit: invalid: Attended.attention does not follow from its change"}
    assert expected == left_out(replies | {"bob": loud}, bound, sent)


def test_vectors_that_are_asked_for_have_a_bound_too() -> None:
    replies = {name: Vectors(torch.ones(2, 3) * (50.0 if name == "cyd" else 1.0)) for name in NAMES}
    asked = cohort(replies, Bound())
    assert ["ann", "bob"] == list(asked.ask(step_of(Wanted, Vectors), Wanted()))
    assert {"cyd": "fit: invalid: Vectors.vectors is 50 times the median of this exchange's"} == asked.left_out


def test_counts_of_an_evaluation_are_held_against_what_was_declared() -> None:
    def counts(hits: float, loss: float = 1.0) -> Counts:
        numbers = {"hits": torch.full((2,), hits), "misses": torch.ones(2), "loss": torch.tensor(loss)}
        return Counts(Weights({name: value.double() for name, value in numbers.items()}))

    sizes = {"ann": {"test": 64}, "bob": {"test": 64}, "cyd": {"test": 4096}}
    exam = Exam(MODEL.weights, "test")
    fair: dict[str, Message] = {"ann": counts(30.0), "bob": counts(20.0, 1e6), "cyd": counts(2000.0)}
    assert {} == left_out(fair, Bound(declared=sizes.get), exam)
    assert ["ann"] == list(left_out(fair | {"ann": counts(1e9)}, Bound(declared=sizes.get), exam))


def test_a_site_that_declares_a_hundred_times_the_others_is_not_even_asked() -> None:
    declared = {"ann": {"train": 256}, "bob": {"train": 1024}, "cyd": {"train": 2**20}}
    barred = oversized(declared)
    expected = (
        "it declares up to 1,048,576 train examples, 1,638 times the median of the others, and would outweigh them "
        "all; if that is true: submit --trust-sizes"
    )
    assert {"cyd": expected} == barred
    asked = cohort(honest(), Bound(declared=declared.get, barred=barred))
    asked.total(step_of(Global, Update), MODEL)
    assert ["ann", "bob"] == cast("Engine", asked.engine).asked
    assert {"cyd": f"fit: refused: {expected}"} == asked.left_out
    assert {} == oversized({"ann": {"train": 32}, "bob": {"train": 512}, "cyd": {"train": 4096}})


def test_who_is_left_out_is_not_counted_towards_the_quorum() -> None:
    asked = cohort(honest(bob=update(1e9)), Bound(), quorum=3)
    with pytest.raises(BelowQuorum, match=r"2 of 3 sites gave a usable reply.*bob: fit: invalid: Update.change is"):
        asked.total(step_of(Global, Update), MODEL)
