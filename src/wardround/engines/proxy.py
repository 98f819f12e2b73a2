"""The way out of a hospital: straight, or through the HTTP proxy that the environment names, as gRPC takes it.

    with connected("fl.example.org", 443, timeout=5.0) as line: …

`grpc_proxy`, `https_proxy` or `http_proxy` (the first that is set) is http://HOST:PORT or http://NAME:PASSWORD@HOST:PORT;
`no_grpc_proxy` or `no_proxy` lists what is reached without it. NVFlare's client takes the same way by itself, since it
connects with gRPC; what is done here is to test it. The proxy is asked to CONNECT: it carries TLS, and cannot read it.
"""

import base64
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

PROXIES, EXCEPTIONS = ("grpc_proxy", "https_proxy", "http_proxy"), ("no_grpc_proxy", "no_proxy")
HEAD = 1 << 16  # bytes of a proxy's answer
PASSWORD = (401, 407)  # the second is right; tinyproxy says the first of a wrong password


class ProxyError(OSError):
    """A proxy that does not let us through; says why, and what to do."""


@dataclass(frozen=True)
class Proxy:
    """Where it is, and what lets us in; never shown with the latter."""

    host: str
    port: int
    login: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_for(host: str, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy through which a host is reached, if there is one."""
    name = next((one for one in PROXIES if environment.get(one)), "")
    spared = next((environment[one] for one in EXCEPTIONS if environment.get(one)), "")
    entries = [entry.strip().casefold() for entry in spared.split(",")]
    if not name or any(entry and host.casefold().endswith(entry) for entry in entries):
        return None
    try:
        url = urlsplit(environment[name])
        port = url.port or 80
    except ValueError:
        raise ProxyError(f"{name} is not an address; write http://HOST:PORT") from None
    if url.scheme != "http" or not url.hostname:
        raise ProxyError(
            f"{name} must begin with http:// (what it carries is TLS all the same); write http://HOST:PORT"
        )
    return Proxy(url.hostname, port, f"{unquote(url.username)}:{unquote(url.password or '')}" if url.username else "")


def connected(host: str, port: int, timeout: float, environment: Mapping[str, str] = os.environ) -> socket.socket:
    """A connection to a host, by whichever way; an `OSError` if there is none."""
    proxy = proxy_for(host, environment)
    if proxy is None:
        return socket.create_connection((host, port), timeout)
    try:
        line = socket.create_connection((proxy.host, proxy.port), timeout)
    except OSError as error:
        raise ProxyError(
            f"the proxy {proxy} cannot be reached ({error.strerror or error}); check https_proxy"
        ) from None
    try:
        line.sendall(_request(host, port, proxy.login))
        status = _status(line)
    except OSError as error:
        line.close()
        raise ProxyError(f"the proxy {proxy} has not answered ({error.strerror or error})") from None
    if status != 200:
        line.close()
        raise ProxyError(_why(proxy, status, f"{host}:{port}"))
    return line


def _request(host: str, port: int, login: str) -> bytes:
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    if login:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


def _status(line: socket.socket) -> int:
    """The number in a proxy's answer, read to its end and no further: what follows is the other end's."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < HEAD and (more := line.recv(1)):
        head += more
    with suppress(IndexError, ValueError):
        return int(head.split(None, 2)[1])
    return 0


def _why(proxy: Proxy, status: int, target: str) -> str:
    if status in PASSWORD:
        wrong = "refuses the name and password that https_proxy has" if proxy.login else "asks for a name and password"
        return f"the proxy {proxy} {wrong}; set https_proxy=http://NAME:PASSWORD@{proxy}"
    if not status:
        return f"{proxy} does not answer as an HTTP proxy does; check https_proxy"
    return f"the proxy {proxy} does not connect to {target} (status {status}); ask IT to allow CONNECT to it"
