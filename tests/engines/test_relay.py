"""Connections pass through a relay whole, and nobody holds more of them than is his."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from real_sites import free_port, wait_until
from wardround.engines.relay import Relay, addresses, listening


class Echo:
    """A server that sends back what it gets, and knows from which ports."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        self.ports: list[int] = []
        self.ended = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, address = self.socket.accept()
                self.ports.append(address[1])
                threading.Thread(target=self._echo, args=(end,), daemon=True).start()

    def _echo(self, end: socket.socket) -> None:
        with end, suppress(OSError):
            while data := end.recv(1 << 16):
                end.sendall(data)
        self.ended += 1


@contextmanager
def relay(echo: Echo, each: int = 8, **options: float) -> Iterator[tuple[Relay, tuple[str, int]]]:
    servers = listening(addresses("127.0.0.1", 0))
    with Relay(servers, lambda: echo.port, lambda: each, **options) as found:
        yield found, servers[0].getsockname()


@pytest.fixture
def echo() -> Iterator[Echo]:
    found = Echo()
    yield found
    found.socket.close()


def closed(end: socket.socket) -> bool:
    end.settimeout(30)
    try:
        return end.recv(1) == b""
    except ConnectionError:
        return True


def test_what_goes_in_comes_back_whole_however_slowly_it_is_read(echo: Echo) -> None:
    sent = os.urandom(20_000_000)
    with relay(echo) as (_, address), socket.create_connection(address) as end:
        threading.Thread(target=end.sendall, args=(sent,), daemon=True).start()
        results = bytearray()
        while len(results) < len(sent):
            results += end.recv(100_000)
        assert sent == bytes(results)


def test_an_end_that_goes_takes_the_other_with_it(echo: Echo) -> None:
    with relay(echo) as (carrier, address):
        with socket.create_connection(address) as end:
            end.sendall(b"x")
            assert b"x" == end.recv(1)
            (port,) = echo.ports
            assert "127.0.0.1" == carrier.remote(port)
        wait_until(lambda: 1 == echo.ended)


def test_a_connection_that_says_nothing_is_closed_and_the_server_never_heard_of_it(echo: Echo) -> None:
    with relay(echo, silent=0.5) as (_, address), socket.create_connection(address) as end:
        assert closed(end)
    assert [] == echo.ports


def test_a_connection_that_proves_nothing_is_closed_and_one_that_did_stays(echo: Echo) -> None:
    with (
        relay(echo, unproved=1.0) as (carrier, address),
        socket.create_connection(address) as good,
        socket.create_connection(address) as bad,
    ):
        good.sendall(b"x")
        assert b"x" == good.recv(1)
        carrier.proved(echo.ports[0])
        bad.sendall(b"x")
        assert b"x" == bad.recv(1)
        assert closed(bad)
        good.sendall(b"y")
        assert b"y" == good.recv(1)


def test_one_address_has_so_many_connections_and_others_are_not_touched(echo: Echo) -> None:
    with relay(echo, each=3) as (carrier, address):
        many = [socket.create_connection(address, source_address=("127.0.0.2", 0)) for _ in range(5)]
        assert [True, True] == [closed(end) for end in many[3:]]
        with socket.create_connection(address) as other:
            other.sendall(b"x")
            assert b"x" == other.recv(1)
        many[0].sendall(b"x")
        assert b"x" == many[0].recv(1)
        assert {"127.0.0.2": 2} == carrier.turned_away
        for end in many:
            end.close()


def test_too_many_that_wait_make_room_for_the_next(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.engines.relay.WAITING", 4)
    with relay(echo) as (_, address):
        many = [socket.create_connection(address, source_address=(f"127.0.1.{n}", 0)) for n in range(1, 7)]
        with socket.create_connection(address) as other:
            other.sendall(b"x")
            assert b"x" == other.recv(1)
        assert [True, True, True] == [closed(end) for end in many[:3]]
        for end in many:
            end.close()


def test_a_server_that_is_not_there_is_a_connection_that_ends(echo: Echo) -> None:
    echo.port = free_port()
    with relay(echo) as (_, address), socket.create_connection(address) as end:
        end.sendall(b"x")
        assert closed(end)


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(OSError, match="assign"):
        listening(addresses("192.0.2.1", 0))
