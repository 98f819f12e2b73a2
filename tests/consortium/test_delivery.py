"""When a run has ended, every site that took part has its model: whole, as it was signed, and nothing else."""

import hashlib
import json
import shutil
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopback import Exchange, ask, desk_of, put
from real_sites import wait_until
from study_files import cli
from wardround import __version__
from wardround.consortium import submit as submitting
from wardround.consortium.delivery import FILES, bring, main, model_of, remind
from wardround.consortium.deployed import study_hash
from wardround.consortium.forgotten import mark_restored, recover
from wardround.consortium.house_ledger import compared, proven
from wardround.consortium.received import received, whole_model
from wardround.consortium.roster import read_roster
from wardround.consortium.site_process import answer_calls
from wardround.consortium.submit import submit
from wardround.consortium.submitted import note_run, pending
from wardround.core.method import Global
from wardround.core.weights import Weights
from wardround.engines.frames import Line
from wardround.engines.remote import Remote, fault
from wardround.engines.seal import Asker, read_signing_key
from wardround.layers.ledger import lines, verify
from wardround.runs.errors import RunError
from wardround.runs.files import DELIVERED, Delivered
from wardround.runs.folder import locked
from wardround.study.load import Study, cells
from wardround.trained.about import SIGNATURE, ModelError
from wardround.trained.about import verify as verify_model
from wardround.trained.signature import check_signature, make_key, sign
from wardround.watch.house import House

SITES = ("site-0", "site-1", "site-2")
TABLES: dict[str, Any] = {
    "name": "shared", "rounds": 1, "method": {"name": "fedavg"}, "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 3, "largest": 400}, "partition": {"name": "iid", "sites": 3},
}  # fmt: skip


@pytest.fixture
def study() -> Study:
    return cells(TABLES)[0].study


def ledger(folder: Path) -> list[dict[str, Any]]:
    return list(lines(folder / "ledger" / "site.jsonl"))


def test_each_site_has_the_model_and_both_ledgers_say_so(tmp_path: Path, study: Study) -> None:
    printed: list[str] = []
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over, say=printed.append)
        submit(study, tmp_path / "run", exchange.over, resume=True)  # who has it keeps it as it is
    assert "the model was delivered to site-0, site-1, site-2" in printed
    model = tmp_path / "run" / "model"
    digest = hashlib.sha256(model_of(tmp_path / "run")[1]).hexdigest()
    own, theirs = tmp_path / "run" / "ledger" / "coordinator.jsonl", tmp_path / "site-1" / "ledger" / "site.jsonl"
    assert list(SITES) == [line["from"] for line in lines(own) if "delivered" in line]
    assert [digest] == [line["model"]["digest"] for line in ledger(tmp_path / "site-1") if "model" in line]
    assert (verify(own) > 0, verify(theirs) > 0, compared(theirs, own) > 0) == (True, True, True)
    key = json.loads((exchange.over.folder / "consortium.json").read_text())["ask_key"]
    assert proven(theirs, key) == sum("sent" in line for line in lines(theirs))
    assert all("signed" in line for line in lines(theirs) if "model" in line)
    whole_model(received(tmp_path / "site-1", study), study, tmp_path / "own")
    assert {file.name: file.read_bytes() for file in model.iterdir()} == {
        file.name: file.read_bytes() for file in (tmp_path / "own").iterdir()
    }


