"""`wardround consortium add CONSORTIUM NAME`: one more ready-made kit."""

from typing import Annotated

import typer

from wardround.cli.consortium.fingerprint import show_ready_made, standing
from wardround.cli.options import Consortium, Days
from wardround.consortium.admission import add

__all__ = ["command"]


def command(
    folder: Consortium, name: Annotated[str, typer.Argument(help="The site's name.")], days: Days = 360
) -> None:
    """Make one more ready-made kit, with keys made here, for rehearsals."""
    standing(folder)
    show_ready_made(add(folder, [name], days))
