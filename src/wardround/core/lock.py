"""A file or folder that one process works in at a time; the lock goes with the process, however that ends.

    with sole(folder / ".lock"):                       # `InUse`, or an error of your own, if another process has it
        …
    with sole(folder / ".roster", seconds=-1):         # waits for as long as it takes

    held(folder / ".lock")                             # whether some process has it, without taking it

The file stays when the lock is released: whoever waits for it waits for the same file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCKS = Path("/proc/locks")


class InUse(RuntimeError):
    """Another process has the lock."""


@contextmanager
def sole(path: Path, seconds: float = 0.0, busy: Exception | None = None) -> Iterator[None]:
    """Have a lock to oneself, if it comes free within these seconds (below 0: whenever it does); `busy` if not."""
    lock = FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise busy or InUse(f"{path} is held by another process") from None
    try:
        yield
    finally:
        lock.release()


def held(path: Path) -> bool | None:
    """Whether a process holds this lock, asked without taking it from one that is about to; None if that is unknown."""
    try:
        number = path.stat().st_ino
        lines = LOCKS.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return None if path.exists() else False
    except OSError:
        return None
    return any(line.split()[5].rpartition(":")[2] == str(number) for line in lines if "->" not in line)
