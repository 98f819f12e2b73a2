"""The coordinator's own socket: pipes to sites are offered there, lent and given back; the gate reports, users ask.

    door = Pipes("north", presence, relay, stop)
    door.accept(calls(door_of(folder), stop.is_set))

Whoever runs a study asks here for the pipe to a site and is handed the open socket itself.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from wardround.consortium.presence import Presence
from wardround.consortium.submitted import submitted
from wardround.engines.flare_kits import ADMIN
from wardround.engines.frames import Line, readable
from wardround.engines.relay import Relay


class Pipes:
    """Pipes by site, and whoever asks for them."""

    def __init__(self, name: str, presence: Presence, relay: Relay, stop: threading.Event) -> None:
        self.name, self.presence, self.relay, self.stop = name, presence, relay, stop
        self.idle: dict[str, Line] = {}
        self.lent: dict[str, str] = {}
        """The sites whose pipe somebody has, and what for, as far as that is known."""
        self.jobs: dict[str, tuple[str, float]] = {}
        """The job of each site's pipe, and when it was submitted."""
        self.offered: dict[str, str] = {}
        """The job whose pipe was last offered, by site."""
        self.over: set[str] = set()
        """Sites whose pipe is known to be broken, whatever NVFlare says of its job."""
        self.gates: list[Line] = []
        self.lock = threading.Lock()

    def forget(self) -> None:
        """What a server that is gone knew of jobs is void."""
        with self.lock:
            self.jobs.clear()
            self.lent.clear()

    def broken(self, site: str) -> bool:
        """Whether a site's pipe was found broken since this was last asked, and no other was offered."""
        with self.lock:
            broken = site in self.over and site not in self.idle
            self.over.discard(site)
        return broken

    def bar(self, site: str) -> str:
        """Take away a site's pipe, whoever has it; the job behind it."""
        with self.lock:
            job, _ = self.jobs.pop(site)
            line = self.idle.pop(site, None)
            self.lent.pop(site, None)
        if line is not None:
            line.close()
        return job

    def tell_gates(self) -> None:
        """Say anew who is a member."""
        for line in list(self.gates):
            with contextlib.suppress(OSError):
                line.send(self._members())

    def _members(self) -> dict[str, Any]:
        return {**self.presence.members(), "own": ["coordinator", ADMIN]}

    def accept(self, lines: Iterator[Line]) -> None:
        """Answer whoever calls, each in a thread of its own."""
        for line in lines:
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: Line) -> None:
        line.socket.settimeout(10.0)
        frame = line.receive()
        head: dict[str, Any] = {} if frame is None else frame[0]
        if "pipe" in head:
            self._offer(line, str(head["pipe"]))
            return
        with line, contextlib.suppress(OSError):
            if "gate" in head:
                self._attend(line)
            elif "over" in head:
                self._over(str(head["over"]))
            elif "want" in head:
                self._lend(line, str(head["want"]), str(head.get("for", "")))
            elif "doing" in head:  # of those whose pipe he has
                with self.lock:
                    self.lent |= {site: str(head["doing"]) for site in head["sites"] if site in self.lent}
            elif "hung" in head:  # as its pipe says; of a site that somebody asks, he will find out himself
                with self.lock:
                    idle = str(head["hung"]) in self.idle
                self.presence.hangs(str(head["hung"]), float(head["seconds"]) if idle else 0.0)
            elif "status" in head:
                line.send(self._status())
            elif "stop" in head:
                self.stop.set()
                line.send({"stopping": True})

    def _offer(self, line: Line, site: str) -> None:
        line.socket.settimeout(None)
        with self.lock:
            old = self.idle.pop(site, None)
            self.lent.pop(site, None)
            self.idle[site] = line
            self.offered[site] = self.jobs.get(site, ("", 0.0))[0]
        if old is not None:
            old.close()

    def _over(self, site: str) -> None:
        """A pipe has ended, or whoever held it found it broken; another may have been offered in its place."""
        with self.lock:
            self.over.add(site)
            self.lent.pop(site, None)
            if site in self.idle and readable(self.idle[site], 0.0):
                self.idle.pop(site).close()

    def _attend(self, line: Line) -> None:
        """Tell the gate who is a member, and hear who is there."""
        line.socket.settimeout(None)  # on a busy machine it may be silent for long, and what it says is said once
        line.send(self._members())
        self.gates.append(line)
        try:
            while frame := line.receive():
                for event in frame[0]["events"]:
                    if "proved" in event:
                        self.relay.proved(int(event["proved"]))
                self.presence.hear(frame[0])
        finally:
            self.gates.remove(line)
            self.presence.hear({"there": {}, "events": []})

    def _lend(self, line: Line, site: str, what: str) -> None:
        why = self.presence.barred(site)
        with self.lock:
            pipe = None if why else self.idle.pop(site, None)
            busy = pipe is None and site in self.lent
            if pipe is not None and not readable(pipe, 0.0):  # a pipe says nothing unasked, unless it has broken
                self.lent[site] = what
        if site not in self.lent or busy or pipe is None:
            if not why and not busy:
                why = "linking" if self.presence.there(site) else self.presence.unseen(site)
            line.send({"lent": False, "busy": busy, "barred": why})
            return
        line.send({"lent": True})
        socket.send_fds(line.socket, [b"!"], [pipe.fileno()])
        pipe.socket.close()  # ours; the other holds it now

    def _status(self) -> dict[str, Any]:
        sites = {}
        with self.lock:
            for site in self.presence.sites:
                what = self.lent.get(site)
                line = "idle" if site in self.idle else "" if what is None else f"busy with {what or 'a run'}"
                words = self.presence.words(site, line)
                sites[site] = {"connected": self.presence.there(site), "line": bool(line), "words": words}
        runs = list(submitted(self.presence.folder))
        return {"name": self.name, "address": str(self.relay), "sites": sites, "runs": runs}
