"""What is half written: nobody else reads it, a signal takes it away, and the next run what even that could not.

    with unfinished(new, undo): ...                  # `undo` if this ends by an error or by a signal
    for path in remove_stale(folder): ...            # left by processes that were killed

Rules:
1. Half a file has mode 0600, half a folder 0700; when finished they get what the user's umask gives.
2. A signal that would end the process first undoes all that is unfinished, then ends it just so. Whoever has a handler
   of their own, or ignores a signal, is left alone.
3. Something is stale if its process is gone from this machine and its lock is free, for the process may be on another.
   Where locks cannot be had, nothing is removed.
"""

import fcntl
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

NEW = re.compile(r"\..+\.(\d+)\.new", re.DOTALL)
ENDING = tuple(
    signal.Signals[name]
    for name in (
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGTERM",
        "SIGALRM",
        "SIGVTALRM",
        "SIGPROF",
        "SIGXCPU",
        "SIGUSR1",
        "SIGUSR2",
    )
)
"""What ends a process unless it is caught, and is no fault of the process itself."""

_undo: dict[Path, tuple[int, Callable[[], None]]] = {}  # a signal's handler is given nothing but its number


def new_name(path: Path, state: str = "new") -> Path:
    """What a path is called until it is finished."""
    return path.with_name(f".{path.name}.{os.getpid()}.{state}")


@contextmanager
def unfinished(new: Path, undo: Callable[[], None]) -> Iterator[None]:
    """While this lasts, `new` is half written."""
    _undo[new] = os.getpid(), undo
    main = threading.current_thread() is threading.main_thread()
    caught = [number for number in ENDING if main and signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in caught:
            signal.signal(number, _end)
        yield
    except BaseException:
        undo()
        raise
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
        del _undo[new]


def _end(number: int, _frame: FrameType | None) -> None:
    """Undo what this process has begun, the newest first, and let the signal do what it does."""
    for process, undo in reversed(list(_undo.values())):
        if process == os.getpid():  # and not the one that this is a fork of
            with suppress(OSError):
                undo()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def finished_mode(mode: int) -> int:
    """The mode that the user's umask leaves of this one."""
    mask = os.umask(0o077)  # there is no other way to ask
    os.umask(mask)
    return mode & ~mask


def hold(handle: int) -> bool:
    """Lock what is open, for as long as it is; whether that could be done."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_stale(folder: Path) -> list[Path]:
    """Remove what processes that were killed have left half written in a folder; what that was."""
    if not folder.is_dir():
        return []
    return [
        path for path in sorted(folder.iterdir()) if (name := NEW.fullmatch(path.name)) and _removed(path, int(name[1]))
    ]


def _removed(path: Path, process: int) -> bool:
    if path.is_symlink() or _runs(process):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # somebody else's
        return False
    try:
        if not hold(handle):
            return False
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
