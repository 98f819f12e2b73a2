"""Masked sums over real sites: the same bits as in a simulation, and nothing for a coordinator that lies."""

import json
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from loopback import OPEN, put
from loopback import Exchange as Sites
from study_files import small_study
from threat_table import threat
from wardround import __version__
from wardround.cli.site.trust import command
from wardround.consortium.approval import approve
from wardround.consortium.backup import back_up, put_back
from wardround.consortium.check import checked, leaving
from wardround.consortium.delivery import remind
from wardround.consortium.deployed import study_hash
from wardround.consortium.exchanges import Leaving, expected_exchanges, forecast
from wardround.consortium.forgotten import mark_restored, recover, restored
from wardround.consortium.identity import HouseVault, own_fingerprint, pin, seen
from wardround.consortium.roster import read_roster
from wardround.consortium.settings import read_site
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.submit import submit
from wardround.core.codec import decode
from wardround.core.cohort import BelowQuorum
from wardround.core.exchange import EVALUATION, Exchange
from wardround.core.method import Exam, Global
from wardround.core.record import Message
from wardround.core.site import Site
from wardround.core.weights import Weights
from wardround.engines.remote import Remote
from wardround.engines.seal import Asker, read_signing_key
from wardround.layers.keys import derived
from wardround.layers.keys import shift as masks_off
from wardround.layers.masked import LOCKED, TICKET, Again, Key, Masked, Meeting, Opened, Opening, box, table
from wardround.layers.masks import Masks
from wardround.methods.fedavg import Update
from wardround.methods.fedcmc import Guided
from wardround.methods.ridge import Unsolved
from wardround.runs.build import build_apart
from wardround.runs.errors import RunError
from wardround.runs.loop import run
from wardround.study.load import Study, load_study
from wardround.watch.house import House
from wardround.watch.officer import officers_page

NAMES = ("site-0", "site-1", "site-2", "site-3")
THREE = NAMES[:3]
PRIVACY = {"secure_aggregation": True}


def study_of(folder: Path, **changes: Any) -> Study:
    whole: dict[str, Any] = {"privacy": PRIVACY, "partition": {"name": "iid", "sites": 4}, **changes}
    return load_study(small_study(folder, **whole))[0].study


def weights_of(out: Path) -> bytes:
    return (out / "model" / "weights.safetensors").read_bytes()


def journal_of(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "ended")} for line in lines]


COUNTED = {
    "corpus": {"name": "clinic", "hospitals": 4, "documents": 8, "test_documents": 4},
    "task": {"name": "classification", "buckets": 64, "weighting": "documents", "rarest": 2},
}  # what each site counts before the first round goes into a sum, too


@pytest.mark.parametrize(
    "changes",
    [{"method": {"name": "fedavg", "batch": 8}}, {"method": {"name": "fedner", "batch": 8, "steps": 3}}, COUNTED],
    ids=["fedavg", "fedner", "document counts"],
)
def test_real_sites_give_the_bits_of_a_simulation(changes: dict[str, Any], tmp_path: Path) -> None:
    study = study_of(tmp_path, **changes)
    run(study, tmp_path / "serial")
    with Sites(tmp_path / "sites", study, NAMES) as sites:
        submit(study, tmp_path / "real", sites.over)
    assert weights_of(tmp_path / "serial") == weights_of(tmp_path / "real")
    assert journal_of(tmp_path / "serial") == journal_of(tmp_path / "real")
    kinds = {line["sent"]["kind"] for line in ledger_of(tmp_path / "sites" / "site-0") if "sent" in line}
    assert {"Key", "Masked", "Opened"} == kinds


def ledger_of(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "ledger" / "site.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "changes", [{}, {"method": {"name": "fedcmc"}}, COUNTED], ids=["fedavg", "fedcmc", "document counts"]
)
def test_what_a_site_is_told_before_is_what_its_ledger_then_has(changes: dict[str, Any], tmp_path: Path) -> None:
    """Message by message from the second round on, and in sum; what comes once is told apart."""
    study = study_of(tmp_path, rounds=4, partition={"name": "iid", "sites": 3}, **changes)
    place = tmp_path / "sites" / "site-0"
    with Sites(tmp_path / "sites", study, THREE) as sites:
        seen = leaving(place, read_site(place), study)
        ahead = forecast(study, expected_exchanges(study, 1, 3), seen)
        submit(study, tmp_path / "real", sites.over)
    sent = [line for line in ledger_of(place) if "sent" in line]
    last = [line for line in sent if line["round"] == 4]
    assert {one.step: one.reply.nbytes for one in seen if one.step in {line["step"] for line in last}} == {
        line["step"]: line["sent"]["bytes"] for line in last
    }
    for whole, found in (
        (ahead.per_round, [line for line in last if line["exchange"] < EVALUATION]),
        (ahead.evaluation, [line for line in last if line["exchange"] > EVALUATION]),
        (ahead.total, sent),
    ):
        assert Leaving(len(found), sum(line["sent"]["bytes"] for line in found)) == whole


def test_the_officer_reads_what_is_behind_the_masks_and_that_nobody_sees_it_alone(tmp_path: Path) -> None:
    study = study_of(tmp_path, rounds=1)
    with Sites(tmp_path / "sites", study, NAMES) as sites:
        submit(study, tmp_path / "real", sites.over)
    house = House(tmp_path / "sites" / "site-0")
    house.look()
    page = officers_page(house)
    block = page.split("<h3>Update, masked</h3>")[1].split("</div>")[0]
    for words in (
        "nobody can see it alone, neither the coordinator nor another site; what can be read is the sum of at least 3",
        "<code>change</code>: of all sites together: how the site&#x27;s notes move the model",
        "<code>weight</code>: of all sites together: how many training examples",
    ):
        assert words in block
    assert "<h3>Counts, masked</h3>" in page
    assert "what the step's own message says" not in page.replace("&#x27;", "'")


