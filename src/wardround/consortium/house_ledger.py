"""A hospital's own ledger: every message that came and went, for its data-protection officer to read.

One hash-chained file for all studies, and the journal of what approvals have been spent on (`budget`). The first time a
kind of message leaves in a study, a line says in words what it is and what it reveals; from then on a line per exchange
names it, with what the coordinator signed: which message it sent, by its digest. Each line also notes the head of the
coordinator's ledger, and each reply tells the coordinator ours: neither can cut off its own tail unseen. The first line
of a run has a fingerprint of the data.

    wardround ledger show FOLDER        # by day, study and message: how often, bytes, what it reveals
    wardround ledger verify FILE --against OTHER
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.consortium.budget import Budget, Mark, still_of
from wardround.core.record import Message, reveals_of
from wardround.core.site import Exchange
from wardround.engines.seal import SealError, verify_statement
from wardround.layers.ledger import START, Chain, LedgerError, lines, verify

__all__ = ["Answer", "HouseLedger", "Sent", "compared", "proven", "summed"]

MINUTE = 60.0


@dataclass(frozen=True)
class Answer:
    """One exchange as the ledger has it: what was asked and proven to be, and what is about to leave."""

    statement: Mapping[str, Any]
    """What the coordinator signed, and its signature."""
    theirs: str
    """The head of the coordinator's ledger."""
    exchange: Exchange
    study: str
    """The study's name."""
    data: str
    """The fingerprint of the site's data and label map."""
    received: Message
    sent: Message
    digest: str
    """Of the bytes that leave."""
    mark: Mark


class HouseLedger:
    """The ledger of one site, and what it says is left of each approval."""

    def __init__(self, path: Path, name: str) -> None:
        self.chain, self.name = Chain(path), name
        self.budget = Budget(path)
        self.kinds: set[tuple[str, str]] = set()
        self.runs: set[tuple[str, str, str]] = set()
        self.unsigned = 0
        self.noted = -MINUTE

    def note(self, answer: Answer) -> str:
        """Write down an exchange, for good; the ledger's new head."""
        study, kind = str(answer.statement["study"])[:16], type(answer.sent).__name__
        run = str(answer.statement["run"])[:16]
        new: list[Mapping[str, Any]] = []
        if (study, kind) not in self.kinds:
            words = {field: reveal.what for field, reveal in reveals_of(type(answer.sent)).items()}
            about = " ".join((type(answer.sent).__doc__ or "").split())
            new.append({"study": study, "name": answer.study, "kind": kind, "about": about, "reveals": words})
        if (study, run, answer.data) not in self.runs:
            new.append({"study": study, "run": run, "data": answer.data})
        exchange, received = answer.exchange, answer.received
        line = {
            "study": study,
            "run": run,
            "attempt": len(exchange.resumed),
            "round": exchange.round,
            "exchange": exchange.number,
            "step": exchange.step,
            "received": {
                "kind": type(received).__name__,
                "bytes": received.nbytes,
                "digest": answer.statement["digest"],
                **({"still": still} if (still := still_of(received)) else {}),
            },
            "sent": {"kind": kind, "bytes": answer.sent.nbytes, "digest": answer.digest},
            "mark": answer.mark,
            "theirs": answer.theirs[:64],
            "signed": dict(answer.statement),
        }
        self._append(*new, line)
        self.budget.take(line)
        self.kinds.add((study, kind))
        self.runs.add((study, run, answer.data))
        return self.chain.head

    def knock(self) -> None:
        """Write down that somebody asked who is not the coordinator; once a minute, however often it was."""
        self.unsigned += 1
        if time.monotonic() - self.noted >= MINUTE:
            self._append({"study": "", "step": "", "refused": "unsigned", "times": self.unsigned})
            self.unsigned, self.noted = 0, time.monotonic()

    def farewell(self, head: Mapping[str, Any]) -> None:
        """Write down the last head of the coordinator's ledger: the run has ended or stopped."""
        told = {"study": str(head["study"])[:16], "run": str(head["run"])[:16], "ended": True}
        self._append({**told, "theirs": str(head.get("ledger", ""))[:64]})

    def refusal(self, head: Mapping[str, Any], code: str) -> None:
        """Write down that an ask was refused."""
        told = head.get("exchange")
        step = str(told.get("step", ""))[:50] if isinstance(told, dict) else "hello"
        self._append({"study": str(head.get("study"))[:16], "step": step, "refused": code})

    def _append(self, *new: Mapping[str, Any]) -> None:
        before = self.chain.head
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            if before == START:
                self.chain.append({"time": now, "ledger_of": self.name})
            for line in new:
                self.chain.append({"time": now, **line})
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
    for line in lines(path):
        study = str(line.get("study", ""))
        if "ledger_of" in line:
            continue
        if "about" in line:
            words[study, line["kind"]] = line["reveals"]
            names[study] = f"{line['name']} ({study[:8]})"
        elif "refused" in line:
            row = found.setdefault((line["time"][:10], study[:8], f"refused: {line['refused']}"), Sent())
            row.times += int(line.get("times", 1))
        else:
            said = line.get("sent") or line.get("message")
            if "to" in line or said is None:  # the coordinator's, to sites
                continue
            row = found.setdefault((line["time"][:10], names.get(study, study[:8]), said["kind"]), Sent())
            row.times += 1
            row.bytes += said["bytes"]
            row.reveals = words.get((study, said["kind"]), {})
    return found


def proven(path: Path, ask_key: str) -> int:
    """How many messages of this ledger the coordinator has signed; a `LedgerError` if one is not signed by that key."""
    count = 0
    for number, line in enumerate(lines(path), 1):
        if "signed" in line:
            try:
                verify_statement(line["signed"], ask_key)
            except SealError:
                raise LedgerError(f"{path}:{number}: the coordinator did not sign this message") from None
            count += 1
    return count


def compared(path: Path, other: Path) -> int:
    """How often the other side has noted the head of this ledger; a `LedgerError` if such a line is missing here."""
    for each in (path, other):
        verify(each)
    mine = list(lines(path))
    hashes, runs = {line["hash"] for line in mine}, {line["run"] for line in mine if "run" in line}
    name = next((line["ledger_of"] for line in mine if "ledger_of" in line), None)  # none: the coordinator's
    heads = [
        line["theirs"] for line in lines(other)
        if line.get("theirs") and (line["from"] == name if "from" in line else line.get("run") in runs)
    ]  # fmt: skip
    for head in heads:
        if head not in hashes and head != START:
            raise LedgerError(
                f"{path}: the other side has noted the head {head[:16]}…, which is not here; "
                "lines were cut off or replaced"
            )
    return len(heads)
