"""A hospital's own folder as it is now: what is asked, what left, what was refused, what its approvals have left.

    house = House(folder)
    house.look()

The ledger is read line by line as it grows, and its chain is checked on the way; sums are kept, and no line is.
"""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wardround.consortium.approval import Approval, read_approval
from wardround.consortium.budget import Budget, Spent
from wardround.consortium.forgotten import MARK
from wardround.consortium.forms import FormError, read_membership
from wardround.consortium.house_ledger import kind_of
from wardround.consortium.private_site import JOURNAL, noted_budget
from wardround.core.doing import read_notice
from wardround.core.lock import held
from wardround.core.refusal import Refusal
from wardround.core.tail import Tail
from wardround.engines.frames import door_of, silence
from wardround.layers.ledger import BROKEN, START, linked
from wardround.privacy.journal import Allowance, Tampered, spent_in
from wardround.runs.errors import RunError
from wardround.watch.events import Event, Log
from wardround.watch.times import when

REFUSALS = 1000  # kinds of them that are told apart


@dataclass
class Sum:
    """How often something left or was refused, how much, and when."""

    times: int = 0
    bytes: int = 0
    first: str = ""
    last: str = ""

    def add(self, time: str, times: int = 1, size: int = 0) -> None:
        """Once more."""
        self.times, self.bytes = self.times + times, self.bytes + size
        self.first, self.last = self.first or time, time


@dataclass
class RunSum(Sum):
    """What left in one run."""

    rounds: int = 0
    state: Literal["open", "stopped", "ended"] = "open"
    data: str = ""
    """The fingerprint of the data that it was on."""


@dataclass(frozen=True)
class MessageKind:
    """What a kind of message is, in the words that the ledger has of it."""

    about: str
    reveals: dict[str, str]


@dataclass(frozen=True)
class Agreed:
    """One study: what was agreed to, if it still is, and what it has had."""

    mark: str
    name: str
    approval: Approval | None
    spent: Spent

    @property
    def left(self) -> int:
        """How many replies may still leave."""
        return max(self.approval.exchanges - self.spent.exchanges, 0) if self.approval else 0


@dataclass(frozen=True)
class Cost:
    """What one run has cost the site's patients in differential privacy."""

    study: str
    run: str
    unit: str
    spent: float
    planned: float
    delta: float


@dataclass
class Account:
    """What the ledger says, summed up."""

    owner: str = ""
    lines: int = 0
    head: str = START
    broken: str = ""
    days: dict[tuple[str, str, str], Sum] = field(default_factory=dict)
    """By day, study and kind of message."""
    runs: dict[tuple[str, str], RunSum] = field(default_factory=dict)
    refused: dict[tuple[str, str, str], Sum] = field(default_factory=dict)
    """By study, step and reason."""
    kinds: dict[tuple[str, str], MessageKind] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    """What the coordinator calls studies that were refused: its word, where the site has none of its own."""
    recoveries: list[tuple[str, int, str]] = field(default_factory=list)
    """When the site had been put back from a copy: how many answers were written down again, and on whose word."""


