"""What stands around the application: who may ask, what the page may load, and that no error tells of a note.

A request must name a host that is ours: otherwise a foreign page could reach us by a name of its own that it points
here (DNS rebinding). An address cannot be pointed elsewhere, so for "*" any address will do. The page may load our own
files and nothing else. What goes wrong inside is answered by a code; the error itself ends here, since its text may
quote a note and servers log it.
"""

import ipaddress
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wardround.serve.request import Refused

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
WORDS = {
    404: ("not_found", "there is no such page; /openapi.json lists what there is"),
    405: ("wrong_method", "this path does not take this method; /openapi.json tells which it takes"),
}
MORE = {503: {"Retry-After": "5"}}
STRANGER = Refused(421, "wrong_host", "this name is not ours; use the address that wardround serve printed")
FAILED = Refused(500, "failed", "the model failed on this text; nothing of it was kept")


class Guarded:
    """An application behind the guard."""

    def __init__(self, inner: ASGIApp, hosts: Collection[str]) -> None:
        self.inner = inner
        self.hosts = LOOPBACK | {host.casefold() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self.inner if self._ours(Headers(scope=scope).get("host", "")) else _answer(STRANGER)
        try:
            await app(scope, receive, sent)
        except Exception:  # noqa: BLE001 -- whatever it is: see above
            if not started:
                await _answer(FAILED)(scope, receive, sent)

    def _ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self.hosts or ("*" in self.hosts and bool(ipaddress.ip_address(name)))
        except ValueError:
            return False


def _answer(refused: Refused, headers: Any = None) -> Response:
    return JSONResponse(refused.plain(), refused.status, {**(headers or {}), **MORE.get(refused.status, {})})


async def _refused(_: Request, error: Exception) -> Response:
    return _answer(error if isinstance(error, Refused) else FAILED)


async def _http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException) or error.status_code not in WORDS:
        return _answer(FAILED)
    return _answer(Refused(error.status_code, *WORDS[error.status_code]), error.headers)


HANDLERS = {HTTPException: _http, Refused: _refused, Exception: _refused}
"""How Starlette answers what is raised inside."""
