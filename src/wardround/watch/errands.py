"""What people on other machines ask of a coordinator, each as far as the role goes; `people` is the door to it.

desk = PeopleDesk(north, Acts(north))
desk.routes()
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from wardround.consortium.admission import revoke
from wardround.consortium.asking import asked
from wardround.consortium.forms import FormError, parsed
from wardround.consortium.orders import LARGEST, OUTPUT, Order, Orders
from wardround.consortium.people import Role, read_people, revoke_person
from wardround.consortium.roster import read_roster
from wardround.consortium.voice import append
from wardround.core.files import NO_ROOM
from wardround.core.refusal import Refusal
from wardround.runs.errors import RunError
from wardround.watch.run import WatchedRun
from wardround.watch.words import STATES, standing

LOG = "people.jsonl"
RIGHTS: Mapping[str, tuple[Role, ...]] = {
    "look": ("watch", "submit", "admin"), "submit": ("submit", "admin"), "stop": ("submit", "admin"),
    "read": ("submit", "admin"), "end": ("admin",), "revoke": ("admin",),
}  # fmt: skip
SOON = 20.0  # seconds for a whole request
RUNS, EACH = 8, 6  # orders that run at once, and one person's of these
NEWEST = 20  # runs of which the status tells
SELDOM = 60.0  # seconds after which the same is written down again, and an hour for looking: a log has an end
HOUR = 3600.0
FULL = "the coordinator has no room left on its disk; nothing was begun, tell whoever administers it"


class RefusedErrand(Exception):
    """What somebody may not, or cannot, do; with a status."""

    def __init__(self, words: str, status: int = 403) -> None:
        super().__init__(words)
        self.status = status


class Acts:
    """Who did what: a log that rotates."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG
        self.last: dict[tuple[str, ...], float] = {}

    def note(self, person: str, role: str, act: str, what: str, outcome: str, every: float = 0.0) -> None:
        """Write down an act; of those alike, which are refused or done to the same, one in so many seconds."""
        key, now = (person, act, what if outcome == "done" else "refused"), time.monotonic()
        if every and now - self.last.get(key, -every) < every:
            return
        if len(self.last) > 1000:
            self.last.clear()
        self.last[key] = now
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"time": at, "person": person, "role": role, "act": act, "what": what[:200], "outcome": outcome[:200]}
        append(self.path, json.dumps(line))  # in ASCII: others chose some of these letters


