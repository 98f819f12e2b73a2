"""What old runs leave behind is listed with sizes, and cleared; what a run may still need is not, unless forced."""

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loopback import Exchange
from study_files import small_study
from wardround.cli.app import app
from wardround.consortium.deployed import study_hash
from wardround.consortium.kits import new_consortium
from wardround.consortium.leftovers import clear, leftovers
from wardround.consortium.submit import submit
from wardround.core.lock import sole
from wardround.engines.processes import LARGEST, Programs
from wardround.engines.remote import Remote
from wardround.study.load import load_study

NAMES = ("site-0", "site-1", "site-2")
JOB = "01234567-89ab-cdef-0123-456789abcdef"


def until_full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_memory_goes_when_its_run_is_over_and_stays_while_it_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thirds = {"name": "iid", "sites": 3}
    study = load_study(small_study(tmp_path, rounds=2, method={"name": "scaffold"}, partition=thirds))[0].study
    site = tmp_path / "site-0"
    with Exchange(tmp_path, study, NAMES, restarts=9, exchanges=99) as exchange:
        submit(study, tmp_path / "whole", exchange.over, wait=1.0)
        usual = Remote.deliver

        def until(engine: Remote, exchange: Any, *given: Any) -> Any:
            if exchange.round == 2:
                raise KeyboardInterrupt
            return usual(engine, exchange, *given)

        with monkeypatch.context() as patch:
            patch.setattr(Remote, "deliver", until)
            with pytest.raises(KeyboardInterrupt):
                submit(study, tmp_path / "half", exchange.over, wait=1.0)
        with monkeypatch.context() as patch:  # it fails after its last round, a full disk say: there is no model yet
            patch.setattr("wardround.runs.loop._Loop._finish", until_full)
            with pytest.raises(OSError, match="No space left"):
                submit(study, tmp_path / "full", exchange.over, wait=1.0)
        assert not (tmp_path / "full" / "model").exists()
        full = (tmp_path / "full" / "run.id").read_text()
        kept = {one.path.name: one.kept for one in leftovers(site) if "memory" in one.what}
        assert "it goes on, or can be resumed" == kept[full]
        submit(study, tmp_path / "full", exchange.over, wait=1.0, resume=True)
        clear([one for one in leftovers(site) if one.path.name == full])  # now it goes
        whole, half = ((tmp_path / run / "run.id").read_text() for run in ("whole", "half"))
        assert {whole: "", half: "it goes on, or can be resumed"} == {
            one.path.name: one.kept for one in leftovers(site) if "memory" in one.what
        }
        assert all(one.size > 0 for one in leftovers(site))
        listed = CliRunner().invoke(app, ["clear", str(site)], env={"COLUMNS": "300"}).output
        assert f"memory of the run {whole}" in listed
        assert (site / "memory" / study_hash(study)[:16] / whole).exists()
        assert 0 == CliRunner().invoke(app, ["clear", str(site), "--yes"]).exit_code
        left = {path.name for path in (site / "memory" / study_hash(study)[:16]).iterdir()}
        assert {half} == left
        submit(study, tmp_path / "half", exchange.over, wait=1.0, resume=True)
    clear(leftovers(site), force=True)
    assert [] == list((site / "memory").glob("*/*"))
    assert (site / "ledger" / "site.jsonl").exists()


def test_jobs_of_living_processes_and_logs_that_are_written_to_stay(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('name = "a"\n')
    other = JOB.replace("0", "f")
    for name in (f"kit/{JOB}/x", f"kit/{other}/x", "kit/log.txt", "kit/log.txt.1", "log.txt", "log.txt.2", "ledger/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    with (
        subprocess.Popen([sys.executable, "-c", "input()", JOB], stdin=subprocess.PIPE) as process,
        sole(tmp_path / ".lock"),
    ):
        gone = {one.path.name for one in clear(leftovers(tmp_path))}
        process.communicate(b"\n")
    assert {other, "log.txt.1", "log.txt.2"} == gone
    assert {JOB, "log.txt"} == {one.path.name for one in clear(leftovers(tmp_path))}
    assert {"site.toml", "log.txt", "ledger", ".lock", "kit"} == {path.name for path in tmp_path.iterdir()}


def test_a_manual_among_the_logs_is_no_log(tmp_path: Path) -> None:
    new_consortium(tmp_path / "north", "north", (), "localhost", 8002)
    (tmp_path / "north" / "server" / "log.txt").write_text("x")
    shipped = {path for path in tmp_path.rglob("*") if path.name != "log.txt"}
    assert ["log.txt"] == [one.path.name for one in clear(leftovers(tmp_path / "north"))]
    assert shipped == {*tmp_path.rglob("*")}


def test_what_programs_print_does_not_grow_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "printed.txt"
    log.write_bytes(b"x" * (LARGEST + 1))
    with Programs({}, {}, log, lambda *_: None, lambda *_: None) as programs:
        programs.look()
    assert 0 == log.stat().st_size
    assert LARGEST + 1 == log.with_name("printed.txt.1").stat().st_size
