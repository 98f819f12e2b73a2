"""A site that was put back from a copy: what it has forgotten, and what counts as spent until its hospital has said so.

    lapse = mark_restored(folder, taken)    # `wardround restore` does; so does a site that is shown its own future
    recover(folder, as_told=True)           # what the coordinator says was answered since counts as spent

Rules of this file:
1. A site whose ledger is older than what it has answered would answer again what its approvals and its privacy budget
   were spent on. It knows by the file that `restore` leaves; or, put back by other means, by the head of its own ledger
   that the coordinator shows with every ask, and that it does not have. From then on it answers nothing (`restored`).
2. The coordinator tells what it has of the site's answers, in a letter that it signs, in answer to a number that the
   site has drawn: an older letter is worth nothing. Nobody can prove that it tells all. So a person decides: that it is
   all (`as_told`), or that whatever was approved is spent (`nothing_left`). The letter stays in the ledger.
3. What was told is in the ledger from then on like any answer: the same question with the same reply may leave again,
   and costs nothing; any other in its place is a restart. So is a forgotten round that is asked with another state.
4. Of the privacy budget, a run in which something was forgotten costs what it may cost at most, and is over here.
5. The secrets of all runs are drawn anew: no mask of before lies on anything that leaves now (`layers.masks`).
6. The ledger is written to by the site process alone, but for the time in which it is marked: then by `recover` alone.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from wardround.consortium.approval import read_approval, write_approval
from wardround.consortium.budget import Answered, Budget, Spent, begun
from wardround.consortium.forms import Form, FormError, parsed, read_membership
from wardround.consortium.kit_check import site_name
from wardround.consortium.private_site import budget_journal
from wardround.consortium.settings import SiteSettings, read_site, site_study
from wardround.core.exchange import EVALUATION
from wardround.core.files import write
from wardround.engines.seal import SealError, verify_statement
from wardround.layers.ledger import START, Chain, has_value, lines
from wardround.privacy.journal import Allowance
from wardround.runs.errors import RunError

MARK, LEDGER, ACCOUNT = "restored.json", Path("ledger") / "site.jsonl", Path("ledger") / "told.json"
UNTOLD = (
    "the coordinator has not said yet what was answered: start the site; it is told soon after it has connected, or "
    "with the next study if a run keeps it busy. Nothing comes while the coordinator is stopped: ask whoever runs it"
)
LARGEST = 1 << 27  # bytes that a coordinator may tell: some 300,000 answers
Word = Annotated[str, Field(pattern=r"^\P{C}{0,200}$")]  # it is shown to whoever decides: nothing that moves a cursor
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]{0,99}$")]
Time = Annotated[str, Field(pattern=r"^[0-9T:+-]{10,40}$")]
Mark16 = Annotated[str, Field(pattern=r"^[0-9A-Za-z]{1,16}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=1 << 53)]


class Restored(Form):
    """`restored.json`: since when a site is not sure of what it has answered."""

    lapse: str
    """A number drawn then: what the coordinator tells is told for this time."""
    taken: str
    """When the copy was made, in UTC; nothing if it is not known."""
    noticed: str


class Received(Form):
    """The message that was answered."""

    kind: Name
    bytes: Count
    digest: Digest
    weights: Digest | None = None
    """Of the weights in it, if it has some."""
    still: dict[Word, int | float | Word | bool | None] = Field(default_factory=dict)


class SentAnswer(Form):
    """The reply."""

    kind: Name
    bytes: Count
    digest: Digest


class ToldAnswer(Form):
    """One answer of the site's, as its coordinator remembers it."""

    time: Time
    study: Mark16
    run: Mark16
    attempt: Count
    round: Count
    exchange: Count
    step: Name
    received: Received
    sent: SentAnswer
    was: Digest
    """The head that the site's ledger had with it."""


class Reminder(Form):
    """`ledger/told.json`: what the coordinator has told, and its signature."""

    lapse: str
    statement: dict[str, Any]
    lines: list[str]


