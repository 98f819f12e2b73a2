"""A site does not trust what it is asked, nor the coordinator what it is told; no NVFlare here, the bytes are ours."""

import dataclasses
import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import torch

from fault_table import fault
from loopback import Exchange, ask, first_weights, put, site_folder
from wardround import __version__, consortium
from wardround.consortium.approval import approve
from wardround.consortium.deployed import study_hash
from wardround.consortium.house_ledger import compared, summed
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.submit import submit
from wardround.core.codec import decode
from wardround.core.cohort import BelowQuorum
from wardround.core.exchange import EVALUATION
from wardround.core.method import Exam, Global
from wardround.core.weights import Weights
from wardround.engines.codes import CODES
from wardround.engines.frames import AccessError, Line, dial, listen
from wardround.engines.host import Host
from wardround.layers.ledger import LedgerError, verify
from wardround.methods.fedavg import Update
from wardround.runs.files import Round
from wardround.runs.loop import run
from wardround.study.load import Study, cells

SITES = ("site-0", "site-1", "site-2")


def study_of(**changes: Any) -> Study:
    tables = {
        "name": "hostile", "rounds": 3, "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40}, "partition": {"name": "iid", "sites": 3}, **changes,
    }  # fmt: skip
    return cells(tables)[0].study


# at a site


def test_a_site_answers_what_it_has_approved_and_refuses_the_rest(tmp_path: Path) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    model = Global(first_weights(study, tmp_path))
    asks = {
        "version": ask(study, model, version="0.0.9"),
        "study": ask(study_of(seed=1), model),
        "message": ask(study, model, seed=9),
        "stale": ask(study, model),
    }
    assert all("ledger" in put(site, *ask(study, model, round=round_))[0] for round_ in (1, 2))
    assert {code: code for code in asks} == {code: put(site, *told)[0]["fault"] for code, told in asks.items()}
    assert __version__ == put(site, *asks["version"])[0]["version"]
    for step in ("nothing", "round", "start", "__class__"):
        assert "message" == put(site, *ask(study, model, round=2, step=step))[0]["fault"]
    wrong: tuple[Any, ...] = (None, {}, [], {"step": "fit", "round": "1"})
    for exchange in wrong:
        assert "message" == put(site, *ask(study, model, exchange=exchange))[0]["fault"]
    for name in ("", "../../x", "a" * 64):
        assert "study" == put(site, *ask(study, model, study=name))[0]["fault"]
    (tmp_path / "site-0" / "approved" / f"{study_hash(study)}.toml").unlink()
    assert "study" == put(site, *ask(study, model, round=3))[0]["fault"]


def test_a_site_takes_part_in_as_many_rounds_as_it_approved(tmp_path: Path) -> None:
    study = study_of(rounds=3)
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    model = Global(first_weights(study, tmp_path))
    hello = [{**ask(study, model)[0], "hello": True, "rounds": rounds} for rounds in (3, 4)]
    assert [None, "rounds"] == [put(site, head, b"")[0].get("fault") for head in hello]
    assert [None, "rounds"] == [put(site, *ask(study, model, round=round_))[0].get("fault") for round_ in (3, 4)]
    approve(tmp_path / "site-0", study_of(rounds=4))
    assert "ledger" in put(site, *ask(study, model, round=4))[0]


@pytest.mark.parametrize("wrong", ["nan", "shape", "kind", "cut", "long", "empty"])
def test_a_site_refuses_a_message_that_does_not_match_the_manifest(tmp_path: Path, wrong: str) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    weights = first_weights(study, tmp_path)
    good = Global(weights).encode()
    data = {
        "nan": Global(weights * float("nan")).encode(),
        "shape": Global(Weights({"weight": torch.zeros(2, 2)})).encode(),
        "kind": Exam(weights, "test").encode(),
        "cut": good[:-1],
        "long": good + b"0" * 10**6,
        "empty": b"",
    }[wrong]
    head, _ = ask(study, Global(weights))
    assert ({"fault": "message"}, b"") == put(site, head, data)


