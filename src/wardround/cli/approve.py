"""What a hospital reads before it says yes: what would leave it, what is odd, and what was approved before."""

import sys
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from wardround.consortium.approval import Approval, approved_name, read_approval
from wardround.consortium.approving import spent
from wardround.consortium.check import leaving
from wardround.consortium.expected import evaluations, expected_exchanges, sites_of
from wardround.consortium.settings import read_site
from wardround.runs.errors import RunError
from wardround.runs.exchanges import rows
from wardround.runs.wire import HEADER, SUMMED
from wardround.study.load import Study

__all__ = ["ask", "show_leaving", "tell_approved"]

console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
NEVER = "never leaves: text, tokens, entity strings, document ids, private records"
SMALL = (
    "counts of labels with fewer than {} examples are left out of what evaluation tells; "
    "an update can still give them away (docs/threats.md)"
)


def ask(questions: list[str], *, yes: bool) -> None:
    """Have a person say yes to what is odd."""
    for question in questions:
        console.print(question)
    if not questions or yes:
        return
    if not sys.stdin.isatty():
        raise RunError("not approved: there are questions (??) above; if all of it is meant, say --yes")
    if not typer.confirm("Is all of it meant?", default=False):
        raise RunError("not approved: see [labels] in site.toml")


def tell_approved(folder: Path, study: Study, mark: str, before: Approval | None, *, again: bool) -> None:
    """Tell what is approved now, and of a study approved before, what it has spent."""
    now = read_approval(folder, mark)
    assert now is not None  # noqa: S101 -- it has just been written
    if before is not None:
        used = spent(folder, mark)
        runs = len(used.runs)
        console.print(
            f"{study.name} was approved before, on {before.time[:10]}, for {_budget(before)} in all; spent so far, in "
            f"{runs:,} run{'s' * (runs != 1)}: {used.rounds:,} rounds, {used.exchanges:,} exchanges, "
            f"{used.restarts:,} restart{'s' * (used.restarts != 1)}"
        )
        if (name := approved_name(folder, mark)) != study.name:
            console.print(f"it was named {name} then; name and rounds do not make another study, other settings do")
        if before.data != now.data:
            console.print("the data or the label map have changed since; they are approved as they are now")
        if not again and before.rounds == now.rounds:
            console.print("nothing was added to what it may spend; to add another budget, say --again")
            return
    console.print(
        f"approved {study.name} ({mark[:16]}…), for {_budget(now)} in all, over all runs of it: what one run is "
        f"expected to take, and room for a round that is asked again;\n"
        f"take it back by deleting {folder / 'approved' / mark}.toml"
    )


def _budget(approval: Approval) -> str:
    counts = ((approval.rounds, "round"), (approval.exchanges, "exchange"), (approval.restarts, "restart"))
    rounds, exchanges, restarts = (f"{count:,} {name}{'s' * (count != 1)}" for count, name in counts)
    return f"{rounds}, {exchanges} and {restarts}"


def show_leaving(folder: Path, study: Study) -> None:
    """Print what a study would make leave this site, how often, and what never does."""
    settings, sites = read_site(folder), sites_of(folder)
    examples = len(settings.examples(study)[0])
    seen = leaving(folder, settings, study)
    table = Table(*(name for name in HEADER if name != "direction"), box=None)
    for row in rows(seen):
        if row.direction == "from site":
            table.add_row(row.columns[0], *row.columns[2:])
    Console(width=200, markup=False, highlight=False).print(table)
    expected = expected_exchanges(study, examples, sites)
    each = {found.step: found.reply.nbytes for found in seen}
    first = sum(each.get(step, 0) for step in expected.opening)
    round_ = sum(each.get(step, 0) * times for step, times in expected.steps.items())
    tried = each.get("evaluate", 0) * expected.evaluation
    whole = first + study.rounds * round_ + evaluations(study) * tried
    if expected.start:
        console.print(f"before the first round: {_leaves(expected.start, first)} this site")
    console.print(
        f"per round: {_leaves(expected.per_round, round_)} this site, and when the model is tried: "
        f"{_leaves(expected.evaluation, tried)} it;\n"
        f"in {study.rounds:,} round{'s' * (study.rounds != 1)} in all: {_leaves(expected.total(study), whole)} it."
    )
    if expected.estimated:
        console.print(
            f"This is an estimate: {study.resolved['method']['name']} asks the more often the more examples all sites "
            f"have together; for {examples:,} training examples here, and as many at each of the {sites:,} sites of "
            f"the consortium."
        )
    console.print(SUMMED)
    console.print(NEVER)
    smallest = settings.consent.smallest_count
    console.print(SMALL.format(smallest) if smallest else "counts of labels leave, however small they are")


def _leaves(exchanges: int, size: int) -> str:
    return f"{exchanges:,} exchange{'s' * (exchanges != 1)}, {size:,} bytes leave"
