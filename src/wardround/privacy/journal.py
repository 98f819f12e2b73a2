"""What of a site's privacy budget has been spent, and on what: a hash-chained file of the site's own.

    journal = BudgetJournal(folder / "budget.jsonl", budget)
    journal.spend(entry)                   # on the disk before anything is computed; `Overspent` if it is too much

Rules of this file:
1. A line is written, and on the disk, before the notes are looked at: whatever a crash interrupts has been paid for.
2. A question that is asked again gets the same answer, bit for bit (`core.chance`), and so costs nothing again: it is
   told by its key, which stands for study, run, data, round, step, message, and what the site recalled for it. The
   noisy number of units is the same in all runs of a study on the same data, and is paid for with the first of them.
3. Training, test and validation notes are different patients': a run costs what the dearest of the three costs. Runs
   and studies add up, ε and δ each (basic composition), since the same patients are in all of them. A run goes
   on with the notes that it began with: of others, some may have been trained on before, and would be tested on now.
4. The file is a chain (`layers.ledger`): a line that was changed or taken out of its middle stops all spending, and so
   does an end that was cut off, which the site's ledger has noted with every answer (`noted`).
5. What a site has forgotten, because it was put back from a copy, counts as spent whole, and its run is over here.
6. Several processes may have it open: a simulation's workers, a site's commands. Whoever spends has the file alone
   meanwhile, and has read what others have written; whoever only reads changes nothing, not even a line cut off.
"""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.core.layer import Withheld
from wardround.core.private_steps import Look
from wardround.layers.ledger import BROKEN, START, Chain, linked
from wardround.privacy.accounting import epsilon

NOTHING = 1e-9  # what rounding may add
FORGOTTEN = "forgotten"
"""The kind of a line that stands for looks that nobody has written down, or no longer."""
SIZE = "size"
"""The kind of a line that stands for the noisy number of units, where it is told before any training."""


class Overspent(Withheld):
    """A look would cost more than the site has left, or than its study was planned with."""

    code = "budget"


class Tampered(Withheld):
    """The journal is not what was written."""

    code = "journal"


@dataclass(frozen=True)
class Allowance:
    """What a site lets all studies together cost."""

    epsilon: float
    delta: float
    unit: str = "example"
    """The least that a study has to protect as a whole."""


@dataclass(frozen=True)
class Entry:
    """One look, and whose it is."""

    study: str
    """The study's hash."""
    name: str
    run: str
    key: str
    """Stands for the question: the same key is the same look."""
    look: Look
    planned: int
    """How many looks of its kind its run was planned with."""
    epsilon: float
    """What its run costs at most."""
    delta: float
    size: float
    """What the noisy number of units costs."""
    unit: str
    data: str = ""
    """What stands for the data that are looked at; nothing in a simulation, whose data stay."""


@dataclass
class SpentRun:
    """What one run of a study has had."""

    name: str
    unit: str
    epsilon: float
    """What it costs at most."""
    delta: float
    size: float
    data: str = ""
    """What stands for the data that it has looked at."""
    keys: set[str] = field(default_factory=set)
    looks: dict[str, Counter[tuple[float, float, int]]] = field(default_factory=dict)
    """By kind, how often with which noise, rate and steps."""
    over: bool = False
    """Whether looks of it were forgotten: it counts whole, and has no more."""

    def had(self, kind: str) -> int:
        """How many looks of this kind there were."""
        return sum(self.looks.get(kind, Counter()).values())

    def strays(self, look: Look) -> bool:
        """Whether a look is not like those before it: the noise was found for a run of equal ones."""
        before = self.looks.get(look.kind, Counter())
        return bool(before) and (look.noise, look.rate, look.steps) not in before

    @property
    def counted(self) -> int:
        """How many evaluations there were."""
        return sum(self.had(kind) for kind in self.looks if kind not in ("train", SIZE))

    @property
    def cost(self) -> float:
        """The ε of what it has had so far."""
        if self.over:
            return self.epsilon
        return max((self._cost(kind) for kind in self.looks), default=0.0)

    @property
    def chance(self) -> float:
        """The δ of it: the number of units alone has none."""
        return self.delta if self.over or set(self.looks) - {SIZE} else 0.0

    def _cost(self, kind: str) -> float:
        series = ((noise, rate, steps * often) for (noise, rate, steps), often in self.looks[kind].items())
        return epsilon(series, self.delta) + (self.size if kind in ("train", SIZE) else 0.0)


