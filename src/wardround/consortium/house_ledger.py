"""A hospital's own ledger: every message that came and went, for its data-protection officer to read.

One hash-chained file for all studies, and the journal of what approvals have been spent on (`budget`). The first time a
kind of message leaves in a study, a line says in words what it is and what it reveals; from then on a line per exchange
names it, with what the coordinator signed: which message it sent, by its digest. Each line also notes the head of the
coordinator's ledger, and each reply tells the coordinator ours: neither can cut off its own tail unseen. The first line
of a run has a fingerprint of the data.

    wardround ledger show FOLDER        # by day, study and message: how often, bytes, what it reveals
    wardround ledger verify FILE --against OTHER
"""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.consortium.budget import Budget, Mark, Question
from wardround.core.record import TOGETHER, Message, reveals_of
from wardround.engines.seal import Ask, SealError, verify_statement
from wardround.layers.ledger import START, Chain, LedgerError, lines, verify
from wardround.text.shown import harmless

MINUTE = 60.0
ALONE = (
    "It leaves under masks: nobody can see it alone, neither the coordinator nor another site; what can be read is the "
    "sum of at least {} sites."
)
KINDS = 10_000  # of refusals that are remembered


@dataclass(frozen=True)
class Answer:
    """One exchange as the ledger has it: what was asked and proven to be, and what is about to leave."""

    statement: Mapping[str, Any]
    """What the coordinator signed, and its signature."""
    theirs: str
    """The head of the coordinator's ledger."""
    question: Question
    study: str
    """The study's name."""
    data: str
    """The fingerprint of the site's data and label map."""
    received: Message
    sent: Message
    digest: str
    """Of the bytes that leave."""
    hides: type[Message] | None
    """What the step itself replies, where that leaves so that nobody can read it alone."""
    fewest: int
    """The least number of sites whose sum can be read."""
    mark: Mark
    sums: Mapping[str, str] = field(default_factory=dict)
    """What was chosen for good of masks and sums (`core.vault`)."""
    budget: str = ""
    """The head of the privacy budget's journal, where the study spends of it: its end cannot be cut off unseen."""


