"""`wardround site approve SITE STUDY.toml`: take part in this study, and in no other."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import Site, console
from wardround.runs.errors import RunError

if TYPE_CHECKING:
    from wardround.consortium.approval import Approval
    from wardround.study.load import Study


def command(
    folder: Site,
    study: Annotated[Path, typer.Argument(help="The study file that the coordinator sent.")],
    yes: Annotated[bool, typer.Option("--yes", help="Answer yes to the questions about labels.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Add another budget to one given before.")] = False,
    exchanges: Annotated[
        int | None,
        typer.Option(min=1, help="How many replies may leave in all; default: what one run is expected to take."),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(min=0, help="How often an answered round may be asked for again with another state; default: 1."),
    ] = None,
) -> None:
    """Take part in a study: this one, with exactly these settings, on the data as they are, for one budget."""
    from wardround.cli.site.leaving import show_leaving, study_at
    from wardround.cli.site.start import next_start
    from wardround.consortium.approval import RESTARTS, approve, read_approval
    from wardround.consortium.check import checked
    from wardround.consortium.deployed import study_hash

    chosen = study_at(folder, study)
    findings = list(checked(folder, chosen, online=False))
    problems = [f"{one.what}: {one.detail}" for one in findings if not one.good]
    if problems:
        raise RunError("\n".join(["not approved:", *problems]))
    show_leaving(folder, chosen)
    _ask([f"{one.mark} {one.what}: {one.detail}" for one in findings if one.asks], yes=yes)
    before = read_approval(folder, study_hash(chosen))
    if before and not again and (exchanges is not None or restarts is not None):
        raise RunError(f"{chosen.name} was approved before; to add to what it may spend, say --again")
    mark = approve(
        folder, chosen, again=again, exchanges=exchanges, restarts=RESTARTS if restarts is None else restarts
    )
    _show_approved(folder, chosen, mark, before, again=again)
    console.print(next_start(folder))


def _ask(questions: list[str], *, yes: bool) -> None:
    """Have a person say yes to what is odd."""
    for question in questions:
        console.print(question)
    if not questions or yes:
        return
    if not sys.stdin.isatty():
        raise RunError("not approved: there are questions (??) above; if all of it is meant, say --yes")
    if not typer.confirm("Is all of it meant?", default=False):
        raise RunError("not approved: see [labels] in site.toml")


def _show_approved(folder: Path, study: "Study", mark: str, before: "Approval | None", *, again: bool) -> None:
    """Print what is approved now, and of a study approved before, what it has spent."""
    from wardround.consortium.approval import approved_name, read_approval
    from wardround.consortium.budget import spent

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


def _budget(approval: "Approval") -> str:
    counts = ((approval.rounds, "round"), (approval.exchanges, "exchange"), (approval.restarts, "restart"))
    rounds, exchanges, restarts = (f"{count:,} {name}{'s' * (count != 1)}" for count, name in counts)
    return f"{rounds}, {exchanges} and {restarts}"