class House:
    """One site's folder, followed."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "site.toml").is_file():
            raise RunError(
                f"{folder}: is not a site's folder: it has no site.toml; name the folder of `wardround site init`"
            )
        self.folder = folder
        self.ledger = folder / "ledger" / "site.jsonl"
        self.account, self.log = Account(), Log()
        self.budget = Budget()
        self.agreed: list[Agreed] = []
        self.doing, self.problem = "", ""
        self.running: bool | None = False
        self.quiet: float | None = None
        """Seconds since the coordinator was last heard of; None if it never was."""
        self.costs: list[Cost] = []
        self._paid: tuple[int, int] = (0, 0)
        self._tail = Tail(self.ledger, self._forget)

    @property
    def name(self) -> str:
        """The site's name, as its settings have it."""
        try:
            return str(tomllib.loads((self.folder / "site.toml").read_text(encoding="utf-8-sig"))["name"])
        except (OSError, ValueError, KeyError):
            return self.account.owner or self.folder.resolve().name

    @property
    def consortium(self) -> str:
        """The consortium's name and its coordinator's address, if the site has joined one."""
        try:
            member = read_membership(self.folder / "kit")
        except (OSError, RunError, FormError, ValueError):
            return ""
        return f"{member.name}, coordinator at {member.host}:{member.port}"

    @property
    def allowance(self) -> Allowance | None:
        """What all studies together may cost, if the site's settings say so."""
        try:
            table = tomllib.loads((self.folder / "site.toml").read_text(encoding="utf-8-sig")).get("budget")
            return Allowance(float(table["epsilon"]), float(table["delta"])) if table else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def named(self, study: str) -> str:
        """A study's name with the beginning of its hash."""
        return (
            f"{name} ({study[:8]})"
            if (name := self.account.names.get(study) or self.account.titles.get(study))
            else study[:8] or "—"
        )

    def look(self) -> None:
        """Take in what has changed."""
        self.problem = "" if self.folder.is_dir() else f"{self.folder} is not there any more; it was moved or deleted"
        if (self.folder / MARK).exists():
            self.problem = f"put back from a copy: it answers nothing until: wardround site recover {self.folder}"
        try:
            for raw in self._tail:
                self._take(raw)
            self.agreed = self._agreed()
            self._pay()
        except OSError as error:
            self.problem = self.problem or f"{self.folder} cannot be read: {error.strerror}"
        self.running = held(self.folder / ".lock")
        self.doing = read_notice(self.folder) if self.running is not False else ""
        self.quiet = silence(door_of(self.folder))

    def _forget(self) -> None:
        self.account, self.budget = Account(), Budget()

    def _take(self, raw: str) -> None:
        account = self.account
        account.lines += 1
        head = "" if account.broken else linked(account.head, raw.encode())
        if not head and not account.broken:
            account.broken = f"{self.ledger}:{account.lines}: {BROKEN}"
            self.log.add(Event(account.broken, weight="bad"))
        account.head = head
        try:
            line = json.loads(raw)
            self.budget.take(line)
            self._count(line)
        except (ValueError, KeyError, TypeError, AttributeError):
            account.broken = account.broken or f"{self.ledger}:{account.lines}: is not a line of a ledger"

    def _count(self, line: dict[str, Any]) -> None:
        account, study, time = self.account, str(line.get("study", "")), str(line["time"])
        if "ledger_of" in line:
            account.owner = str(line["ledger_of"])
        elif "about" in line:
            account.kinds[study, str(line["kind"])] = MessageKind(str(line["about"]), dict(line["reveals"]))
            account.names[study] = str(line["name"])
        elif "refused" in line:
            self._count_refused(line, study, time)
        elif "sent" in line:
            kind, size = kind_of(line["sent"]), int(line["sent"]["bytes"])
            if (study, kind) not in account.kinds and (older := account.kinds.get((study, str(line["sent"]["kind"])))):
                account.kinds[study, kind] = older  # of a ledger that says less of what is behind masks
            account.days.setdefault((time[:10], study, kind), Sum()).add(time, size=size)
            run = account.runs.setdefault((study, str(line["run"])), RunSum())
            run.add(time, size=size)
            run.rounds, run.state = max(run.rounds, int(line["round"])), "open"  # it had stopped, or waited
            self._event(f"{self.named(study)}, round {line['round']}: {kind} left, {size:,} bytes", time, "")
        elif "recovered" in line:
            forgotten = int(line["recovered"]["exchanges"])
            account.recoveries.append((time, forgotten, str(line["recovered"]["how"])))
            self._event(f"put back from a copy: {forgotten:,} answers were forgotten", time, "bad")
        elif "run" in line:
            run = account.runs.setdefault((study, str(line["run"])), RunSum())
            if "model" in line or line.get("ended"):  # what has stopped may be taken up again
                run.state = "ended" if "model" in line or line.get("whole", True) else "stopped"
            run.data = str(line.get("data", run.data))
            if "model" in line:
                size = int(line["model"]["bytes"])
                self._event(f"{self.named(study)}: the model of a run came, {size:,} bytes", time, "good")

    def _count_refused(self, line: dict[str, Any], study: str, time: str) -> None:
        account, key = self.account, (study, str(line["step"]), str(line["refused"]))
        if key in account.refused or len(account.refused) < REFUSALS:
            account.refused.setdefault(key, Sum()).add(time, int(line.get("times", 1)))
        if len(account.titles) < REFUSALS and line.get("title"):
            account.titles[study] = str(line["title"])
        whose = f" of {self.named(study)}" if study else ""
        remedy = f"; to take part: wardround site approve {self.folder} STUDY.toml" if key[2] == "study" else ""
        self._event(f"refused {key[1] or 'an ask'}{whose}: {key[2]}{remedy}", time, "bad")

    def _pay(self) -> None:
        """Read what studies have cost, if the journal of it is another than before."""
        path = self.folder / JOURNAL
        state = path.stat() if path.exists() else None
        stamp = (state.st_mtime_ns, state.st_size) if state else (0, 0)
        if stamp == self._paid:
            return
        try:
            self.costs = [
                Cost(f"{spent.name} ({study[:8]})", run, spent.unit, spent.cost, spent.epsilon, spent.chance)
                for (study, run), spent in spent_in(path, noted_budget(self.folder)).items()
            ]
        except (Tampered, Refusal) as error:  # or a line that is being written: the next look is soon
            self.problem = str(error)
            return
        self._paid = stamp

    def _event(self, text: str, time: str, weight: str) -> None:
        self.log.add(Event(text, when(time), None, weight))

    def _agreed(self) -> list[Agreed]:
        """Every study that was approved or answered, by name."""
        approved = {path.stem[:16]: path for path in (self.folder / "approved").glob("*.toml")}
        rows = []
        for mark in {*approved, *self.budget.studies}:
            path = approved.get(mark)
            if path is not None and mark not in self.account.names:
                try:
                    self.account.names[mark] = str(tomllib.loads(path.read_text(encoding="utf-8"))["name"])
                except (OSError, ValueError, KeyError):
                    self.account.names[mark] = ""
            try:
                approval = read_approval(self.folder, path.stem) if path else None
            except ValueError as error:
                approval, self.problem = None, str(error)
            rows.append(Agreed(mark, self.named(mark), approval, self.budget.of(mark)))
        return sorted(rows, key=lambda row: row.name)
