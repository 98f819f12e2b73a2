"""What the consoles of a coordinator and of a site share: certificates that are watched, a folder to write to."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from wardround.core.files import NO_ROOM, UNWRITABLE
from wardround.engines.certificates import CertificateError, dates, read_certificate


@contextlib.contextmanager
def writing(folder: Path, kept: str) -> Iterator[None]:
    """End with one message where the folder, in which something is `kept`, cannot be written to, or has no room."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b" ")
    except OSError as error:
        if error.errno in NO_ROOM:  # its programs would start, and say nothing
            sys.stderr.write(f"{folder} has no room left, and {kept} there; make room: wardround clear {folder}\n")
            sys.exit(2)
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        sys.stderr.write(f"{folder} cannot be written to ({error.strerror}); {kept} there\n")
        sys.exit(2)


class Certificates:
    """Some certificates on disk: until when they are good, and whether they are new."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths, self.ends, self._raw = dict(paths), dict[str, datetime](), dict[str, bytes]()
        self.changed()

    def changed(self) -> bool:
        """Read them again; whether one is another than before."""
        new = False
        for name, path in self.paths.items():
            with contextlib.suppress(OSError, CertificateError):
                raw = path.read_bytes()
                if raw != self._raw.get(name):
                    self.ends[name] = dates(read_certificate(raw))[1]
                    new |= name in self._raw
                    self._raw[name] = raw
        return new
