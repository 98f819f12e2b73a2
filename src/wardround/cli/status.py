"""`wardround status CONSORTIUM`: who is there, and how far its runs are."""

from pathlib import Path

from rich.table import Table

from wardround.cli.options import Consortium, console

NEWEST = 5  # runs that are shown


def command(folder: Consortium) -> None:
    """Say who is there, and how far the newest runs are."""
    from wardround.consortium.people import is_person

    if is_person(folder):
        from wardround.cli.afar import status_from_afar

        status_from_afar(folder)
        return
    from wardround.consortium.asking import asked

    status = asked(folder, "status")
    table = Table("site", "state", box=None)
    for name, state in status["sites"].items():
        table.add_row(name, state["words"])
    console.print(f"consortium {status['name']} at {status['address']}")
    console.print(table)
    for place in status["runs"][-NEWEST:]:
        console.print(_standing(Path(place)), soft_wrap=True)


def _standing(place: Path) -> str:
    """One run in a line."""
    from wardround.watch.run import WatchedRun
    from wardround.watch.words import STATES, standing

    run = WatchedRun(place)
    run.look()
    state, words = STATES[run.state], standing(run)
    absent = [f"{site} left out of {one.rounds:,}" for site, one in sorted(run.seen.absences.items())]
    return f"{run.name} in {place}: {'; '.join([words if state in words else f'{state}; {words}', *absent])}"