# noticing


def mark_restored(folder: Path, taken: str = "") -> Restored:
    """Have a site answer nothing until its hospital has said what counts."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    mark = Restored(lapse=secrets.token_hex(16), taken=taken, noticed=now)
    write(folder / MARK, mark.encode())
    (folder / ACCOUNT).unlink(missing_ok=True)
    return mark


def restored(folder: Path) -> Restored | None:
    """Since when a site is not sure; None if it is."""
    try:
        return parsed(Restored, (folder / MARK).read_bytes())
    except FileNotFoundError:
        return None
    except FormError:
        return mark_restored(folder)


def knows(folder: Path, head: object) -> bool:
    """Whether the ledger has had this head, or has written down that it was forgotten."""
    if not head or head == START:
        return True
    return any(has_value(folder / LEDGER, key, str(head)[:64]) for key in ("hash", "was"))


def keep_account(folder: Path, mark: Restored, statement: Mapping[str, Any], lapse: object, data: bytes) -> bool:
    """Keep what the coordinator has told, if it is told for this time; what it told first is what a person looks at."""
    if lapse != mark.lapse or len(data) > LARGEST:
        return False
    if (folder / ACCOUNT).exists():
        return True
    letter = Reminder(lapse=mark.lapse, statement=dict(statement), lines=data.decode("utf-8", "replace").splitlines())
    write(folder / ACCOUNT, letter.encode())
    return True


# looking


@dataclass(frozen=True)
class Lapse:
    """What is known of what a site has forgotten."""

    mark: Restored
    answers: tuple[ToldAnswer, ...]
    """What the coordinator says was answered, and the ledger does not have."""
    statement: Mapping[str, Any]
    """The coordinator's own, as it was signed; empty until it has made one."""


def read_lapse(folder: Path) -> Lapse | None:
    """What a site has forgotten; None if it is not known to have been put back."""
    mark = restored(folder)
    if mark is None:
        return None
    path = folder / ACCOUNT
    try:
        letter = parsed(Reminder, path.read_bytes())
        verify_statement(letter.statement, read_membership(folder / "kit").ask_key)
        whole = "".join(f"{line}\n" for line in letter.lines).encode()
        signed = letter.lapse == mark.lapse and hashlib.sha256(whole).hexdigest() == letter.statement["digest"]
        answers = [parsed(ToldAnswer, line.encode()) for line in letter.lines]
    except FileNotFoundError:
        return Lapse(mark, answers=(), statement={})
    except (FormError, SealError):
        signed, answers = False, []
    if not signed:
        raise RunError(f"{path}: is not what the coordinator has said; delete it, and start the site to hear it again")
    own = list(lines(folder / LEDGER)) if (folder / LEDGER).exists() else []
    known = {line.get(key) for line in own for key in ("hash", "was")}  # each as `knows` has it, in one pass
    missing = tuple(one for one in answers if one.was not in known)
    return Lapse(mark, answers=missing, statement=letter.statement)


# deciding


def recover(folder: Path, *, as_told: bool) -> Lapse:
    """Take a site back: count what was told as spent, and no more; or all that was ever approved."""
    lapse = read_lapse(folder)
    if lapse is None:
        raise RunError(f"{folder} was not put back from a copy, as far as it knows; there is nothing to recover")
    if not lapse.statement:
        raise RunError(f"{UNTOLD}; then: wardround site recover {folder}")
    settings = read_site(folder)
    costs = list(_costs(settings, lapse.answers))
    journal = budget_journal(settings)
    for study, name, run, unit, cost in costs:
        if not ((known := journal.runs.get((study, run))) and known.over):  # after a crash, say
            journal.forget(study, name, run, unit, cost)
    budget = _written(folder, lapse, as_told=as_told)
    if not as_told:
        _spend_all(folder, settings, budget, lapse.mark)
    for pattern in ("*/*/secret", "*/*/*.sum"):
        for path in (folder / "memory").glob(pattern):
            path.unlink()
    (folder / ACCOUNT).unlink(missing_ok=True)
    (folder / MARK).unlink()
    return lapse