def test_a_site_that_was_away_gets_it_once_it_is_back(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, away = list[str](), False

    def gone_first(*arguments: Any) -> None:
        nonlocal away
        away = True
        bring(*arguments)

    monkeypatch.setattr(submitting, "bring", gone_first)
    monkeypatch.setattr("wardround.consortium.delivery.PATIENCE", 0.2)
    monkeypatch.setattr("wardround.consortium.delivery.end_with_parent", lambda: None)
    with Exchange(tmp_path, study, SITES) as exchange:
        centre = exchange.over.folder
        exchange.unasked = lambda name, _head: name == "site-2" and away
        submit(study, tmp_path / "run", exchange.over, say=printed.append)
        assert any(text.startswith("site-2 has not received the model (lost") for text in printed)
        with pytest.raises(RunError, match="no model of this study has come to this site"):
            received(tmp_path / "site-2", study)
        assert [(tmp_path / "run", ["site-2"])] == pending(centre, SITES)
        away = False
        monkeypatch.setattr(sys, "argv", ["delivery", str(centre), "site-2"])
        main()
        assert [] == pending(centre, SITES)
        assert {"site-0": "", "site-1": "", "site-2": ""} == dict(DELIVERED.read(tmp_path / "run").sites)  # type: ignore[union-attr]
        assert received(tmp_path / "site-2", study).is_dir()


def test_a_site_that_never_answers_keeps_nobody_from_the_run(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, usual, free = threading.Event(), Remote.put, list[bool]()

    def silent(remote: Remote, name: str, head: Any, *given: Any, **options: Any) -> Any:
        if "model" in head and name == "site-1":
            with locked(tmp_path / "run"):  # whoever wants to go on with it can
                free.append(True)
            over.wait(60)
            return {"fault": "late"}, b""
        return usual(remote, name, head, *given, **options)

    monkeypatch.setattr(Remote, "put", silent)
    with Exchange(tmp_path, study, SITES) as exchange:
        thread = threading.Thread(target=submit, args=(study, tmp_path / "run", exchange.over))
        thread.start()
        wait_until(lambda: free)
        known = DELIVERED.read(tmp_path / "run")
        over.set()
        thread.join()
        assert known is None
        noted = DELIVERED.read(tmp_path / "run")
        assert noted
        assert ("", True, "") == (
            noted.sites["site-0"],
            noted.sites["site-1"].startswith("late"),
            noted.sites["site-2"],
        )
        monkeypatch.setattr(Remote, "put", usual)
        submit(study, tmp_path / "run", exchange.over, resume=True)
        assert {"": 3} == Counter(DELIVERED.read(tmp_path / "run").sites.values())  # type: ignore[union-attr]
    delivered = [
        line["from"] for line in lines(tmp_path / "run" / "ledger" / "coordinator.jsonl") if "delivered" in line
    ]
    assert sorted(SITES) == sorted(delivered)


def test_whoever_took_no_part_is_not_sent_it(tmp_path: Path) -> None:
    study = cells({**TABLES, "sites": {"quorum": 2}})[0].study
    sent: list[str] = []

    def noted(name: str, head: dict[str, Any], answer: Any) -> Any:
        sent.extend([name] * ("model" in head))
        return answer

    with Exchange(tmp_path, study, SITES) as exchange:
        for approval in (tmp_path / "site-2" / "approved").iterdir():
            approval.unlink()
        exchange.twist = noted
        submit(study, tmp_path / "run", exchange.over, wait=0.1)
    assert ["site-0", "site-1"] == sorted(sent)


def lacking(name: str) -> Callable[[list[Any], bytes], tuple[list[Any], bytes]]:
    return lambda files, data: ([one for one in files if one[0] != name], data)


def forged(files: list[Any], data: bytes) -> tuple[Any, bytes]:
    """A model of another study, whose checksums are right."""
    parts, start = {}, 0
    for name, size in files:
        parts[name], start = data[start : start + size], start + size
    other = parts["study.toml"].replace(b"seed = 0", b"seed = 1", 1)
    sums = [hashlib.sha256(parts["study.toml"]).hexdigest(), hashlib.sha256(other).hexdigest()]
    parts |= {"study.toml": other, "SHA256SUMS": parts["SHA256SUMS"].replace(sums[0].encode(), sums[1].encode())}
    return [[name, len(part)] for name, part in parts.items()], b"".join(parts.values())


BAD: dict[str, Callable[[list[Any], bytes], tuple[Any, bytes]]] = {
    "a changed byte": lambda files, data: (files, data[:-70] + bytes([data[-70] ^ 1]) + data[-69:]),
    "a file outside": lambda files, data: ([["../../site.toml", 3], *files], b"abc" + data),
    "another file": lambda files, data: ([["code.py", 3], *files], b"abc" + data),
    "a file twice": lambda files, data: ([files[0], *files], data),
    "no checksums": lacking("SHA256SUMS"),
    "no weights": lacking("weights.safetensors"),
    "a size below nothing": lambda files, data: ([[files[0][0], -1], *files[1:]], data),
    "cut off": lambda files, data: (files, data[:-10]),
    "not a list": lambda _files, data: (7, data),
    "a signature of nothing": lambda files, data: ([*files, [SIGNATURE, 2]], data + b"{}"),
    "another study's": forged,
    "too large": lambda files, data: (files, data + bytes(40 << 20)),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Exchange, Study]:
    folder, study = tmp_path_factory.mktemp("ended"), cells(TABLES)[0].study
    with Exchange(folder, study, SITES) as exchange:
        submit(study, folder / "run", exchange.over)
    return folder, exchange, study


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_the_model_of_the_run_is_refused_and_changes_nothing(
    ended: tuple[Path, Exchange, Study], what: str
) -> None:
    folder, exchange, study = ended
    run = (folder / "run" / "run.id").read_text()
    before = {file: file.read_bytes() for file in (folder / "site-0" / "models").rglob("*") if file.is_file()}
    about, data = model_of(folder / "run")
    files, changed = BAD[what](about["files"], data)
    head = {"version": __version__, "study": study_hash(study), "run": run, "model": {"files": files}}
    answer = put(exchange.sites["site-0"], head, changed)
    assert {"fault": "model"} == answer[0]
    assert "model" == ledger(folder / "site-0")[-1]["refused"] or what != next(iter(BAD))
    assert before == {file: file.read_bytes() for file in (folder / "site-0" / "models").rglob("*") if file.is_file()}
    assert [] == [path.name for path in (folder / "site-0").iterdir() if path.name.startswith("tmp")]


def test_a_model_of_a_run_without_this_site_or_of_a_study_that_it_did_not_approve_is_refused(
    ended: tuple[Path, Exchange, Study],
) -> None:
    folder, exchange, study = ended
    about, data = model_of(folder / "run")
    head = {"version": __version__, "study": study_hash(study), "run": "f" * 16, "model": about}
    assert {"fault": "part"} == put(exchange.sites["site-0"], head, data)[0]
    assert {"fault": "study"} == put(exchange.sites["site-0"], {**head, "run": "../../x"}, data)[0]
    assert {"fault": "study"} == put(exchange.sites["site-0"], {**head, "study": "0" * 64}, data)[0]
    run = (folder / "run" / "run.id").read_text()
    assert {"fault": "study"} == put(exchange.sites["site-0"], {**head, "run": f"{run}0"}, data)[0]  # another folder


def test_a_letter_that_is_brought_again_brings_no_older_model_back(tmp_path: Path, study: Study) -> None:
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
    place, key = tmp_path / "site-0", tmp_path / "ward.key"
    make_key(key)
    letters = []
    for signed in (False, True):
        if signed:
            sign(tmp_path / "run" / "model", key)
        about, data = model_of(tmp_path / "run")
        run = (tmp_path / "run" / "run.id").read_text()
        head = {"version": __version__, "study": study_hash(study), "run": run, "model": about}
        letters.append(desk_of(exchange.sites["site-0"]).write("site-0", head, data))
        exchange.sites["site-0"].answer(letters[-1].head, letters[-1].data)
    before, kept = ledger(place), received(place, study)
    changed = kept.stat().st_mtime_ns
    for letter in letters:
        exchange.sites["site-0"].answer(letter.head, letter.data)
    assert before == ledger(place)
    assert (changed, True) == (received(place, study).stat().st_mtime_ns, (kept / SIGNATURE).exists())
    assert 2 == sum("model" in line for line in before)
    (kept.parent / f".{kept.name}.1.new").mkdir()  # what a crash left of another
    assert kept == received(place, study)


def test_a_signed_model_arrives_with_its_signature_and_one_can_ask_for_it(tmp_path: Path, study: Study) -> None:
    public = tmp_path / "ward.key.pub"
    make_key(tmp_path / "ward.key")
    (tmp_path / "s.toml").write_text(study.toml(), encoding="utf-8")
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
        order = ("site", "model", tmp_path / "site-0", tmp_path / "s.toml", "--out", tmp_path / "own")
        refused = cli(*order, "--trust", public, cwd=tmp_path)
        assert (2, True) == (refused.code, "nobody has signed it" in refused.err)
        assert not (tmp_path / "own").exists()
        sign(tmp_path / "run" / "model", tmp_path / "ward.key")
        submit(study, tmp_path / "run", exchange.over, resume=True)
    assert 0 == cli(*order, "--trust", public, cwd=tmp_path).code
    check_signature(tmp_path / "own", [public])
    assert set(FILES) == {file.name for file in (tmp_path / "own").iterdir()}
    kept = received(tmp_path / "site-0", study)
    (kept / "weights.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="damaged"):
        whole_model(kept, study, tmp_path / "other")


def test_a_site_puts_what_it_kept_and_what_was_delivered_together(tmp_path: Path) -> None:
    study = cells({**TABLES, "method": {"name": "ditto"}})[0].study
    (tmp_path / "s.toml").write_text(study.toml(), encoding="utf-8")
    with Exchange(tmp_path, study, SITES) as exchange:
        early = cli("site", "model", tmp_path / "site-0", tmp_path / "s.toml", "--out", "own", cwd=tmp_path)
        assert (2, True) == (early.code, "the coordinator sends it when a run has ended" in early.err)
        submit(study, tmp_path / "run", exchange.over)
    assert "wardround site model comes first" in cli("clear", tmp_path / "site-0", cwd=tmp_path).out
    assert 0 == cli("site", "model", tmp_path / "site-0", tmp_path / "s.toml", "--out", "own", cwd=tmp_path).code
    assert "comes first" not in cli("clear", tmp_path / "site-0", cwd=tmp_path).out
    verify_model(tmp_path / "own")
    assert "site-0" == json.loads((tmp_path / "own" / "model.json").read_text())["site"]


def test_a_site_that_was_put_back_from_a_copy_gets_the_model_that_came_since(tmp_path: Path, study: Study) -> None:
    printed: list[str] = []
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
        shutil.rmtree(received(tmp_path / "site-2", study))
        with pytest.raises(RunError, match="submit … --resume sends it anew"):
            received(tmp_path / "site-2", study)
        submit(study, tmp_path / "run", exchange.over, resume=True, say=printed.append)
    assert "the model was delivered to site-0, site-1, site-2" in printed
    assert received(tmp_path / "site-2", study).is_dir()


def test_of_a_site_that_has_the_model_and_is_away_nothing_is_said_unless_it_may_have_lost_it(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wardround.consortium.delivery.PATIENCE", 0.2)
    printed: list[str] = []
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
        centre, remote = exchange.over.folder, exchange.over.remote(study, tmp_path / "run")
        exchange.unasked = lambda name, _head: name == "site-2"
        bring(remote, tmp_path / "run", SITES, printed.append)
        assert (["the model was delivered to site-0, site-1"], []) == (printed, pending(centre, SITES))
        exchange.unasked = lambda _name, _head: False
        usual = Remote.put

        def restored(remote: Remote, name: str, *given: Any, **options: Any) -> Any:
            return ({"fault": "restored"}, b"") if name == "site-2" else usual(remote, name, *given, **options)

        monkeypatch.setattr(Remote, "put", restored)
        bring(remote, tmp_path / "run", SITES, printed.append)
        assert printed[-1].startswith("site-2 has not received the model (refused: it was put back from a copy")
        assert [(tmp_path / "run", ["site-2"])] == pending(centre, SITES)


@pytest.mark.parametrize("why", ["restored", "disk"])
def test_a_site_that_is_still_to_recover_or_to_make_room_gets_the_model_later(tmp_path: Path, why: str) -> None:
    centre, run = tmp_path / "centre", tmp_path / "run"
    for folder in (centre, run):
        folder.mkdir()
    note_run(centre, run, "shared")
    states = {"site-0": str(fault({"fault": why})), "site-1": str(fault({"fault": "study"})), "site-2": ""}
    DELIVERED.write(run, Delivered(study="s", run="r", digest="d", sites=states))
    assert [(run, ["site-0"])] == pending(centre, SITES)


def test_the_log_of_a_site_names_studies_that_begin_end_bring_a_model_or_are_refused(
    tmp_path: Path, study: Study
) -> None:
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
        other = cells({**TABLES, "name": "unheard-of", "method": {"name": "fedprox", "mu": 0.5}})[0].study
        with pytest.raises(RunError, match="not approved"):
            submit(other, tmp_path / "other", exchange.over, wait=0.0)
    run, log = (tmp_path / "run" / "run.id").read_text(), (tmp_path / "site-0" / "log.txt").read_text()
    named = f"study {study.name}, run {run}: "
    told = [line.partition(named)[2].split(",")[0] for line in log.splitlines() if named in line]
    assert ["begins", "has ended", "its model came"] == told
    assert "this site has not approved unheard-of (" in log
    assert f"wardround site approve {tmp_path / 'site-0'} STUDY.toml" in log
    house = House(tmp_path / "site-0")
    house.look()
    assert any("of unheard-of (" in event.text and "site approve" in event.text for event in house.log.lines)


def test_a_site_that_was_put_back_is_told_what_it_forgot_without_any_study(tmp_path: Path, study: Study) -> None:
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
        place, folder = tmp_path / "site-1", exchange.over.folder
        shutil.copytree(place / "ledger", tmp_path / "older")
        mark_restored(place)
        (place / "ledger" / "site.jsonl").unlink()
        seals = {name: member.seal for name, member in read_roster(folder).items()}
        remind(folder, Asker(read_signing_key(folder / "keys" / "ask.key"), seals), SITES, SITES)
    lapse = recover(place, as_told=True)
    assert {line["round"] for line in lines(tmp_path / "older" / "site.jsonl") if "sent" in line} == {
        one.round for one in lapse.answers
    }
    unrestored = tmp_path / "site-0" / "ledger" / "site.jsonl"
    assert not [line for line in lines(unrestored) if "refused" in line]


GB = 1 << 30


@pytest.mark.parametrize(
    ("change", "size", "code"),
    [
        ({"model": {"files": []}}, GB, "model"),
        ({"model": {"files": []}}, 10 << 20, None),  # it may be one
        ({"model": {"files": []}, "run": "f" * 16}, GB, "part"),
        ({"exchange": ask(cells(TABLES)[0].study, Global(Weights({})))[0]["exchange"]}, 3 << 20, "message"),
        ({"exchange": {"step": "rm"}}, 3 << 20, "message"),
        ({"hello": True, "study": "0" * 64}, 3 << 20, "study"),
        ({"hello": True}, 3 << 20, "message"),
        ({"hello": True}, 1 << 20, None),  # small, and read
        ({"told": "x"}, GB, "message"),
        ({"version": "9.9.9", "model": {}}, GB, "version"),
    ],
)
def test_a_letter_that_announces_more_than_it_may_have_is_refused_before_it_is_read(
    ended: tuple[Path, Exchange, Study], change: dict[str, Any], size: int, code: str | None
) -> None:
    folder, exchange, study = ended
    run = (folder / "run" / "run.id").read_text()
    site = exchange.sites["site-0"]
    head = {"version": __version__, "study": study_hash(study), "run": run, **change}
    letter = desk_of(site).write("site-0", head)
    reply = site.unread(letter.head, size)
    given = None if reply is None else letter.read(*reply)[0]
    assert code == (given and given["fault"])


def test_who_is_not_the_coordinator_has_nothing_read_that_is_long_and_hears_so(
    ended: tuple[Path, Exchange, Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = ended[1].sites["site-0"]
    near, far = map(Line, socket.socketpair())
    monkeypatch.setattr(far, "rest", lambda _: pytest.fail("it was read"))
    server = threading.Thread(target=answer_calls, args=([far], site))
    server.start()
    with near:
        near.send({"form": "wardround letter 1", "ask": "1" * 16}, bytes(5 << 20))
        assert ({"fault": "unsigned", "ask": "1" * 16}, b"") == near.receive()
    server.join()
