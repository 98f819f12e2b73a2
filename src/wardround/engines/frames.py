"""Frames: how our own processes speak to each other on one machine, over pipes and unix sockets.

A frame is two lengths, a JSON head, and data:

    with dial(path) as line:
        line.send({"ask": "fit"}, message.encode())
        head, data = line.receive()

A unix socket lies in a folder that only its owner can enter, where others cannot make one first, and both ends look
at who the other is: another user of the machine can neither connect, nor pose as the listener, nor keep it from
listening. No torch here, and no pickle.
"""

import io
import json
import os
import select
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

DOOR = "WARDROUND_DOOR"
"""The environment variable that tells NVFlare's processes where our socket is."""
GATE = "WARDROUND_GATE"
"""The one that has NVFlare's server let in only whom the switchboard at this socket names."""
MARK = "WARDROUND_MARK"
"""The one with what a site drew when it started, to be known by among machines with the same certificate."""
REFUSED = "refused: "
"""What a refusal at the gate begins with; then comes one word."""
HEAD_LIMIT = 1 << 22  # more than any head of ours has
DATA_LIMIT = 64 << 30
PIECE = 1 << 20
LONGEST = 100  # bytes of a path that every system takes for a socket
LOOK_SECONDS = 1.0


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
        told = self.announced()
        if told is None or told[1] > limit:
            return None
        data = self.rest(told[1])
        return None if data is None else (told[0], data)

    def announced(self) -> tuple[dict[str, Any], int] | None:
        """The head of the next frame and how much data follow, for `rest` or `skip`; None as in `receive`."""
        try:
            lengths = self._read(16)
            if lengths is None:
                return None
            first, second = struct.unpack("<QQ", lengths)
            raw = self._read(first) if first <= HEAD_LIMIT and second <= DATA_LIMIT else None
            head = None if raw is None else json.loads(raw)
        except (ConnectionError, ValueError, RecursionError):  # JSON may be nested as deep as a sender likes
            return None
        return (head, second) if isinstance(head, dict) else None

    def rest(self, size: int) -> bytes | None:
        """The data of a frame that was announced, or None if the other end is gone."""
        with suppress(ConnectionError):
            return self._read(size)
        return None

    def skip(self, size: int) -> None:
        """Let the data of a frame that was announced go by, so that its sender can read why."""
        while size > 0 and (piece := self.socket.recv(min(size, PIECE))):
            size -= len(piece)

    def _read(self, size: int) -> bytes | None:
        whole = io.BytesIO()  # grows with what comes, not with what was announced, and is handed over as it is
        room = memoryview(bytearray(min(size, PIECE)))
        while (left := size - whole.tell()) > 0:
            count = self.socket.recv_into(room[:left])
            if not count:
                return None
            whole.write(room[:count])
        return whole.getvalue()

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
    """Where the process that works in this folder listens: in the folder itself, or where a short path can be had.

    A socket's path may not be long. Where the folder's is, a folder with a name that nobody can guess is made
    elsewhere, and written down in this one, where others cannot write.
    """
    own = folder.resolve() / ".door" / "door"
    if len(os.fsencode(own)) <= LONGEST:
        return own
    record = own.parents[1] / ".door-at"
    with suppress(OSError, ValueError):
        place = Path(record.read_text(encoding="utf-8").strip())
        if place.is_absolute() and not _strange(place):
            return place / "door"
    place = Path(tempfile.mkdtemp(prefix="wardround-", dir=_roomy()))
    fresh = record.with_name(f".door-at.{place.name}")
    fresh.write_text(f"{place}\n", encoding="utf-8")
    fresh.replace(record)
    return place / "door"


def _roomy() -> str | None:
    """The user's own folder for sockets, where the system has one; otherwise that for temporary files."""
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    return place if place and len(os.fsencode(place)) < LONGEST - 40 and os.access(place, os.W_OK) else None


def _strange(place: Path) -> bool:
    """Whether something that is not this user's own closed folder is in this place."""
    try:
        seen = place.lstat()
    except FileNotFoundError:
        return False
    return not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or bool(seen.st_mode & 0o077)


def listen(path: Path) -> socket.socket:
    """A socket at this path that only this user can reach; one that a killed process left is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _strange(path.parent):
        raise AccessError(f"{path.parent} can be entered by others; make it yours alone: chmod 700 {path.parent}")
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    path.chmod(0o600)
    server.listen(64)
    return server


def calls(path: Path, over: Callable[[], bool] = lambda: False) -> Iterator[Line]:
    """The lines of whoever knocks at this path, until it is over; a socket that somebody deleted is made again."""
    server, missing = listen(path), 0
    try:
        while not over():
            if not readable(server, LOOK_SECONDS):
                missing = 0 if path.exists() else missing + 1
                if missing > 1:  # not one that is being replaced at this moment
                    server.close()
                    server, missing = listen(path), 0
                continue
            with suppress(OSError):
                yield Line(server.accept()[0])
    finally:
        server.close()


def readable(end: socket.socket | Line, seconds: float) -> bool:
    """Whether something has come in, or somebody has hung up, within so many seconds."""
    poll = select.poll()  # unlike `select` it takes a file of any number: a coordinator may have thousands open
    poll.register(end, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


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
