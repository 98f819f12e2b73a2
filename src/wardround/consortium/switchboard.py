"""The coordinator's own process: it keeps NVFlare's server running and a pipe to every site that is there.

    python -m wardround.consortium.switchboard FOLDER [--listen ADDRESS] [--page HOST PORT [TOKEN-FILE]]
                                                      [--people HOST PORT]      # `wardround coordinator start`

The programs of the live page and of the door for people are kept running as well, where they are asked for.

Whoever runs a study asks at its door for the pipe to a site and is handed the open socket itself (`door`): messages do
not pass through this process. A job that has ended, for whatever reason, is submitted anew as long as its site is
there. What comes from the network passes the relay here and the gate in NVFlare's server; the roster says who may be
there, and is read again whenever it changes.
No torch here: the process is small, and back within a second when it is started again.
"""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from wardround.consortium.answers import PLACE as ANSWERS
from wardround.consortium.console import Certificates, writing
from wardround.consortium.door import Pipes
from wardround.consortium.forms import read_charter
from wardround.consortium.notify import notify, read_notify
from wardround.consortium.presence import Presence
from wardround.consortium.submitted import pending
from wardround.consortium.voice import LOG, STOPPING, Voice
from wardround.core.lock import InUse, sole
from wardround.engines.flare_kits import Admin, place_server, place_stores
from wardround.engines.frames import DOOR, GATE, calls, door_of, shut
from wardround.engines.processes import WITH_PARENT, Programs, end_with_parent
from wardround.engines.relay import Relay, addresses, listening, raise_file_limit
from wardround.runs.errors import RunError
from wardround.study.settings import StudyError

LOOK_SECONDS = 0.5
MINUTE = 60.0
HOUR = 3600.0
EACH, PER_SITE = 32, 8  # connections that one address may have, and more for each site: they may share one
JOB_SECONDS = 20.0  # within which a job that was submitted has offered its pipe, or is given up
LOGIN_SECONDS = 2.0  # within which NVFlare's server lets us in
LONGEST = 8  # times as long as these have what takes longer on a busy machine: given up and begun anew, it never ends


