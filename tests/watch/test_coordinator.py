"""A coordinator's page: who is there, what runs, what happened, asked of a process that answers as its own does."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopback import charter
from real_sites import wait_until
from run_folders import make_run
from serving import hosted, send
from wardround.consortium.forms import Charter
from wardround.consortium.presence import REVOKED
from wardround.consortium.voice import LOG, STOPPING, Voice
from wardround.engines.frames import calls, door_of, shut
from wardround.watch.app import BoardDesk, application
from wardround.watch.coordinator import CoordinatorBoard

READY = {"connected": True, "line": True, "words": "ready"}
AWAY = {"connected": False, "line": False, "words": "not connected since 08:00:00"}


@pytest.fixture
def centre(tmp_path: Path) -> Path:
    folder = tmp_path / "centre"
    folder.mkdir()
    (folder / "consortium.json").write_bytes(Charter(**charter(tmp_path)).encode())
    return folder


@contextmanager
def answering(folder: Path, status: dict[str, Any]) -> Iterator[None]:
    """The door of a coordinator's process, which says this of itself."""
    stop = threading.Event()

    def answer() -> None:
        for line in calls(door_of(folder), stop.is_set):
            with line:
                frame = line.receive()
                if frame and "status" in frame[0]:
                    line.send(status)

    thread = threading.Thread(target=answer)
    thread.start()
    wait_until(door_of(folder).exists)
    try:
        yield
    finally:
        stop.set()
        thread.join()
        shut(door_of(folder))


def markup(board: CoordinatorBoard, part: str) -> str:
    board.look()
    view = board.view("")
    assert view
    return next(str(one.markup) for one in view.parts if one.id == part)


def test_it_shows_sites_runs_and_what_was_said(
    centre: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "run", values=[0.5, 0.75])
    say = Voice(centre / LOG)
    say("site-1 is gone", "gone", site="site-1")
    sites = {"site-0": READY, "site-1": AWAY}
    status = {"name": "loop", "address": "127.0.0.1:1", "sites": sites, "runs": [str(tmp_path / "run")]}
    with answering(centre, status):
        board = CoordinatorBoard(centre)
        assert "1 of 2 sites connected" in markup(board, "state")
        assert markup(board, "sites").index("site-1") < markup(board, "sites").index("site-0")
        assert "not connected since 08:00:00" in markup(board, "sites")
        assert 'href="/run/0"' in markup(board, "cells")
        assert "site-1 is gone" in markup(board, "log")
        with hosted(application(BoardDesk(board))) as place:
            lines = send(place, "/metrics")[2].decode().splitlines()
            assert b"0.7500" in send(place, "/run/0")[2]
        assert 'wardround_site_connected{site="site-1"} 0' in lines
        assert 'wardround_coordinator_up{consortium="loop"} 1' in lines
    assert "site-1 is gone" in capsys.readouterr().out


def test_runs_of_two_people_with_one_name_are_told_apart(centre: Path, tmp_path: Path) -> None:
    runs = [centre / "runs" / person / "mentions" for person in ("ada", "eve")] + [tmp_path / "mentions"]
    for run in runs:
        make_run(run, values=[0.5])
    status = {"name": "loop", "address": "127.0.0.1:1", "sites": {}, "runs": [str(run) for run in runs]}
    with answering(centre, status):
        table = markup(CoordinatorBoard(centre), "cells")
    assert [1, 1, 0] == [table.count("(ada/mentions)"), table.count("(eve/mentions)"), table.count("(/mentions)")]


def test_a_site_that_was_revoked_is_shown_and_not_waited_for(centre: Path) -> None:
    gone = {"connected": False, "line": False, "words": f"{REVOKED} 2026-11-18"}
    sites = {"site-0": READY, "site-1": gone}
    with answering(centre, {"name": "loop", "address": "127.0.0.1:1", "sites": sites, "runs": []}):
        board = CoordinatorBoard(centre)
        assert "1 of 1 site connected" in markup(board, "state")
        assert "revoked since 2026-11-18" in markup(board, "sites")


def test_a_coordinator_that_is_off_is_told(centre: Path) -> None:
    board = CoordinatorBoard(centre)
    assert "does not answer" in markup(board, "state")
    assert [0.0] == [one.value for one in board.samples() if one.name == "wardround_coordinator_up"]


def test_a_log_rotates_and_is_read_on(centre: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.consortium.voice.rotate.__defaults__", (2000, 3))
    board, say = CoordinatorBoard(centre), Voice(centre / LOG)
    for number in range(100):
        say(f"site-{number} is connected", "connected", site=f"site-{number}")
        board.look()
    assert [LOG, f"{LOG}.1", f"{LOG}.2"] == sorted(path.name for path in centre.glob(f"{LOG}*"))
    assert all(path.stat().st_size < 2200 for path in centre.glob(f"{LOG}*"))
    assert [f"site-{number} is connected" for number in range(100)] == [event.text for event in board.log.lines]
    lines = [json.loads(raw) for raw in (centre / LOG).read_text().splitlines()]
    assert {"time", "event", "site", "text"} == set(lines[0])


def test_a_site_that_was_there_when_the_coordinator_stopped_was_seen_until_then(centre: Path) -> None:
    events = (("08:00", "connected", "a", "a is connected"), ("08:01", "connected", "b", "b is connected"),
              ("08:02", "gone", "b", "b is gone"), ("09:00", "said", None, STOPPING))  # fmt: skip
    for time, event, site, text in events:
        line = {"time": f"2026-11-17T{time}:00+00:00", "event": event, "text": text, **({"site": site} if site else {})}
        with (centre / LOG).open("a") as file:
            file.write(f"{json.dumps(line)}\n")
    board = CoordinatorBoard(centre)
    board.look()
    assert 58 * 60 == board.seen["a"] - board.seen["b"]
