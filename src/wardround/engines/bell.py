"""The bell at a site's door: asks the hospital's own process, and knows for how long that owes an answer.

    bell = Bell(path)                       # of the socket where the site process listens
    head, data = bell.ask(head, data)       # its answer, or a code
    bell.owing()                            # rings, so that one that is frozen is found out: seconds since it began to

It runs in NVFlare's job process at the site, which lives whatever befalls the site process. No torch here.
"""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from wardround.engines.frames import Line, dial

Frame = tuple[dict[str, Any], bytes]

TRIES = 2  # as often as the pool asks a worker that dies
AGAIN = 0.3  # seconds; a dying process may still accept a call for a moment
PAUSE = 2.0


class Bell:
    """Calls to a site process, one thread each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rung: float | None = None
        """Since when the bell has been ringing."""
        self.lock = threading.Lock()

    def ask(self, head: dict[str, Any], data: bytes) -> Frame:
        """The site process's answer, or a code; a process that dies over a message is asked once more."""
        end = time.monotonic() + float(head["seconds"])
        tries = 0
        answer: Frame | None = None
        while answer is None and tries < TRIES and time.monotonic() < end:
            with suppress(OSError), dial(self.path) as line:  # if nobody is there, it is being started again
                tries += 1
                line.send(head, data)
                answer = line.receive()
            if answer is None:
                time.sleep(AGAIN)
        return answer or ({"fault": "died", "ask": head.get("ask")}, b"")

    def owing(self) -> float:
        """For how many whole seconds the bell has been ringing; it is rung if it was still.

        A ring alone counts, and no fraction is given: what others ask, and how long that takes, is not theirs to know.
        """
        with self.lock:
            now = time.monotonic()
            if idle := self.rung is None:
                self.rung = now
            since = self.rung
        if idle:
            threading.Thread(target=self._ring, daemon=True).start()
        return float(int(now - since))

    def _ring(self) -> None:
        """Call until somebody is there."""
        there = False
        while not there:
            with suppress(OSError), dial(self.path) as line:
                there = _hangs_up(line)
            if not there:
                time.sleep(PAUSE)
        with self.lock:
            self.rung = None


def _hangs_up(line: Line) -> bool:
    """Say nothing, and wait: a site process hangs up on whoever says nothing, as soon as it is his turn."""
    line.socket.shutdown(socket.SHUT_WR)
    return not line.socket.recv(1)
