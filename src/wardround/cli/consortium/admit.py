"""`wardround consortium admit CONSORTIUM REQUEST`: signs a hospital's key, and makes its kit."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Consortium, Days, console
from wardround.runs.errors import RunError


def command(
    folder: Consortium,
    request: Annotated[Path, typer.Argument(help="The file that the hospital sent.", metavar="REQUEST")],
    fingerprint: Annotated[str, typer.Option(help="What the hospital read out to you; otherwise you are asked.")] = "",
    days: Days = 360,
) -> None:
    """Sign the key that a hospital made, and make its kit: no private key leaves the hospital."""
    from wardround.cli.consortium.fingerprint import show_fingerprint, show_kit, standing
    from wardround.consortium.admission import admit
    from wardround.consortium.kit_files import read_request
    from wardround.engines.certificates import same_fingerprint

    standing(folder)
    read = read_request(request)
    console.print(f"{read.name} asks to join, with the fingerprint {read.fingerprint}")
    if not fingerprint and not sys.stdin.isatty():
        raise RunError("compare it with what the hospital reads out to you, then give it with --fingerprint")
    if not fingerprint and not typer.confirm("Does the hospital read out the same?"):
        raise RunError("not admitted; nothing was written")
    if fingerprint and not same_fingerprint(fingerprint, read.fingerprint):
        raise RunError(
            f"{request} has the fingerprint {read.fingerprint}, not {fingerprint}; it is not what the hospital made: "
            f"nothing was written"
        )
    show_kit(read.name, admit(folder, read, days))
    show_fingerprint(folder)
