"""What a coordinator remembers of each site's answers, over all runs: what it tells a site that has forgotten them.

    answers = Answers(north / "answers")
    answers.head("charite")                 # the head of Charité's own ledger, as its last answer had it

One file per site, a line per answer, in the words of the site's own ledger (`house_ledger`): digests and sizes, no
message. A site that was put back from a copy is told of them, and counts them as spent (`forgotten`). A line that was
cut off, by a full disk or a power cut, is passed over, and the next one does not run on from it.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PLACE = "answers"


class Answers:
    """The answers of all sites of a consortium."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heads: dict[str, str] = {}

    def head(self, site: str) -> str:
        """The head of the site's ledger, as its last answer had it; nothing if there was none."""
        if site not in self.heads:
            last = next(reversed(self._lines(site)), b"{}")
            self.heads[site] = str(json.loads(last).get("was", ""))
        return self.heads[site]

    def note(self, site: str, line: Mapping[str, Any]) -> None:
        """Remember an answer; it reaches the disk when the system writes it, and costs no exchange a wait."""
        self.folder.mkdir(exist_ok=True, mode=0o700)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        data = json.dumps({"time": now, **line}, separators=(",", ":")) + "\n"
        handle = os.open(self._path(site), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            end = os.fstat(handle).st_size
            torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
            os.write(handle, b"\n" * torn + data.encode())  # in one piece: several runs may write at once
        finally:
            os.close(handle)
        self.heads[site] = str(line["was"])

    def all_of(self, site: str) -> bytes:
        """All answers of a site, a line each."""
        return b"".join(self._lines(site))

    def _lines(self, site: str) -> list[bytes]:
        with suppress(FileNotFoundError):
            return [line for line in self._path(site).read_bytes().splitlines(keepends=True) if _whole(line)]
        return []

    def _path(self, site: str) -> Path:
        return self.folder / f"{site}.jsonl"


def _whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except ValueError:
        return False
