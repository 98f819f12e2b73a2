"""What is held in memory as a whole has a largest size: a few bytes of gzip may stand for gigabytes.

text = "".join(bounded(lines_with_ends(path), path, "cut it into notes"))
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from wardround.text.reading import LONGEST_LINE, DataError


def bounded(lines: Iterable[str], path: Path, remedy: str) -> Iterator[str]:
    """Lines that are held together, or an error where they are too many."""
    size = 0
    for line in lines:
        size += len(line)
        if size > LONGEST_LINE:
            raise DataError(path, None, f"the text is longer than {LONGEST_LINE:,} characters", remedy)
        yield line


class BoundedBytes:
    """The same for bytes that a parser holds until it has a document; `held` is set back by whoever has one."""

    def __init__(self, stream: BinaryIO, path: Path, most: int) -> None:
        self.stream, self.path, self.most, self.held = stream, path, most, 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        block = self.stream.read(size)
        self.held += len(block)
        if self.held > self.most:
            what = f"more than {self.most:,} bytes without the end of a document"
            raise DataError(self.path, None, what, "is it complete? Cut it into documents")
        return block
