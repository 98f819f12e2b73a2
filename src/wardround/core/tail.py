"""A file that another process appends to, read as it grows.

    tail = Tail(path, forget)
    for line in tail: ...            # the whole lines that are new since the last time

Where the file is another than before, written anew by a resume, `forget` is called and its lines come from the start.
Nothing of a file is held but the place that was reached, so a file may grow for as long as it likes.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

LONGEST = 1 << 24  # bytes of a line; what is longer is not read


class Tail:
    """Where the reading of one file has come to; of a file with more than `last` bytes, only those are read."""

    def __init__(self, path: Path, forget: Callable[[], None] = lambda: None, last: int | None = None) -> None:
        self.path, self.forget, self.last = path, forget, last
        self._file, self._read = 0, 0

    def __iter__(self) -> Iterator[str]:
        """The lines that were added; none where there is no file."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._file = 0
            return
        with file:
            state = os.fstat(file.fileno())
            if state.st_ino != self._file or state.st_size < self._read:
                self._file, self._read = state.st_ino, 0
                self.forget()
                if self.last is not None and state.st_size > self.last:
                    file.seek(state.st_size - self.last)
                    self._read = state.st_size - self.last + len(file.readline(LONGEST))
            file.seek(self._read)
            while (raw := file.readline(LONGEST)).endswith(b"\n"):
                self._read += len(raw)
                yield raw.decode("utf-8", "replace")
