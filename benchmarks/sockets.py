"""Real site processes without NVFlare: each asked over its own local socket, as NVFlare's job at a site would.

    with Sockets(folder, study, folder) as sites:
        submit(study, out, sites.over)

What NVFlare adds is the same with masks and without; so many sites as it takes memory for can be had this way only.
"""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from wardround.consortium.rehearse import Rehearsal
from wardround.engines.bell import Bell
from wardround.engines.frames import Line, dial, door_of, listen, shut
from wardround.engines.processes import Programs
from wardround.study.load import Study

STARTED = 600.0  # seconds that all processes together may take


class Sockets(Rehearsal):
    """A rehearsal whose lines end at the sites' own doors."""

    def __init__(self, folder: Path, study: Study, beside: Path) -> None:
        super().__init__(folder, study, beside)
        self.places = {path.name: door_of(path) for path in (folder / "sites").iterdir()}
        sites = self.programs[1:]
        self.programs = [Programs({"process": one.commands["process"]}, one.environment, one.log) for one in sites]
        self.door = door_of(folder / "consortium")

    def __enter__(self) -> Self:
        self.server = listen(self.door)
        threading.Thread(target=self._accept, daemon=True).start()
        super().__enter__()
        end = time.monotonic() + STARTED
        for place in self.places.values():
            while not _there(place):
                if time.monotonic() > end:
                    raise TimeoutError(f"the site at {place} has not come up within {STARTED:g} s")
                time.sleep(0.2)
        return self

    def __exit__(self, *given: object) -> None:
        self.server.close()
        shut(self.door)
        super().__exit__(*given)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self.server.accept()
                with suppress(OSError), Line(end) as line:
                    self._lend(line)

    def _lend(self, line: Line) -> None:
        head, _ = line.receive() or ({}, b"")
        if head.get("want") not in self.places:
            line.send({"lent": False})
            return
        near, far = socket.socketpair()
        bell = Bell(self.places[head["want"]])
        threading.Thread(target=_serve, args=(bell, Line(near)), daemon=True).start()
        line.send({"lent": True})
        socket.send_fds(line.socket, [b"!"], [far.fileno()])
        far.close()


def _serve(bell: Bell, line: Line) -> None:
    with line, suppress(OSError):
        while (frame := line.receive()) is not None:
            line.send(*bell.ask(*frame))


def _there(place: Path) -> bool:
    with suppress(OSError), dial(place):
        return True
    return False
