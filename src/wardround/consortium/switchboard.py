"""The coordinator's own process: it keeps NVFlare's server running and a pipe to every site that is there.

    python -m wardround.consortium.switchboard FOLDER [ADDRESS]      # what `wardround coordinator start` becomes

Whoever runs a study asks here for the pipe to a site and is handed the open socket itself: messages do not pass
through this process. A job that has ended, for whatever reason, is submitted anew as long as its site is there.
What comes from the network passes the relay here and the gate in NVFlare's server; the roster says who may be there,
and is read again whenever it changes.
No torch here: the process is small, and back within a second when it is started again.
"""

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from wardround.consortium.forms import read_charter
from wardround.consortium.presence import Presence
from wardround.core.lock import InUse, sole
from wardround.engines.certificates import CertificateError, dates, read_certificate
from wardround.engines.flare_kits import ADMIN, Desk, place_server, place_stores
from wardround.engines.frames import DOOR, GATE, Line, calls, door_of, shut
from wardround.engines.processes import WITH_PARENT, Programs, end_with_parent
from wardround.engines.relay import Relay, addresses, listening, raise_file_limit
from wardround.runs.errors import RunError

__all__ = ["Certificates", "ListenError", "Switchboard", "main", "servers_at"]

LOOK_SECONDS = 0.5
MINUTE = 60.0
EACH, PER_SITE = 32, 8  # connections that one address may have, and more for each site: they may share one
JOB_SECONDS = 20.0  # within which a job that was submitted has offered its pipe, or is given up


class Switchboard:
    """Pipes by site, and the jobs behind them."""

    def __init__(self, folder: Path, listen_on: str = "") -> None:
        charter = read_charter(folder)
        self.folder, self.name = folder, charter.name
        self.port = 0
        """Of NVFlare's server, which only this machine reaches."""
        self.relay = Relay(
            servers_at(charter.host, charter.port, listen_on),
            lambda: self.port,
            lambda: EACH + PER_SITE * len(self.presence.sites),
        )
        self.presence = Presence(folder, say, self.relay.remote)
        self.presence.read()
        self.idle: dict[str, Line] = {}
        self.lent: dict[str, str] = {}
        """The sites whose pipe somebody has, and what for, as far as he said."""
        self.jobs: dict[str, tuple[str, float]] = {}
        """The job of each site's pipe, and when it was submitted."""
        self.offered: dict[str, str] = {}
        """The job whose pipe was last offered, by site."""
        self.over: set[str] = set()
        """Sites whose pipe is known to be broken, whatever NVFlare says of its job."""
        self.connected: set[str] = set()
        self.gates: list[Line] = []
        self.counted: dict[str, float] = {}
        """When it was last said of an address that it knocks too often."""
        self.desk: Desk | None = None
        self.stop = threading.Event()
        self.lock = threading.Lock()

    def run(self) -> None:
        """Serve until told to stop."""
        kit = self.folder / "server"
        settings = ["--set", "secure_train=true", "org=wardround", "config_folder=config"]
        program = "nvflare.private.fed.app.server.server_train"
        command = [sys.executable, "-m", "wardround.engines.flare", program, "-m", str(kit), "-s", "fed_server.json"]
        door = door_of(self.folder)
        accepting = threading.Thread(target=self._accept, args=(calls(door, self.stop.is_set),), daemon=True)
        accepting.start()
        place_stores(kit)
        self._place()
        environment = {DOOR: str(door), GATE: str(door)}
        with (
            self.relay,
            Programs({"server": [*command, *settings]}, environment, kit / "printed.txt", self._died) as programs,
        ):
            programs.look()
            members = [name for name, site in self.presence.sites.items() if not site.member.revoked]
            waited = ", ".join(members) or "hospitals to be admitted"
            say(f"consortium {self.name}: listening on {self.relay}, waiting for {waited}")
            own = Certificates({"coordinator": kit / "startup" / "server.crt", "root": kit / "startup" / "rootCA.pem"})
            while not self.stop.wait(LOOK_SECONDS):
                if own.changed():
                    say("the coordinator's own certificate is new; NVFlare's server is being started again")
                    programs.restart("server")
                    self._forget()
                programs.look()
                self._look()
                self._mind(own)
            say("stopping")
            self._forget()
        accepting.join(5.0)
        shut(door)

    def _place(self) -> None:
        """Find a port for NVFlare's server; one that somebody else took meanwhile ends it, and the next is another."""
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            self.port = trial.getsockname()[1]
        place_server(self.folder, self.port)

    def _died(self, _name: str, code: int) -> None:
        say(f"NVFlare's server ended (code {code}); it is being started again")
        self._forget()
        self._place()

    def _forget(self) -> None:
        """What a server that is gone knew of jobs is void."""
        with self.lock:
            self.jobs.clear()
            self.lent.clear()
            self.connected.clear()
        if self.desk is not None:
            with contextlib.suppress(Exception):
                self.desk.close()
        self.desk = None

    def _mind(self, own: "Certificates") -> None:
        """The roster may have changed, certificates run out, and too many may knock."""
        with contextlib.suppress(OSError, RunError):  # half written by hand, say: the next look is soon
            if self.presence.read():
                for line in list(self.gates):
                    with contextlib.suppress(OSError):
                        line.send(self._members())
        for text in self.presence.warnings(own.ends):
            say(text)
        for origin, count in list(self.relay.turned_away.items()):
            if time.monotonic() - self.counted.get(origin, -MINUTE) >= MINUTE:
                self.counted[origin] = time.monotonic()
                del self.relay.turned_away[origin]
                say(f"{origin}: {count:,} connection{'s' * (count > 1)} too many, closed")

    def _members(self) -> dict[str, Any]:
        return {**self.presence.members(), "own": ["coordinator", ADMIN]}

    def _look(self) -> None:
        """See who is there, and that each of them has a pipe."""
        try:
            if self.desk is None:
                self.desk = Desk(self.folder / "admin", timeout=2.0)
            there = {site for site in self.desk.connected() if self.presence.there(site)}
            known = self.desk.jobs()
            for site in sorted(there ^ self.connected):
                say(f"{site} {'is connected' if site in there else 'is gone'}")
            self.connected = there
            for site in sorted(there):
                if not self.presence.barred(site):
                    self._see_to(site, known)
            for site in [site for site in self.jobs if self.presence.barred(site)]:
                self._bar(site)
        except Exception as error:  # noqa: BLE001 -- NVFlare's session raises what it likes; the next look is soon
            if self.desk is not None:
                say(f"no connection to NVFlare's server ({type(error).__name__}); trying again")
                with contextlib.suppress(Exception):
                    self.desk.close()
            self.desk = None

    def _see_to(self, site: str, known: dict[str, str]) -> None:
        assert self.desk is not None  # noqa: S101 -- the caller has it
        job, since = self.jobs.get(site, ("", 0.0))
        age = time.monotonic() - since
        with self.lock:
            broken = site in self.over and site not in self.idle
            self.over.discard(site)
        over = job not in known or known[job].startswith("FINISHED")
        stuck = self.offered.get(site) != job and age > JOB_SECONDS
        if job and not over and not stuck and not broken:
            return
        if job and age < 2.0:  # not in a hurry with one that fails at once
            return
        self.lent.pop(site, None)
        if job and not over:
            with contextlib.suppress(Exception):  # it may have ended by now
                self.desk.end(job)
        self.jobs[site] = (self.desk.start(site), time.monotonic())

    def _bar(self, site: str) -> None:
        """A site that may not take part any more loses its pipe, whoever has it."""
        assert self.desk is not None  # noqa: S101 -- the caller has it
        job, _ = self.jobs.pop(site)
        with self.lock:
            line = self.idle.pop(site, None)
            self.lent.pop(site, None)
        if line is not None:
            line.close()
        with contextlib.suppress(Exception):  # it may have ended by now
            self.desk.end(job)

    # the door

    def _accept(self, lines: Iterator[Line]) -> None:
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
            elif "over" in head:  # whoever held its pipe found it broken
                with self.lock:
                    self.over.add(str(head["over"]))
                    self.lent.pop(str(head["over"]), None)
            elif "want" in head:
                self._lend(line, str(head["want"]), str(head.get("for", "")))
            elif "doing" in head:  # of those whose pipe he has
                with self.lock:
                    self.lent |= {site: str(head["doing"]) for site in head["sites"] if site in self.lent}
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

    def _attend(self, line: Line) -> None:
        """Tell the gate who is a member, and hear who is there."""
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
            if pipe is not None and not _broken(pipe):
                self.lent[site] = what
        if site not in self.lent or busy or pipe is None:
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
        return {"name": self.name, "address": str(self.relay), "sites": sites}


