"""`wardround site trust-module SITE FILE.py`: code of the site's own, by its hash."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Site, console


def command(
    folder: Site, file: Annotated[Path, typer.Argument(help="A Python file beside site.toml.", metavar="FILE.py")]
) -> None:
    """Let a Python file of this site's own run here, as it is now: read it first."""
    from wardround.consortium.trust import trust_module

    line = trust_module(folder, file)
    console.print(f"{folder / 'site.toml'} now says under [modules]: {line}")
