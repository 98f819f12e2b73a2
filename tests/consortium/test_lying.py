"""One hospital of three lies about what it learnt or how much it has: the others' model is as good as without it."""

import dataclasses
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopback import OPEN, Exchange
from wardround.consortium.asking import await_coordinator
from wardround.consortium.submit import Consortium, quorate, submit
from wardround.core.cohort import BelowQuorum
from wardround.core.method import Exam
from wardround.core.record import Message
from wardround.engines import remote
from wardround.engines.inline import Serial
from wardround.methods.fedavg import Update
from wardround.runs.build import build
from wardround.runs.errors import RunError
from wardround.runs.files import Round
from wardround.runs.loop import one_thread
from wardround.study.load import Study, cells

SITES = ("hospital-0", "hospital-1", "hospital-2")
LIAR = "hospital-2"
CORPUS = {
    "name": "clinic", "hospitals": 3, "documents": 300, "test_documents": 60, "heterogeneity": 0.2, "noise": 0.0
}  # fmt: skip
Lie = Callable[[Update], Update]


def study_of(**changes: Any) -> Study:
    tables = {
        "name": "lying", "rounds": 6, "method": {"name": "fedavg", "lr": 20.0, "batch": 16}, "corpus": CORPUS,
        "task": {"name": "classification", "model": "logistic", "buckets": 4096, "weighting": "none"}, **changes,
    }  # fmt: skip
    return cells(tables)[0].study


LIES: dict[str, tuple[Lie, str]] = {
    "a hundred times": (
        lambda honest: dataclasses.replace(honest, change=honest.change * 100.0),
        "Update.change is ",
    ),
    "minus ten times": (
        lambda honest: dataclasses.replace(honest, change=honest.change * -10.0),
        "Update.change is ",
    ),
    "a billion notes": (
        lambda honest: Update(honest.change.zeros(), 10**9),
        "Update.weight is more than the site declared, at most 512",
    ),
    "overflowing": (lambda honest: dataclasses.replace(honest, change=honest.change * 1e30), "Update.change is "),
}


