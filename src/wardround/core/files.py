"""Files that survive: written anew, synced, then renamed; sealed with a checksum.

    write(path, seal(record.encode()))
    record = decode(Kind, unseal(path))

A crash or a full disk at any moment leaves either the old file or the new one, never half of one. What is still half
written is for nobody else to read (`unfinished`).
"""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from wardround.core.unfinished import finished_mode, hold, new_name, unfinished

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where a disk is full, or a file as large as it may be."""
UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, *NO_ROOM)
"""What it says where nothing can be written."""
MAGIC = b"wardround 1\n"


class BrokenSeal(ValueError):
    """A sealed file is not what was written."""


def cache_folder() -> Path:
    """Where what was computed of a site's own texts is found again: WARDROUND_CACHE, or ~/.cache/wardround."""
    return Path(os.environ.get("WARDROUND_CACHE") or Path.home() / ".cache" / "wardround")


def write(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step that cannot be seen half done."""
    with fresh(path) as file:
        file.write(data)


@contextmanager
def fresh(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece that takes its name only when all is well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = new_name(path)
    with unfinished(new, lambda: new.unlink(missing_ok=True)):
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # it may be there already
            hold(file.fileno())
            yield file
            file.flush()
            os.fchmod(file.fileno(), finished_mode(0o666))
            os.fsync(file.fileno())
        new.replace(path)
    sync_folder(path.parent)


@contextmanager
def fresh_folder(path: Path, *, instead: bool = False) -> Iterator[Path]:
    """The same for a folder, which must be new or empty; or it takes the place of the one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new, old = new_name(path), new_name(path, "old")

    def undo() -> None:
        if old.exists() and not path.exists():
            old.replace(path)
        shutil.rmtree(new, ignore_errors=True)

    with unfinished(new, undo):
        new.mkdir(0o700)
        handle = os.open(new, os.O_RDONLY)
        try:
            hold(handle)
            yield new
            os.fchmod(handle, os.fstat(handle).st_mode & 0o7000 | finished_mode(0o777))
            os.sync()  # a folder of notes has thousands of files: one wait, not one for each
        finally:
            os.close(handle)
        if instead and path.exists():
            path.replace(old)
        new.replace(path)
        shutil.rmtree(old, ignore_errors=True)
    sync_folder(path.parent)


def file_name(name: str) -> str:
    """A name that may hold anything, as a file's name: unchanged if it is harmless, and never another name's."""
    kept = re.sub(r"[^\w.=,@+ -]|^\.", _escaped, name) or "%"
    # No escape begins with %-, so that no name can pass for the digest of another.
    return kept if len(kept.encode()) <= 200 else "%-" + hashlib.sha256(kept.encode()).hexdigest()


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def sync_folder(folder: Path) -> None:
    """Make the folder's own entries (new names, renames) durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def seal(data: bytes) -> bytes:
    """The data behind our mark and its SHA-256."""
    return MAGIC + hashlib.sha256(data).digest() + data


def unseal(path: Path) -> bytes:
    """The data of a sealed file, or a `BrokenSeal` that names the file and what is wrong with it."""
    raw = path.read_bytes()
    if not raw.startswith(MAGIC):
        raise BrokenSeal(f"{path}: not a file of wardround's (it begins with {raw[:8]!r})")
    head = len(MAGIC) + 32
    if hashlib.sha256(raw[head:]).digest() != raw[len(MAGIC) : head]:
        raise BrokenSeal(f"{path}: damaged, its checksum does not agree with its {len(raw):,} bytes")
    return raw[head:]