def cut_off(monkeypatch: pytest.MonkeyPatch, study: Study, out: Path, sites: Sites) -> None:
    """A coordinator that dies when round 2 is opened, and not yet in its checkpoint."""
    whole = Remote.deliver

    def until(engine: Remote, exchange: Exchange, *given: Any) -> Any:
        if (exchange.round, exchange.step) == (2, "evaluate"):
            raise KeyboardInterrupt
        return whole(engine, exchange, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "deliver", until)
        with pytest.raises(KeyboardInterrupt):
            submit(study, out, sites.over)


def test_a_resumed_run_over_real_sites_spends_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(tmp_path, rounds=2)
    run(study, tmp_path / "serial")
    with Sites(tmp_path / "sites", study, NAMES, restarts=0) as sites:
        cut_off(monkeypatch, study, tmp_path / "real", sites)
        for name in NAMES:  # a crash there, too
            sites.sites[name].studies.runs.clear()
        submit(study, tmp_path / "real", sites.over, resume=True)
    assert weights_of(tmp_path / "serial") == weights_of(tmp_path / "real")
    marks = [line["mark"] for line in ledger_of(tmp_path / "sites" / "site-0") if "sent" in line]
    assert {"new", "again"} == {*marks}


def test_a_resumed_run_without_a_member_of_the_opened_sum_says_whom_it_needs_and_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(tmp_path, rounds=2)
    run(study, tmp_path / "serial")
    with Sites(tmp_path / "sites", study, NAMES, restarts=2) as sites:
        cut_off(monkeypatch, study, tmp_path / "real", sites)
        honest, sites.twist = (
            sites.twist,
            lambda name, head, answer: None if name == "site-3" and "exchange" in head else answer,
        )
        words = r"with other members: get these back, and resume; or start anew without them, with another seed"
        with pytest.raises(BelowQuorum, match=words):
            submit(study, tmp_path / "real", sites.over, resume=True)
        other = study_of(tmp_path, rounds=2, seed=8)
        for name in THREE:
            approve(tmp_path / "sites" / name, other)
        submit(other, tmp_path / "other", sites.over, wait=0.0)
        assert [3, 3] == [line["sites"] for line in journal_of(tmp_path / "other")]
        sites.twist = honest
        submit(study, tmp_path / "real", sites.over, resume=True)
    assert weights_of(tmp_path / "serial") == weights_of(tmp_path / "real")


# a coordinator that lies


class Coordinator:
    """What a coordinator can ask of real sites, in whatever order and with whatever story."""

    def __init__(self, folder: Path, study: Study, *consent: str, names: tuple[str, ...] = NAMES) -> None:
        self.exchange = Sites(folder, study, names, consent=consent or OPEN, restarts=2)
        self.sites, self.study, self.names = self.exchange.sites, study, names
        self.number, self.run = 0, "0" * 16
        self.round, self.resumed = 1, tuple[int, ...]()
        self.weights = build_apart(study, folder, names).weights

    def ask(self, name: str, step: str, message: Message, kind: type[Message], **changes: Any) -> Any:
        """A site's answer: a message, or a code in its place."""
        plain = {"names": self.names, "number": self.number, **changes}
        names, number = plain["names"], plain["number"]
        exchange = Exchange(step, self.round, number, 0, self.study.seed, self.resumed, names)
        head = {"version": __version__, "study": study_hash(self.study), "run": self.run}
        head["exchange"] = json.loads(json.dumps(asdict(exchange)))
        answer, data = put(self.sites[name], head, message.encode())
        return answer["fault"] if "fault" in answer else decode(kind, data)

    def keys(self) -> dict[str, bytes]:
        """Each site's own."""
        self.number = 1
        empty = Meeting((), table([], 128), {})
        return {name: bytes(self.ask(name, "Masks.meet", empty, Key).key.tolist()) for name in self.names}

    def meet(self, keys: dict[str, bytes], ranges: dict[str, float] | None = None) -> dict[str, Any]:
        """What sites say to these keys."""
        self.number = 2
        meeting = Meeting(tuple(keys), table(list(keys.values()), 128), ranges or {})
        return {name: self.ask(name, "Masks.meet", meeting, Key) for name in self.names}

    def masked(self, **changes: Any) -> dict[str, Any]:
        """Their masked replies."""
        self.number = 3
        return {name: self.ask(name, "fit", Global(self.weights), Masked, **changes) for name in self.names}

    def open(self, replies: dict[str, Masked], number: int = 3, at: int = 5, **changes: Any) -> dict[str, Any]:
        """What they say to the sum of these replies."""
        self.number = at
        names = tuple(replies)
        tickets = {name: bytes.fromhex(reply.tickets[name]) for name, reply in replies.items()}
        signed = table([ticket[:TICKET] for ticket in tickets.values()], TICKET)
        return {
            name: self.ask(
                name,
                "Masks.open",
                Opening(number, signed, table([box(ticket, place) for ticket in tickets.values()], LOCKED)),
                Opened,
                **changes,
            )
            for place, name in enumerate(names)
        }


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    return Coordinator(tmp_path / "sites", study_of(tmp_path))


def test_an_honest_coordinator_gets_its_sum(coordinator: Coordinator) -> None:
    assert {Key} == {type(answer) for answer in coordinator.meet(coordinator.keys()).values()}
    assert {Opened} == {type(answer) for answer in coordinator.open(coordinator.masked()).values()}


