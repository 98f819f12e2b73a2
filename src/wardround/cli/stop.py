"""`wardround stop CONSORTIUM [RUN]`: a run ends after its round; without one, the coordinator ends."""

from typing import Annotated

import typer

from wardround.cli.options import Consortium, console
from wardround.runs.errors import RunError


def command(
    folder: Consortium,
    run: Annotated[str, typer.Argument(help="A run, as `wardround status` names it, to end after its round.")] = "",
) -> None:
    """Stop a run after its round, or the coordinator; runs can be resumed later."""
    from wardround.consortium.people import is_person

    if is_person(folder):
        from wardround.cli.afar import stop_from_afar

        stop_from_afar(folder, run)
        return
    from wardround.consortium.asking import asked, gone

    if run:
        from wardround.consortium.orders import Orders

        orders = Orders(folder)
        places = [place for place, called in orders.stoppable().items() if run in (called, str(place))]
        if len(places) != 1:
            raise RunError(f"{run}: {len(places)} runs of {folder} have this name; give the folder that status shows")
        if not orders.stop(places[0]):
            raise RunError(f"{run} is not going on, so there is nothing to stop; if it is just starting, try again")
        console.print(f"{run} will stop after this round")
        return
    asked(folder, "stop")
    if not gone(folder, 30.0):
        raise RunError(f"the coordinator of {folder} has not stopped within 30 seconds")
    console.print("stopped")
