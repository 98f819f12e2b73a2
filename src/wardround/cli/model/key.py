"""`wardround model key FILE`: a key that signs models."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, refusals


def command(
    path: Annotated[Path, typer.Argument(help="The new private key; FILE.pub is its public half.", metavar="FILE")],
) -> None:
    """Make a key that signs models: FILE for you alone, FILE.pub for those who are to trust it."""
    from wardround.trained.signature import make_key

    with refusals(path):
        public = make_key(path)
    console.print(f"{path} signs, and stays with you; {path}.pub is for those who use your models: {public}")
