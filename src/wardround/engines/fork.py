"""A child of this process: it has imported and read what this one has, shares the memory, and fails alone.

    child = Child(work, stdin, stdout, stderr)      # three file descriptors, which become the child's own streams
    child.poll()                                    # its exit code, or minus the signal, once it has ended

The child has none of our other files open (a lock of ours is not its lock, a pipe ends when we do), runs `work`, and
ends without our clean-up. Whoever forks computes with one thread: a pool of threads does not survive a fork.
"""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import NoReturn


class Child:
    """A forked process and how it ended."""

    def __init__(self, work: Callable[[], None], stdin: int, stdout: int, stderr: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both would write what waits
        self.code: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a progress bar's thread holds nothing that it needs
            self.pid = os.fork()
        if self.pid == 0:
            _become(work, (stdin, stdout, stderr))

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self, seconds: float = float("inf")) -> int:
        """Its exit code; one that has not ended in this time is killed."""
        end = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                self.send(signal.SIGKILL)
            time.sleep(0.005)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _become(work: Callable[[], None], streams: tuple[int, int, int]) -> NoReturn:
    code = 1
    try:
        for number, stream in enumerate([os.dup(stream) for stream in streams]):
            os.dup2(stream, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", 1, encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 -- as the interpreter would
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