@fault("replayed ask")
def test_the_same_ask_gets_the_same_reply_and_another_in_its_place_none(tmp_path: Path) -> None:
    study = study_of(method={"name": "scaffold"})
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    state = study.method.start(first_weights(study, tmp_path), None)  # type: ignore[arg-type]
    first = put(site, *ask(study, state))
    assert first == put(site, *ask(study, state))
    lines = len((tmp_path / "site-0" / "ledger" / "site.jsonl").read_text().splitlines())
    restarted = SiteProcess(tmp_path / "site-0")  # which has to compute it again
    assert first[1] == put(restarted, *ask(study, state))[1]
    assert lines < len((tmp_path / "site-0" / "ledger" / "site.jsonl").read_text().splitlines())
    control = Weights.of_flat(state.control.flat + 1e-6, state.control.layout)
    other = dataclasses.replace(state, control=control)
    for process in (site, restarted):
        assert "stale" == put(process, *ask(study, other))[0]["fault"]
    assert "ledger" in put(restarted, *ask(study, other, round=2))[0]
    assert "stale" == put(restarted, *ask(study, state))[0]["fault"]
    assert "ledger" in put(restarted, *ask(study, state, resumed=[0]))[0]  # the run was taken up again after round 0


def test_runs_of_one_study_do_not_share_what_a_site_keeps(tmp_path: Path) -> None:
    study = study_of(method={"name": "scaffold"})
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    state = study.method.start(first_weights(study, tmp_path), None)  # type: ignore[arg-type]
    replies = [put(site, *ask(study, state, run=run, round=round_))[1] for run in ("a", "b") for round_ in (1, 2)]
    assert replies[:2] == replies[2:]
    assert replies[0] != replies[1]


@pytest.mark.parametrize("consent", ['steps = ["evaluate"]', 'messages = ["Counts"]'])
def test_consent_is_the_last_word(tmp_path: Path, consent: str) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study, "[consent]", "least_examples = 0", consent))
    weights = first_weights(study, tmp_path)
    assert "consent" == put(site, *ask(study, Global(weights)))[0]["fault"]
    assert "ledger" in put(site, *ask(study, Exam(weights, "test"), step="evaluate", number=EVALUATION + 1))[0]
    lines = [json.loads(line) for line in (tmp_path / "site-0" / "ledger" / "site.jsonl").read_text().splitlines()]
    assert ["consent"] == [line["refused"] for line in lines if "refused" in line]


def test_no_label_count_below_ten_leaves(tmp_path: Path) -> None:
    corpus = {"name": "synthetic", "sites": 3, "largest": 400, "classes": 4}
    study = study_of(corpus=corpus, evaluation={"splits": ["train"]})
    site = SiteProcess(site_folder(tmp_path, "site-0", study, "[consent]", "least_examples = 0"))
    exam = Exam(first_weights(study, tmp_path), "train")
    told, data = put(site, *ask(study, exam, step="evaluate", number=EVALUATION + 1))
    assert "ledger" in told
    counts = decode(study.method.evaluate.reply, data).numbers
    open_ = SiteProcess(site_folder(tmp_path / "x", "site-0", study))
    whole = decode(
        study.method.evaluate.reply, put(open_, *ask(study, exam, step="evaluate", number=EVALUATION + 1))[1]
    ).numbers
    examples, all_ = (found["hits"] + found["misses"] for found in (counts, whole))
    assert bool((all_ < 10).any()) and bool((all_ >= 10).any())  # noqa: PT018 -- both, or it shows nothing
    assert torch.equal(torch.where(all_ >= 10, all_, 0.0), examples)


def test_a_full_disk_and_an_error_become_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    model = Global(first_weights(study, tmp_path))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device: Mrs Miller")

    monkeypatch.setattr(site.ledger.chain, "flush", full)
    assert ({"fault": "disk"}, b"") == put(site, *ask(study, model))
    monkeypatch.undo()
    assert "ledger" in put(site, *ask(study, model))[0]  # with room again
    monkeypatch.setattr(Host, "answer", full)
    assert ({"fault": "disk"}, b"") == put(site, *ask(study, model, round=2))
    assert "Miller" not in (tmp_path / "site-0" / "log.txt").read_text()
    assert 0 < verify(tmp_path / "site-0" / "ledger" / "site.jsonl")