class PeopleDesk:
    """What people ask for, each as far as the role goes."""

    def __init__(self, folder: Path, acts: Acts) -> None:
        self.folder, self.acts, self.orders = folder, acts, Orders(folder)
        self.running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self.taking = threading.Lock()

    def routes(self) -> list[Route]:
        """The paths of this desk."""
        return [
            Route("/status", self._answering("look", self.status)),
            Route("/submit", self._answering("submit", self.submit), methods=["POST"]),
            Route("/stop", self._answering("stop", self.stop), methods=["POST"]),
            Route("/end", self._answering("end", self.end), methods=["POST"]),
            Route("/revoke", self._answering("revoke", self.revoke), methods=["POST"]),
            Route("/output/{person}/{name}", self._answering("read", self.output)),
            Route("/files/{person}/{name}", self._answering("read", self.files)),
            Route("/files/{person}/{name}/{file:path}", self._answering("read", self.files)),
        ]

    def _answering(self, act: str, answer: Callable[[Request, bytes], Any]) -> Callable[[Request], Any]:
        async def answered(request: Request) -> Response:
            person, role = request.state.person, request.state.role
            often = HOUR if request.method != "POST" else SELDOM if act == "stop" else 0.0
            what, status, content = "", 200, Response()
            try:
                _allow(person, role, act)
                body = await _body(request) if request.method == "POST" else b""
                result = await asyncio.to_thread(answer, request, body)
                content, what = result if isinstance(result, tuple) else (result, "")
                outcome = "done"
            except RefusedErrand as refused:
                outcome, status = str(refused), refused.status
            except (Refusal, FormError) as error:
                outcome, status = str(error), 400
            except OSError as error:
                outcome, status = FULL if error.errno in NO_ROOM else f"it failed there ({error.strerror})", 507
            wanted = what if status == 200 else request.url.path
            self.acts.note(person, role, act, wanted, outcome, often if status == 200 else SELDOM)
            return content if status == 200 else JSONResponse({"error": _encodable(outcome)}, status)

        return answered

    # what anybody may

    def status(self, _: Request, __: bytes) -> Response:
        """Who is there, and how far the newest runs are."""
        status = self._coordinator("status")
        runs = [
            {"run": self.orders.called(Path(place)), "words": _standing(Path(place))}
            for place in status["runs"][-NEWEST:]
        ]
        return JSONResponse({**{key: status[key] for key in ("name", "address", "sites")}, "runs": runs})

    # what those who submit may

    def submit(self, request: Request, body: bytes) -> tuple[Response, str]:
        """Take an order, and start it."""
        person, order = request.state.person, parsed(Order, body)
        self.look()
        with self.taking:
            if len(self.running) >= RUNS:
                raise RefusedErrand(f"{RUNS} studies that people have submitted run already; try again later", 429)
            if sum(owner == person for owner, _ in self.running) >= EACH:
                raise RefusedErrand(f"{EACH} studies of {person} run already; stop one, or try again later", 429)
            name = self.orders.place(person, order)
            try:
                self.start(person, name)
            except OSError:  # what could not be begun is not taken up later either
                self.orders.withdraw(person, name)
                raise
        return JSONResponse({"person": person, "run": name}), name

    def start(self, person: str, name: str) -> None:
        """Have an order run in a process of its own."""
        module = ["-P", "-m", "wardround.cli.ordered", str(self.folder), person, name]
        with (self.orders.run(person, name).parent / f"{name}{OUTPUT}").open("ab") as output:
            self.running[person, name] = subprocess.Popen(
                [sys.executable, *module], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def look(self) -> None:
        """See which of them have ended, and how, if they could not say so themselves."""
        with self.taking:  # of requests that come together, one at a time: an order may have the name of one that ended
            over = {key: code for key, process in self.running.items() if (code := process.poll()) is not None}
            for (person, name), code in over.items():
                del self.running[person, name]
                if self.orders.open(person, name):
                    self.orders.done(person, name, code)

    def take_up(self) -> None:
        """Start the orders again that were not done when the coordinator ended, of people who may still order."""
        people = read_people(self.folder)
        for person, name in self.orders.all_open():
            may = person in people and not people[person].barred and people[person].role in RIGHTS["submit"]
            self.acts.note(person, "", "resume", name, "done" if may else "no longer allowed")
            if may:
                self.start(person, name)
            else:
                self.orders.done(person, name, 1)

    def stop(self, request: Request, body: bytes) -> tuple[Response, str]:
        """End a run after its round."""
        wanted = _field(body, "run")
        runs, own = self.orders.stoppable(), f"{request.state.person}/"
        places = [place for place, called in runs.items() if called == wanted]
        if not places and request.state.role == "admin":
            places = [place for place in runs if place.name == wanted]
        if request.state.role != "admin" and not wanted.startswith(own):
            raise RefusedErrand(f"{wanted[:80]} is not a run of {request.state.person}; yours begin with {own}")
        if len(places) != 1:
            raise RefusedErrand(f"there is no run {wanted[:80]}; see wardround status", 404)
        if not self.orders.stop(places[0]):
            raise RefusedErrand(f"{wanted[:80]} is not going on, so there is nothing to stop", 409)
        return JSONResponse({"stopping": wanted}), wanted

    def output(self, request: Request, _: bytes) -> Response:
        """What a run has said from some byte on, and whether it has ended."""
        person, name = self._own(request)
        self.look()
        start = request.query_params.get("from", "0")
        lines, end, code = self.orders.lines(person, name, int(start) if start.isdecimal() and len(start) < 16 else 0)
        return JSONResponse({"lines": lines, "end": end, "code": code})

    def files(self, request: Request, _: bytes) -> Response:
        """The list of what can be fetched of a run, or one of these."""
        person, name = self._own(request)
        files, wanted = self.orders.files(person, name), request.path_params.get("file")
        if wanted is None:
            return JSONResponse({"files": files})
        if wanted not in files:
            raise RefusedErrand("there is no such file", 404)
        return FileResponse(self.orders.run(person, name) / wanted, media_type="application/octet-stream")

    def _own(self, request: Request) -> tuple[str, str]:
        person, name = request.path_params["person"], request.path_params["name"]
        if request.state.role != "admin" and person != request.state.person:
            raise RefusedErrand(f"that is a run of {person[:50]}; {request.state.person} may read their own")
        if not self.orders.known(person, name):
            raise RefusedErrand("there is no such run", 404)
        return person, name

    # what administrators may

    def end(self, _: Request, __: bytes) -> Response:
        """Stop the coordinator."""
        self._coordinator("stop")
        return JSONResponse({"stopping": True})

    def revoke(self, _: Request, body: bytes) -> tuple[Response, str]:
        """Let a site or a person take part no longer."""
        name = _field(body, "name")
        if name in read_people(self.folder):
            revoke_person(self.folder, name)
        elif name in read_roster(self.folder):
            revoke(self.folder, name)
        else:
            raise RefusedErrand(f"{name[:80]} is neither a site nor a person of this consortium", 404)
        return JSONResponse({"revoked": name, "ending": self.orders.ending(name)}), name

    def _coordinator(self, word: str) -> dict[str, Any]:
        try:
            return asked(self.folder, word)
        except RunError:
            raise RefusedErrand("the coordinator's process does not answer; try again", 503) from None


def _allow(person: str, role: Role, act: str) -> None:
    if role not in RIGHTS[act]:
        raise RefusedErrand(f"{person} has the role {role} here, and to {act} takes {' or '.join(RIGHTS[act])}")


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


async def _body(request: Request) -> bytes:
    """All of a small request that comes soon, and that no page of a browser could have sent."""
    if request.headers.get("content-type", "").partition(";")[0].strip().casefold() != "application/json":
        raise RefusedErrand("send JSON", 415)
    data = bytearray()
    try:
        async with asyncio.timeout(SOON):
            async for piece in request.stream():
                data += piece
                if len(data) > LARGEST:
                    raise RefusedErrand(f"more than {LARGEST:,} bytes", 413)
    except TimeoutError:
        raise RefusedErrand("too slow", 408) from None
    return bytes(data)


def _field(body: bytes, name: str) -> str:
    try:
        value = json.loads(body)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        value = None
    if not isinstance(value, str):
        raise RefusedErrand(f"say {name}", 400)
    return value


def _standing(place: Path) -> str:
    run = WatchedRun(place)
    run.look()
    state, words = STATES[run.state], standing(run)
    return words if state in words else f"{state}; {words}"
