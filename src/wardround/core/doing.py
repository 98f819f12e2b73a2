"""What this process is at, for whoever waits for it: a line in a file that its workers write to as well.

    with noticed(out / NOTICE, show):
        doing("reading the data")
        for row in counted(rows, "encoding", "sentences"): ...       # encoding 3,000 of 12,000 sentences

Over real sites, a second file has whom the round waits for (`asked`), as each of them answers.

Words are ours and numbers; nothing of a note. Where nobody waits, nothing is written.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
NOTICE = ".doing.new"  # like a file half written: what a killed run leaves is taken away
ASKED = ".asked.new"
WAITING = "waiting for sites"
"""What a run is at that has not enough of them."""
OUTSIDE = "waiting for the window"
"""What one is at whose rounds may not start now."""
PAUSE = 0.5


@dataclass
class _Notice:
    path: Path | None
    show: Callable[[str], None] | None
    process: int = field(default_factory=os.getpid)
    last: float = -PAUSE
    sites: bool = False


_notice: ContextVar[_Notice | None] = ContextVar("notice", default=None)


@contextmanager
def noticed(path: Path | None, show: Callable[[str], None] | None = None, *, sites: bool = False) -> Iterator[None]:
    """Keep what is being done in a file, if there is one, and show it; with `sites`, also whom a round waits for."""
    before = _notice.set(_Notice(path, show, sites=sites))
    try:
        yield
    finally:
        _notice.reset(before)
        for each in (path, path.with_name(ASKED)) if path else ():
            with suppress(OSError):
                each.unlink(missing_ok=True)


def doing(words: str) -> None:
    """What begins now."""
    notice = _notice.get()
    if notice is None:
        return
    notice.last = time.monotonic()
    with suppress(OSError):  # a full disk is told of elsewhere
        if notice.path:
            _overwrite(notice.path, words)
    if notice.show and notice.process == os.getpid():
        notice.show(words)


def _overwrite(path: Path, words: str) -> None:
    """Put these words in place of the file's, and blanks over what is left of them.

    A file that is emptied first, or renamed to, has to be on the disk before it is closed: some systems see to that.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(handle, words.encode().ljust(os.fstat(handle).st_size))
    finally:
        os.close(handle)


def counted(items: Sequence[T], what: str, plural: str) -> Iterator[T]:
    """The items, one by one, telling how many are done, and how long the others will take if they are like these."""
    began = time.monotonic()
    for number, item in enumerate(items):
        so_far(what, number, len(items), plural, began)
        yield item


def so_far(what: str, number: int, total: int, plural: str, began: float | None) -> None:
    """How many of them are done and, since it began, how long the others will take; said every now and then."""
    notice, now = _notice.get(), time.monotonic()
    if notice is not None and now - notice.last >= PAUSE:
        left = (now - began) / number * (total - number) if number and began is not None else 0.0
        about = f", about {clock(left)} left" if left >= 1 else ""
        doing(f"{what} {number:,} of {total:,} {plural}{about}")


def clock(seconds: float) -> str:
    """A time as minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def asked(round_: int, step: str, replies: Iterator[tuple[str, T]], names: Iterable[str]) -> Iterator[tuple[str, T]]:
    """The replies as they come in, telling how many are there; where sites are other machines, each with its time.

    Those work side by side, so who has answered says nothing about how long the others will take.
    """
    notice = _notice.get()
    if notice is None:
        yield from replies
        return
    path = notice.path if notice.sites else None
    since, sites, answered = time.time(), [*names], dict[str, float]()
    state = {"round": round_, "step": step, "since": since, "asked": sites, "answered": answered}
    began = None if notice.sites else time.monotonic()

    def note() -> None:
        with suppress(OSError):
            if path is not None:
                _overwrite(path.with_name(ASKED), json.dumps(state))
        so_far(f"round {round_}, {step}:", len(answered), len(sites), "sites have answered", began)

    note()
    for name, reply in replies:
        answered[name] = time.time()
        note()
        yield name, reply


def look() -> None:
    """Show what workers have written meanwhile."""
    notice = _notice.get()
    if notice is not None and notice.path and notice.show and (words := read_notice(notice.path.parent)):
        notice.show(words)


def read_notice(folder: Path) -> str:
    """What the process that works in this folder is at, if it says so."""
    try:
        return (folder / NOTICE).read_text(encoding="utf-8").rstrip()
    except (OSError, UnicodeDecodeError):
        return ""


def read_asked(folder: Path) -> dict[str, Any]:
    """Whom the process that works in this folder waits for: round, step, since, asked and answered; or nothing."""
    try:
        state = json.loads((folder / ASKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
