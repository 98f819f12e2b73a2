"""A hospital's own ledger: every message that came and went, for its data-protection officer to read.

One hash-chained file for all studies. The first time a kind of message leaves in a study, a line says in words what
it is and what it reveals; from then on a line per exchange names it. Each line also notes the head of the
coordinator's ledger, and each reply tells the coordinator ours: neither can cut off its own tail unseen.

    wardround ledger show FOLDER        # by day, study and message: how often, bytes, what it reveals
    wardround ledger verify FILE --against OTHER
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.core.record import Message, reveals_of
from wardround.core.site import Exchange
from wardround.layers.ledger import START, Chain, LedgerError, verify

__all__ = ["HouseLedger", "Sent", "compared", "summed"]


class HouseLedger:
    """The ledger of one site."""

    def __init__(self, path: Path, name: str) -> None:
        self.chain, self.name = Chain(path), name
        self.told: set[tuple[str, str]] = set()

    def note(self, head: Mapping[str, Any], exchange: Exchange, name: str, received: Message, sent: Message) -> str:
        """Write down an exchange, for good; the ledger's new head."""
        study, kind = str(head["study"])[:16], type(sent).__name__
        lines: list[Mapping[str, Any]] = []
        if (study, kind) not in self.told:
            words = {field: reveal.what for field, reveal in reveals_of(type(sent)).items()}
            about = " ".join((type(sent).__doc__ or "").split())
            lines.append({"study": study, "name": name, "kind": kind, "about": about, "reveals": words})
        lines.append(
            {
                "study": study,
                "run": str(head["run"])[:16],
                "attempt": len(exchange.resumed),
                "round": exchange.round,
                "exchange": exchange.number,
                "step": exchange.step,
                "received": {"kind": type(received).__name__, "bytes": received.nbytes},
                "sent": {"kind": kind, "bytes": sent.nbytes},
                "theirs": str(head.get("ledger", ""))[:64],
            }
        )
        self._append(*lines)
        self.told.add((study, kind))
        return self.chain.head

    def farewell(self, head: Mapping[str, Any]) -> None:
        """Write down the last head of the coordinator's ledger: the run has ended or stopped."""
        told = {"study": str(head["study"])[:16], "run": str(head["run"])[:16], "ended": True}
        self._append({**told, "theirs": str(head.get("ledger", ""))[:64]})

    def refusal(self, head: Mapping[str, Any], code: str) -> None:
        """Write down that an ask was refused."""
        told = head.get("exchange")
        step = str(told.get("step", ""))[:50] if isinstance(told, dict) else "hello"
        self._append({"study": str(head.get("study"))[:16], "step": step, "refused": code})

    def _append(self, *lines: Mapping[str, Any]) -> None:
        before = self.chain.head
        time = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            if before == START:
                self.chain.append({"time": time, "ledger_of": self.name})
            for line in lines:
                self.chain.append({"time": time, **line})
            self.chain.flush(durable=True)
        except OSError:  # a full disk: what cannot be written down does not leave, so it did not happen
            self.chain.head = before
            self.chain.lines.clear()
            raise


@dataclass
class Sent:
    """What left on one day, of one study and one kind of message."""

    times: int = 0
    bytes: int = 0
    reveals: dict[str, str] = field(default_factory=dict)


def summed(path: Path) -> dict[tuple[str, str, str], Sent]:
    """What left, by day, study and kind of message; refusals are kinds too."""
    found: dict[tuple[str, str, str], Sent] = {}
    words: dict[tuple[str, str], dict[str, str]] = {}
    names: dict[str, str] = {}
    for line in _lines(path):
        study = str(line.get("study", ""))
        if "ledger_of" in line:
            continue
        if "about" in line:
            words[study, line["kind"]] = line["reveals"]
            names[study] = f"{line['name']} ({study[:8]})"
        elif "refused" in line:
            row = found.setdefault((line["time"][:10], study[:8], f"refused: {line['refused']}"), Sent())
            row.times += 1
        else:
            said = line.get("sent") or line.get("message")
            if "to" in line or said is None:  # the coordinator's, to sites
                continue
            row = found.setdefault((line["time"][:10], names.get(study, study[:8]), said["kind"]), Sent())
            row.times += 1
            row.bytes += said["bytes"]
            row.reveals = words.get((study, said["kind"]), {})
    return found


def compared(path: Path, other: Path) -> int:
    """How often the other side has noted the head of this ledger; a `LedgerError` if such a line is missing here."""
    for each in (path, other):
        verify(each)
    mine = list(_lines(path))
    hashes, runs = {line["hash"] for line in mine}, {line["run"] for line in mine if "run" in line}
    name = next((line["ledger_of"] for line in mine if "ledger_of" in line), None)  # none: the coordinator's
    heads = [
        line["theirs"] for line in _lines(other)
        if line.get("theirs") and (line["from"] == name if "from" in line else line.get("run") in runs)
    ]  # fmt: skip
    for head in heads:
        if head not in hashes and head != START:
            raise LedgerError(
                f"{path}: the other side has noted the head {head[:16]}…, which is not here; "
                "lines were cut off or replaced"
            )
    return len(heads)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for raw in file:
            yield json.loads(raw)
