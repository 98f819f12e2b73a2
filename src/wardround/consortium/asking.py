"""What the coordinator's own machine asks of its process: how it stands, and to stop. No torch here.

print(asked(folder, "status")["sites"])
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wardround.core.lock import InUse, sole
from wardround.engines.frames import dial, door_of
from wardround.runs.errors import RunError


def asked(folder: Path, what: str) -> dict[str, Any]:
    """What the coordinator's process says to a question of one word."""
    try:
        with dial(door_of(folder), timeout=10.0) as line:
            line.send({what: True})
            reply = line.receive()
    except OSError:
        reply = None
    if reply is None:
        raise RunError(
            f"the coordinator of {folder} is not running; start it with: wardround coordinator start {folder}"
        )
    return reply[0]


def gone(folder: Path, seconds: float) -> bool:
    """Whether the coordinator's process has ended, or does within these seconds."""
    try:
        with sole(folder / ".lock", seconds):
            return True
    except InUse:
        return False


def await_coordinator(folder: Path, wait: float, say: Callable[[str], None]) -> None:
    """Wait until the coordinator's process is there, which may have been started a moment ago."""
    end, waiting = time.monotonic() + wait, False
    while True:
        try:
            asked(folder, "status")
        except RunError as error:
            if time.monotonic() >= end:
                raise
            if not waiting:
                say(f"{error}; waiting for it until {clock_time(wait)}")
            waiting = True
            time.sleep(0.5)
        else:
            return


def clock_time(seconds: float) -> str:
    """What the clock says in so many seconds."""
    return time.strftime("%H:%M", time.localtime(time.time() + seconds))
