"""A server on one machine: a socket, and uvicorn on it, which logs nothing.

with listening("127.0.0.1", 0) as door:
    serve(application(model), door)
"""

import asyncio
import errno
import ipaddress
import socket
import ssl
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 2  # seconds for answers under way when the server is to end
SILENCE = 10.0  # seconds for the head of a request, from the first byte on or from when somebody has connected
ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- to be recognised, not bound


class HostError(ValueError):
    """A host or port that cannot be had; the message says why and what to do."""


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is a free one."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise HostError(f"--host {host}: no such name; give an address of this machine") from None
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(place)
        door.listen(64)
    except OSError as error:
        door.close()
        raise HostError(_why(error, host, port)) from None
    return door


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"--port {port}: in use by another program; choose another, or 0 for a free one"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host}: not an address of this machine"
    if error.errno == errno.EACCES:
        return f"--port {port}: not allowed; choose one above 1023"
    return f"--host {host} --port {port}: {error.strerror}"


def loopback(door: socket.socket) -> bool:
    """Whether only programs of this machine reach it."""
    return ipaddress.ip_address(door.getsockname()[0].partition("%")[0]).is_loopback


def names(host: str) -> tuple[str, ...]:
    """What requests may call this host, besides loopback names; "*" is any address."""
    return (host, "*", socket.gethostname()) if host in ANY else (host,)


def address(host: str, door: socket.socket) -> str:
    """What to type into a browser."""
    name = socket.gethostname() if host in ANY else host
    return f"http://{f'[{name}]' if ':' in name else name}:{door.getsockname()[1]}/"


class TimedConnection(H11Protocol):
    """A connection that is given up if the head of a request does not come; uvicorn itself would wait for ever."""

    silence = SILENCE
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for a first request."""
        super().connection_made(transport)
        self._listen()

    def data_received(self, data: bytes) -> None:
        """Take it, and wait for the rest of a head that has begun."""
        super().data_received(data)
        self._listen()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._settle()
        super().connection_lost(exc)

    def _listen(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # the head is there
            self._settle()
        elif self._alarm is None:
            self._alarm = self.loop.call_later(self.silence, self.transport.close)

    def _settle(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


class Proven(TimedConnection):
    """A connection over TLS: each request comes with the certificate of the other end (DER), and what it is for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Note who it is, once TLS has found the certificate to be good."""
        tls = transport.get_extra_info("ssl_object")
        proof = {"certificate": tls.getpeercert(binary_form=True), "purpose": tls.selected_alpn_protocol() or ""}
        self.app_state = {**self.app_state, **proof, "port": transport.get_extra_info("peername")[1]}
        super().connection_made(transport)


def settings(app: Any, http: type[TimedConnection] = TimedConnection) -> uvicorn.Config:
    """A server that speaks HTTP alone and logs nothing, no request and no error."""
    return uvicorn.Config(
        app, http=http, ws="none", loop="asyncio", lifespan="off", interface="asgi3", log_config=None,
        log_level="critical", access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=PATIENCE,
    )  # fmt: skip


def serve(app: Any, door: socket.socket) -> None:
    """Answer requests until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        uvicorn.Server(settings(app)).run(sockets=[door])


def serve_proven(app: Any, door: socket.socket, context: ssl.SSLContext) -> None:
    """The same over TLS, to whoever this context takes."""
    config = settings(app, Proven)
    config.load()
    config.ssl = context
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[door])