def test_a_masked_exchange_waits_for_the_disk_no_longer_than_a_plain_one_and_a_ledger_line(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a mask was for is in the line of the reply itself: one wait for both, before anything leaves."""
    keys, waits = coordinator.keys(), list[str]()
    coordinator.meet(keys)
    monkeypatch.setattr(os, "fsync", lambda handle: waits.append(Path(f"/proc/self/fd/{handle}").readlink().name))
    coordinator.masked()
    masked, waits = waits, []
    coordinator.open(coordinator.masked())
    assert ["site.jsonl"] * len(NAMES) == waits
    assert len(NAMES) == masked.count("site.jsonl")
    assert 3 * len(NAMES) == len(masked)


@threat("two sets of survivors")
def test_two_sets_of_survivors_get_nothing(coordinator: Coordinator) -> None:
    """One site is told that another is lost, and that one that it is not: each gives a part of what hides it."""
    coordinator.meet(coordinator.keys())
    three = NAMES[:3]
    first = coordinator.masked()
    coordinator.number = 4
    second = {name: coordinator.ask(name, "Masks.again", Again(3), Masked, names=three) for name in three}
    assert {Masked} == {type(answer) for answer in second.values()}
    answers = coordinator.open(first)
    assert ["sum"] * 3 == [answers[name] for name in three]  # what the fourth gives opens nothing without them


def test_a_set_in_which_not_all_have_signed_the_same_gets_nothing(coordinator: Coordinator) -> None:
    coordinator.meet(coordinator.keys())
    coordinator.number = 3
    sets = {"site-0": NAMES, "site-1": NAMES, "site-2": NAMES, "site-3": ("site-0", "site-1", "site-3")}
    model = Global(coordinator.weights)
    replies = {name: coordinator.ask(name, "fit", model, Masked, names=names) for name, names in sets.items()}
    tickets = {name: bytes.fromhex(reply.tickets[name]) for name, reply in replies.items()}
    tickets["site-3"] = tickets["site-3"] + bytes(LOCKED)
    padded = {name: replace(replies[name], tickets={name: ticket.hex()}) for name, ticket in tickets.items()}
    assert ["sum"] * 4 == list(coordinator.open(padded).values())


@threat("too few")
def test_a_set_below_the_fewest_gets_nothing(coordinator: Coordinator) -> None:
    coordinator.meet(coordinator.keys())
    coordinator.number = 3
    two = NAMES[:2]
    model = Global(coordinator.weights)
    assert ["sum", "sum"] == [coordinator.ask(name, "fit", model, Masked, names=two) for name in two]


@threat("too few")
@pytest.mark.parametrize(
    "members",
    [(), ("site-0",), ("site-0",) * 3, ("site-0", *NAMES), NAMES[::-1], NAMES[1:], (*NAMES, "site-9")],
    ids=["nobody", "alone", "itself thrice", "one twice", "out of order", "without itself", "a stranger"],
)
def test_a_list_that_is_not_of_known_sites_each_once_gets_nothing(
    members: tuple[str, ...], coordinator: Coordinator
) -> None:
    coordinator.meet(coordinator.keys())
    coordinator.number = 3
    assert "sum" == coordinator.ask("site-0", "fit", Global(coordinator.weights), Masked, names=members)


@threat("too few")
@pytest.mark.parametrize("members", [(), NAMES[:2], ("site-0", "site-0", "site-1")])
def test_nor_does_such_a_list_once_a_member_is_said_to_be_lost(
    members: tuple[str, ...], coordinator: Coordinator
) -> None:
    coordinator.meet(coordinator.keys())
    coordinator.masked()
    coordinator.number = 4
    assert "sum" == coordinator.ask("site-0", "Masks.again", Again(3), Masked, names=members)


@threat("two sets of survivors")
def test_sites_that_were_handed_different_ranges_open_nothing(coordinator: Coordinator) -> None:
    keys = coordinator.keys()
    coordinator.number = 2
    for number, name in enumerate(NAMES):
        ranges = {"fit change/linear.weight": 16.0 if number else 256.0}
        meeting = Meeting(NAMES, table(list(keys.values()), 128), ranges)
        assert isinstance(coordinator.ask(name, "Masks.meet", meeting, Key), Key)
    assert {"sum"} == {*coordinator.open(coordinator.masked()).values()}


@pytest.mark.parametrize("lie", ["nothing masked", "an empty table", "another run's", "a later round"])
def test_an_opening_of_another_place_or_of_none_gets_nothing(lie: str, coordinator: Coordinator) -> None:
    coordinator.meet(coordinator.keys())
    if lie == "nothing masked":
        coordinator.number = 5
        blank = Opening(3, table([bytes(TICKET)] * 4, TICKET), table([bytes(LOCKED)] * 4, LOCKED))
        assert "sum" == coordinator.ask("site-0", "Masks.open", blank, Opened)
        return
    replies = coordinator.masked()
    if lie == "an empty table":
        coordinator.number = 5
        empty = Opening(3, table([], TICKET), table([], LOCKED))
        assert "sum" == coordinator.ask("site-0", "Masks.open", empty, Opened)
        return
    if lie == "another run's":
        coordinator.run = "1" * 16
        coordinator.meet(coordinator.keys())
        assert {Masked} == {type(reply) for reply in coordinator.masked().values()}
    else:
        coordinator.round = 2
    assert {"sum"} == {*coordinator.open(replies).values()}


@threat("the same masks")
def test_a_run_resumed_between_masking_and_opening_gets_the_same_bits_or_nothing(coordinator: Coordinator) -> None:
    keys, first = coordinator.keys(), coordinator.weights
    coordinator.meet(keys)
    assert {Opened} == {type(answer) for answer in coordinator.open(coordinator.masked()).values()}
    coordinator.round, coordinator.weights = 2, Weights({name: tensor + 0.001 for name, tensor in first.items()})
    coordinator.meet(keys)
    replies = coordinator.masked()
    coordinator.resumed = (1,)
    for site in coordinator.sites.values():
        site.studies.runs.clear()  # a crash there, too
    coordinator.meet(keys)
    assert replies == coordinator.masked()
    coordinator.resumed = (1, 1)
    coordinator.weights = Weights({name: tensor + 0.002 for name, tensor in first.items()})
    assert {"sum"} == {*coordinator.masked().values()}
    assert {Opened} == {type(answer) for answer in coordinator.open(replies).values()}


@threat("a member less")
def test_nor_is_a_model_tried_a_second_time_without_a_member(coordinator: Coordinator) -> None:
    """Evaluation has sums like any other: two of them, of models that are hardly different, would differ in a site."""
    coordinator.meet(coordinator.keys())
    coordinator.open(coordinator.masked())

    def tried(names: tuple[str, ...], number: int, shift: float) -> dict[str, Any]:
        coordinator.names, coordinator.number = names, number
        exam = Exam(Weights({name: tensor + shift for name, tensor in coordinator.weights.items()}), "test")
        return {name: coordinator.ask(name, "evaluate", exam, Masked) for name in names}

    first = EVALUATION + 3
    replies = tried(NAMES, first, 0.0)
    assert {Opened} == {type(answer) for answer in coordinator.open(replies, first, first + 2).values()}
    assert {"message"} == {*tried(THREE, first + 6, 1e-7).values()}  # the study tries one model on one split
    coordinator.resumed = (0,)
    replies = tried(THREE, first, 1e-7)
    if {Masked} == {type(answer) for answer in replies.values()}:
        replies = coordinator.open(replies, first, first + 2)
    assert {"opened", "restart", "sum"} >= {*replies.values()}


@threat("masks after a restore")
@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_site_that_was_put_back_puts_nothing_under_masks_that_it_has_used(
    coordinator: Coordinator, rolled_back: bool
) -> None:
    """The masks between sites follow from the place: other numbers there would give the difference of both."""
    keys = coordinator.keys()
    coordinator.meet(keys)
    place = coordinator.sites["site-0"].folder
    old = place.with_name("old")
    if rolled_back:
        shutil.copytree(place, old)
        mark_restored(old)
    else:
        put_back(back_up(place, place.with_suffix(".tar"))[0], old)
    first = coordinator.masked()["site-0"]
    coordinator.sites["site-0"] = site = SiteProcess(old)  # type: ignore[assignment]
    coordinator.number = 3
    model = Global(coordinator.weights)
    assert "restored" == coordinator.ask("site-0", "fit", model, Masked)
    lapse = restored(old)
    assert lapse is not None
    head = {"version": __version__, "study": study_hash(coordinator.study), "run": coordinator.run}
    assert {} == put(site, {**head, "told": lapse.lapse})[0]
    recover(old, as_told=True)  # of a coordinator that says nothing was answered
    assert "sum" == coordinator.ask("site-0", "fit", model, Masked)  # the others know its old key
    coordinator.resumed = (0,)
    new = coordinator.keys()
    assert {"site-0"} == {name for name in NAMES if new[name] != keys[name]}
    coordinator.meet(new)
    second = coordinator.masked()["site-0"]
    assert isinstance(second, Masked)
    assert not (first.narrow == second.narrow).float().mean() > 0.01  # the same numbers, under other masks


@threat("a second sum")
def test_what_has_been_in_one_sum_goes_into_no_other(coordinator: Coordinator) -> None:
    """Also if the coordinator says that it had to begin anew, or that an answer never came."""
    coordinator.meet(coordinator.keys())
    assert {Opened} == {type(answer) for answer in coordinator.open(coordinator.masked()).values()}
    coordinator.run = "1" * 16  # another run of the same study: the same numbers, so a difference would be a reply
    coordinator.meet(coordinator.keys())
    coordinator.names = NAMES[:3]
    replies = coordinator.masked()
    assert {Masked} == {type(reply) for reply in replies.values()}  # a restart that was agreed to
    assert {"opened", "restart"} >= {*coordinator.open(replies).values()}


@threat("a second sum")
def test_two_runs_side_by_side_are_one_memory(coordinator: Coordinator) -> None:
    """The second run is greeted before the first has opened anything."""
    hello = {"version": __version__, "study": study_hash(coordinator.study), "run": "1" * 16, "hello": True}
    assert all(put(site, hello, b"")[0]["ready"] for site in coordinator.sites.values())
    coordinator.meet(coordinator.keys())
    assert {Opened} == {type(answer) for answer in coordinator.open(coordinator.masked()).values()}
    coordinator.run = "1" * 16
    coordinator.meet(coordinator.keys())
    coordinator.names = NAMES[:3]
    replies = coordinator.masked()
    assert {Masked} == {type(reply) for reply in replies.values()}
    assert {"opened"} == {*coordinator.open(replies).values()}


@threat("the same masks")
def test_a_restart_gets_no_other_numbers_under_the_same_masks(coordinator: Coordinator) -> None:
    """What one site put under them the first time, less what it put there the second, would be without any mask."""
    first = coordinator.weights
    keys = coordinator.keys()
    answers = []
    for coordinator.round, coordinator.resumed, shift in ((1, (), 0.0), (2, (), 0.001), (2, (1,), 0.002)):
        coordinator.meet(keys)
        coordinator.weights = Weights({name: tensor + shift for name, tensor in first.items()})
        answers.append(coordinator.masked())
        if "sum" not in answers[-1].values():
            assert {Opened} == {type(answer) for answer in coordinator.open(answers[-1]).values()}
    assert [{Masked}, {Masked}] == [{type(reply) for reply in replies.values()} for replies in answers[:2]]
    assert {"sum"} == {*answers[2].values()}


def test_an_exchange_twice_gets_the_same_answer_or_none(coordinator: Coordinator) -> None:
    coordinator.meet(coordinator.keys())
    replies = coordinator.masked()
    assert replies == coordinator.masked()
    assert replies == coordinator.masked(names=NAMES[:3])  # as it was masked the first time
    opened = coordinator.open(replies)
    assert opened == coordinator.open(replies)
    assert {"stale"} == {*coordinator.open(replies, number=2).values()}


@threat("a false key")
@pytest.mark.parametrize("forgery", ["swapped", "unsigned", "renamed", "another run", "short", "twice"])
def test_a_key_that_is_not_the_sites_own_gets_nothing(forgery: str, coordinator: Coordinator) -> None:
    keys = coordinator.keys()
    mine, theirs = keys["site-0"], keys["site-1"]
    if forgery == "swapped":  # its own key for masks, under the name of another
        keys["site-0"] = theirs[:32] + mine[32:]
    elif forgery == "unsigned":
        keys["site-0"] = mine[:64] + bytes(64)
    elif forgery == "renamed":
        keys["site-0"] = theirs
    elif forgery == "another run":
        coordinator.run = "1" * 16
    elif forgery == "short":
        keys = {name: bytes(128) for name in keys}
    if forgery == "twice":
        coordinator.number = 2
        for name, other in (("site-2", mine), ("site-3", theirs)):
            twice = Meeting((*NAMES, "site-0"), table([*keys.values(), other], 128), {})
            assert "sum" == coordinator.ask(name, "Masks.meet", twice, Key)
    else:
        assert ["sum"] * 4 == list(coordinator.meet(keys).values())


def test_a_sum_is_not_opened_with_false_replayed_or_foreign_signatures(coordinator: Coordinator) -> None:
    coordinator.meet(coordinator.keys())
    replies = coordinator.masked()
    ticket = bytes.fromhex(replies["site-1"].tickets["site-1"])
    other = bytes.fromhex(replies["site-2"].tickets["site-2"])
    for number, false in enumerate((bytes(64) + ticket[64:], other, ticket[:64] + other[64:]), 4):
        changed = {**replies, "site-1": replace(replies["site-1"], tickets={"site-1": false.hex()})}
        assert {"sum"} == {*coordinator.open(changed, at=min(number, 5)).values()} or number > 5


def test_a_member_may_be_lost_only_once(coordinator: Coordinator) -> None:
    coordinator.meet(coordinator.keys())
    coordinator.masked()
    three = NAMES[:3]
    coordinator.number = 4
    assert {Masked} == {type(coordinator.ask(n, "Masks.again", Again(3), Masked, names=three)) for n in three}
    coordinator.number = 5
    assert {"restart", "sum"} >= {coordinator.ask(n, "Masks.again", Again(3), Masked, names=three) for n in three}


@threat("a member less")
def test_a_round_with_a_model_that_is_hardly_another_and_a_member_less_opens_nothing(coordinator: Coordinator) -> None:
    """The difference of both sums would be the reply of the one who is not in the second."""
    first, keys, answers = coordinator.weights, coordinator.keys(), dict[str, Any]()
    story = ((1, (), 0.0, NAMES), (2, (), 0.001, NAMES), (2, (1,), 0.001001, THREE))
    for coordinator.round, coordinator.resumed, shift, coordinator.names in story:
        coordinator.meet(keys)
        coordinator.weights = Weights({name: tensor + shift for name, tensor in first.items()})
        replies = coordinator.masked()
        assert {Masked} == {type(reply) for reply in replies.values()}  # also after a restart that was agreed to
        answers = coordinator.open(replies)
        assert {str if coordinator.resumed else Opened} == {type(answer) for answer in answers.values()}
    assert {"opened"} == {*answers.values()}


@threat("another round")
def test_with_the_same_members_a_later_round_without_one_opens_nothing(tmp_path: Path) -> None:
    """The model of the next round is hardly another, so that the difference would be about the reply of the fourth."""
    study = study_of(tmp_path, privacy={**PRIVACY, "same_members": True})
    coordinator = Coordinator(tmp_path / "sites", study)
    first, keys, answers = coordinator.weights, coordinator.keys(), list[set[Any]]()
    for coordinator.round, shift, coordinator.names in ((1, 0.0, NAMES), (2, 1e-6, THREE), (3, 1e-6, NAMES)):
        coordinator.meet(keys)
        coordinator.weights = Weights({name: tensor + shift for name, tensor in first.items()})
        opened = coordinator.open(coordinator.masked()).values()
        answers.append({answer if isinstance(answer, str) else type(answer) for answer in opened})
    assert [{Opened}, {"opened"}, {Opened}] == answers


def test_a_site_with_too_few_test_examples_for_an_answer_says_so_before_a_run_of_all_sites(tmp_path: Path) -> None:
    """Else each evaluation would stop the run, for no sum goes without the site, and its answer does not leave."""
    few = {**COUNTED, "corpus": {**COUNTED["corpus"], "test_documents": 3}}
    study = study_of(tmp_path, privacy={**PRIVACY, "same_members": True}, **few)
    with Sites(tmp_path / "sites", study, NAMES) as sites:
        settings = sites.site("site-2") / "site.toml"
        settings.write_text(settings.read_text().replace("least_examples = 0", "least_examples = 5"))
        with pytest.raises(RunError, match=r"3 of 4 sites are ready, the quorum is 4: site-2: .*least_examples"):
            submit(study, tmp_path / "out", sites.over, wait=1.0)
        assert "few: 3 test examples: no answer on them would leave" in (settings.parent / "log.txt").read_text()
        assert not (tmp_path / "out" / "journal.jsonl").exists()
        settings.write_text(settings.read_text().replace("least_examples = 5", "least_examples = 3"))
        submit(study, tmp_path / "out", sites.over, wait=1.0)
    assert [4, 4, 4] == [line["sites"] for line in journal_of(tmp_path / "out")]


def test_without_the_same_members_evaluation_goes_on_without_a_site_of_few_test_examples(tmp_path: Path) -> None:
    study = study_of(tmp_path, **{**COUNTED, "corpus": {**COUNTED["corpus"], "test_documents": 3}})
    with Sites(tmp_path / "sites", study, NAMES) as sites:
        settings = sites.site("site-2") / "site.toml"
        settings.write_text(settings.read_text().replace("least_examples = 0", "least_examples = 5"))
        submit(study, tmp_path / "out", sites.over, wait=1.0)
    for line in journal_of(tmp_path / "out"):
        assert ["site-2"] == [*line["left_out"]]
        assert "evaluate: refused: too few examples" in line["left_out"]["site-2"]
        assert 9 == line["metrics"]["examples"]


def test_a_masked_run_does_not_begin_with_fewer_sites_than_a_sum_takes(tmp_path: Path) -> None:
    study = study_of(tmp_path, privacy={**PRIVACY, "fewest": 4})
    with Sites(tmp_path / "sites", study, NAMES) as sites:
        (approval,) = (sites.site("site-2") / "approved").glob("*.json")
        approval.rename(approval.with_suffix(".later"))
        with pytest.raises(RunError, match=r"3 of 4 sites are ready, the quorum is 4: site-2: .*not approved"):
            submit(study, tmp_path / "out", sites.over, wait=1.0)
    assert not (tmp_path / "out" / "journal.jsonl").exists()


@threat("the same sums")
def test_sums_that_are_the_same_in_every_round_are_opened_for_one_list_of_members(tmp_path: Path) -> None:
    """Ridge: those of all sites in round 1, and of all but one in round 2, would give the sums of that one, exactly."""
    study = study_of(tmp_path, method={"name": "ridge"}, rounds=3)
    coordinator = Coordinator(tmp_path / "sites", study)
    keys, answers = coordinator.keys(), list[set[Any]]()
    for coordinator.round, coordinator.names in ((1, NAMES), (2, THREE), (3, NAMES)):
        coordinator.meet(keys)
        coordinator.number = 3
        asked = Unsolved(coordinator.weights, ())
        replies = {name: coordinator.ask(name, "gather", asked, Masked) for name in coordinator.names}
        opened = coordinator.open(replies).values()
        answers.append({answer if isinstance(answer, str) else type(answer) for answer in opened})
    assert [{Opened}, {"opened"}, {Opened}] == answers


@threat("a member less")
@pytest.mark.parametrize("number", [9, 15])
def test_nor_does_it_as_another_exchange_of_the_round(number: int, tmp_path: Path) -> None:
    """A method of three steps has three exchanges in a round: none of them is a place for a step of another."""
    study = study_of(tmp_path, method={"name": "fedcmc"})
    coordinator = Coordinator(tmp_path / "sites", study)
    first, keys = coordinator.weights, coordinator.keys()

    def model(shift: float) -> Guided:
        return Guided(Weights({name: tensor + shift for name, tensor in first.items()}), None)

    for coordinator.round, shift in ((1, 0.0), (2, 0.001)):
        coordinator.meet(keys)
        coordinator.number = 3
        replies = {name: coordinator.ask(name, "fit", model(shift), Masked) for name in NAMES}
        assert {Opened} == {type(answer) for answer in coordinator.open(replies).values()}
    coordinator.resumed, coordinator.names = (1,), THREE
    coordinator.meet(keys, {"fit change/linear.weight": 16.0})  # another question: the restart that was agreed to
    coordinator.number, second = number, model(0.001001)
    answers = {name: coordinator.ask(name, "fit", second, Masked) for name in THREE}
    if {Masked} == {type(answer) for answer in answers.values()}:
        answers = coordinator.open(answers, number=number, at=number + 2)
    assert {"restart"} == {*answers.values()}


def test_a_site_that_was_started_again_after_an_opening_gives_no_second_one(coordinator: Coordinator) -> None:
    """Its disk has which exchange of the method's was last, and the ledger those of the masks."""
    keys = coordinator.keys()
    coordinator.meet(keys)
    replies = coordinator.masked()
    opened = coordinator.open(replies)
    for site in coordinator.sites.values():
        site.studies.runs.clear()
    coordinator.number = 4
    assert {"sum"} == {coordinator.ask(name, "Masks.again", Again(3), Masked, names=THREE) for name in THREE}
    assert opened == coordinator.open(replies)
    false = {name: replace(reply, tickets={name: reply.tickets[name][2:] + "00"}) for name, reply in replies.items()}
    assert {"stale"} == {*coordinator.open(false).values()}
    assert {"stale"} == {*coordinator.meet({name: keys[name] for name in THREE}).values()}


@threat("whose number is large")
def test_whose_number_is_beyond_a_range_that_the_coordinator_has_chosen_no_reply_tells(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One site's numbers are far larger than the others', and the range lies between: the sum alone says that."""
    leave = Masks.leave

    def larger(layer: Masks, reply: Update, site: Site) -> Message:
        return leave(layer, replace(reply, change=reply.change * (1e6 if site.name == "site-1" else 1e-6)), site)

    monkeypatch.setattr(Masks, "leave", larger)
    coordinator.meet(coordinator.keys(), {"fit change/linear.weight": 16.0**-2})
    replies = coordinator.masked()
    clear = [{"among": reply.among, "form": reply.form, "bytes": reply.nbytes} for reply in replies.values()]
    assert clear == [clear[0]] * len(NAMES)
    assert {"narrow", "wide", "form", "among", "tickets"} == {*Masked.__annotations__} - {"alone"}
    opened = coordinator.open(replies, at=4)
    narrow = sum((reply.narrow for reply in replies.values()), torch.zeros((), dtype=torch.int32)).numpy()
    wide = sum((reply.wide for reply in replies.values()), torch.zeros((), dtype=torch.int64)).numpy()
    total = wide.astype(np.uint64)
    keys = [derived(bytes(answer.own.tolist()), b"stream") for answer in opened.values()]
    masks_off([narrow.astype(np.uint32), total], [], keys)
    assert 4 == total[0]
    assert 0 != total[1]
    coordinator.number = 5  # those who were in that sum send their numbers again, and open no other
    again = {name: coordinator.ask(name, "Masks.again", Again(3), Masked, names=THREE) for name in THREE}
    assert {Masked} == {type(reply) for reply in again.values()}
    assert {"opened"} == {*coordinator.open(again, at=6).values()}


@threat("ranges")
@pytest.mark.parametrize("most", [0.003, 0.0, -16.0, float("inf"), float("nan"), 16.0**40])
def test_a_range_that_is_no_power_of_16_is_refused(most: float, coordinator: Coordinator) -> None:
    answers = coordinator.meet(coordinator.keys(), {"fit change/linear.weight": most})
    assert {"sum"} >= {*answers.values()} or {"message"} == {*answers.values()}


@threat("ranges")
def test_a_run_has_few_ranges_whatever_the_coordinator_says_was_lost(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wardround.layers.masked.RANGES", 2)
    keys, answers = coordinator.keys(), []
    for coordinator.round, coordinator.resumed, power in ((1, (), 1), (2, (), 2), (3, (), 3), (3, (2,), 1)):
        for site in coordinator.sites.values():
            site.studies.runs.clear()  # nor does a crash make it forget
        met = coordinator.meet(keys, {"fit change/linear.weight": 16.0**power})
        answers.append({answer.spent for answer in met.values()})
    assert [{False}, {False}, {True}, {False}] == answers  # one that it had before tells nothing new


# whom a site trusts


def test_an_unpinned_key_is_refused_unless_a_site_says_otherwise_and_a_changed_one_always(tmp_path: Path) -> None:
    study = study_of(tmp_path, partition={"name": "iid", "sites": 3})
    coordinator = Coordinator(tmp_path / "sites", study, names=THREE)
    places = {name: site.folder for name, site in coordinator.sites.items()}
    for place in places.values():
        (place / "keys" / "pinned.json").unlink()
    keys = coordinator.keys()
    assert ["unpinned"] * 3 == list(coordinator.meet(keys).values())
    prints = {name: own_fingerprint(place, name) for name, place in places.items()}
    assert {name: one for name, one in prints.items() if name != "site-0"} == seen(places["site-0"])
    for name, place in places.items():
        for other in THREE:
            if other != name:
                pin(place, other, prints[other].replace(" ", "-").upper())
    coordinator.run = "1" * 16
    assert {Key} == {type(answer) for answer in coordinator.meet(coordinator.keys()).values()}
    (places["site-2"] / "keys" / "sign.key").unlink()  # another key in its place
    coordinator.run = "2" * 16
    coordinator.sites["site-2"].studies.runs.clear()
    answers = coordinator.meet(coordinator.keys())
    assert ["unpinned", "unpinned"] == [answers[name] for name in THREE[:2]]


def test_a_site_that_has_not_pinned_all_others_is_left_out_and_the_reason_is_told_once(tmp_path: Path) -> None:
    study = study_of(tmp_path, rounds=1)
    with Sites(tmp_path / "sites", study, NAMES) as sites:
        pinned = sites.site("site-0") / "keys" / "pinned.json"
        pinned.write_text(
            json.dumps({name: key for name, key in json.loads(pinned.read_text()).items() if name != "site-3"})
        )
        submit(study, tmp_path / "real", sites.over)
    (line,) = journal_of(tmp_path / "real")
    assert (3, ["site-0"]) == (line["sites"], [*line["left_out"]])
    assert 1 == line["left_out"]["site-0"].count("it has pinned no key of another site")


@pytest.mark.parametrize(
    ("consent", "known", "marks"),
    [
        ((), 3, ["ok "]),
        ((), 2, ["?? "]),  # the fourth may not take part
        ((), 1, ["BAD", "?? "]),
        (("pinned = false",), 0, ["?? "]),
    ],
)
def test_a_site_is_told_whose_keys_are_not_pinned_before_it_approves(
    tmp_path: Path, consent: tuple[str, ...], known: int, marks: list[str]
) -> None:
    study = study_of(tmp_path)
    place = Sites(tmp_path / "sites", study, NAMES, consent=(*OPEN, *consent)).sites["site-0"].folder
    prints = {name: own_fingerprint(tmp_path / "sites" / name, name) for name in NAMES[1:]}
    kit = place / "kit" / "site.json"  # as old as the certificate: it need not know everybody
    kit.write_text(kit.read_text().replace('"site-2"', '"site-2","site-3"'))
    (place / "keys" / "pinned.json").unlink()
    for name in NAMES[1 : 1 + known]:
        pin(place, name, prints[name])
    keys = [one for one in checked(place, study, online=False) if one.what == "keys"]
    assert marks == [one.mark for one in keys]
    assert (known == 3) == ("the keys of all 3 others that this site knows of are pinned" in keys[0].detail)


@pytest.mark.parametrize(
    ("name", "words", "problem"),
    [
        ("site-0", "0" * 24, "site-0 is this site itself"),
        ("site 9", "0" * 24, "'site 9' cannot be a name"),
        ("site-1", "3f2a", "'3f2a' is not a fingerprint: 24 digits"),
        ("site-1", "own", "that is this site's own fingerprint"),
        ("site-1", "twin", "that is pinned as the fingerprint of site-2"),
    ],
)
def test_what_cannot_be_pinned_is_refused_in_words(tmp_path: Path, name: str, words: str, problem: str) -> None:
    place = Sites(tmp_path / "sites", study_of(tmp_path), NAMES).sites["site-0"].folder
    owners = {"own": "site-0", "twin": "site-2"}
    words = own_fingerprint(place.parent / owners[words], owners[words]) if words in owners else words
    with pytest.raises(RunError) as error:
        pin(place, name, words)
    assert problem in str(error.value)


def test_of_the_keys_that_are_shown_only_some_under_names_of_sites_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person compares them on a terminal: no name may move its cursor, and none may be one of a million."""
    monkeypatch.setattr("wardround.consortium.identity.MOST", 2)
    vault = HouseVault(tmp_path, "0" * 64, "0" * 16, pinned=False)
    names = ("charite", "\x1b[2Kcharite", "x" * 51, "ukb", "jena")
    assert [True, False, False, True, True] == [vault.trusts(name, bytes(32)) for name in names]
    assert ["charite", "ukb"] == list(seen(tmp_path))


def without_pin(place: Path, name: str) -> None:
    path = place / "keys" / "pinned.json"
    path.write_text(json.dumps({other: key for other, key in json.loads(path.read_text()).items() if other != name}))


def test_a_site_hears_of_a_member_that_was_admitted_later_and_pins_nothing_by_itself(tmp_path: Path) -> None:
    """Its kit does not name the fourth: before a run, approved or not, its log says whom to ring up, what to type."""
    study = study_of(tmp_path)
    with Sites(tmp_path / "sites", study, NAMES) as sites:
        place = sites.site("site-0")
        without_pin(place, "site-3")
        pins = (place / "keys" / "pinned.json").read_bytes()
        assert ["ok "] == [one.mark for one in checked(place, study, online=False) if one.what == "keys"]
        (approval,) = (place / "approved").glob("*.json")
        approval.unlink()
        remote = sites.over.remote(study, tmp_path)
        for _ in range(2):
            assert "refused" in str(remote.ready(sites.over.names, 1)["site-0"])
        remote.close()
    log = (place / "log.txt").read_text()
    assert 1 == log.count("keys: new in the consortium: site-3. For masked sums with them telephone their people")
    assert f'wardround site trust {place} site-3 "…"\n' in log
    assert pins == (place / "keys" / "pinned.json").read_bytes()
    (keys,) = (one for one in checked(place, study, online=False) if one.what == "keys")
    assert ("?? ", True) == (keys.mark, "the keys of site-3 are not pinned" in keys.detail)
    assert not (sites.site("site-3") / "log.txt").exists()  # it has pinned all others


def test_a_site_hears_of_members_as_soon_as_it_is_back_without_any_study(tmp_path: Path) -> None:
    with Sites(tmp_path / "sites", study_of(tmp_path), NAMES) as sites:
        without_pin(sites.site("site-0"), "site-3")
        desk = Asker(read_signing_key(sites.over.folder / "keys" / "ask.key"), seals_of(sites))
        remind(sites.over.folder, desk, NAMES, NAMES)
    assert "new in the consortium: site-3." in (sites.site("site-0") / "log.txt").read_text()
    assert not (sites.site("site-1") / "log.txt").exists()


def seals_of(sites: Sites) -> dict[str, str]:
    return {name: member.seal for name, member in read_roster(sites.over.folder).items()}


def test_of_members_that_are_made_up_few_are_remembered_and_each_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wardround.consortium.identity.MOST", 4)
    monkeypatch.setattr("wardround.consortium.site_process.MOST", 4)
    site = Sites(tmp_path / "sites", study_of(tmp_path), NAMES).sites["site-0"]
    lists: list[Any] = [
        ["site-0", "\x1b[2Kjena", "jena", "ulm"], [7], ["jena"], "mainz", {"mainz": 1},
        *([f"n{number}{name}" for name in "abcdef"] for number in range(3)),
    ]  # fmt: skip
    for names in lists:
        assert {} == put(site, {"version": __version__, "told": "", "members": names})[0]
    log = (site.folder / "log.txt").read_text()
    assert (1, 0, 0, 0) == tuple(log.count(name) for name in ("jena, ulm", "mainz", "\x1b", "n0c"))
    assert (1, 0) == (log.count("n0a, n0b."), log.count("n1"))
    assert ["n2a", "n2b", "n2c", "n2d"] == json.loads((site.folder / "keys" / "members.json").read_text())


def test_a_site_is_told_what_to_do_with_fingerprints_until_all_are_pinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Sites(tmp_path / "sites", study_of(tmp_path), NAMES).sites["site-0"].folder
    (place / "keys" / "pinned.json").unlink()

    def printed(*words: str) -> str:
        command(place, *words)
        return capsys.readouterr().out

    first = printed()
    assert "next: telephone site-1, site-2;" in first
    assert f'wardround site trust {place} site-1 "…"\n' in first
    assert "telephone site-2;" in printed("site-1", own_fingerprint(tmp_path / "sites" / "site-1", "site-1"))
    last = printed("site-2", own_fingerprint(tmp_path / "sites" / "site-2", "site-2"))
    assert f"next: wardround site check {place} --study study.toml, then wardround site approve {place}" in last
    assert "a site that is admitted later comes into the list when the coordinator tells of it" in last
    kit = place / "kit" / "site.json"  # as of the first that was admitted
    kit.write_text(json.dumps({**json.loads(kit.read_text()), "sites": ["site-0"]}))
    (place / "keys" / "pinned.json").unlink()
    alone = printed()
    assert "this site knows of no other yet: it hears of them from the coordinator" in alone
    assert f'wardround site trust {place} NAME "FINGERPRINT"\n' in alone
