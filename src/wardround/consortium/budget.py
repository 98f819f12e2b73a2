"""What is left of a site's approvals: read off its own ledger, and spent there before a reply leaves.

    budget = Budget(ledger)
    budget.admit(study, approval, exchange, digest)                          # refuses what was not agreed to
    mark = budget.settle(study, approval, exchange, digest, reply_digest)    # how the answer counts
    …                                    # a line with that mark is on the disk, and taken, before the reply leaves

Rules of this file:
1. An approval is a budget over all runs and attempts of a study: so many replies in all.
2. What left once may leave again: the same question with the same answer, bit for bit, costs nothing, so a run that is
   taken up after a crash spends nothing twice.
3. A round is asked with one state. Another question in place of one that was answered, or another answer to the same,
   begins the study anew from there; that has to be agreed to (`site approve --again`), and is spent as well.
4. What stands still in a study is asked for once and for all (`reveals(…, still=True)`): the gradients of ten sentences
   and of eleven tell that of one. No number of restarts changes it.
5. The ledger is the only memory: it is hash-chained, on the disk before a reply leaves, and outlives everything.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wardround.consortium.approval import Approval, read_approval
from wardround.core.record import Message, reveals_of
from wardround.core.site import Exchange
from wardround.layers.ledger import lines

__all__ = ["Answered", "Budget", "Mark", "Overspent", "Spent", "Studied", "budgets", "still_of"]

Mark = Literal["new", "again", "restart"]
Place = tuple[int, int, str]
"""An exchange's round, number and step."""


class Overspent(Exception):
    """An approval does not cover this; the code says why."""

    def __init__(self, code: Literal["restart", "share", "spent"]) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Answered:
    """The digests of a question and of the answer that left."""

    ask: str
    reply: str


@dataclass
class Spent:
    """What one study has had of its budget."""

    exchanges: int = 0
    restarts: int = 0
    rounds: int = 0
    runs: set[str] = field(default_factory=set)
    answered: dict[Place, Answered] = field(default_factory=dict)
    still: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step, what was asked with and stays the same; see `still_of`."""


class Budget:
    """What was spent at a site, by study."""

    def __init__(self, ledger: Path) -> None:
        self.studies: dict[str, Spent] = {}
        if ledger.exists():
            for line in lines(ledger):
                self.take(line)

    def of(self, study: str) -> Spent:
        """What this study has had."""
        return self.studies.setdefault(study[:16], Spent())

    def take(self, line: Mapping[str, Any]) -> None:
        """Count a line of the ledger."""
        sent = line.get("sent")
        if sent is None or "digest" not in sent:
            return
        spent = self.of(str(line["study"]))
        if still := line["received"].get("still"):
            spent.still[line["step"]] = still
        spent.runs.add(str(line["run"]))
        place: Place = (line["round"], line["exchange"], line["step"])
        if line["mark"] == "again":
            return
        if line["mark"] == "restart":
            spent.restarts += 1
            spent.answered = {known: answer for known, answer in spent.answered.items() if known[:2] < place[:2]}
        spent.exchanges += 1
        spent.rounds = max(spent.rounds, place[0])
        spent.answered[place] = Answered(line["received"]["digest"], sent["digest"])

    def admit(
        self, study: str, approval: Approval, exchange: Exchange, ask: str, still: Mapping[str, Any] | None = None
    ) -> None:
        """Let a question pass that may be answered; `Overspent` if it may not."""
        spent = self.of(study)
        if still and spent.still.get(exchange.step, still) != still:
            raise Overspent("share")
        known = spent.answered.get(_place(exchange))
        if known is not None and known.ask != ask and spent.restarts >= approval.restarts:
            raise Overspent("restart")
        if (known is None or known.ask != ask) and spent.exchanges >= approval.exchanges:
            raise Overspent("spent")

    def settle(self, study: str, approval: Approval, exchange: Exchange, ask: str, reply: str) -> Mark:
        """How this reply counts; `Overspent` if it may not leave."""
        spent = self.of(study)
        known = spent.answered.get(_place(exchange))
        if known is None:
            return "new"
        if known == Answered(ask, reply):
            return "again"
        if spent.restarts >= approval.restarts:
            raise Overspent("restart")
        if spent.exchanges >= approval.exchanges:
            raise Overspent("spent")
        return "restart"


@dataclass(frozen=True)
class Studied:
    """One study at a site: what was agreed to, if it still is, and what it has had."""

    name: str
    approval: Approval | None
    spent: Spent


def budgets(folder: Path) -> list[Studied]:
    """Every study that a site has approved or answered, in the order of their hashes."""
    ledger = folder / "ledger" / "site.jsonl"
    budget = Budget(ledger)
    named = [line for line in lines(ledger) if "about" in line] if ledger.exists() else []
    names = {str(line["study"]): str(line["name"]) for line in named}
    approved = {path.stem[:16]: path for path in (folder / "approved").glob("*.toml")}
    rows = []
    for mark in sorted({*approved, *budget.studies}):
        path = approved.get(mark)
        name = names.get(mark) or (str(tomllib.loads(path.read_text(encoding="utf-8"))["name"]) if path else "")
        approval = read_approval(folder, path.stem) if path else None
        rows.append(Studied(f"{name} ({mark[:8]})", approval, budget.of(mark)))
    return rows


def still_of(message: Message) -> dict[str, Any]:
    """Those fields of a message that stay the same throughout a study."""
    return {name: getattr(message, name) for name, reveal in reveals_of(type(message)).items() if reveal.still}


def _place(exchange: Exchange) -> Place:
    return exchange.round, exchange.number, exchange.step
