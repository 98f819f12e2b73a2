"""`wardround site recover SITE`: what a site has forgotten that was put back from a copy, and what counts as spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import Site, console
from wardround.runs.errors import RunError

if TYPE_CHECKING:
    from wardround.consortium.forgotten import ToldAnswer


def command(
    folder: Site,
    as_told: Annotated[
        bool, typer.Option("--as-told", help="What the coordinator says was answered counts as spent, and no more.")
    ] = False,
    nothing_left: Annotated[
        bool, typer.Option("--nothing-left", help="Whatever was approved counts as spent: approve it again.")
    ] = False,
) -> None:
    """Show what a site that was put back from a copy has forgotten; say what counts as spent, and it answers again."""
    from wardround.consortium.forgotten import UNTOLD, read_lapse, recover

    lapse = read_lapse(folder)
    if lapse is None or (as_told and nothing_left):
        raise RunError(
            f"{folder} was not put back from a copy, as far as it knows; there is nothing to recover"
            if lapse is None
            else "--as-told or --nothing-left, not both"
        )
    console.print(f"put back from a copy of {lapse.mark.taken or 'an unknown time'}; noticed {lapse.mark.noticed}")
    if lapse.statement:
        show_forgotten(folder, lapse.answers)
    if not (as_told or nothing_left):
        raise RunError(
            "nobody can prove that the coordinator tells all, and it gains by telling less. Compare with what you have "
            "of that time (pages for the officer, logs), then say one of:\n"
            f"  wardround site recover {folder} --as-told        this is all; it counts as spent\n"
            f"  wardround site recover {folder} --nothing-left   count whatever was approved as spent"
            if lapse.statement
            else UNTOLD
        )
    recover(folder, as_told=as_told)
    count = len(lapse.answers)
    console.print(f"{count:,} answer{'s' * (count != 1)} written down as spent; the site answers from now on")
    if nothing_left:
        console.print("nothing is left of any approval: wardround site approve --again; nor of [budget] in site.toml")


def show_forgotten(folder: Path, answers: "tuple[ToldAnswer, ...]") -> None:
    """What was answered, by study and run."""
    from rich.table import Table

    from wardround.cli.options import wide
    from wardround.watch.house import House

    if not answers:
        console.print("the coordinator knows of no answer that is not in the ledger here")
        return
    table = Table("study", "run", "rounds", "answers", "bytes", "first", "last", box=None)
    house = House(folder)
    house.look()
    for key in dict.fromkeys((one.study, one.run) for one in answers):
        mine = [one for one in answers if (one.study, one.run) == key]
        rounds = f"{min(one.round for one in mine)}–{max(one.round for one in mine)}"
        size = sum(one.sent.bytes for one in mine)
        table.add_row(house.named(key[0]), key[1], rounds, f"{len(mine):,}", f"{size:,}", mine[0].time, mine[-1].time)
    console.print("the coordinator says that this was answered, and the ledger here does not have it:")
    wide().print(table)
