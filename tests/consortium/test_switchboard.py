"""The coordinator's own process on a busy machine: what takes long is given longer, and is not begun anew for ever."""

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from loopback import charter
from wardround.consortium import switchboard
from wardround.consortium.answers import PLACE as ANSWERS
from wardround.consortium.console import Certificates
from wardround.consortium.forms import Charter
from wardround.consortium.roster import Member, changed, write_roster
from wardround.consortium.submit import Consortium
from wardround.consortium.switchboard import Switchboard
from wardround.engines import processes, remote
from wardround.engines.frames import Line, dial, door_of, listen, shut


class Desk:
    """NVFlare's server as an administrator sees it, whose jobs start and never end."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.begun: list[float] = []
        self.ended: list[str] = []

    def connected(self) -> list[str]:
        return ["a"]

    def jobs(self) -> dict[str, str]:
        return {str(number): "RUNNING" for number in range(len(self.begun))}

    def start(self, _site: str) -> str:
        self.begun.append(self.now())
        return str(len(self.begun) - 1)

    def end(self, job: str) -> None:
        self.ended.append(job)

    def close(self) -> None: ...


@pytest.fixture
def board(tmp_path: Path) -> Switchboard:
    (tmp_path / "consortium.json").write_bytes(Charter(**charter(tmp_path, ["a"])).encode())
    write_roster(tmp_path, {"a": Member(seal="0" * 64, serial="1", expires=datetime(2999, 1, 1, tzinfo=UTC))})
    board = Switchboard(tmp_path, "127.0.0.1:0")
    for server in board.relay.servers:
        server.close()
    board.presence.hear({"there": {"a": {"quiet": 0.0, "serials": ["1"]}}, "events": []})
    return board


def test_a_job_that_is_slow_to_offer_its_pipe_has_twice_as_long_the_next_time(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, desk = 1000.0, Desk(lambda: now)
    board.desk = desk  # type: ignore[assignment]  # as far as it is asked
    monkeypatch.setattr(switchboard, "time", SimpleNamespace(monotonic=lambda: now))
    while now < 1500:
        board._look()
        now += 1.0
    gaps = [later - earlier for earlier, later in zip(desk.begun, desk.begun[1:], strict=False)]
    assert [21.0, 41.0, 81.0, 161.0, 161.0][: len(gaps)] == gaps
    assert len(gaps) >= 4
    board.door.offered["a"] = str(len(desk.begun) - 1)
    board._look()
    assert {} == board.linking


def test_a_server_that_is_slow_to_let_us_in_has_longer_each_time(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def refuse(_kit: Path, timeout: float) -> None:
        given.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(switchboard, "Admin", refuse)
    for _ in range(5):
        board._look()
    board._forget()  # it was started again
    board._look()
    assert [2.0, 4.0, 8.0, 16.0, 16.0, 2.0] == given


def test_a_site_that_is_connected_and_not_yet_linked_is_not_called_away(board: Switchboard) -> None:
    door = door_of(board.folder)
    with listen(door) as server, dial(door, timeout=5.0) as line:
        end = socket.socket(fileno=server.accept()[0].detach())
        board.door._lend(Line(end), "a", "")
        head, _ = line.receive() or ({}, b"")
        assert ("linking", False) == (head["barred"], head["lent"])
        end.close()
    shut(door)
    assert "lost: it is connected, and being linked" == str(remote.fault({"fault": "linking"}))


def test_a_broken_line_is_waited_for_as_long_as_a_new_one_takes(board: Switchboard) -> None:
    assert remote.PATIENCE == Consortium(board.folder).patience > processes.PATIENCE


def test_sites_that_are_connected_hear_of_a_new_member_once_their_lines_are_free(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered: list[list[str]] = []

    def order(words: list[str]) -> SimpleNamespace:
        ordered.append(words[3:])
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr(switchboard, "subprocess", SimpleNamespace(Popen=order))
    board.desk = Desk(lambda: 0.0)  # type: ignore[assignment]  # as far as it is asked
    board._look()
    board.door.idle["a"] = board.door.idle.get("a")  # type: ignore[assignment]  # a line that nobody uses
    board._bring()
    assert [] == ordered  # it is there, and there is nothing to tell
    with changed(board.folder) as members:
        members["b"] = members["a"].model_copy(update={"serial": "2"})
    del board.door.idle["a"]
    board._mind(Certificates({}))
    board._bring()
    assert [] == ordered
    board.door.idle["a"] = board.door.idle.get("a")  # type: ignore[assignment]
    for _ in range(2):
        board._bring()
    assert [[str(board.folder), "a"]] == ordered


@pytest.mark.parametrize("answered", [True, False])
def test_a_site_that_comes_back_and_has_answered_before_is_told_so_as_soon_as_it_can_be_asked(
    board: Switchboard, monkeypatch: pytest.MonkeyPatch, *, answered: bool
) -> None:
    started: list[list[str]] = []

    def start(order: list[str]) -> SimpleNamespace:
        started.append(order[1:])
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr(switchboard, "subprocess", SimpleNamespace(Popen=start))
    board.desk = Desk(lambda: 0.0)  # type: ignore[assignment]  # as far as it is asked
    if answered:
        (board.folder / ANSWERS).mkdir()
        (board.folder / ANSWERS / "a.jsonl").write_bytes(b"")
    board._look()
    board._bring()
    assert [] == started  # it is connected, and not yet linked
    near, far = map(Line, socket.socketpair())
    board.door.idle["a"] = near
    for _ in range(3):
        board._bring()
    courier = ["-m", "wardround.consortium.delivery", str(board.folder), "a"]
    assert ([courier] if answered else []) == started
    board.presence.hear({"there": {}, "events": []})
    board._look()  # it goes
    board.presence.hear({"there": {"a": {"quiet": 0.0, "serials": ["1"]}}, "events": []})
    board._look()  # and comes back, perhaps from a copy
    board._bring()
    assert ([courier, courier] if answered else []) == started
    near.close()
    far.close()
