"""`wardround consortium person CONSORTIUM REQUEST --role ROLE`: signs a person's key for one role."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Consortium, Days, Door, console
from wardround.runs.errors import RunError


def command(
    folder: Consortium,
    request: Annotated[Path, typer.Argument(help="The file that the person sent.", metavar="REQUEST")],
    role: Annotated[str, typer.Option(help="watch, submit or admin; each may do what those before it may.")],
    fingerprint: Annotated[str, typer.Option(help="What the person read out to you; otherwise you are asked.")] = "",
    door: Door = "",
    days: Days = 360,
) -> None:
    """Sign the key that a person made, for one role: who administers, who submits studies, who only watches."""
    from wardround.cli.consortium.fingerprint import compared, show_fingerprint, standing
    from wardround.cli.coordinator.start import place
    from wardround.consortium.forms import read_charter
    from wardround.consortium.people import ROLES, admit_person, read_person_request

    standing(folder)
    named = next((one for one in ROLES if one == role), None)
    if named is None:
        raise RunError(f"--role {role}: use one of {', '.join(ROLES)}")
    read = read_person_request(request)
    console.print(f"{read.name} asks for a certificate, with the fingerprint {read.fingerprint}")
    compared(request, read.fingerprint, fingerprint, "the person")
    host, port = place(door, "--door", read_charter(folder).host)
    card = admit_person(folder, read, named, days, (host, port))
    console.print(f"{card}: send it to {read.name}, for: wardround person join {read.name} {card.name}; it holds no "
                  "secret")  # fmt: skip
    console.print(f"people are let in by: wardround coordinator start {folder} --people {host}:{port}")
    show_fingerprint(folder)
