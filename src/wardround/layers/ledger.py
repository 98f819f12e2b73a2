"""The ledger: what crossed the wire, written down by each side for itself.

One line of JSON per exchange at a site, one per message at the coordinator. Each line carries the SHA-256 of
itself and the line before, so that no byte of the past can be changed unseen:

    hash = SHA-256(hash of the line before + this line without its hash)

Lines are collected and written by `flush`; the run flushes before each checkpoint, a site process before
each reply. `verify` reads a file back.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.core.exchange import Exchange
from wardround.core.files import file_name
from wardround.core.layer import Layer
from wardround.core.record import Message
from wardround.core.refusal import Refusal

START = "0" * 64
SEAM = ',"hash":"'
BROKEN = "the chain is broken here; this line or one before it was changed"
FOREIGN = "this is no line of a ledger; name a site's folder, a run folder or its ledger"
JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps would make one for every line


class LedgerError(Refusal, ValueError):
    """A ledger's chain is broken, or a file is no ledger."""


class Chain:
    """One hash-chained file, appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head = _head(path)
        self.lines: list[str] = []

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add a line; it reaches the disk with the next `flush`."""
        body = JSON.encode(entry)[:-1]
        self.head = hashlib.sha256((self.head + body).encode()).hexdigest()
        self.lines.append(f'{body}{SEAM}{self.head}"}}\n')

    def flush(self, *, durable: bool = False) -> None:
        """Write the collected lines; `durable` also waits for the disk."""
        if not self.lines:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            left = memoryview("".join(self.lines).encode())
            try:
                while left:
                    left = left[file.write(left) :]
                if durable:
                    os.fsync(file.fileno())
            except OSError:  # the disk is full; once there is room, the lines follow a whole one
                file.truncate(end)
                raise
        self.lines.clear()


def verify(path: Path) -> int:
    """The number of lines of an intact ledger, or a `LedgerError` with the first bad line."""
    head = START
    count = 0
    with path.open("rb") as file:
        for count, raw in enumerate(file, 1):
            head = linked(head, raw)
            if not head:
                raise LedgerError(f"{path}:{count}: {BROKEN}")
    return count


def linked(head: str, raw: bytes) -> str:
    """The hash of a line that follows the one with the hash `head`; nothing if it does not."""
    body, seam, rest = raw.decode("utf-8", "replace").partition(SEAM)
    head = hashlib.sha256((head + body).encode()).hexdigest()
    return head if seam and rest == f'{head}"}}\n' and raw == f"{body}{SEAM}{rest}".encode() else ""


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a ledger, as they were written; one that a crash cut off is passed over."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, raw in enumerate(file, 1):
            if not raw.endswith("\n"):
                continue
            if SEAM not in raw or not isinstance(line := _parsed(raw), dict):
                raise LedgerError(f"{path}:{number}: {FOREIGN}")
            yield line


def _parsed(raw: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def last_value(path: Path, key: str) -> str:
    """What the newest line that has this key says there; nothing if none has, or there is no ledger."""
    needle = f'"{key}":"'.encode()  # within a string of JSON its quotes would be escaped
    if not path.exists() or path.stat().st_size == 0:
        return ""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = len(text)
        while (at := text.rfind(needle, 0, end)) >= 0:
            end = text.rfind(b"\n", 0, at) + 1  # where its line begins
            until = text.find(b"\n", at)
            if until >= 0 and isinstance(value := json.loads(text[end:until]).get(key), str):
                return value
    return ""


def has_value(path: Path, key: str, value: str) -> bool:
    """Whether some line of a ledger has just this, at whatever depth."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.rfind(f'"{key}":{JSON.encode(value)}'.encode()) >= 0


def _head(path: Path) -> str:
    """The hash of the last whole line; a line cut off by a crash is set aside, not built upon."""
    if not path.exists() or path.stat().st_size == 0:
        return START
    with path.open("rb+") as file:
        start = end = file.seek(0, os.SEEK_END)
        last, torn = b"", b""
        while start and SEAM.encode() not in last:  # a line to thousands of sites is long
            start = max(0, end - 4 * (end - start) - (1 << 16))
            file.seek(start)
            whole, _, torn = file.read().rpartition(b"\n")
            last = whole.rpartition(b"\n")[2]
        if torn:
            with path.with_suffix(".torn").open("ab") as aside:
                aside.write(torn + b"\n")
            file.truncate(end - len(torn))
    return last.decode("utf-8", "replace").partition(SEAM)[2][:64] or START


class Ledger(Layer):
    """The outermost layer: the coordinator's copy, and each site's too where one machine plays them (`sites`)."""

    def __init__(self, folder: Path, *, sites: bool = False) -> None:
        self.folder, self.sites = folder, sites
        self.run = ""
        """The run's own mark, where sites keep ledgers of many runs."""
        self._own: Chain | None = None
        self._copies: dict[str, Chain] = {}
        self._sent: Mapping[str, Message] = {}
        self.theirs: Mapping[str, str] = {}
        """The head of each real site's own chain, as its last reply had it."""

    @property
    def head(self) -> str:
        """The head of the coordinator's chain; sites note it, so that its tail cannot be cut off unseen."""
        return self._coordinator.head

    @property
    def _coordinator(self) -> Chain:
        if self._own is None:
            self._own = Chain(self.folder / "coordinator.jsonl")
        return self._own

    def send(self, messages: Mapping[str, Message], exchange: Exchange) -> Mapping[str, Message]:
        """Note what goes out; one line where all get the same."""
        groups: dict[int, list[str]] = {}
        for name, message in messages.items():
            groups.setdefault(id(message), []).append(name)
        for names in groups.values():
            message = messages[names[0]]
            self._coordinator.append(_line(exchange) | {"to": names, "message": _summary(message)})
        self._sent = messages
        return messages

    def arrive(self, reply: Message, name: str, exchange: Exchange) -> Message:
        """Note what came in; and, in the site's own copy, what it was sent and what it answered."""
        proof = {"run": self.run, "theirs": self.theirs[name]} if name in self.theirs else {}
        line, summary = _line(exchange), _summary(reply)
        self._coordinator.append(line | {"from": name, "message": summary} | proof)
        if self.sites:
            if name not in self._copies:
                self._copies[name] = Chain(self.folder / "sites" / f"{file_name(name)}.jsonl")
            self._copies[name].append(line | {"received": _summary(self._sent[name]), "sent": summary})
        return reply

    def flush(self) -> None:
        """Write all lines collected since the last flush."""
        self._coordinator.flush(durable=True)
        for chain in self._copies.values():
            chain.flush()


def _line(exchange: Exchange) -> dict[str, Any]:
    again = {"attempt": len(exchange.resumed)} if exchange.resumed else {}
    place = {"round": exchange.round, "exchange": exchange.number, "step": exchange.step}
    return {"time": datetime.now(UTC).isoformat(timespec="seconds"), **again, **place}


def _summary(message: Message) -> dict[str, Any]:
    return {"kind": type(message).__name__, "bytes": message.nbytes}
