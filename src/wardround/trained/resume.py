"""Predictions that outlive a command that was interrupted: `predict --resume`.

    with resumed(Path("found.jsonl"), model) as journal:
        for placed, prediction in predictions(model, texts, workers, journal): ...

A line per block of texts, beside the output and for nobody else to read: a digest of the texts, and what was found in
them. Texts are read again and written again; what was found in a block is taken from the journal if it is the same
block, and predicted if not. So the output is byte for byte that of a command that was never cut, in every form,
whatever has happened to the texts meanwhile. Another model begins anew. The journal goes when the output is complete.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from wardround import __version__
from wardround.text.document import Placed
from wardround.trained.model import Model

Rows = list[dict[str, Any]]


class PredictionJournal:
    """What was found in the blocks before, and the place for those to come."""

    def __init__(self, file: BinaryIO, head: str) -> None:
        self.file, self.texts, self.blank = file, 0, False
        self._going_on = _entry(file.readline()) == {"model": head}
        if not self._going_on:
            file.seek(0)
            self._write({"model": head})
            self.blank = True

    def recall(self, block: Sequence[Placed]) -> Rows | None:
        """What was found in this block, if it is the next one."""
        if not self._going_on:
            return None
        place = self.file.tell()
        entry = _entry(self.file.readline())
        if entry.get("texts") == _digest(block):
            self.texts += len(block)
            rows: Rows = entry["predictions"]
            return rows
        self._going_on = False  # the end, half a line, or another text
        self.file.seek(place)
        return None

    def keep(self, block: Sequence[Placed], rows: Rows) -> None:
        """What was found in the next block."""
        self.blank = False
        self._write({"texts": _digest(block), "predictions": rows})

    def _write(self, entry: dict[str, Any]) -> None:
        self.file.truncate()
        self.file.write(json.dumps(entry).encode() + b"\n")
        self.file.flush()


def journal_of(target: Path) -> Path:
    """Where the journal of an output is."""
    return target.with_name(f".{target.name}.resume")


@contextmanager
def resumed(target: Path, model: Model) -> Iterator[PredictionJournal]:
    """The journal of an output, which goes when all is well."""
    path = journal_of(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [part.version for part in model.parts]
    head = json.dumps([__version__, parts, model.rename, model.entities, model.device.precision])
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
        journal = PredictionJournal(file, head)
        try:
            yield journal
        except BaseException:
            if journal.blank:
                path.unlink()
            raise
    path.unlink()


def _entry(line: bytes) -> dict[str, Any]:
    """A line's entry; nothing if it is not whole."""
    try:
        entry = json.loads(line) if line.endswith(b"\n") else {}
    except ValueError:  # a power cut
        return {}
    return entry if isinstance(entry, dict) else {}


def _digest(block: Sequence[Placed]) -> str:
    return hashlib.sha256(json.dumps([placed.document.plain() for placed in block]).encode()).hexdigest()
