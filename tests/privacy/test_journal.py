"""A privacy budget's journal in several hands: who spends knows of all others, and who looks changes nothing."""

import os
from pathlib import Path

import pytest

from wardround.core.private_steps import Look
from wardround.layers.ledger import verify
from wardround.privacy.accounting import epsilon, noise_for
from wardround.privacy.journal import Allowance, BudgetJournal, Entry, Overspent

DELTA = 1e-3
NOISE = noise_for(1.0, DELTA, 1.0, 1)
ALLOWED = Allowance(2.0, 1.0)


def entry(run: str) -> Entry:
    """A look that costs ε = 1, in a run of its own."""
    return Entry("s", "study", run, f"key {run}", Look("train", NOISE, 1.0, 1), 1, 1.0, DELTA, 0.0, "example")


def spent_to_the_end(path: Path, name: str, begin: int) -> int:
    """Spend as much as goes, once all have come this far; 0 if nothing else is in the way."""
    try:
        journal = BudgetJournal(path, Allowance(6.0, 1.0))
        os.read(begin, 1)
        for look in range(5):
            journal.spend(entry(f"{name} {look}"))
    except Overspent:
        return 0
    except BaseException:  # noqa: BLE001 -- it must not go on with the parent's tests
        return 1
    return 0


def test_of_two_that_have_a_journal_open_neither_overspends_nor_breaks_the_chain(tmp_path: Path) -> None:
    """A simulation's workers, say, or a site's process and a command beside it."""
    path = tmp_path / "budget.jsonl"
    one, other = BudgetJournal(path, ALLOWED), BudgetJournal(path, ALLOWED)
    one.spend(entry("a"))
    other.spend(entry("b"))
    other.spend(entry("a"))  # it is known by now
    with pytest.raises(Overspent):
        one.spend(entry("c"))
    assert 2 == verify(path)
    assert 2 * epsilon([(NOISE, 1.0, 1)], DELTA) == BudgetJournal(path).spent[0]


def test_processes_that_spend_at_once_write_one_chain_and_no_look_too_many(tmp_path: Path) -> None:
    path, (out, into), children = tmp_path / "budget.jsonl", os.pipe(), []
    for number in range(4):
        if not (child := os.fork()):
            os.close(into)
            os._exit(spent_to_the_end(path, str(number), out))
        children.append(child)
    os.close(into)
    assert [0] * 4 == [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(out)
    assert 6 == verify(path)


def test_who_only_looks_leaves_a_line_alone_that_is_being_written(tmp_path: Path) -> None:
    """Cut off, it would be gone from the file of the process that writes it, which has paid by it."""
    path = tmp_path / "budget.jsonl"
    BudgetJournal(path, ALLOWED).spend(entry("a"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    journal = BudgetJournal(path, ALLOWED)
    assert 1 == len(journal.runs)
    assert whole + whole[:100] == path.read_bytes()
    journal.spend(entry("b"))  # nobody is at it any more: it was cut off by a crash, and did not count
    assert 2 == verify(path)
