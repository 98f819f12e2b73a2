"""What a coordinator or a site has to say: a line on its terminal, and a record in a log of its own that rotates.

    say = Voice(folder / LOG)
    say("site-1 is connected", event="connected", site="site-1")

    {"time": "2026-11-17T08:00:00+00:00", "event": "connected", "site": "site-1", "text": "site-1 is connected"}

Words are ours and names; nothing of a note, and no address of a page with its token. A disk that is full costs the
record, never the work. No torch here.
"""

import json
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

LOG = "log.jsonl"
STOPPING = "stopping"
"""What a coordinator or a site says last."""
LARGEST = 5_000_000  # bytes of one file
FILES = 5  # that are kept, the newest without a number


class Voice:
    """Says things on the terminal, and writes them down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.terminal = sys.stdout  # now: it is turned away, for all threads, whenever one asks NVFlare, which prints
        self.lock = threading.Lock()  # or two lines said at once would be mixed up

    def __call__(self, text: str, event: str = "said", **facts: str | float) -> None:
        """Say a line, of some kind, about something."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = json.dumps({"time": now, "event": event, **facts, "text": text}, ensure_ascii=False)
        with self.lock:
            self.terminal.write(f"{time.strftime('%H:%M:%S')} {text}\n")
            self.terminal.flush()
            append(self.path, record)


def append(path: Path, line: str) -> None:
    """Add a line to a log that rotates; what cannot be written is lost."""
    with suppress(OSError):
        rotate(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def rotate(path: Path, largest: int = LARGEST, kept: int = FILES) -> None:
    """Begin a new file where this one is full; the oldest goes."""
    if not path.exists() or path.stat().st_size < largest:
        return
    for number in range(kept - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        with suppress(FileNotFoundError):
            older.replace(path.with_name(f"{path.name}.{number}"))
