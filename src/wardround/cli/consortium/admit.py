"""`wardround consortium admit CONSORTIUM REQUEST`: signs a hospital's key, and makes its kit."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Consortium, Days, console


def command(
    folder: Consortium,
    request: Annotated[Path, typer.Argument(help="The file that the hospital sent.", metavar="REQUEST")],
    fingerprint: Annotated[str, typer.Option(help="What the hospital read out to you; otherwise you are asked.")] = "",
    days: Days = 360,
) -> None:
    """Sign the key that a hospital made, and make its kit: no private key leaves the hospital."""
    from wardround.cli.consortium.fingerprint import compared, show_fingerprint, show_kit, standing
    from wardround.consortium.admission import admit
    from wardround.consortium.kit_files import read_request

    standing(folder)
    read = read_request(request)
    console.print(f"{read.name} asks to join, with the fingerprint {read.fingerprint}")
    compared(request, read.fingerprint, fingerprint, "the hospital")
    show_kit(read.name, admit(folder, read, days))
    show_fingerprint(folder)
