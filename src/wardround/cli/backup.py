"""`wardround backup FOLDER OUT`: a copy of a site's or a coordinator's folder, while it runs."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, refusals

Folder = Annotated[Path, typer.Argument(help="A site's folder, or a consortium's.", metavar="FOLDER")]


def command(
    folder: Folder,
    out: Annotated[Path, typer.Argument(help="A new file, NAME.tar; or a folder, where it is named by the time.")],
) -> None:
    """Copy a site's or a coordinator's folder to one file, also while it runs; the copy holds its keys."""
    from wardround.consortium.backup import back_up

    with refusals(out):
        path, manifest = back_up(folder, out)
    console.print(f"{path}: {len(manifest.files):,} files of {manifest.kind} {manifest.name}, as of {manifest.taken}")
    console.print("it holds private keys, for its owner alone to read: keep it as you keep the folder")
    if manifest.kind == "site":
        console.print("notes and logs are not in it")
    console.print(f"to put it back: wardround restore {path} NEW-FOLDER")
