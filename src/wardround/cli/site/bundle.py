"""`wardround site bundle OUT`: what a machine without the internet installs from; `--verify` checks one."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, refusals


def command(
    out: Annotated[Path, typer.Argument(help="A new folder; with --verify, one that was made.", metavar="BUNDLE")],
    extras: Annotated[str, typer.Option(help="Which extras of wardround to take along, with commas.")] = "flare,serve",
    encoder: Annotated[Path | None, typer.Option(help="A pretrained encoder's folder to take along.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Only check that each file is as it was written.")] = False,
) -> None:
    """Fetch all wheels, with hashes, for a machine of the same kind that has no internet; or verify such a folder."""
    from wardround.consortium.bundle import how_to_install, make_bundle, verify_bundle

    if not verify:
        with refusals(out):
            make_bundle(out, [one for one in extras.split(",") if one], encoder)
    count = verify_bundle(out)
    console.print(f"{out}: {count:,} files, each as it was written")
    if not verify:
        console.print(f"carry it over, then there:\n{how_to_install(out)}")
