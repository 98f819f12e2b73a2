"""Frames: how our own processes speak to each other on one machine, over pipes and unix sockets.

A frame is two lengths, a JSON head, and data:

    with dial(path) as line:
        line.send({"ask": "fit"}, message.encode())
        head, data = line.receive()

A unix socket lies in a folder that only its owner can enter, and both ends look at who the other is: another
user of the machine can neither connect nor pose as the listener. No torch here, and no pickle.
"""

import hashlib
import json
import os
import socket
import struct
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

__all__ = [
    "DOOR", "AccessError", "Line", "dial", "door_of", "heard", "listen", "read_frame", "shut", "silence", "write_frame",
]  # fmt: skip

DOOR = "WARDROUND_DOOR"
"""The environment variable that tells NVFlare's processes where our socket is."""
HEAD_LIMIT = 1 << 20  # more than any head of ours has
DATA_LIMIT = 64 << 30
PIECE = 1 << 20


class AccessError(PermissionError):
    """The other end of a local socket belongs to another user."""


def write_frame(pipe: IO[bytes], head: Mapping[str, Any], data: bytes = b"") -> None:
    """Two lengths, a JSON head, and data."""
    raw = json.dumps(head).encode()
    pipe.write(struct.pack("<QQ", len(raw), len(data)) + raw)
    pipe.write(data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next frame, or None if the other end is gone."""
    lengths = pipe.read(16)
    if len(lengths) < 16:
        return None
    first, second = struct.unpack("<QQ", lengths)
    if first > HEAD_LIMIT or second > DATA_LIMIT:
        return None
    raw, data = pipe.read(first), pipe.read(second)
    return (json.loads(raw), data) if len(raw) == first and len(data) == second else None


class Line:
    """One end of a unix socket that carries frames."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        if _owner(end) not in (os.getuid(), 0):
            end.close()
            raise AccessError("the other end of this socket is another user's process")

    def send(self, head: Mapping[str, Any], data: bytes | memoryview = b"") -> None:
        """Hand over a frame; an `OSError` if the other end is gone."""
        raw = json.dumps(head).encode()
        self.socket.sendall(struct.pack("<QQ", len(raw), len(data)) + raw)
        if data:
            self.socket.sendall(data)

    def receive(self, limit: int = DATA_LIMIT) -> tuple[dict[str, Any], bytes] | None:
        """The next frame, or None if the other end is gone or sends no frame."""
        try:
            lengths = self._read(16)
            if lengths is None:
                return None
            first, second = struct.unpack("<QQ", lengths)
            if first > HEAD_LIMIT or second > limit:
                return None
            raw, data = self._read(first), self._read(second)
            if raw is None or data is None:
                return None
            head = json.loads(raw)
        except (ConnectionError, ValueError):
            return None
        return (head, bytes(data)) if isinstance(head, dict) else None

    def _read(self, size: int) -> bytearray | None:
        found = bytearray()  # grows with what comes, not with what was announced
        while len(found) < size:
            piece = self.socket.recv(min(size - len(found), PIECE))
            if not piece:
                return None
            found += piece
        return found

    def fileno(self) -> int:
        """For a selector."""
        return self.socket.fileno()

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _owner(end: socket.socket) -> int:
    """The user id of the process at the other end."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[1])
    return os.getuid()  # elsewhere the folder's permissions are what there is


def door_of(folder: Path) -> Path:
    """Where the process that works in this folder listens: a short path, since a socket's may not be long."""
    mark = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"wardround-{os.getuid()}-{mark}" / "door"


def listen(path: Path) -> socket.socket:
    """A socket at this path that only this user can reach; one that a killed process left is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.parent.stat().st_uid != os.getuid() or path.parent.stat().st_mode & 0o077:
        raise AccessError(f"{path.parent} can be entered by others; make it yours alone: chmod 700 {path.parent}")
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    path.chmod(0o600)
    server.listen(64)
    return server


def shut(path: Path) -> None:
    """Leave nothing of a door behind."""
    with suppress(OSError):
        for left in (path, path.with_name("heard")):
            left.unlink(missing_ok=True)
        path.parent.rmdir()


def heard(door: Path) -> None:
    """Leave a mark beside a site's door that its coordinator has been heard of."""
    with suppress(OSError):
        door.with_name("heard").touch()


def silence(door: Path) -> float | None:
    """For how many seconds it has not; None if it never was."""
    try:
        return time.time() - door.with_name("heard").stat().st_mtime
    except OSError:
        return None


def dial(path: Path, timeout: float | None = None) -> Line:
    """A line to whoever listens at this path; an `OSError` if nobody does."""
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(timeout)
    try:
        end.connect(str(path))
    except OSError:
        end.close()
        raise
    return Line(end)