def _broken(line: Line) -> bool:
    """Whether the process behind an idle pipe is gone: a pipe says nothing unasked."""
    return bool(select.select([line], [], [], 0)[0])


def say(text: str) -> None:
    """A line for whoever looks at the coordinator's terminal."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 -- its one way to speak


class Certificates:
    """Some certificates on disk: until when they are good, and whether they are new."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths, self.ends, self._raw = dict(paths), dict[str, datetime](), dict[str, bytes]()
        self.changed()

    def changed(self) -> bool:
        """Read them again; whether one is another than before."""
        new = False
        for name, path in self.paths.items():
            with contextlib.suppress(OSError, CertificateError):
                raw = path.read_bytes()
                if raw != self._raw.get(name):
                    self.ends[name] = dates(read_certificate(raw))[1]
                    new |= name in self._raw
                    self._raw[name] = raw
        return new


def servers_at(host: str, port: int, listen_on: str = "") -> list[socket.socket]:
    """Sockets where the coordinator listens; a `ListenError` that says what to do if it cannot there."""
    place, colon, number = listen_on.rpartition(":") if listen_on.count(":") == 1 else (listen_on, "", "")
    if colon and not number.isdecimal():
        raise ListenError(f"--listen {listen_on}: {number!r} is no port; write ADDRESS or ADDRESS:PORT")
    where, at = place or host, int(number) if colon else port
    try:
        return listening(addresses(where, at))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"port {at} of {where} is in use; is a coordinator running already? see: ss -ltnp"
            ) from None
        if error.errno == errno.EACCES:
            raise ListenError(f"port {at} is not for everyone; choose one from 1024 on") from None
        raise ListenError(
            f"{where} is no address of this machine ({error.strerror}); say which of its own addresses to listen on: "
            f"wardround coordinator start --listen ADDRESS"
        ) from None


class ListenError(ValueError):
    """The coordinator cannot listen there; says what to do."""


def main() -> None:
    """Serve the consortium in the folder that is named until interrupted."""
    if WITH_PARENT in os.environ:
        end_with_parent()
    folder = Path(sys.argv[1]).resolve()
    busy = InUse(f"{folder}: its coordinator is running already; see wardround status {folder}")
    try:
        with sole(folder / ".lock", busy=busy):
            raise_file_limit()
            board = Switchboard(folder, *sys.argv[2:3])
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: board.stop.set())
            board.run()
    except (InUse, ListenError, RunError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
