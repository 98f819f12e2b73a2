"""What is left of a site's approvals: read off its own ledger, and spent there before a reply leaves.

    budget = Budget(ledger)
    question = Question.of(exchange, message, digest)
    budget.admit(study, approval, question)                        # refuses what was not agreed to
    mark = budget.settle(study, approval, question, reply)         # how the answer counts
    …                                    # a line with that mark is on the disk, and taken, before the reply leaves

Rules of this file:
1. An approval is a budget over all runs and attempts of a study: so many replies in all.
2. What left once may leave again: the same question with the same answer, bit for bit, costs nothing, so a run that is
   taken up after a crash spends nothing twice.
3. A round is asked with one state, which is what the round before was tried with. Another state, another question in
   place of one that was answered, or another answer to the same, begins the study anew from there; that has to be
   agreed to (`site approve --again`), and is spent as well.
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
from wardround.core.exchange import EVALUATION, Exchange
from wardround.core.record import Message, still_of
from wardround.core.weights import Weights
from wardround.layers.ledger import lines

Mark = Literal["new", "again", "restart"]
Place = tuple[int, int, str]
"""An exchange's round, number and step."""


class Denial(Exception):
    """An ask is not answered; the code says why."""

    def __init__(self, code: str) -> None:
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
    trained: int = 0
    """Exchanges that were no evaluation."""
    restarts: int = 0
    rounds: int = 0
    runs: set[str] = field(default_factory=set)
    answered: dict[Place, Answered] = field(default_factory=dict)
    numbers: dict[tuple[int, str], set[int]] = field(default_factory=dict)
    """As which exchanges of a round each step was ever answered: a restart does not change that."""
    sums: dict[str, str] = field(default_factory=dict)
    """What each mask was for, and which sum each reply went into (`core.vault`): nor does it change that."""
    still: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step, what was asked with and stays the same (`reveals(…, still=True)`)."""
    states: dict[int, str] = field(default_factory=dict)
    """The digest of the weights that each round began with; those that a round is tried with begin the next."""


class Budget:
    """What was spent at a site, by study: as a ledger has it, or as far as its lines are given one by one."""

    def __init__(self, ledger: Path | None = None) -> None:
        self.studies: dict[str, Spent] = {}
        if ledger is not None and ledger.exists():
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
            spent.still.setdefault(line["step"], still)
        spent.sums |= line.get("sums", {})
        spent.runs.add(str(line["run"]))
        place: Place = (line["round"], line["exchange"], line["step"])
        spent.numbers.setdefault((place[0], place[2]), set()).add(place[1])
        if line["mark"] == "again":
            return
        state = line["received"].get("state")
        if line["mark"] == "restart":
            spent.restarts += 1
            spent.answered = {known: answer for known, answer in spent.answered.items() if known[:2] < place[:2]}
            first = place[0] + (place[1] > EVALUATION)
            spent.states = {index: known for index, known in spent.states.items() if index < first}
        if state:
            spent.states[state[0]] = state[1]
        spent.exchanges += 1
        spent.trained += place[1] < EVALUATION
        spent.rounds = max(spent.rounds, place[0])
        spent.answered[place] = Answered(line["received"]["digest"], sent["digest"])

    def admit(self, study: str, approval: Approval, question: "Question", evaluations: int = 0) -> None:
        """Let a question pass that may be answered; a `Denial` if it may not.

        So many of the approval's exchanges are for evaluations, and cannot be spent on training.
        """
        spent = self.of(study)
        if question.still and spent.still.get(question.exchange.step, question.still) != question.still:
            raise Denial("batches")
        known = spent.answered.get(question.place)
        other = (known is not None and known.ask != question.digest) or question.strays(spent)
        if other and spent.restarts >= approval.restarts:
            raise Denial("restart")
        trains = question.exchange.number < EVALUATION
        over = trains and spent.trained >= approval.exchanges - evaluations
        if (known is None or other) and (over or spent.exchanges >= approval.exchanges):
            raise Denial("spent")

    def settle(self, study: str, approval: Approval, question: "Question", reply: str) -> Mark:
        """How this reply counts; a `Denial` if it may not leave."""
        spent = self.of(study)
        known = spent.answered.get(question.place)
        if known is None and not question.strays(spent):
            return "new"
        if known == Answered(question.digest, reply):
            return "again"
        if spent.restarts >= approval.restarts:
            raise Denial("restart")
        if spent.exchanges >= approval.exchanges:
            raise Denial("spent")
        return "restart"


def begun(round_: int, number: int) -> int:
    """The round that begins with the weights of an exchange: what a round is tried with begins the next."""
    return max(round_, 1) + (number > EVALUATION)


@dataclass(frozen=True)
class Question:
    """What is asked, as far as a budget looks at it."""

    exchange: Exchange
    digest: str
    """Of the message."""
    still: Mapping[str, Any]
    """What stays the same throughout a study."""
    state: tuple[int, str] | None
    """The round that the message's weights begin, and their digest; nothing if it has none, or they move in a round."""

    @classmethod
    def of(cls, exchange: Exchange, message: Message, digest: str, first: int | None = None) -> "Question":
        """This message's question; the `first` exchange of a round is given where weights move within one."""
        weights = getattr(message, "weights", None)
        tried = exchange.number > EVALUATION
        state = None
        if isinstance(weights, Weights) and (tried or first in (None, exchange.number)):
            state = begun(exchange.round, exchange.number), weights.digest
        return cls(exchange, digest, still_of(message), state)

    @property
    def place(self) -> Place:
        """Where it is asked."""
        return self.exchange.round, self.exchange.number, self.exchange.step

    def strays(self, spent: Spent) -> bool:
        """Whether its weights are not those that this round began with, or the round before ended with."""
        return self.state is not None and spent.states.get(self.state[0], self.state[1]) != self.state[1]


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


def spent(folder: Path, mark: str) -> Spent:
    """What the study with this hash has had of its budget, as the site's own ledger has it."""
    return Budget(folder / "ledger" / "site.jsonl").of(mark)
