"""Tests of the door at a site and of its bell, with a socket in the site process's place."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessageType
from nvflare.fuel.f3.message import Message

from wardround.engines.bell import TRIES, Bell
from wardround.engines.flare import Door, sign_returns
from wardround.engines.frames import DOOR


@pytest.fixture
def door(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket that takes calls and answers none by itself."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(8)
        yield listener


def rung(bell: Bell) -> bool:
    """Whether it rings."""
    return bell.rung is not None


def until(bell: Bell, *, ringing: bool) -> None:
    """Wait for the bell."""
    end = time.monotonic() + 30
    while rung(bell) is not ringing:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_asks_that_are_under_way_do_not_keep_the_bell_from_ringing(door: socket.socket, tmp_path: Path) -> None:
    bell = Bell(tmp_path / "s")
    threading.Thread(target=bell.ask, args=({"seconds": 0.5}, b""), daemon=True).start()
    assert 0.0 == bell.owing()
    until(bell, ringing=True)
    calls = [door.accept()[0] for _ in range(2)]
    for call in calls:
        call.close()
    until(bell, ringing=False)


def test_a_call_that_breaks_while_it_is_made_is_tried_twice_however_long_it_may_take(
    door: socket.socket, tmp_path: Path
) -> None:
    calls: list[int] = []

    def hang_up() -> None:
        while True:
            try:
                door.accept()[0].close()
            except OSError:
                return
            calls.append(1)

    threading.Thread(target=hang_up, daemon=True).start()
    head, data = Bell(tmp_path / "s").ask({"seconds": 1e9, "ask": "a"}, bytes(8 * 2**20))
    assert ({"fault": "died", "ask": "a"}, b"", TRIES) == (head, data, len(calls))


@pytest.mark.parametrize("data", [2**40, "text", None, [0]])
def test_what_is_not_bytes_is_neither_made_nor_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: object
) -> None:
    """Of a number `bytes` makes as many zeros: a terabyte of them would end this process."""
    monkeypatch.setenv(DOOR, str(tmp_path / "nobody"))
    request = Shareable()
    request["head"], request["data"] = {"ask": "a", "seconds": 1.0}, data
    assert ReturnCode.BAD_REQUEST_DATA == Door().answer("", request, None).get_return_code()


@pytest.mark.parametrize(
    ("origin", "to", "kind", "signed"),
    [
        ("site-1", "server", MessageType.RETURN, True),
        ("server", "server", MessageType.RETURN, False),  # somebody else's, to be passed on
        ("site-1", "site-1.nobody", MessageType.RETURN, False),
        ("site-1", "server", MessageType.REQ, False),
    ],
)
def test_the_token_goes_with_a_clients_own_returns_to_the_server_alone(
    monkeypatch: pytest.MonkeyPatch, origin: str, to: str, kind: str, *, signed: bool
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(CoreCell, "_send_to_endpoint", lambda _cell, _to, message: sent.append(message))
    sign_returns()
    cell = SimpleNamespace(my_info=SimpleNamespace(fqcn="site-1"), _filter_outgoing_reply=lambda _: "with the token")
    message = Message({MessageHeaderKey.ORIGIN: origin, MessageHeaderKey.MSG_TYPE: kind})
    CoreCell._send_to_endpoint(cell, SimpleNamespace(name=to), message)
    assert signed == (sent == ["with the token"])
