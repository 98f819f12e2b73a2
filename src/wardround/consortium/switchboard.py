"""The coordinator's own process: it keeps NVFlare's server running and a pipe to every site that is there.

    python -m wardround.consortium.switchboard FOLDER        # what `wardround coordinator start` becomes

Whoever runs a study asks here for the pipe to a site and is handed the open socket itself: messages do not pass
through this process. A job that has ended, for whatever reason, is submitted anew as long as its site is there.
No torch here: the process is small, and back within a second when it is started again.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from wardround.engines.flare_kits import Desk, place_stores
from wardround.engines.frames import DOOR, Line, door_of, listen, shut
from wardround.engines.processes import WITH_PARENT, Programs, end_with_parent

__all__ = ["Switchboard", "main"]

LOOK_SECONDS = 0.5
JOB_SECONDS = 20.0  # within which a job that was submitted has offered its pipe, or is given up


class Switchboard:
    """Pipes by site, and the jobs behind them."""

    def __init__(self, folder: Path) -> None:
        told = json.loads((folder / "consortium.json").read_text(encoding="utf-8"))
        self.folder, self.name, self.sites = folder, str(told["name"]), tuple(told["sites"])
        self.address = f"{told['host']}:{told['port']}"
        self.idle: dict[str, Line] = {}
        self.jobs: dict[str, tuple[str, float]] = {}
        """The job of each site's pipe, and when it was submitted."""
        self.offered: dict[str, str] = {}
        """The job whose pipe was last offered, by site."""
        self.over: set[str] = set()
        """Sites whose pipe is known to be broken, whatever NVFlare says of its job."""
        self.connected: set[str] = set()
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
        server = listen(door)
        place_stores(kit)
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        with Programs(
            {"server": [*command, *settings]}, {DOOR: str(door)}, kit / "printed.txt", self._died
        ) as programs:
            programs.look()
            say(f"consortium {self.name}: listening on {self.address}, waiting for {', '.join(self.sites)}")
            while not self.stop.wait(LOOK_SECONDS):
                programs.look()
                self._look()
            say("stopping")
            self._forget()
        server.close()
        shut(door)

    def _died(self, _name: str, code: int) -> None:
        say(f"NVFlare's server ended (code {code}); it is being started again")
        self._forget()

    def _forget(self) -> None:
        """What a server that is gone knew of jobs is void."""
        with self.lock:
            self.jobs.clear()
            self.connected.clear()
        if self.desk is not None:
            with contextlib.suppress(Exception):
                self.desk.close()
        self.desk = None

    def _look(self) -> None:
        """See who is there, and that each of them has a pipe."""
        try:
            if self.desk is None:
                self.desk = Desk(self.folder / "admin", timeout=2.0)
            there = set(self.desk.connected())
            known = self.desk.jobs()
            for site in sorted(there ^ self.connected):
                say(f"{site} {'is connected' if site in there else 'is gone'}")
            self.connected = there
            for site in sorted(there):
                self._see_to(site, known)
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
        if job and not over:
            with contextlib.suppress(Exception):  # it may have ended by now
                self.desk.end(job)
        self.jobs[site] = (self.desk.start(site), time.monotonic())

    # the door

    def _accept(self, server: socket.socket) -> None:
        while not self.stop.is_set():
            try:
                end, _ = server.accept()
                line = Line(end)
            except OSError:
                continue
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: Line) -> None:
        line.socket.settimeout(10.0)
        frame = line.receive()
        head: dict[str, Any] = {} if frame is None else frame[0]
        if "pipe" in head:
            line.socket.settimeout(None)
            with self.lock:
                old = self.idle.pop(head["pipe"], None)
                self.idle[head["pipe"]] = line
                self.offered[head["pipe"]] = self.jobs.get(head["pipe"], ("", 0.0))[0]
            if old is not None:
                old.close()
            return
        with line, contextlib.suppress(OSError):
            if "over" in head:  # whoever held its pipe found it broken
                with self.lock:
                    self.over.add(str(head["over"]))
            elif "want" in head:
                self._lend(line, str(head["want"]))
            elif "status" in head:
                line.send(self._status())
            elif "stop" in head:
                self.stop.set()
                line.send({"stopping": True})

    def _lend(self, line: Line, site: str) -> None:
        with self.lock:
            pipe = self.idle.pop(site, None)
        if pipe is None or _broken(pipe):
            line.send({"lent": False})
            return
        line.send({"lent": True})
        socket.send_fds(line.socket, [b"!"], [pipe.fileno()])
        pipe.socket.close()  # ours; the other holds it now

    def _status(self) -> dict[str, Any]:
        with self.lock:
            sites = {
                site: {"connected": site in self.connected, "line": site in self.idle or self._lent(site)}
                for site in self.sites
            }
        return {"name": self.name, "address": self.address, "sites": sites}

    def _lent(self, site: str) -> bool:
        return bool(self.jobs.get(site)) and self.offered.get(site) == self.jobs[site][0]


def _broken(line: Line) -> bool:
    """Whether the process behind an idle pipe is gone: a pipe says nothing unasked."""
    return bool(select.select([line], [], [], 0)[0])


def say(text: str) -> None:
    """A line for whoever looks at the coordinator's terminal."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201 -- its one way to speak


def main() -> None:
    """Serve the consortium in the folder that is named until interrupted."""
    if WITH_PARENT in os.environ:
        end_with_parent()
    folder = Path(sys.argv[1]).resolve()
    with (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"{folder}: its coordinator is running already; see wardround status {folder}\n")
            sys.exit(2)
        board = Switchboard(folder)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: board.stop.set())
        board.run()


if __name__ == "__main__":
    main()