def _costs(settings: SiteSettings, answers: Sequence[ToldAnswer]) -> Iterator[tuple[str, str, str, str, Allowance]]:
    """What forgotten runs cost at most, where that can be counted."""
    folder = settings.folder
    for study, run in dict.fromkeys((one.study, one.run) for one in answers):
        path = next((folder / "approved").glob(f"{study}*.toml"), None)
        if path is None and settings.allowance is not None:
            raise RunError(
                f"the study {study} was answered since the copy was made, and its approval is not here: what it cost "
                f"cannot be counted. Approve it again first: wardround site approve {folder} STUDY"
            )
        chosen = site_study(folder, path.read_text(encoding="utf-8"), str(path)) if path else None
        if chosen and chosen.dp:
            yield study, chosen.name, run, chosen.dp.unit, Allowance(chosen.dp.epsilon, chosen.dp.delta)


def _written(folder: Path, lapse: Lapse, *, as_told: bool) -> Budget:
    """Write down what was forgotten as if it had just been answered, and the letter; what the ledger says then."""
    budget, chain, now = (
        Budget(folder / LEDGER),
        Chain(folder / LEDGER),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if chain.head == START:
        chain.append({"time": now, "ledger_of": str(site_name(folder))})
    states = _states(lapse.answers)
    for one in lapse.answers:
        line = {**json.loads(one.model_dump_json(exclude={"time"})), "time": now, "answered": one.time}
        line["mark"] = _mark(budget.of(one.study), one)
        state = states.get(one.was)
        if state and (line["mark"] == "restart" or state[0] not in budget.of(one.study).states):
            line["received"]["state"] = state
        budget.take(line)
        chain.append(line)
    facts = {"copy": lapse.mark.taken, "exchanges": len(lapse.answers), "how": "as told" if as_told else "nothing left"}
    chain.append({"time": now, "recovered": facts, "signed": dict(lapse.statement)})
    chain.flush(durable=True)
    return budget


def _mark(spent: Spent, one: ToldAnswer) -> str:
    known = spent.answered.get((one.round, one.exchange, one.step))
    if known is None:
        return "new"
    return "again" if known == Answered(one.received.digest, one.sent.digest) else "restart"


def _states(answers: Iterable[ToldAnswer]) -> dict[str, list[Any]]:
    """By the head of the ledger then, the round that an answer's weights begin, and their digest.

    Where weights move within a round, they begin it with its first answer; an evaluation has what begins the next.
    """
    first: dict[tuple[object, ...], ToldAnswer] = {}
    for one in answers:
        if one.received.weights:
            tried = one.exchange if one.exchange > EVALUATION else 0
            key = (one.study, one.run, one.attempt, one.round, tried)
            if key not in first or one.exchange < first[key].exchange:
                first[key] = one
    return {one.was: [begun(one.round, one.exchange), one.received.weights] for one in first.values()}


def _spend_all(folder: Path, settings: SiteSettings, budget: Budget, mark: Restored) -> None:
    """Leave nothing of what was approved, and nothing of the privacy budget."""
    for path in (folder / "approved").glob("*.toml"):
        with suppress(ValueError):
            if approval := read_approval(folder, path.stem):
                spent = budget.of(path.stem)
                had = {"exchanges": min(spent.exchanges, approval.exchanges), "restarts": 0}
                write_approval(folder, path.stem, approval.model_copy(update=had))
    if settings.allowance is not None:
        journal = budget_journal(settings)
        epsilon, delta = journal.spent
        rest = Allowance(max(settings.allowance.epsilon - epsilon, 0.0), max(settings.allowance.delta - delta, 0.0))
        journal.forget("restored", "what was forgotten", mark.lapse[:16], "patient", rest)
