"""The way out of a hospital through an HTTP proxy, with and without a password, and what is told where it is barred."""

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from wardround.engines.proxy import Proxy, ProxyError, connected, proxy_for


class Carrier:
    """A proxy that carries to one target, to who knows the password if there is one."""

    def __init__(self, target: tuple[str, int], login: str = "", answer: bytes = b"") -> None:
        self.target, self.login, self.answer = target, login, answer
        self.server = socket.create_server(("127.0.0.1", 0))
        self.asked: list[bytes] = []

    @property
    def port(self) -> int:
        return int(self.server.getsockname()[1])

    def carry(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self.server.accept()
                with end:
                    self._one(end)

    def _one(self, end: socket.socket) -> None:
        head = end.recv(4096)
        self.asked.append(head.split(b"\r\n")[0])
        if self.answer:
            end.sendall(self.answer)
            return
        wanted = b"Proxy-Authorization: Basic " + base64.b64encode(self.login.encode())
        if self.login and wanted not in head:
            end.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        with socket.create_connection(self.target) as far:
            end.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            end.sendall(far.recv(100))


@contextmanager
def carrying(login: str = "", answer: bytes = b"") -> Iterator[Carrier]:
    """A proxy, and behind it a host that says hello."""
    with socket.create_server(("127.0.0.1", 0)) as host:

        def hello() -> None:
            with suppress(OSError):
                while True:
                    end, _ = host.accept()
                    with end:
                        end.sendall(b"hello")

        carrier = Carrier(host.getsockname(), login, answer)
        for run in (hello, carrier.carry):
            threading.Thread(target=run, daemon=True).start()
        yield carrier
        carrier.server.close()


@pytest.mark.parametrize("login", ["", "ward:p@ss word"])
def test_a_host_is_reached_through_a_proxy_with_and_without_a_password(login: str) -> None:
    with carrying(login) as carrier:
        at = f"ward:p%40ss%20word@127.0.0.1:{carrier.port}" if login else f"127.0.0.1:{carrier.port}"
        with closing(connected("far.example", 443, 10.0, {"https_proxy": f"http://{at}"})) as line:
            assert b"hello" == line.recv(5)
        assert [b"CONNECT far.example:443 HTTP/1.1"] == carrier.asked


@pytest.mark.parametrize(
    ("login", "given", "answer", "words"),
    [
        ("a:b", "", b"", "asks for a name and password; set https_proxy=http://NAME:PASSWORD@127.0.0.1:"),
        ("a:b", "a:secret@", b"", "refuses the name and password that https_proxy has"),
        ("", "a:secret@", b"HTTP/1.0 401 Unauthorized\r\n\r\n", "refuses the name and password that https_proxy has"),
        ("", "", b"HTTP/1.1 403 Filtered\r\n\r\n", "does not connect to far.example:443 (status 403)"),
        ("", "", b"SSH-2.0-x\r\n\r\n", "does not answer as an HTTP proxy does"),
    ],
)
def test_a_proxy_that_refuses_is_told_with_the_remedy(login: str, given: str, answer: bytes, words: str) -> None:
    with carrying(login, answer) as carrier, pytest.raises(ProxyError) as refused:
        connected("far.example", 443, 10.0, {"https_proxy": f"http://{given}127.0.0.1:{carrier.port}"})
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_proxy_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ProxyError, match=f"the proxy 127.0.0.1:{port} cannot be reached"):
        connected("far.example", 443, 10.0, {"http_proxy": f"http://127.0.0.1:{port}"})


def test_the_environment_is_read_as_grpc_reads_it() -> None:
    both = {"https_proxy": "http://a:1", "http_proxy": "http://b:2"}
    assert Proxy("a", 1) == proxy_for("x.org", both)
    assert Proxy("c", 80) == proxy_for("x.org", {**both, "grpc_proxy": "http://c"})
    assert proxy_for("fl.x.org", {**both, "no_proxy": "localhost, .x.org"}) is None
    assert Proxy("a", 1) == proxy_for("fl.x.org", {**both, "no_grpc_proxy": "y.org", "no_proxy": ".x.org"})
    assert proxy_for("x.org", {}) is None
    assert "secret" not in str(proxy_for("x.org", {"https_proxy": "http://me:secret@a:1"}))
    for wrong in ("https://a:1", "a:1", "http://a:x"):
        with pytest.raises(ProxyError, match="https_proxy"):
            proxy_for("x.org", {"https_proxy": wrong})
