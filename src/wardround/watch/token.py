"""Who may look: on loopback whoever is on this machine, elsewhere only those who have the token.

The address that is printed has it; it becomes a cookie that scripts cannot read, and leaves the address bar. Programs
send it as `Authorization: Bearer …`. `/healthz` says only that we are here, and is free. A second token, where there is
one, is for those who only look: what changes anything is refused to them.
"""

import hashlib
import hmac
import secrets
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from wardround.runs.errors import RunError

FREE = frozenset({"/healthz"})
LEAST = 16  # characters that are not to be guessed
LOOKS = ("GET", "HEAD")
ONLY_LOOKS = "This token is for looking; to stop a run, use the coordinator's own.\n"
REFUSAL = "This page needs its token: open the address that was printed when it was started.\n"


def read_token(path: Path | None) -> str:
    """The token in a file, which is made if it is not there; without a file, a new one."""
    if path is None:
        return secrets.token_urlsafe(24)
    if not path.exists():
        path.touch(0o600)
        path.write_text(secrets.token_urlsafe(24) + "\n", encoding="ascii")
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        token = ""
    if path.stat().st_mode & 0o077:
        raise RunError(f"--token-file {path}: others of this machine can read it; do: chmod 600 {path}")
    if len(token) < LEAST or not all(letter.isalnum() or letter in "-_" for letter in token):
        raise RunError(f"--token-file {path}: needs {LEAST} letters or digits; delete it, and one is made")
    return token


class WithToken:
    """An application that only answers who has the token, or one for looking; with an empty one, everybody."""

    def __init__(self, inner: ASGIApp, token: str, looking: str = "") -> None:
        self.inner, self.token, self.looking = inner, token, looking
        self.cookie = f"watch-{hashlib.sha256(token.encode()).hexdigest()[:8]}"  # cookies of all ports are one jar

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or ask for the token."""
        app = self.inner
        if self.token and scope["path"] not in FREE:
            headers = Headers(scope=scope)
            bearer = headers.get("authorization", "").removeprefix("Bearer ")
            carried = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
            given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
            if (self._right(given) or self._looks(given)) and scope["method"] == "GET":
                app = RedirectResponse("/" + scope["path"].lstrip("/"), 303)  # two of them would lead elsewhere
                if self._right(given) or not self._right(carried):  # a link for looking takes nothing away
                    app.set_cookie(self.cookie, given, httponly=True, samesite="lax", path="/")
            elif self._right(bearer) or self._right(carried):
                pass
            elif not self._looks(bearer) and not self._looks(carried):
                app = PlainTextResponse(REFUSAL, 401, {"WWW-Authenticate": "Bearer"})
            elif scope["method"] not in LOOKS:
                app = PlainTextResponse(ONLY_LOOKS, 403)
        await app(scope, receive, send)

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _looks(self, given: str) -> bool:
        return bool(self.looking) and hmac.compare_digest(given.encode(), self.looking.encode())