@fault("memory at a site")
def test_too_little_memory_has_a_code_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own error, of the CPU's memory; then the same ask is answered."""
    study = study_of()
    site = SiteProcess(site_folder(tmp_path, "site-0", study))
    model = Global(first_weights(study, tmp_path))
    monkeypatch.setattr("wardround.core.training._backward", lambda *_: torch.empty(10**15))
    assert ({"fault": "memory"}, b"") == put(site, *ask(study, model))
    monkeypatch.undo()
    assert "ledger" in put(site, *ask(study, model))[0]


def test_every_code_of_a_site_has_words() -> None:
    source = "".join(path.read_text() for path in Path(consortium.__file__).parent.glob("*.py"))
    used = {part.split('"')[1] for part in source.split("Denial(")[1:] if part.startswith('"')}
    assert {"restart", "rounds", "weights", "changed"} < used
    assert used | {"disk", "memory"} <= set(CODES)


# at the coordinator


@fault("hostile reply")
@pytest.mark.parametrize(("twist", "why"), [
    ("nan", "fit: invalid: Update.change holds NaN or infinity"),
    ("shape", "fit: invalid: Update.change does not fit: it has a tensor that is not part of the model"),
    ("count", "fit: invalid: Update.weight"),
    ("garbage", "fit: invalid: the bytes are cut off or are no safetensors file"),
    ("huge", "fit: invalid: Update of"),
    ("code", "fit: invalid: it answered with something that is no code"),
    ("silent", "fit: lost: the connection to it broke"),
])  # fmt: skip
def test_the_coordinator_leaves_out_who_answers_nonsense(tmp_path: Path, twist: str, why: str) -> None:
    study = study_of()
    weights = first_weights(study, tmp_path)

    def twisted(name: str, head: dict[str, Any], answer: Any) -> Any:
        told = head.get("exchange") or {}
        if (name, told.get("step"), told.get("round")) != ("site-1", "fit", 2):
            return answer
        update = decode(Update, answer[1])
        return {
            "nan": (answer[0], Update(update.change * float("nan"), update.weight).encode()),
            "shape": (answer[0], Update(Weights({"x": torch.zeros(3)}), update.weight).encode()),
            "count": (answer[0], Update(weights, -1 if isinstance(update.weight, int) else float("inf")).encode()),
            "garbage": (answer[0], b"garbage"),
            "huge": (answer[0], answer[1] + bytes(10**6)),
            "code": ({"fault": "Mrs Miller has a rash"}, b""),
            "silent": None,
        }[twist]

    lines: list[Round] = []
    with Exchange(tmp_path / "x", study, SITES) as exchange:
        exchange.twist = twisted
        submit(study, tmp_path / "run", exchange.over, progress=lines.append)
    assert [{}, {"site-1": lines[1].left_out["site-1"]}, {}] == [line.left_out for line in lines]
    assert lines[1].left_out["site-1"].startswith(why)
    assert "Miller" not in str(lines)


@pytest.mark.parametrize("garble", ["replayed", "another site's", "changed", "code"])
def test_what_a_site_did_not_seal_to_this_ask_is_not_looked_at(tmp_path: Path, garble: str) -> None:
    study = study_of()
    carried: dict[tuple[str, int], Any] = {}

    def garbled(name: str, head: dict[str, Any], answer: Any) -> Any:
        exchange = head.get("exchange") or {}
        if exchange.get("step") != "fit":
            return answer
        carried[name, exchange["round"]] = answer
        if (name, exchange["round"]) != ("site-1", 2):
            return answer
        return {
            "replayed": carried["site-1", 1],
            "another site's": ({**carried["site-0", 1][0], "ask": head["ask"]}, carried["site-0", 1][1]),
            "changed": (answer[0], answer[1][:-1] + bytes([answer[1][-1] ^ 1])),
            "code": ({"fault": "Mrs Miller has a rash", "ask": head["ask"]}, b""),
        }[garble]

    lines: list[Round] = []
    with Exchange(tmp_path / "x", study, SITES) as exchange:
        exchange.garble = garbled
        submit(study, tmp_path / "run", exchange.over, progress=lines.append)
    why = "fit: invalid: what came back is not sealed by it to this ask"
    assert [{}, {"site-1": why}, {}] == [line.left_out for line in lines]