class BudgetJournal:
    """The journal of one site, and what is left by it."""

    def __init__(self, path: Path, allowance: Allowance | None = None, noted: str = "") -> None:
        self.path, self.allowance = path, allowance
        self.runs: dict[tuple[str, str], SpentRun] = {}
        self._head, self._lines, self._bytes = START, 0, 0
        """As far as it was read: the last hash, and how many lines and bytes."""
        if noted not in ("", *self._read_on()):
            raise Tampered(f"{path}: its end was cut off; the ledger has noted a line of it that is not here")

    def spend(self, entry: Entry) -> None:
        """Note a look for good, unless it was noted before; `Overspent` if it may not be."""
        with self._alone():
            self._spend(entry)

    def _spend(self, entry: Entry) -> None:
        known = self.runs.get((entry.study, entry.run))
        if known is not None and entry.key in known.keys:
            return
        if known is not None and known.over:
            raise Overspent(f"{entry.name}: the site was put back from a copy while this ran, so it counts as spent")
        if known is not None and known.data != entry.data:
            why = (
                "the notes are others than those that this run began with"
                if known.data
                else "it began before an upgrade"
            )
            raise Overspent(f"{entry.name}: {why}; begin a new one")
        if (known.had(entry.look.kind) if known else 0) >= entry.planned:
            raise Overspent(f"{entry.name}: it was planned with {entry.planned} looks of this kind, and has had them")
        look, line = entry.look, _line(entry)
        if known is not None and known.strays(look) and _with(known, line).cost > entry.epsilon * (1 + NOTHING):
            raise Overspent(f"{entry.name}: it has looked with another plan before, and both together cost more than ε")
        if self.allowance:
            self._afford(self.allowance, line)
        self._write(line)

    def greet(self, size: Entry, first: Entry) -> None:
        """Note that a study's number of units is told, once; `Overspent` if a new run could not even train once."""
        with self._alone():
            known = (size.study, size.run) in self.runs
            if not known and self.allowance:
                self._afford(self.allowance, _line(first))
            if not any(size.key in run.keys for (study, _), run in self.runs.items() if study == size.study):
                self._spend(size)

    def forget(self, study: str, name: str, run: str, unit: str, cost: Allowance) -> None:
        """Count a run as spent whole: what it has had is not known any more."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"), "study": study, "name": name, "run": run,
            "key": "", "kind": FORGOTTEN, "noise": 0.0, "rate": 0.0, "steps": 0, "unit": unit,
            "epsilon": cost.epsilon, "delta": cost.delta, "size": 0.0,
        }  # fmt: skip
        with self._alone():
            self._write(line)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Have the file to oneself, with all that others have written to it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            self._read_on()
            yield

    def _write(self, line: Mapping[str, Any]) -> None:
        chain = Chain(self.path)  # sets aside what a crash has cut off
        chain.append(line)
        chain.flush(durable=True)
        self._read_on()

    def _read_on(self) -> set[str]:
        """Count the lines that were not read before; their hashes."""
        new = set[str]()
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._bytes:
                raise Tampered(f"{self.path}: its end was cut off while it was in use")
            file.seek(self._bytes)
            for raw in file:
                if not raw.endswith(b"\n"):  # it is being written, or a crash came before it counted
                    break
                head = linked(self._head, raw)
                try:
                    _add(self.runs, json.loads(raw) if head else {})
                except (ValueError, LookupError, TypeError):
                    raise Tampered(f"{self.path}:{self._lines + 1}: {BROKEN}") from None
                new.add(head)
                self._head, self._lines, self._bytes = head, self._lines + 1, self._bytes + len(raw)
        return new

    def _afford(self, allowance: Allowance, line: Mapping[str, Any]) -> None:
        mine = (str(line["study"]), str(line["run"]))
        others = [spent for key, spent in self.runs.items() if key != mine]
        if sum(one.chance for one in others) + line["delta"] > allowance.delta * (1 + NOTHING):
            raise Overspent("δ of the site's budget is spent")
        before = sum(one.cost for one in others)
        if before + line["epsilon"] <= allowance.epsilon:
            return
        after = _with(self.runs.get(mine), line)
        if before + after.cost > allowance.epsilon * (1 + NOTHING):
            raise Overspent("ε of the site's budget is spent")

    @property
    def spent(self) -> tuple[float, float]:
        """The ε and δ of all runs together."""
        return sum(one.cost for one in self.runs.values()), sum(one.chance for one in self.runs.values())


def spent_in(path: Path, noted: str = "") -> dict[tuple[str, str], SpentRun]:
    """What a journal says that each run of each study has had; only read, by whoever looks on as well.

    `noted` is the hash of a line that it must have: the site's ledger has it from the last answer that left.
    """
    return BudgetJournal(path, noted=noted).runs


def _line(entry: Entry) -> dict[str, Any]:
    look = entry.look
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"), "study": entry.study, "name": entry.name,
        "run": entry.run, "key": entry.key, "kind": look.kind, "noise": look.noise, "rate": look.rate,
        "steps": look.steps, "unit": entry.unit, "epsilon": entry.epsilon, "delta": entry.delta, "size": entry.size,
        "data": entry.data,
    }  # fmt: skip


def _add(runs: dict[tuple[str, str], SpentRun], line: Mapping[str, Any]) -> None:
    key = (str(line["study"]), str(line["run"]))
    runs[key] = _with(runs.get(key), line)


def _with(spent: SpentRun | None, line: Mapping[str, Any]) -> SpentRun:
    """What a run has had once this line counts."""
    words = (
        str(line["name"]),
        str(line["unit"]),
        line["epsilon"],
        line["delta"],
        line["size"],
        str(line.get("data", "")),
    )
    kinds = {kind: Counter(had) for kind, had in spent.looks.items()} if spent else {}
    if line["kind"] == FORGOTTEN:
        return SpentRun(*words, spent.keys if spent else set(), kinds, over=True)
    kinds.setdefault(str(line["kind"]), Counter())[line["noise"], line["rate"], line["steps"]] += 1
    return SpentRun(*words, {*(spent.keys if spent else ()), str(line["key"])}, kinds, over=bool(spent and spent.over))
