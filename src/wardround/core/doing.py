"""What this process is at, for whoever waits for it: a line in a file that its workers write to as well.

    with noticed(out / NOTICE, show):
        doing("reading the data")
        for row in counted(rows, "encoding", "sentences"): ...       # encoding 3,000 of 12,000 sentences

Words are ours and numbers; nothing of a note. Where nobody waits, nothing is written.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
NOTICE = ".doing.new"  # like a file half written: what a killed run leaves is taken away
PAUSE = 0.5


@dataclass
class _Notice:
    path: Path
    show: Callable[[str], None] | None
    process: int = field(default_factory=os.getpid)
    last: float = -PAUSE


_notice: ContextVar[_Notice | None] = ContextVar("notice", default=None)


@contextmanager
def noticed(path: Path, show: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep what is being done in a file while this lasts, and show it."""
    before = _notice.set(_Notice(path, show))
    try:
        yield
    finally:
        _notice.reset(before)
        with suppress(OSError):
            path.unlink(missing_ok=True)


def doing(words: str) -> None:
    """What begins now."""
    notice = _notice.get()
    if notice is None:
        return
    notice.last = time.monotonic()
    with suppress(OSError):  # a full disk is told of elsewhere
        notice.path.write_text(words, encoding="utf-8")
    if notice.show and notice.process == os.getpid():
        notice.show(words)


def counted(items: Sequence[T], what: str, plural: str) -> Iterator[T]:
    """The items, one by one, telling how many are done."""
    for number, item in enumerate(items):
        notice = _notice.get()
        if notice is not None and time.monotonic() - notice.last >= PAUSE:
            doing(f"{what} {number:,} of {len(items):,} {plural}")
        yield item


def look() -> None:
    """Show what workers have written meanwhile."""
    notice = _notice.get()
    if notice is not None and notice.show and (words := read_notice(notice.path.parent)):
        notice.show(words)


def read_notice(folder: Path) -> str:
    """What the process that works in this folder is at, if it says so."""
    try:
        return (folder / NOTICE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