class Switchboard:
    """NVFlare's server, and the jobs behind the sites' pipes."""

    def __init__(self, folder: Path, listen_on: str = "", page: Sequence[str] = (), people: Sequence[str] = ()) -> None:
        charter = read_charter(folder)
        self.folder, self.name, self.beside = folder, charter.name, {"page": list(page), "people": list(people)}
        self.say, self.notify = Voice(folder / LOG), read_notify(folder)
        self.port = 0
        """Of NVFlare's server, which only this machine reaches."""
        self.relay = Relay(
            servers_at(charter.host, charter.port, listen_on),
            lambda: self.port,
            lambda: EACH + PER_SITE * len(self.presence.sites),
        )
        self.presence = Presence(folder, self.say, self.relay.remote)
        self.presence.read()
        self.stop = threading.Event()
        self.door = Pipes(charter.name, self.presence, self.relay, self.stop)
        self.connected: set[str] = set()
        self.counted: dict[str, float] = {}
        """When it was last said of an address that it knocks too often."""
        self.desk: Admin | None = None
        self.login = LOGIN_SECONDS
        self.linking: dict[str, float] = {}
        """How many seconds a site's job has to offer its pipe, where it was given up before."""
        self.owed: set[str] = set()
        """Sites that are back, and may be owed the model of a run that ended without them."""
        self.unaware: set[str] = set()
        """Sites that have not heard who are members since these have changed."""
        self.courier: subprocess.Popen[bytes] | None = None
        self.asked = time.monotonic()

    def run(self) -> None:
        """Serve until told to stop."""
        kit = self.folder / "server"
        settings = ["--set", "secure_train=true", "org=wardround", "config_folder=config"]
        program = "nvflare.private.fed.app.server.server_train"
        command = [sys.executable, "-m", "wardround.engines.flare", program, "-m", str(kit), "-s", "fed_server.json"]
        door = door_of(self.folder)
        accepting = threading.Thread(target=self.door.accept, args=(calls(door, self.stop.is_set),), daemon=True)
        accepting.start()
        place_stores(kit)
        self._place()
        environment = {DOOR: str(door), GATE: str(door)}
        with (
            self.relay,
            Programs(
                {"server": [*command, *settings], **self._beside()},
                environment,
                kit / "printed.txt",
                self._died,
                lambda _name, text: self.say(text),
            ) as programs,
        ):
            programs.look()
            members = [name for name, site in self.presence.sites.items() if not site.member.revoked]
            waited = ", ".join(members) or "hospitals to be admitted"
            self.say(f"consortium {self.name}: listening on {self.relay}, waiting for {waited}")
            own = Certificates({"coordinator": kit / "startup" / "server.crt", "root": kit / "startup" / "rootCA.pem"})
            while not self.stop.wait(LOOK_SECONDS):
                if own.changed():
                    self.say("the coordinator's own certificate is new; NVFlare's server is being started again")
                    programs.restart("server")
                    programs.restart("people")
                    self._forget()
                programs.look()
                self._look()
                self._mind(own)
                self._bring()
            self.say(STOPPING)
            self._forget()
        accepting.join(5.0)
        shut(door)

    def _place(self) -> None:
        """Find a port for NVFlare's server; one that somebody else took meanwhile ends it, and the next is another."""
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            self.port = trial.getsockname()[1]
        place_server(self.folder, self.port)

    def _beside(self) -> dict[str, list[str]]:
        """The programs of the live page and of the door for people, if asked for: they cannot harm this one."""
        modules = {"page": "wardround.watch.coordinator", "people": "wardround.watch.people"}
        program = [sys.executable, "-m"]
        return {name: [*program, modules[name], str(self.folder), *how] for name, how in self.beside.items() if how}

    def _died(self, name: str, code: int) -> None:
        if name in self.beside:
            what = "the page" if name == "page" else "the door for people"
            self.say(f"{what} ended (code {code}); it is being started again")
            return
        self.say(f"NVFlare's server ended (code {code}); it is being started again")
        self._forget()
        self._place()

    def _forget(self) -> None:
        """What a server that is gone knew of jobs is void."""
        self.login = LOGIN_SECONDS
        self.door.forget()
        self.connected.clear()
        if self.desk is not None:
            with contextlib.suppress(Exception):
                self.desk.close()
        self.desk = None

    def _mind(self, own: Certificates) -> None:
        """The roster may have changed, certificates run out, and too many may knock."""
        with contextlib.suppress(OSError, RunError):  # half written by hand, say: the next look is soon
            if self.presence.read():
                self.door.tell_gates()
                self.unaware, self.owed = set(self.presence.sites), self.owed | self.connected
        for text in self.presence.warnings(own.ends):
            self.say(text)
        hours = self.notify.gone_hours if self.notify else 24.0
        for site in self.presence.gone(hours * HOUR):
            self.say(f"{site} has been away for {hours:g} hours", "away", site=site)
            notify(self.notify, self.say, "site-gone", consortium=self.name, site=site, hours=hours)
        for origin, count in list(self.relay.turned_away.items()):
            if time.monotonic() - self.counted.get(origin, -MINUTE) >= MINUTE:
                self.counted[origin] = time.monotonic()
                del self.relay.turned_away[origin]
                self.say(f"{origin}: {count:,} connection{'s' * (count > 1)} too many, closed")

    def _look(self) -> None:
        """See who is there, and that each of them has a pipe."""
        try:
            if self.desk is None:
                self.desk = Admin(self.folder / "admin", timeout=self.login)
            there = {site for site in self.desk.connected() if self.presence.there(site)}
            known = self.desk.jobs()
            for site in sorted(there ^ self.connected):
                kind = "connected" if site in there else "gone"
                self.say(f"{site} is {kind}", kind, site=site)
            self.owed |= there - self.connected
            self.connected = there
            for site in sorted(there):
                if not self.presence.barred(site):
                    self._see_to(site, known)
            for site in [site for site in self.door.jobs if self.presence.barred(site)]:
                self._bar(site)
        except Exception as error:  # noqa: BLE001 -- NVFlare's session raises what it likes; the next look is soon
            self.login = min(2 * self.login, LONGEST * LOGIN_SECONDS)
            if self.desk is not None:
                self.say(f"no connection to NVFlare's server ({type(error).__name__}); trying again")
                with contextlib.suppress(Exception):
                    self.desk.close()
            self.desk = None

    def _bring(self) -> None:
        """Have sites that are back, and not busy, get the models that they missed."""
        if time.monotonic() - self.asked > HOUR:  # one that was busy then
            self.owed, self.asked = set(self.connected), time.monotonic()
        ready = sorted(self.owed & set(self.door.idle))
        if not ready or (self.courier is not None and self.courier.poll() is None):
            return
        self.owed -= set(ready)
        owing = bool(pending(self.folder, ready))
        if owing:
            self.say(f"the model of a run that has ended is on its way to {', '.join(ready)}")
        forgetful = any((self.folder / ANSWERS / f"{site}.jsonl").exists() for site in ready)  # it may be one
        if owing or forgetful or self.unaware & set(ready):
            self.unaware -= set(ready)
            program = [sys.executable, "-m", "wardround.consortium.delivery"]
            self.courier = subprocess.Popen([*program, str(self.folder), *ready])

    def _see_to(self, site: str, known: dict[str, str]) -> None:
        assert self.desk is not None  # noqa: S101 -- the caller has it
        job, since = self.door.jobs.get(site, ("", 0.0))
        age, broken = time.monotonic() - since, self.door.broken(site)
        over = job not in known or known[job].startswith("FINISHED")
        patience, offered = self.linking.get(site, JOB_SECONDS), self.door.offered.get(site) == job
        stuck = not offered and age > patience
        if job and offered:
            self.linking.pop(site, None)
        if job and not over and not stuck and not broken:
            return
        if job and age < 2.0:  # not in a hurry with one that fails at once
            return
        self.door.lent.pop(site, None)
        if job and not over and stuck:
            self.linking[site] = min(2 * patience, LONGEST * JOB_SECONDS)
        if job and not over:
            with contextlib.suppress(Exception):  # it may have ended by now
                self.desk.end(job)
        self.door.jobs[site] = (self.desk.start(site), time.monotonic())

    def _bar(self, site: str) -> None:
        """A site that may not take part any more loses its pipe, whoever has it."""
        assert self.desk is not None  # noqa: S101 -- the caller has it
        job = self.door.bar(site)
        with contextlib.suppress(Exception):  # it may have ended by now
            self.desk.end(job)