def lying(exchange: Exchange, lie: Lie) -> None:
    """Make one site lie: what its step returns is changed before the site process encodes it."""
    site = exchange.sites[LIAR]
    honest = site._served  # the seam between a step and the wire

    def served(*arguments: Any) -> Message:
        reply = honest(*arguments)
        return lie(reply) if isinstance(reply, Update) else reply

    vars(site)["_served"] = served


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The F1, at all three hospitals, of what the two honest ones train."""
    study = study_of()
    with one_thread():
        built = build(study, tmp_path_factory.mktemp("two"))
        engine = Serial(built.host)
        state: Any = study.method.start(built.weights, built.cohort(0, SITES[:2], engine))
        for round_ in range(1, study.rounds + 1):
            state = study.method.round(state, built.cohort(round_, SITES[:2], engine))
        total = built.cohort(study.rounds, SITES, engine).total(study.method.evaluate, Exam(state.weights, "test"))
    return built.task.metrics(total.numbers)["macro_f1"]


@pytest.mark.parametrize("what", LIES)
def test_one_lying_site_of_three_does_not_cost_the_model(tmp_path: Path, what: str, without: float) -> None:
    study, (lie, reason) = study_of(), LIES[what]
    lines: list[Round] = []
    with Exchange(tmp_path, study, SITES) as exchange:
        lying(exchange, lie)
        result = submit(study, tmp_path / "run", exchange.over, progress=lines.append)
    assert without > 0.8
    assert without == pytest.approx(result.metrics["macro_f1"], abs=0.01)
    for line in lines:
        assert [LIAR] == list(line.left_out)
        assert line.left_out[LIAR].startswith(f"fit: invalid: {reason}")
        assert (2, 3) == (line.sites, line.asked)


def test_without_the_bound_one_site_is_enough_to_spoil_the_model(
    tmp_path: Path, without: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Consortium, "layers", lambda *_: ())
    study = study_of()
    trusting = (*OPEN, "largest_change = 1e9")  # or the sites themselves would refuse what becomes of the model
    with Exchange(tmp_path, study, SITES, consent=trusting) as exchange:
        lying(exchange, LIES["minus ten times"][0])
        result = submit(study, tmp_path / "run", exchange.over)
    assert without - 0.3 > result.metrics["macro_f1"]


def test_the_bound_changes_no_bit_of_an_honest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(rounds=2, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    models = []
    for name, bound in (("with", True), ("without", False)):
        if not bound:
            monkeypatch.setattr(Consortium, "layers", lambda *_: ())
        with Exchange(tmp_path / name, study, SITES) as exchange:
            submit(study, tmp_path / name / "run", exchange.over)
        models.append((tmp_path / name / "run" / "model" / "weights.safetensors").read_bytes())
    assert models[0] == models[1]


def test_a_simulation_has_a_bound_only_if_its_study_asks_for_one() -> None:
    plain, asking = study_of(), study_of(robust={"bound": 5.0})
    assert "robust" not in plain.resolved
    assert plain.fingerprint != asking.fingerprint


def test_a_step_that_failed_first_keeps_its_reason_and_evaluation_adds_its_own(tmp_path: Path) -> None:
    study = study_of(rounds=1, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    lines: list[Round] = []
    with Exchange(tmp_path, study, SITES) as exchange:
        site = exchange.sites[LIAR]

        def served(*_: Any) -> Message:
            raise ValueError

        vars(site)["_served"] = served
        submit(study, tmp_path / "run", exchange.over, progress=lines.append)
    words = "failed: an error in the step; its own log says where"
    assert {LIAR: f"fit: {words}; evaluate: {words}"} == lines[0].left_out
    written = json.loads((tmp_path / "run" / "journal.jsonl").read_text(encoding="utf-8"))
    assert (2, 3) == (written["sites"], written["asked"])


def test_a_study_that_names_no_quorum_needs_two_real_sites() -> None:
    study = study_of()
    assert 1 == study.sites.quorum
    assert 2 == quorate(study, SITES).sites.quorum
    assert study.fingerprint == quorate(study, SITES).fingerprint
    assert 1 == quorate(study_of(sites={"quorum": 1}), SITES).sites.quorum
    assert 1 == quorate(study_of(sites={"per_round": 1}), SITES).sites.quorum
    with pytest.raises(RunError, match="a federation of one: the coordinator can read its updates as they are; if"):
        quorate(study, SITES[:1])
    assert 1 == quorate(study, SITES[:1], alone=True).sites.quorum


def test_submit_says_what_each_site_has_and_that_two_protect_nobody(tmp_path: Path) -> None:
    study = study_of(rounds=1, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    lines: list[str] = []
    with Exchange(tmp_path, study, SITES[:2]) as exchange:
        submit(study, tmp_path / "run", exchange.over, say=lines.append)
    assert "hospital-0: ready, at most 32 train and 8 test examples" in lines
    assert "2 sites: a median of fewer than 3 protects nobody, one that lies can spoil the model unseen" in lines


def test_that_so_few_protect_nobody_is_said_once_where_one_of_three_refuses(tmp_path: Path) -> None:
    study = study_of(rounds=2, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    lines: list[str] = []
    with Exchange(tmp_path, study, SITES) as exchange:
        shutil.rmtree(tmp_path / LIAR / "approved")
        submit(study, tmp_path / "run", exchange.over, say=lines.append)
    assert 1 == sum("a median of fewer than 3" in line for line in lines)


def test_a_spent_approval_is_told_before_the_first_round(tmp_path: Path) -> None:
    study = study_of(rounds=2, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    for exchanges, words in ((0, "is spent: it repeats what it has answered, and no more"), (1, "has 1 answer left")):
        lines: list[str] = []
        folder = tmp_path / str(exchanges)
        with Exchange(folder, study, SITES[:2], exchanges=exchanges) as exchange, pytest.raises(BelowQuorum):
            submit(study, folder / "run", exchange.over, say=lines.append)
        assert f"hospital-0: its approval {words}; there: wardround site approve --again" == lines[2]


def test_a_member_that_never_came_is_told_in_the_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(rounds=1, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    lines: list[str] = []
    lend = remote.borrowed
    monkeypatch.setattr(
        remote, "borrowed", lambda door, name, *rest: "unseen" if name == LIAR else lend(door, name, *rest)
    )
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over, wait=1.0, say=lines.append)
    assert "hospital-2: lost: it has not connected since the coordinator was started; there: wardround site" in lines[0]


def test_submit_waits_for_a_coordinator_that_is_being_started(tmp_path: Path) -> None:
    study = study_of(rounds=1, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    lines: list[str] = []
    exchange = Exchange(tmp_path, study, SITES[:2])
    with pytest.raises(RunError, match="is not running; start it with"):
        await_coordinator(exchange.over.folder, 0.0, lines.append)
    threading.Timer(1.2, exchange.__enter__).start()
    await_coordinator(exchange.over.folder, 60.0, lines.append)
    exchange.__exit__()
    assert ["is not running; start it with" in lines[0], "; waiting for it until " in lines[0]] == [True] * len(
        lines
    ) * 2


def test_a_site_that_declares_far_more_than_the_others_is_left_out_unless_trusted(tmp_path: Path) -> None:
    study = study_of(rounds=1, corpus={**CORPUS, "documents": 20, "test_documents": 5})
    for trusted, left_out in ((False, [LIAR]), (True, [])):
        folder = tmp_path / str(trusted)
        messages: list[str] = []
        lines: list[Round] = []
        with Exchange(folder, study, SITES) as exchange:
            exchange.over.trust_sizes = trusted
            exchange.over.remote = boasting(exchange.over)  # type: ignore[method-assign]
            submit(study, folder / "run", exchange.over, progress=lines.append, say=messages.append, wait=0.5)
        assert left_out == list(lines[0].left_out)
        words = "it declares up to 1,048,576 train examples, 32,768 times the median of the others"
        assert trusted != any(f"{LIAR}: refused: {words}" in line for line in messages)


def boasting(over: Consortium) -> Callable[..., Any]:
    """Lines to the sites, of which one says that it has a million notes."""
    honest = over.remote

    def remote(*arguments: Any, **options: Any) -> Any:
        made = honest(*arguments, **options)
        ready = made.ready

        def greeted(*names: Any, **more: Any) -> Any:
            found = ready(*names, **more)
            made.declared[LIAR] = {"train": 2**20, "test": 8}
            return found

        made.ready = greeted  # type: ignore[method-assign]
        return made

    return remote
