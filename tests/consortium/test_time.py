"""A study that goes on for nights and weeks, over real sites: it waits, says so, and gives the same bits."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loopback import Exchange
from study_files import result_of
from wardround import __version__
from wardround.cli.status import _standing
from wardround.consortium.deployed import study_hash
from wardround.consortium.greeted import note_greeted, note_versions
from wardround.consortium.roster import read_roster, write_roster
from wardround.consortium.submit import Consortium, submit
from wardround.consortium.submitted import FILE, MOST, note_run, submitted
from wardround.core.cohort import BelowQuorum
from wardround.core.exchange import Fault
from wardround.engines.remote import Remote
from wardround.engines.seal import Asker, Parcel, make_signing_key, read_signing_key
from wardround.engines.versions import compatible
from wardround.layers.ledger import lines
from wardround.runs.errors import RunError
from wardround.runs.files import SITES as SITES_FILE
from wardround.runs.files import Round
from wardround.runs.stopping import Stopped, ask_to_stop
from wardround.runs.window import Clock
from wardround.study.load import Study, cells
from wardround.watch.board import RunBoard, runs_table

SITES = ("site-0", "site-1")
TABLES: dict[str, Any] = {
    "name": "nightly", "rounds": 3, "method": {"name": "scaffold"}, "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 2, "largest": 400}, "partition": {"name": "iid", "sites": 2},
}  # fmt: skip


def study_of(**more: Any) -> Study:
    return cells({**TABLES, **more})[0].study


def test_over_real_sites_rounds_start_at_night_and_the_sites_are_free_by_day(tmp_path: Path) -> None:
    night = study_of(schedule={"window": "22:00-06:00", "zone": "UTC"})
    now = datetime(2026, 11, 17, 15, tzinfo=UTC)
    out, starts, printed = tmp_path / "run", list[int](), list[str]()
    waits: list[tuple[str, bool]] = []

    def sleep(_: float) -> None:
        nonlocal now
        if now.minute == 0 and now.hour == 15:
            ended = "ended" in list(lines(tmp_path / "site-0" / "ledger" / "site.jsonl"))[-1]
            waits.append((_standing(out), ended))
        now += timedelta(minutes=15)

    def worked(line: Round) -> None:
        nonlocal now
        starts.append(now.hour)
        now += timedelta(hours=17)
        if line.round == 2:
            ask_to_stop(out)

    with Exchange(tmp_path, night, SITES) as exchange:
        submit(study_of(), tmp_path / "whole", exchange.over)
        with pytest.raises(Stopped):
            submit(night, out, exchange.over, progress=worked, say=printed.append, clock=Clock(lambda: now, sleep))
        submit(night, out, exchange.over, progress=worked, resume=True, clock=Clock(lambda: now, sleep))
        words = "waiting for the window 22:00-06:00, which opens on"
        first, second, third = waits
        assert (f"run in {out}: {words} Tue 17 Nov at 22:00 UTC") == first[0]
        assert (f"nightly in {out}: 1 of 3 rounds done; {words} Wed 18 Nov at 22:00 UTC", True) == second
        assert f"nightly in {out}: 2 of 3 rounds done; {words} Thu 19 Nov at 22:00 UTC" == third[0]
        assert [22, 22, 22] == starts
        assert ["site-0: ready", "site-1: ready"] == printed[:2]  # by day, when what is wrong can be mended
        assert result_of(tmp_path / "whole") == result_of(out)
        assert [tmp_path / "whole", out] == [Path(place) for place in submitted(exchange.over.folder)]


def test_a_consortium_remembers_its_newest_runs_over_restarts(tmp_path: Path) -> None:
    for number in [*range(MOST + 2), MOST]:
        note_run(tmp_path, tmp_path / str(number), f"study {number}")
    kept = [Path(place).name for place in submitted(tmp_path)]
    assert [*map(str, range(2, MOST)), str(MOST + 1), str(MOST)] == kept
    (tmp_path / FILE).write_text("{")
    assert {} == submitted(tmp_path)


def test_a_site_may_be_admitted_or_revoked_between_two_rounds(tmp_path: Path) -> None:
    study = study_of(
        rounds=4,
        corpus={"name": "synthetic", "sites": 3, "largest": 400},
        partition={"name": "iid", "sites": 3},
        sites={"quorum": 2},
    )
    counts: list[int] = []

    def once(line: Round) -> None:
        counts.append(line.sites)
        ask_to_stop(tmp_path / "run")

    with Exchange(tmp_path, study, ("site-0", "site-1", "site-2")) as exchange:
        centre = exchange.over.folder
        members = read_roster(centre)
        gone = members["site-0"].model_copy(update={"revoked": datetime.now(UTC)})
        for roster in (
            {name: members[name] for name in ("site-0", "site-1")},
            members,
            {**members, "site-0": gone},
        ):
            write_roster(centre, roster)
            with pytest.raises(Stopped):
                submit(
                    study, tmp_path / "run", Consortium(centre, deadline=20.0, patience=0.5), progress=once,
                    resume=bool(counts),
                )  # fmt: skip
    assert [2, 3, 2] == counts


def test_a_site_with_a_newer_patch_is_let_in_and_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = f"{__version__.rpartition('.')[0]}.99"
    monkeypatch.setattr("wardround.consortium.site_process.__version__", newer)
    study = study_of(rounds=1)
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
    assert {"site-0": newer, "site-1": newer} == {
        name: one.version for name, one in (SITES_FILE.read(tmp_path / "run") or {}).items()
    }


def test_a_site_that_is_upgraded_in_the_middle_of_a_run_is_named_with_its_new_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer, study = f"{__version__.rpartition('.')[0]}.99", study_of(rounds=2)
    named: list[str] = []

    def versions() -> list[str]:
        return [one.version for one in (SITES_FILE.read(tmp_path / "run") or {}).values()]

    def upgraded(_: Round) -> None:
        named.extend(versions())
        monkeypatch.setattr("wardround.consortium.site_process.__version__", newer)

    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over, progress=upgraded)
    assert [__version__, __version__, newer, newer] == named
    assert [newer, newer] == versions()


def test_a_site_that_was_left_out_of_a_round_is_given_no_version_by_it(tmp_path: Path) -> None:
    note_greeted(tmp_path, {"large": Fault("refused", "it has too many examples"), "back": None}, {}, {"back": "0.2.0"})
    note_versions(tmp_path, {"large": "0.2.1", "back": "0.2.1"}, {"large": "fit: refused"})
    known = SITES_FILE.read(tmp_path) or {}
    assert {"large": "", "back": "0.2.1"} == {name: one.version for name, one in known.items()}


def test_a_hospital_reads_in_its_own_log_why_it_refuses_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, other = study_of(rounds=1), study_of(rounds=2, seed=7)
    with Exchange(tmp_path, study, SITES) as exchange:
        for _ in range(2):  # the same is said once a minute
            with pytest.raises(RunError):
                submit(other, tmp_path / "other", exchange.over, wait=0.0, resume=True)
        monkeypatch.setattr("wardround.consortium.site_process.__version__", "9.9.9")
        monkeypatch.setattr("wardround.consortium.site_words.__version__", "9.9.9")
        with pytest.raises(RunError):
            submit(study, tmp_path / "run", exchange.over, wait=0.0)
    series = f"{__version__.rpartition('.')[0]}.x"
    assert [
        (
            f"study: refused: this site has not approved nightly ({study_hash(other)[:8]}); to take part in it: "
            f"wardround site approve {tmp_path / 'site-0'} STUDY.toml, with the file of it"
        ),
        f"version: refused: this site runs wardround 9.9.9, the coordinator {__version__}; install {series}",
    ] == [line.split(" ", 2)[2] for line in (tmp_path / "site-0" / "log.txt").read_text().splitlines()]


def test_a_hospital_whose_approval_does_not_do_reads_which_study_that_is_and_what_to_type(tmp_path: Path) -> None:
    study = study_of(rounds=2)
    with Exchange(tmp_path, study, SITES, exchanges=1) as exchange, pytest.raises(BelowQuorum):
        submit(study, tmp_path / "run", exchange.over, wait=0.0)
    folder = tmp_path / "site-0"
    lines = [line.split(" ", 2)[2] for line in (folder / "log.txt").read_text().splitlines()]
    (spent,) = [line for line in lines if line.startswith("spent")]
    assert spent.startswith("spent: refused in study nightly, run ")
    assert spent.endswith(f": this site's approval is spent; wardround site approve {folder} STUDY.toml --again")


def test_an_approval_that_will_do_for_the_rounds_that_are_left_is_not_called_short(tmp_path: Path) -> None:
    study, lines = study_of(rounds=3), list[str]()

    def once(line: Round) -> None:
        if line.round == 2:
            ask_to_stop(tmp_path / "run")

    with Exchange(tmp_path, study, SITES, exchanges=6) as exchange:
        with pytest.raises(Stopped):
            submit(study, tmp_path / "run", exchange.over, progress=once)
        submit(study, tmp_path / "run", exchange.over, resume=True, say=lines.append)
    left = {name: one.left for name, one in (SITES_FILE.read(tmp_path / "run") or {}).items()}
    assert dict.fromkeys(SITES, 2) == left
    assert [] == [line for line in lines if "approval" in line]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("0.2.0", "0.2.7", True),
        ("0.2.7", "0.2.0", True),
        ("0.2.0", "0.3.0", False),
        ("1.2.0", "0.2.0", False),
        ("0.2.0", "0.20.0", False),
        ("0.2.1.dev4", "0.2.1.dev4", True),
        ("0.2.1.dev4", "0.2.1", False),
        ("0.2.0", "0.2", False),
        ("0.2.\u0660", "0.2.0", False),
        ("None", "0.2.0", False),
    ],
)
def test_versions_go_together_that_differ_in_the_last_number_alone(one: str, other: str, *, together: bool) -> None:
    assert together == compatible(one, other)


def test_where_the_coordinator_itself_does_not_answer_no_site_is_called_away(tmp_path: Path) -> None:
    study = study_of(rounds=1)
    with Exchange(tmp_path, study, SITES) as exchange:
        out = tmp_path / "run"
        out.mkdir()
        remote = exchange.over.remote(study, out)
        door, remote.door = remote.door, tmp_path / "silent"
        why = "lost: the coordinator's own process has not said whether it is connected: it is busy, or stopped"
        assert dict.fromkeys(SITES, why) == {name: str(state) for name, state in remote.ready(SITES, 1).items()}
        remote.door = door
        assert dict.fromkeys(SITES) == remote.ready(SITES, 1)
        remote.close()


def test_a_slow_site_has_a_longer_deadline_each_time_and_then_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, needs, asked = 0.0, dict[str, float](), list[float]()
    make_signing_key(tmp_path / "key")
    line = Remote(tmp_path, Asker(read_signing_key(tmp_path / "key"), {}), "s", "r", deadline=10.0)

    def put(_name: str, head: dict[str, Any], _parcel: object, seconds: float) -> tuple[dict[str, Any], bytes]:
        nonlocal now
        asked.append(seconds)
        needed = needs[head["exchange"]["step"]]
        now += min(seconds, needed)
        return ({"fault": "late"} if seconds < needed else {}), b""

    monkeypatch.setattr(line, "put", put)
    monkeypatch.setattr("wardround.engines.remote.time", SimpleNamespace(monotonic=lambda: now))
    for fit in (35.0, 35.0, 35.0, 35.0, 1.0, 1.0, *[1000.0] * 6, 1.0, 35.0, 35.0):
        needs |= {"fit": fit, "evaluate": 1.0}
        for step in needs:
            line._timed("slow", {"exchange": {"step": step}}, Parcel.of(b""))
    never = [10.0, 20.0, 40.0, 80.0, 10.0, 10.0]
    assert [10.0, 20.0, 40.0, 52.5, 52.5, 10.0, *never, 10.0, 10.0, 20.0] == asked[::2]
    assert {10.0} == set(asked[1::2])  # a quick step neither has nor takes away the time of a slow one


def test_where_all_are_too_slow_for_the_deadline_the_next_try_has_a_longer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wardround.engines.remote.SLACK", 0.1)
    study = study_of(rounds=1)

    def slow(name: str, head: dict[str, Any], answer: tuple[dict[str, Any], bytes]) -> tuple[dict[str, Any], bytes]:
        if name == "site-0" and head.get("exchange", {}).get("step") == "fit":
            time.sleep(1.5)
        return answer

    with Exchange(tmp_path, study, SITES) as exchange:
        exchange.twist = slow
        result = submit(study, tmp_path / "run", Consortium(exchange.over.folder, deadline=1.0, patience=0.5))
    assert 1 == result.rounds


def test_a_run_that_waits_for_its_window_or_its_sites_is_on_the_page_and_stopped_from_there(tmp_path: Path) -> None:
    night = study_of(schedule={"window": "22:00-06:00", "zone": "UTC"})
    by_day, boards = datetime(2026, 11, 17, 15, tzinfo=UTC), list[RunBoard]()

    def stopped(out: Path) -> None:
        board = RunBoard([out])
        board.look()
        boards.append(board)
        assert ["waiting"] == [run.state for run in board.runs.values()]
        assert 'href="/run/0"' in str(runs_table(list(board.runs.values())))
        view = board.view("0")
        assert view
        assert "data-stop" in str(view.parts[0].markup)
        assert board.stop("0")

    with Exchange(tmp_path, night, SITES) as exchange:
        clock = Clock(lambda: by_day, lambda _: stopped(tmp_path / "window"))
        with pytest.raises(Stopped, match="while it waited for its window"):
            submit(night, tmp_path / "window", exchange.over, clock=clock)
        exchange.unasked = lambda name, _head: name == "site-1"
        with pytest.raises(Stopped, match="while it waited for sites"):
            submit(study_of(), tmp_path / "few", exchange.over, say=lambda _: stopped(tmp_path / "few"))
    for board in boards:
        board.look()
        assert ["stopped"] == [run.state for run in board.runs.values()]
    assert f"few in {tmp_path / 'few'}: stopped; it can be taken up again with --resume" == _standing(tmp_path / "few")
