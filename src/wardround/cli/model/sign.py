"""`wardround model sign MODEL --key FILE`: say whose a model is."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, refusals


def command(
    path: Annotated[Path, typer.Argument(help="A model's folder, or a run's.", metavar="MODEL")],
    key: Annotated[Path, typer.Option(help="The private key, as wardround model key makes it.", metavar="FILE")],
) -> None:
    """Sign a model's folder, so that --trust accepts it."""
    from wardround.trained.about import model_folder
    from wardround.trained.signature import sign

    folder = model_folder(path)
    with refusals(folder):
        public = sign(folder, key)
    console.print(f"{folder}: signed with the key {public}")
