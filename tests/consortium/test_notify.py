"""Who is told when something happens: a command of the coordinator's own, with names and nothing else."""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loopback import Exchange, charter
from wardround.consortium.forms import Charter
from wardround.consortium.notify import SETTINGS, notify, read_notify
from wardround.consortium.presence import Presence
from wardround.consortium.roster import Member, write_roster
from wardround.consortium.submit import submit
from wardround.runs.errors import RunError
from wardround.runs.files import METRICS
from wardround.runs.folder import locked
from wardround.study.load import cells
from wardround.study.settings import StudyError

TABLES = {
    "name": "told", "rounds": 2, "method": {"name": "fedavg"}, "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 2, "largest": 400}, "partition": {"name": "iid", "sites": 2},
}  # fmt: skip


def hook(folder: Path, *more: str) -> Path:
    """Have events written to a file, one per line; where that is."""
    out = folder / "events.jsonl"
    script = folder / "tell.py"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(out)!r}, 'a').write(sys.stdin.read() + chr(10))\n", encoding="utf-8"
    )
    script.chmod(0o755)
    (folder / SETTINGS).write_text("\n".join(["[notify]", f'command = ["{script}"]', *more]), encoding="utf-8")
    return out


def events(out: Path, least: int = 1) -> list[dict[str, object]]:
    """What was told, once it is so much, in the order of the alphabet: each is told by a thread of its own."""
    end = time.monotonic() + 60
    while (not out.exists() or out.read_text().count("}") < least) and time.monotonic() < end:
        time.sleep(0.05)
    return sorted(map(json.loads, out.read_text(encoding="utf-8").splitlines()), key=lambda event: str(event["event"]))


def test_a_run_that_finishes_or_fails_is_told(tmp_path: Path) -> None:
    study = cells(TABLES)[0].study
    with Exchange(tmp_path, study, ["site-0", "site-1"]) as exchange:
        out = hook(exchange.over.folder)
        submit(study, tmp_path / "run", exchange.over)
        facts = {"consortium": "consortium", "study": "told"}
        assert [{"event": "finished", **facts, "rounds": 2}] == events(out)
        out.unlink()
        exchange.unasked = lambda _name, _head: True
        with pytest.raises(RunError, match="the quorum is 2"):
            submit(study, tmp_path / "other", exchange.over, wait=0.0)
        assert [{"event": "below-quorum", **facts, "outcome": "nothing was begun"}] == events(out)
        out.unlink()
        (tmp_path / "run" / METRICS.name).unlink()  # as if it had stopped in the midst
        with pytest.raises(RunError, match="the quorum is 2"):
            submit(study, tmp_path / "run", exchange.over, wait=0.0, resume=True)
        few, failed = {"event": "below-quorum", **facts}, {"event": "failed", **facts, "error": "TooFew"}
        assert [few, failed] == events(out, 2)


def test_a_run_has_not_failed_where_somebody_submits_it_once_more(tmp_path: Path) -> None:
    study = cells(TABLES)[0].study
    with Exchange(tmp_path, study, ["site-0", "site-1"]) as exchange:
        submit(study, tmp_path / "run", exchange.over)
        out = hook(exchange.over.folder)
        with pytest.raises(RunError, match="holds a run already"):
            submit(study, tmp_path / "run", exchange.over)
        (tmp_path / "run" / METRICS.name).unlink()  # as if it were going on
        with locked(tmp_path / "run"), pytest.raises(RunError, match="is being worked in by another process"):
            submit(study, tmp_path / "run", exchange.over, resume=True)
        submit(study, tmp_path / "other", exchange.over)
        assert ["finished"] == [event["event"] for event in events(out)]


def test_only_what_is_wanted_is_told_and_no_shell_has_a_part_in_it(tmp_path: Path) -> None:
    out = hook(tmp_path, 'on = ["failed"]')
    settings = read_notify(tmp_path)
    assert settings
    assert notify(settings, print, "finished") is None
    thread = notify(settings, print, "failed", study="$(touch x); `touch y` & x")
    assert thread
    thread.join()
    assert "$(touch x); `touch y` & x" == events(out)[0]["study"]


def test_a_command_that_fails_is_said_and_harms_nothing(tmp_path: Path) -> None:
    hook(tmp_path)
    (tmp_path / "tell.py").write_text(f"#!{sys.executable}\nraise SystemExit(3)\n")
    lines: list[str] = []
    thread = notify(read_notify(tmp_path), lines.append, "failed")
    assert thread
    thread.join()
    assert ["notify.command ended with code 3; perhaps nobody knows of: failed"] == lines


def test_all_that_is_wrong_with_the_settings_is_told_at_once(tmp_path: Path) -> None:
    assert read_notify(tmp_path) is None
    path = tmp_path / SETTINGS
    path.write_text('other = 1\n[notify]\ncommand = ["tell-us"]\ngone_hours = 0\n')
    with pytest.raises(StudyError) as refused:
        read_notify(tmp_path)
    assert all(words in str(refused.value) for words in ("other", "gone_hours"))
    path.write_text('[notify]\ncommand = ["tell-us"]\n')
    with pytest.raises(StudyError, match="is not an absolute path"):
        read_notify(tmp_path)
    path.write_text('[notify]\ncommand = ["/no/such/program"]\n')
    with pytest.raises(StudyError, match="is not a program that can be run"):
        read_notify(tmp_path)


def test_a_site_that_is_away_for_long_is_told_once_each_time(tmp_path: Path) -> None:
    ends = datetime(2999, 1, 1, tzinfo=UTC)
    (tmp_path / "consortium.json").write_bytes(Charter(**charter(tmp_path, ["a"])).encode())
    write_roster(tmp_path, {"a": Member(seal="0" * 64, serial="1", expires=ends)})
    presence = Presence(tmp_path, lambda _: None)
    presence.read()
    here = {"there": {"a": {"quiet": 0.0, "serials": ["1"]}}, "events": []}
    assert [] == list(presence.gone(3600.0))
    assert ["a"] == list(presence.gone(0.0))
    assert [] == list(presence.gone(0.0))
    presence.hear(here)
    assert [] == list(presence.gone(0.0))
    presence.hear({"there": {}, "events": []})
    assert ["a"] == list(presence.gone(0.0))
