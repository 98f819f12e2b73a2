"""`wardround site join SITE KIT.zip`: takes the kit that the coordinator made for this site's request."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Site, console


def command(
    folder: Site,
    kit: Annotated[Path, typer.Argument(help="The file that the coordinator sent.", metavar="KIT.zip")],
    fingerprint: Annotated[str, typer.Option(help="What the coordinator read out to you.")] = "",
) -> None:
    """Take the kit that the coordinator made for this site's keys, the first or a renewed one."""
    from wardround.consortium.kit_check import lasting
    from wardround.consortium.kits import join

    taken = join(folder, kit, fingerprint)
    about, until = taken.about, lasting(folder / "kit" / "startup")
    console.print(f"{about.site} is in the consortium {about.name} at {about.host}:{about.port}, {until}")
    console.print(f"compare with what the coordinator reads out over the phone: {taken.fingerprint}")
    console.print(f"for masked sums, compare keys with the other hospitals: wardround site trust {folder}")
    console.print(f"then: wardround site check {folder}; a site that is running takes the kit up by itself")
