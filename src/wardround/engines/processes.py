"""Processes of ours and of NVFlare's: started together, restarted when they die, and none left behind.

with Programs({"client": [...]}, environment) as programs:
    while not stop.wait(0.2):
        programs.look()              # starts again what has died

What such a program has to say to whoever sees the terminal it says with `tell`: through a pipe, since the disk that a
log file is on may be full.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import psutil

WITH_PARENT = "WARDROUND_WITH_PARENT"
"""Set in the environment of a coordinator or a site that is to end with whoever started it: a rehearsal, a test."""
PARENT = "WARDROUND_PARENT"
VOICE = "WARDROUND_VOICE"
_VOICE = os.environ.pop(VOICE, "")  # taken out, for it means nothing to the programs that this one starts
SENTENCE = 1000  # bytes of what a program may say at once
NO_FOLDER = "PYTHONSAFEPATH"
"""Keeps the folder that a program works in, and those that it starts, off Python's path."""
PATIENCE = 8.0  # what NVFlare needs to end in good order
PAUSES: Sequence[float] = (0.2, 1.0, 5.0, 15.0, 30.0)  # before a program that keeps dying is started again
LOOK_SECONDS = 0.3
LARGEST = 5_000_000  # bytes of what they print that are kept, and as many of before
STEADY = 60.0  # seconds after which a program counts as one that does not


def end_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if _orphan(os.environ.get(PARENT)):  # it has ended before we could ask
            sys.exit(1)


def end_soon_after_parent() -> None:
    """Look again and again whether the parent is still there; programs that this one starts can do the same.

    The kernel takes the thread that started a process for its parent, and NVFlare starts jobs in passing threads.
    """
    parent = os.environ.get(PARENT, str(os.getppid()))
    if _orphan(parent):
        sys.exit(1)

    def look() -> None:
        while not _orphan(parent):
            time.sleep(LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=look, daemon=True).start()
    os.environ[PARENT] = str(os.getpid())


def _orphan(parent: str | None) -> bool:
    return parent is not None and int(parent) != os.getppid()


def tell(text: str) -> None:
    """Say a line to the process that started this one, if that listens; never waits, never fails."""
    if _VOICE:
        with suppress(OSError):
            os.write(int(_VOICE), text.replace("\n", " ").encode()[: SENTENCE - 1] + b"\n")


def descendants(pid: int) -> list[int]:
    """All processes that this one started, and those that they started."""
    return [process.pid for process in _family(pid)[1:]]


def free_memory() -> int:
    """How many bytes of memory programs can still have."""
    return int(psutil.virtual_memory().available)


def named_in_commands(words: Iterable[str]) -> set[str]:
    """Which of these words stand in what a process of this machine was started with."""
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return {word for word in words if any(word in command for command in commands)}


def _family(pid: int) -> list[psutil.Process]:
    """This process, and all that it started."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


class Programs:
    """Some programs that are kept running."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        environment: Mapping[str, str],
        log: Path,
        died: Callable[[str, int], None] = lambda _name, _code: None,
        line: Callable[[str, str], None] = lambda _name, _text: None,
    ) -> None:
        self.commands, self.environment, self.log, self.died, self.line = commands, environment, log, died, line
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.began: dict[str, float] = {}
        self.deaths: dict[str, int] = dict.fromkeys(commands, 0)
        self.due: dict[str, float] = dict.fromkeys(commands, 0.0)

    def look(self) -> None:
        """Start what is not running; one that keeps dying after a longer and longer pause."""
        now = time.monotonic()
        self._rotate()
        for name in self.commands:
            process = self.running.get(name)
            if process is not None and (code := process.poll()) is not None:
                del self.running[name]
                steady = now - self.began[name] > STEADY
                self.deaths[name] = 0 if steady else self.deaths[name] + 1
                self.due[name] = now + PAUSES[min(self.deaths[name], len(PAUSES) - 1)]
                self.died(name, code)
            if name not in self.running and now >= self.due[name]:
                self.began[name] = now
                self.running[name] = self._start(name)

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        with self._printed() as printed, os.fdopen(theirs, "wb", 0):
            process = subprocess.Popen(
                self.commands[name],
                env={**os.environ, **self.environment, PARENT: str(os.getpid()), NO_FOLDER: "1", VOICE: str(theirs)},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
                pass_fds=(theirs,),
            )
        threading.Thread(target=self._hear, args=(name, ours), daemon=True).start()
        return process

    def _hear(self, name: str, end: int) -> None:
        with os.fdopen(end, "rb") as pipe:
            while raw := pipe.readline(SENTENCE):
                self.line(name, raw.decode(errors="replace").strip())

    def restart(self, name: str) -> None:
        """End a program; the next look starts it again."""
        if (process := self.running.pop(name, None)) is not None:
            self._end([process])
            self.due[name] = 0.0

    def _printed(self) -> IO[bytes]:
        """Where NVFlare and Python may print what our users need not read."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        return self.log.open("ab")

    def _rotate(self) -> None:
        """Begin anew where too much was printed; the file itself stays, for the programs have it open."""
        with suppress(OSError):
            if self.log.stat().st_size > LARGEST:
                shutil.copy(self.log, self.log.with_name(f"{self.log.name}.1"))
                os.truncate(self.log, 0)

    def stop(self) -> None:
        """End all programs and whatever they started."""
        self._end(self.running.values())
        self.running.clear()

    def _end(self, processes: Iterable["subprocess.Popen[bytes]"]) -> None:
        """Politely, then for certain."""
        some = list(processes)
        everyone = [one for process in some for one in _family(process.pid)]
        for one in everyone:
            with suppress(psutil.NoSuchProcess):
                one.terminate()
        for one in psutil.wait_procs(everyone, PATIENCE)[1]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        for process in some:
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
