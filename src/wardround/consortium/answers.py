"""What a coordinator remembers of each site's answers, over all runs: what it tells a site that has forgotten them.

    answers = Answers(north / "answers")
    answers.head("charite")                 # the head of Charité's own ledger, as its last answer had it

One file per site, a line per answer, in the words of the site's own ledger (`house_ledger`): digests and sizes, no
message. A site that was put back from a copy is told of them, and counts them as spent (`forgotten`).
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.layers.ledger import last_value

PLACE = "answers"


class Answers:
    """The answers of all sites of a consortium."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heads: dict[str, str] = {}

    def head(self, site: str) -> str:
        """The head of the site's ledger, as its last answer had it; nothing if there was none."""
        if site not in self.heads:
            self.heads[site] = last_value(self._path(site), "was")
        return self.heads[site]

    def note(self, site: str, line: Mapping[str, Any]) -> None:
        """Remember an answer; it reaches the disk when the system writes it, and costs no exchange a wait."""
        self.folder.mkdir(exist_ok=True, mode=0o700)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        data = json.dumps({"time": now, **line}, separators=(",", ":")) + "\n"
        handle = os.open(self._path(site), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, data.encode())  # in one piece: several runs may write at once
        finally:
            os.close(handle)
        self.heads[site] = str(line["was"])

    def all_of(self, site: str) -> bytes:
        """All answers of a site, a line each."""
        with suppress(FileNotFoundError):
            return self._path(site).read_bytes()
        return b""

    def _path(self, site: str) -> Path:
        return self.folder / f"{site}.jsonl"
