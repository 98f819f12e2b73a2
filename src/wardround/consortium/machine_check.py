"""What `wardround site check` looks at beside the site's own files: this machine, as the site will find it.

    for finding in machine(folder): print(finding)

Each is in order (`ok`), a warning (`??`) or in the way (`BAD`), and the last two come with a remedy.
"""

import ctypes
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from wardround import __version__
from wardround.consortium.check import Inspection
from wardround.consortium.clock import OFF, clock_error, off
from wardround.consortium.forgotten import restored
from wardround.consortium.forms import read_membership
from wardround.consortium.settings import SiteSettings, read_site
from wardround.core.files import NO_ROOM
from wardround.engines.processes import free_memory
from wardround.engines.versions import compatible
from wardround.runs.errors import RunError
from wardround.study.settings import StudyError

ROOM, SCARCE = 1 << 28, 1 << 30  # bytes below which nothing works, and below which little does
UNSYNCHRONISED = 5  # what the kernel says of a clock that nobody sets (TIME_ERROR)


def machine(folder: Path, *, room: bool = True) -> Iterator[Inspection]:
    """What was looked at, in order; room on the disk and in memory where no study says how much it needs."""
    yield from _version(folder)
    if mark := restored(folder):
        since = f"it was put back from a copy of {mark.taken or 'an unknown time'}"
        yield Inspection("ledger", f"{since}, and answers nothing: wardround site recover {folder}", good=False)
    yield _clock(folder)
    yield _written(folder)
    if room:
        yield _room("disk", shutil.disk_usage(folder).free, f"make room: wardround clear {folder}")
        yield _room("memory", free_memory(), "end other programs, or give this machine more")
    with suppress(StudyError):  # which is told elsewhere
        yield _gpu(read_site(folder))


def _version(folder: Path) -> Iterator[Inspection]:
    try:
        kit = read_membership(folder / "kit").version
    except RunError:  # which is told elsewhere
        return
    together = compatible(kit, __version__)
    words = f"wardround {__version__}" + ("" if kit == __version__ else f" here, {kit} when the kit was made")
    remedy = "" if together else "; install what the coordinator has, or this site is refused"
    yield Inspection("version", words + remedy, asks=not together)


def _clock(folder: Path) -> Inspection:
    error = clock_error(folder)
    if error is not None and abs(error) > OFF:
        return Inspection("clock", f"{off(error)}, when it last asked; set it: timedatectl set-ntp true", good=False)
    if error is None and _unset():
        return Inspection("clock", "the system says that no time server sets it: timedatectl set-ntp true", asks=True)
    return Inspection("clock", "set by a time server" if error is None else "as the coordinator's, when it last asked")


def _unset() -> bool:
    """Whether the kernel knows of nobody who sets the clock."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512)) == UNSYNCHRONISED)


def _written(folder: Path) -> Inspection:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b" ")
    except OSError as error:
        full = error.errno in NO_ROOM
        remedy = f"make room: wardround clear {folder}" if full else "let the site's user write there, and nowhere else"
        words = f"{folder} cannot be written to ({error.strerror}), and what cannot be written down is not sent"
        return Inspection("folder", f"{words}; {remedy}", good=False)
    return Inspection("folder", f"{folder} can be written to")


def _room(what: str, free: int, remedy: str) -> Inspection:
    scarce = free < SCARCE
    words = f"{free / 1e9:.1f} GB free" + (f"; {remedy}" if scarce else "")
    return Inspection(what, words, good=free >= ROOM, asks=scarce and free >= ROOM)


def _gpu(settings: SiteSettings) -> Inspection:
    kind = settings.device.kind
    if kind == "cpu":
        return Inspection("gpu", "none is used; device in site.toml names one")
    return Inspection("gpu", f"{kind} in {settings.device.precision}")
