"""`wardround site install SITE`: a systemd unit, a container and a page for IT, made at the site."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Site, console


def command(
    folder: Site = Path(),
    user: Annotated[
        str, typer.Option(help="The user that the service runs as; default: you, as a service of your own.")
    ] = "",
    now: Annotated[bool, typer.Option("--start", help="Install the unit with systemd, and start it.")] = False,
) -> None:
    """Write what IT needs to run this site as a service: unit, container files, a page with ports and addresses."""
    from wardround.consortium.install import start, write_pack

    pack = write_pack(folder, user)
    console.print(f"written to {pack.folder}: {', '.join(sorted(path.name for path in pack.folder.iterdir()))}")
    if now:
        start(pack)
        console.print(f"{pack.unit.name} is started; it comes back after a restart of the machine")
        return
    for obstacle in pack.obstacles:
        console.print(f"??  {obstacle}")
    console.print("to start it:")
    for each in pack.commands:
        console.print(f"  {shlex.join(each)}")
