"""`wardround consortium new NAME --address HOST`: the coordinator's keys and certificates.

wardround consortium new north --address fl.example.org            hospitals make their own keys, and are admitted
wardround consortium new north a b c --address localhost           ready-made kits with keys, for rehearsals
"""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Days, console
from wardround.runs.errors import RunError

PORT = 8002


def command(
    name: Annotated[str, typer.Argument(help="The consortium's name.")],
    address: Annotated[str, typer.Option(help="Where sites reach the coordinator: HOST or HOST:PORT.")],
    sites: Annotated[
        list[str] | None,
        typer.Argument(help="Sites whose keys are made here, for rehearsals; others are admitted.", metavar="[SITE…]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to put it; default: a folder of its name.")] = None,
    days: Days = 360,
) -> None:
    """Make the coordinator's keys and certificates."""
    from wardround.cli.consortium.fingerprint import show_fingerprint, show_ready_made
    from wardround.consortium.kits import needs_flare, new_consortium

    needs_flare()
    host, colon, port = address.rpartition(":") if not address.endswith("]") else (address, "", "")
    if colon and not port.isdecimal():
        raise RunError(f"--address {address}: {port!r} is not a port; write HOST or HOST:PORT")
    folder = out or Path(name)
    port_number = int(port) if colon else PORT
    kits = new_consortium(folder, name, sites or [], host if colon else address, port_number, days)
    show_ready_made(kits)
    show_fingerprint(folder)
    if not kits:
        console.print(
            f"hospitals: wardround site init NAME; then here: wardround consortium admit {folder} NAME.request"
        )
    console.print(f"then: wardround coordinator start {folder}")