def test_without_nvflare_in_between_the_bits_are_the_same(tmp_path: Path) -> None:
    study = study_of(method={"name": "scaffold"})
    run(study, tmp_path / "inline")
    with Exchange(tmp_path / "x", study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
    model = "model/weights.safetensors"
    assert (tmp_path / "inline" / model).read_bytes() == (tmp_path / "run" / model).read_bytes()


def test_a_site_whose_reply_was_lost_was_not_in_that_round(tmp_path: Path) -> None:
    """SCAFFOLD's sites remember: a reply that does not arrive must leave no more behind than no question."""
    study = study_of(method={"name": "scaffold"}, sites={"quorum": 2})
    models = []
    for case in ("lost", "absent"):

        def twisted(name: str, head: dict[str, Any], answer: Any) -> Any:
            exchange = head.get("exchange") or {}
            gone = (name, exchange.get("step"), exchange.get("round")) == ("site-1", "fit", 2)
            return None if gone else answer

        def unasked(name: str, head: dict[str, Any]) -> bool:
            exchange = head.get("exchange") or {}
            return (name, exchange.get("step"), exchange.get("round")) == ("site-1", "fit", 2)

        lines: list[Round] = []
        with Exchange(tmp_path / case, study, SITES) as exchange:
            exchange.twist = twisted
            exchange.unasked = unasked if case == "absent" else exchange.unasked
            submit(study, tmp_path / f"run-{case}", exchange.over, progress=lines.append)
        assert [[], ["site-1"], []] == [list(line.left_out) for line in lines]
        models.append((tmp_path / f"run-{case}" / "model" / "weights.safetensors").read_bytes())
    assert models[0] == models[1]


@fault("crash after a lost reply")
def test_a_lost_reply_is_undone_even_if_the_coordinator_crashes_before_the_site_hears_of_it(tmp_path: Path) -> None:
    """Site-1's reply in round 2 is lost; it is away until the coordinator dies in round 3, and hears only then."""
    study = study_of(method={"name": "scaffold"}, rounds=4, sites={"quorum": 2})

    def at(name: str, head: dict[str, Any]) -> tuple[str, int] | None:
        told = head.get("exchange")
        return (told["step"], told["round"]) if told and name == "site-1" else None

    def crash(line: Round) -> None:
        if line.round == 3:
            raise KeyboardInterrupt

    with Exchange(tmp_path / "a", study, SITES) as exchange:
        exchange.unasked = lambda name, head: at(name, head) in (("fit", 2), ("evaluate", 2))
        submit(study, tmp_path / "never asked", exchange.over)
    with Exchange(tmp_path / "b", study, SITES) as exchange:
        out = tmp_path / "lost"
        exchange.twist = lambda name, head, answer: None if at(name, head) == ("fit", 2) else answer
        exchange.unasked = lambda name, head: at(name, head) in (("evaluate", 2), ("fit", 3), ("evaluate", 3))
        with pytest.raises(KeyboardInterrupt):
            submit(study, out, exchange.over, progress=crash)
        assert ["site-1"] == list(json.loads((out / "void.json").read_text()))
        exchange.unasked = lambda *_: False
        submit(study, out, exchange.over, resume=True)
        assert {} == json.loads((out / "void.json").read_text())  # it has heard
    model = "model/weights.safetensors"
    assert (tmp_path / "never asked" / model).read_bytes() == (out / model).read_bytes()


def test_a_round_that_is_run_again_after_a_lost_quorum_gives_the_same_bits(tmp_path: Path) -> None:
    study = study_of(method={"name": "scaffold"}, sites={"quorum": 3})
    run(study, tmp_path / "inline")
    lines: list[str] = []
    with Exchange(tmp_path / "x", study, SITES) as exchange:
        results: set[int] = set()

        def twisted(name: str, head: dict[str, Any], answer: Any) -> Any:
            exchange_ = head.get("exchange") or {"round": 0}
            if name == "site-2" and exchange_["round"] == 2 and not exchange_["resumed"]:
                results.add(2)
                return None
            return answer

        exchange.twist = twisted
        submit(study, tmp_path / "run", exchange.over, say=lines.append)
    assert {2} == results
    assert any("2 of 3 sites gave a usable reply, the quorum is 3" in text for text in lines)
    assert [1] == json.loads((tmp_path / "run" / "run.json").read_text())["resumed"]
    model = "model/weights.safetensors"
    assert (tmp_path / "inline" / model).read_bytes() == (tmp_path / "run" / model).read_bytes()


def test_a_round_that_fails_again_and_again_stops_the_run(tmp_path: Path) -> None:
    study = study_of(sites={"quorum": 2})
    lines: list[str] = []

    def twisted(name: str, head: dict[str, Any], answer: Any) -> Any:
        round_ = (head.get("exchange") or {}).get("round")
        return ({"fault": "failed"}, b"") if name != "site-0" and round_ == 2 else answer

    with Exchange(tmp_path / "x", study, SITES) as exchange:
        exchange.twist = twisted
        with pytest.raises(BelowQuorum, match="1 of 3 sites gave a usable reply, the quorum is 2"):
            submit(study, tmp_path / "run", exchange.over, say=lines.append)
    assert 2 == sum("waiting for sites to come back" in text for text in lines)
    assert [1, 1] == json.loads((tmp_path / "run" / "run.json").read_text())["resumed"]


# ledgers


@fault("cut ledger")
def test_a_tail_that_is_cut_off_shows_in_the_other_sides_ledger(tmp_path: Path) -> None:
    study = study_of()
    with Exchange(tmp_path / "x", study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
    own, central = (
        tmp_path / "x" / "site-0" / "ledger" / "site.jsonl",
        tmp_path / "run" / "ledger" / "coordinator.jsonl",
    )
    assert 6 == compared(own, central)  # three rounds, a fit and an evaluation in each
    assert 8 == compared(central, own)  # a last word, and the model
    sums = summed(own)
    assert [("Update", 3), ("Counts", 3)] == [(kind, sent.times) for (_, _, kind), sent in sums.items()]
    assert all("hostile" in study for _, study, _ in sums)
    assert "how" in str([sent.reveals for sent in sums.values()])
    for path, other in ((own, central), (central, own)):
        whole = path.read_bytes()
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-6]))  # of which nobody notes the deliveries
        assert 0 < verify(path)  # by itself it looks intact
        with pytest.raises(LedgerError, match="lines were cut off or replaced"):
            compared(path, other)
        path.write_bytes(whole)


# the door


def test_only_its_owner_gets_through_a_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d" / "door"
    server = listen(path)
    assert (0o700, 0o600) == (stat.S_IMODE(path.parent.stat().st_mode), stat.S_IMODE(path.stat().st_mode))
    with dial(path) as line:
        end, _ = server.accept()
        monkeypatch.setattr("wardround.engines.frames._owner", lambda _: 12345)
        with pytest.raises(AccessError, match="another user's process"):
            Line(end)
        assert line.receive() is None
        with pytest.raises(AccessError):
            dial(path)
    server.close()
    path.parent.chmod(0o755)
    with pytest.raises(AccessError, match="can be entered by others"):
        listen(path)


@pytest.mark.parametrize("raw", [b"", b"\0" * 15, b"\xff" * 16, b"\2\0\0\0\0\0\0\0" + b"\0" * 8 + b"[]"])
def test_what_is_no_frame_is_not_read(raw: bytes) -> None:
    near, far = socket.socketpair()
    with Line(near) as line:
        far.sendall(raw)
        far.close()
        assert line.receive() is None
