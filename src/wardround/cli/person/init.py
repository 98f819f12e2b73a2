"""`wardround person init NAME`: makes a person's key, and a request for a certificate."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console


def command(
    folder: Annotated[
        Path, typer.Argument(help="The person's name, which the new folder gets as well.", metavar="NAME")
    ],
) -> None:
    """Make a person's key, which stays here, and a request for a certificate."""
    from wardround.consortium.people import new_person

    request, path = new_person(folder)
    console.print(f"{path}: send it to whoever administers the consortium; it holds no secret, the key stays here")
    console.print(f"read this out over the phone: {request.fingerprint}")
    console.print(f"with the card that comes back: wardround person join {folder} {request.name}.card")
