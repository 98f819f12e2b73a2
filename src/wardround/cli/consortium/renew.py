"""`wardround consortium renew CONSORTIUM NAME`: a new certificate for the same key."""

from typing import Annotated

import typer

from wardround.cli.consortium.fingerprint import standing
from wardround.cli.options import Consortium, Days, console
from wardround.consortium.admission import renew

__all__ = ["command"]


def command(
    folder: Consortium,
    name: Annotated[str, typer.Argument(help="The site's name, or: coordinator.")],
    days: Days = 360,
) -> None:
    """Make a new certificate for the key that is known."""
    standing(folder)
    kit = renew(folder, name, days)
    if kit is None:
        console.print("the coordinator's own certificates are new; they are used from its next start on")
    else:
        console.print(f"{kit}: send it to {name}, for: wardround site join {name} {kit.name}; it holds no secret")
