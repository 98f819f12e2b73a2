"""The page, its stream of changes, and what other programs ask for, as an application; docs/watch.md is the manual.

    app = application(Desk(RunBoard([folder])))

    /            the page, as it is now            /events/…   server-sent events: parts that have changed
    /stop/…      POST: end after this round        /metrics    numbers for Prometheus       /healthz   that we are here

Rules of this file:
1. Files are looked at once a second at most, and only while somebody watches.
2. A watcher gets what has changed since it was last sent something; nothing is queued for one that is slow.
3. Nothing is changed but by `/stop`, which takes JSON: no other page can send that here.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from wardround import __version__
from wardround.serve.guard import LOOPBACK, Guarded
from wardround.watch.board import Board, View
from wardround.watch.document import page
from wardround.watch.gauges import exposition
from wardround.watch.token import WithToken

LOOK_SECONDS = 1.0
ALIVE_SECONDS = 15.0  # after which a stream says that it is there, though nothing has changed
WATCHERS = 64
EACH = 8  # of these one person may be, or one address; behind this machine's own may be many, by a proxy or a tunnel
TEXT = "text/plain; version=0.0.4; charset=utf-8"
WORDS = {
    404: "there is no such page", 405: "this path does not take this method", 415: "send JSON",
    503: "too many are watching already",
}  # fmt: skip
STATIC = {
    "/watch.js": ("wardround.watch", "page/watch.js", "text/javascript"),
    "/watch.css": ("wardround.watch", "page/watch.css", "text/css"),
    "/page.css": ("wardround.reports", "page.css", "text/css"),
    "/icon.svg": ("wardround.serve", "page/icon.svg", "image/svg+xml"),
}


class BoardDesk:
    """A board, looked at for whoever asks."""

    def __init__(self, board: Board, seconds: float = LOOK_SECONDS, most: int = WATCHERS) -> None:
        self.board, self.seconds, self.most = board, seconds, most
        self.watchers: Counter[str] = Counter()
        """How many streams are open, by whose they are."""
        self._last = -seconds
        self._turn = asyncio.Lock()
        self._views: dict[str, View] = {}
        """Pages as they were at the last look: drawn once, however many watch."""

    async def look(self) -> None:
        """See what has changed, unless somebody just did."""
        async with self._turn:
            if time.monotonic() - self._last >= self.seconds:
                await asyncio.to_thread(self.board.look)
                self._last = time.monotonic()
                self._views.clear()

    async def view(self, place: str) -> View:
        """The page at a place, as it is now."""
        await self.look()
        if place not in self._views:
            view = self.board.view(place)
            if view is None:
                raise HTTPException(404)
            self._views[place] = view
        return self._views[place]

    async def page(self, request: Request) -> Response:
        """The page itself."""
        place = request.path_params.get("place", "")
        return Response(page(await self.view(place), place), media_type="text/html")

    async def events(self, request: Request) -> Response:
        """A stream of what changes on a page."""
        place = request.path_params.get("place", "")
        await self.view(place)
        watcher = _watcher(request)
        if self.watchers.total() >= self.most or self.watchers[watcher] >= (EACH if watcher else self.most):
            raise HTTPException(503)
        return StreamingResponse(self._changes(place, watcher), media_type="text/event-stream")

    async def _changes(self, place: str, watcher: str) -> AsyncIterator[str]:
        self.watchers[watcher] += 1
        sent: dict[str, str] = {}
        news, spoke = "", time.monotonic()
        try:
            yield "retry: 2000\n\n"
            while True:
                view = await self.view(place)
                now = {part.id: str(part.markup) for part in view.parts}
                changed = {name: markup for name, markup in now.items() if sent.get(name) != markup}
                if changed or time.monotonic() - spoke >= ALIVE_SECONDS:
                    fresh = view.news if sent and view.news != news else ""
                    yield f"data: {json.dumps({'parts': changed, 'news': fresh})}\n\n"
                    sent, news, spoke = now, view.news, time.monotonic()
                await asyncio.sleep(self.seconds)
        finally:
            self.watchers[watcher] -= 1
            self.watchers += Counter()  # whoever has none is forgotten

    async def stop(self, request: Request) -> Response:
        """Have a run end after its round."""
        if request.headers.get("content-type", "").partition(";")[0].strip().casefold() != "application/json":
            raise HTTPException(415)
        await self.look()
        try:
            done = await asyncio.to_thread(self.board.stop, request.path_params["place"])
        except OSError as error:
            return JSONResponse({"error": f"the run folder cannot be written to: {error.strerror}"}, 409)
        if not done:
            raise HTTPException(404)
        return JSONResponse({"stopping": True})

    async def metrics(self, _: Request) -> Response:
        """Numbers for Prometheus."""
        await self.look()
        return Response(exposition(self.board.samples()), media_type=TEXT)

    async def health(self, _: Request) -> Response:
        """That we are here; looking may fail, answering does not."""
        return JSONResponse({"status": "ok", "wardround": __version__})


def _watcher(request: Request) -> str:
    """Who watches: a person where there are certificates, elsewhere an address; nothing for this machine's own."""
    person = getattr(request.state, "person", "")
    host = request.client.host if request.client else ""
    return str(person) or ("" if host in LOOPBACK else host)


async def _failed(_: Request, error: Exception) -> Response:
    """A code in place of an error's text, which may have anything in it."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return PlainTextResponse(f"{WORDS.get(status, 'looking failed')}\n", status)


FAILURES = {HTTPException: _failed, Exception: _failed}
"""How Starlette answers what is raised inside."""


def _file(package: str, name: str, kind: str) -> Response:
    return Response(files(package).joinpath(name).read_bytes(), media_type=kind)


def pages(desk: BoardDesk) -> list[Route]:
    """What there is to look at."""

    def static(path: str) -> Route:
        answer = _file(*STATIC[path])

        async def given(_: Request) -> Response:
            return answer

        return Route(path, given)

    return [
        Route("/", desk.page),
        Route("/run/{place}", desk.page),
        Route("/events", desk.events),
        Route("/events/{place}", desk.events),
        Route("/metrics", desk.metrics),
        Route("/healthz", desk.health),
        *map(static, STATIC),
    ]


def application(desk: BoardDesk, hosts: Collection[str] = (), token: str = "", looking: str = "") -> Guarded:
    """The page behind its guard: reached by loopback names and by these hosts, by who has a token if there is one."""
    routes = [*pages(desk), Route("/stop/{place}", desk.stop, methods=["POST"])]
    inner = Starlette(routes=routes, exception_handlers=FAILURES)
    return Guarded(WithToken(inner, token, looking), hosts)