class HouseLedger:
    """The ledger of one site, and what it says is left of each approval."""

    def __init__(self, path: Path, name: str) -> None:
        self.chain, self.name = Chain(path), name
        self.budget = Budget(path)
        self.kinds: set[tuple[str, str]] = set()
        self.runs: set[tuple[str, str, str]] = set()
        self.refused: dict[tuple[object, ...], tuple[float, int]] = {}
        """When each kind of refusal was last written down, and how often it was not since."""
        self.farewells: set[tuple[str, str, str, bool]] = set()

    def note(self, answer: Answer) -> str:
        """Write down an exchange, for good; the ledger's new head."""
        study, kind = str(answer.statement["study"])[:16], type(answer.sent).__name__
        run = str(answer.statement["run"])[:16]
        new: list[Mapping[str, Any]] = []
        hides = {"hides": answer.hides.__name__} if answer.hides else {}
        called = kind_of({"kind": kind, **hides})
        if (study, called) not in self.kinds:
            words = {field: reveal.what for field, reveal in reveals_of(answer.hides or type(answer.sent)).items()}
            about = " ".join(((answer.hides or type(answer.sent)).__doc__ or "").split())
            if answer.hides:
                words = {field: f"{TOGETHER}{what}" for field, what in words.items()}
                about = f"{about} {ALONE.format(answer.fewest)}"
            new.append({"study": study, "name": answer.study, "kind": called, "about": about, "reveals": words})
        if (study, run, answer.data) not in self.runs:
            new.append({"study": study, "run": run, "data": answer.data})
        exchange, received = answer.question.exchange, answer.received
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
                **({"still": answer.question.still} if answer.question.still else {}),
                **({"state": answer.question.state} if answer.question.state else {}),
            },
            "sent": {
                "kind": kind,
                "bytes": answer.sent.nbytes,
                "digest": answer.digest,
                **hides,
            },
            "mark": answer.mark,
            **({"sums": dict(answer.sums)} if answer.sums else {}),
            **({"budget": answer.budget} if answer.budget else {}),
            "theirs": answer.theirs[:64],
            "signed": dict(answer.statement),
        }
        self._append(*new, line)
        self.budget.take(line)
        self.kinds.add((study, called))
        self.runs.add((study, run, answer.data))
        return self.chain.head

    def knock(self) -> None:
        """Write down that somebody asked who is not the coordinator; once a minute, however often it was."""
        self._refused({"study": "", "step": "", "refused": "unsigned"}, ())

    def greeted(self, head: Mapping[str, Any], sizes: Mapping[str, int], budget: str = "") -> None:
        """Write down, once a run, what the site says of itself before one: at most how many examples it has."""
        key = (str(head["study"])[:16], str(head["run"])[:16], json.dumps(dict(sizes)))
        if key not in self.runs:
            paid = {"budget": budget} if budget else {}
            self._append({"study": key[0], "run": key[1], "declared": dict(sizes), **paid})
            self.runs.add(key)

    def farewell(self, head: Mapping[str, Any]) -> None:
        """Write down the last head of the coordinator's ledger: the run has stopped, or ended for good (`whole`)."""
        study, run, theirs = str(head["study"])[:16], str(head["run"])[:16], str(head.get("ledger", ""))[:64]
        whole = head.get("whole") is True
        if (study, run, theirs, whole) not in self.farewells:
            self._append({"study": study, "run": run, "ended": True, "whole": whole, "theirs": theirs})
            self.farewells.add((study, run, theirs, whole))

    def delivered(self, ask: Ask) -> str:
        """Write down that the model of a run came; the ledger's new head."""
        study, run = str(ask.head["study"])[:16], str(ask.head["run"])[:16]
        model = {"bytes": len(ask.data), "digest": ask.statement["digest"]}
        theirs = str(ask.head.get("ledger", ""))[:64]
        self._append({"study": study, "run": run, "model": model, "theirs": theirs, "signed": dict(ask.statement)})
        return self.chain.head

    def refusal(self, head: Mapping[str, Any], code: str) -> bool:
        """Write down that an ask was refused, the same one once a minute, however often it is sent; whether it was."""
        exchange = head.get("exchange")
        step = (
            str(exchange.get("step", ""))[:50]
            if isinstance(exchange, dict)
            else "model"
            if "model" in head
            else "hello"
        )
        round_ = str(exchange.get("round", ""))[:20] if isinstance(exchange, dict) else ""
        title = {"title": harmless(str(head["title"]))[:80]} if head.get("title") else {}  # the coordinator's word
        line = {"study": str(head.get("study"))[:16], "step": step, "refused": code, **title}
        return self._refused(line, (round_,))

    def _refused(self, line: Mapping[str, Any], more: tuple[object, ...]) -> bool:
        key = (*line.values(), *more)
        last, unwritten = self.refused.get(key, (-math.inf, 0))
        if time.monotonic() - last < MINUTE:
            self.refused[key] = last, unwritten + 1
            return False
        self._append({**line, **({"times": unwritten + 1} if unwritten else {})})
        self.refused = {} if len(self.refused) > KINDS else self.refused
        self.refused[key] = time.monotonic(), 0
        return True

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
    rows: dict[tuple[str, str, str], Sent] = {}
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
            row = rows.setdefault((line["time"][:10], study[:8], f"refused: {line['refused']}"), Sent())
            row.times += int(line.get("times", 1))
        else:
            message = line.get("sent") or line.get("message")
            if "to" in line or message is None:  # the coordinator's, to sites
                continue
            kind = kind_of(message)
            row = rows.setdefault((line["time"][:10], names.get(study, study[:8]), kind), Sent())
            row.times += 1
            row.bytes += message["bytes"]
            row.reveals = words.get((study, kind)) or words.get((study, message["kind"]), {})
    return rows


def kind_of(message: Mapping[str, Any]) -> str:
    """What a message is called: where it leaves masked, by what is behind the masks."""
    return f"{message['hides']}, masked" if "hides" in message else str(message["kind"])


def proven(path: Path, ask_key: str) -> int:
    """How many messages of this ledger the coordinator has signed; a `LedgerError` if one is not signed by that key."""
    count = 0
    for number, line in enumerate(lines(path), 1):
        if "signed" in line:
            try:
                verify_statement(line["signed"], ask_key)
            except SealError:
                raise LedgerError(f"{path}:{number}: the coordinator did not sign this message") from None
            count += "sent" in line
    return count


def compared(path: Path, other: Path) -> int:
    """How often the other side has noted the head of this ledger; a `LedgerError` if such a line is missing here."""
    for each in (path, other):
        verify(each)
    mine = list(lines(path))
    hashes, runs = {line["hash"] for line in mine}, {line["run"] for line in mine if "run" in line}
    hashes |= {line["was"] for line in mine if "was" in line}  # forgotten, and told of since
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