def servers_at(host: str, port: int, listen_on: str = "") -> list[socket.socket]:
    """Sockets where the coordinator listens; a `ListenError` that says what to do if it cannot there."""
    place, colon, number = listen_on.rpartition(":") if listen_on.count(":") == 1 else (listen_on, "", "")
    if colon and not number.isdecimal():
        raise ListenError(f"--listen {listen_on}: {number!r} is not a port; write ADDRESS or ADDRESS:PORT")
    where, at = place or host, int(number) if colon else port
    try:
        return listening(addresses(where, at))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"port {at} of {where} is in use; is a coordinator running already? see: ss -ltnp"
            ) from None
        if error.errno == errno.EACCES:
            raise ListenError(
                f"port {at} needs a right that this user does not have: give it to the service (AmbientCapabilities="
                f"CAP_NET_BIND_SERVICE), or listen elsewhere and have {at} forwarded: --listen {where}:8443"
            ) from None
        raise ListenError(
            f"{where} is not an address of this machine ({error.strerror}); say which of its own addresses to listen "
            f"on: wardround coordinator start --listen ADDRESS"
        ) from None


class ListenError(ValueError):
    """The coordinator cannot listen there; says what to do."""


def main() -> None:
    """Serve the consortium in the folder that is named until interrupted."""
    if WITH_PARENT in os.environ:
        end_with_parent()
    words = ArgumentParser()
    words.add_argument("folder", type=Path)
    words.add_argument("--listen", default="")
    for name in ("--page", "--people"):
        words.add_argument(name, nargs="+", default=())
    given = words.parse_args()
    folder = given.folder.resolve()
    busy = InUse(f"{folder}: its coordinator is running already; see wardround status {folder}")
    try:
        with writing(folder, "the coordinator keeps its state"), sole(folder / ".lock", busy=busy):
            raise_file_limit()
            board = Switchboard(folder, given.listen, given.page, given.people)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: board.stop.set())
            board.run()
    except (InUse, ListenError, RunError, StudyError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
