"""Who may connect to NVFlare's server, decided at the connection: by certificate, roster, and one machine per site.

NVFlare checks certificates against the root and no further. So each connection to its server passes a `Gate` first,
which the switchboard tells who is a member and which reports who is there; and each of its clients' connections shows
a `Card` with a mark that the site drew when it started, and hears from the gate in one word why it is refused.

Rules of this file:
1. Nobody passes before the roster is known; afterwards members, unless revoked, and the coordinator's own programs.
2. Who is revoked, or whose certificate runs out, is cut off at once, and not let in again.
3. As long as one machine of a site is heard of, another that shows the same certificate is refused. The same machine
   is always let in again: its old connections may not have noticed yet that they are broken.
4. What travels is a word of `REFUSALS`, no more.
"""

import os
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from wardround.engines.certificates import common_name, dates, read_certificate
from wardround.engines.frames import GATE, MARK, REFUSED, Line, dial
from wardround.engines.processes import tell

REFUSALS = ("expired", "revoked", "twin", "unknown")
METADATA = "wardround-mark"
CLOSED = (grpc.StatusCode.UNIMPLEMENTED, "")
UNHEARD = 30.0  # seconds after which a machine that sends nothing does not keep another out
REPORT_SECONDS = 0.5


@dataclass(eq=False)
class _Passed:
    """One connection that is open."""

    name: str
    ends: datetime
    serial: str
    mark: str
    port: int
    context: Any
    heard: float = field(default_factory=time.monotonic)


class Gate(grpc.ServerInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Stands before NVFlare's server."""

    def __init__(self) -> None:
        self.members: dict[str, Any] | None = None
        self.inside: set[_Passed] = set()
        self.events: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """NVFlare's own handler, behind the gate."""
        handler = continuation(details)
        if handler is None:
            return None
        if handler.stream_stream is None:  # NVFlare has none such: whoever asks for one is not let through
            return grpc.unary_unary_rpc_method_handler(lambda _request, context: context.abort(*CLOSED))

        def guarded(requests: Iterator[Any], context: Any) -> Iterator[Any]:
            passed = self._enter(context)
            try:
                yield from handler.stream_stream(self._listening(passed, requests), context)
            finally:
                self._leave(passed)

        return grpc.stream_stream_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)

    def _enter(self, context: Any) -> _Passed:
        certificate = read_certificate(bytes(context.auth_context()["x509_pem_cert"][0]))
        mark = dict(context.invocation_metadata()).get(METADATA, "")
        port = int(context.peer().rpartition(":")[2])
        serial = f"{certificate.serial_number:x}"
        passed = _Passed(common_name(certificate), dates(certificate)[1], serial, mark, port, context)
        with self.lock:
            why = self._refusal(passed) or self._twin(passed)
            if not why:
                self.inside.add(passed)
                self.events.append({"proved": port})
            elif why != "wait":
                self.events.append({"refused": why, "site": passed.name, "port": port})
        if why == "wait":
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        if why:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSED + why)
        context.add_callback(lambda: self._leave(passed))
        return passed

    def _leave(self, passed: _Passed) -> None:
        with self.lock:
            self.inside.discard(passed)

    def _listening(self, passed: _Passed, requests: Iterator[Any]) -> Iterator[Any]:
        for request in requests:
            passed.heard = time.monotonic()
            yield request

    def _refusal(self, passed: _Passed) -> str:
        if self.members is None:
            return "wait"
        if passed.name in self.members["own"]:
            return ""
        if passed.name not in self.members["sites"]:
            return "unknown"
        if passed.name in self.members["revoked"]:
            return "revoked"
        return "expired" if datetime.now(UTC) >= passed.ends else ""

    def _twin(self, passed: _Passed) -> str:
        """Refuse the second of two machines; whatever is left of one that is not heard of any more is cut off."""
        others = [one for one in self.inside if one.name == passed.name and one.mark != passed.mark]
        if passed.name in (self.members or {})["own"] or not others:
            return ""
        if any(time.monotonic() - one.heard < UNHEARD for one in others):
            return "twin"
        for one in others:
            one.context.cancel()
        return ""

    # what the switchboard says and hears

    def admit(self, members: dict[str, Any]) -> None:
        """Who is a member from now on."""
        self.members = members

    def look(self) -> dict[str, Any]:
        """Cut off whoever must not be here any more; who is there, and what happened."""
        with self.lock:
            for passed in list(self.inside):
                if why := self._refusal(passed):
                    self.inside.discard(passed)
                    self.events.append({"dropped": why, "site": passed.name, "port": passed.port})
                    passed.context.cancel()
            now = time.monotonic()
            there: dict[str, dict[str, Any]] = {}
            for passed in self.inside:
                one = there.setdefault(passed.name, {"quiet": now - passed.heard, "serials": []})
                one["quiet"] = min(one["quiet"], now - passed.heard)
                one["serials"].append(passed.serial)
            events, self.events = self.events, []
        return {"there": there, "events": events}


def guard_server() -> None:
    """Put a gate before every server that this process opens, and keep the switchboard informed."""
    gate, door = Gate(), Path(os.environ.pop(GATE))
    original = grpc.server

    def server(pool: Any, *rest: Any, **options: Any) -> Any:
        return original(pool, *rest, **{**options, "interceptors": (gate,)})

    grpc.server = server
    threading.Thread(target=_attend, args=(gate, door), daemon=True).start()


def _attend(gate: Gate, door: Path) -> None:
    while True:
        try:
            with dial(door) as line:
                line.send({"gate": True})
                threading.Thread(target=_hear, args=(gate, line), daemon=True).start()
                while True:
                    _report(gate, line)
                    time.sleep(REPORT_SECONDS)
        except OSError:  # a switchboard that is gone takes this process with it
            time.sleep(REPORT_SECONDS)


def _report(gate: Gate, line: Line) -> None:
    report = gate.look()
    try:
        line.send(report)
    except OSError:
        with gate.lock:
            gate.events[:0] = report["events"]  # for whoever listens next
        raise


def _hear(gate: Gate, line: Line) -> None:
    while frame := line.receive():
        gate.admit(frame[0])


# at a site


class _Details(
    namedtuple("_Details", ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression")),  # noqa: PYI024
    grpc.ClientCallDetails,  # type: ignore[misc]  # gRPC has no types
):
    """How a call is made."""


class Badge(grpc.StreamStreamClientInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Shows the site's mark with every connection, and says aloud why one was refused."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def intercept_stream_stream(self, continuation: Callable[[Any, Any], Any], details: Any, requests: Any) -> Any:
        """Make the call, with the mark."""
        metadata = [*(details.metadata or ()), (METADATA, self.mark)]
        shown = _Details(
            details.method, details.timeout, metadata, details.credentials, details.wait_for_ready, details.compression
        )
        call = continuation(shown, requests)
        call.add_done_callback(_ended)
        return call


def _ended(call: Any) -> None:
    details = str(call.details())
    if call.code() == grpc.StatusCode.UNAUTHENTICATED and details.removeprefix(REFUSED) in REFUSALS:
        tell(details)


def guard_clients() -> None:
    """Have every encrypted connection that this process opens show the site's mark."""
    original, card = grpc.secure_channel, Badge(os.environ[MARK])

    def secure_channel(*arguments: Any, **options: Any) -> Any:
        return grpc.intercept_channel(original(*arguments, **options), card)

    grpc.secure_channel = secure_channel
