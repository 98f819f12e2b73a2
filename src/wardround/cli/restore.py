"""`wardround restore COPY FOLDER`: puts a copy back, into a new folder."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, refusals


def command(
    copy: Annotated[Path, typer.Argument(help="What `wardround backup` has written.", metavar="COPY")],
    folder: Annotated[Path, typer.Argument(help="A new folder; never one that is in use.")],
) -> None:
    """Put a copy of a site or a coordinator back, into a new folder; a site answers nothing until it is recovered."""
    from wardround.consortium.backup import put_back
    from wardround.consortium.roster import read_roster

    with refusals(folder):
        manifest = put_back(copy, folder)
    console.print(f"{folder}: {manifest.kind} {manifest.name}, as of {manifest.taken}")
    if manifest.kind == "site":
        console.print(
            "it may have forgotten what it has answered since, and answers nothing for now. Put the notes back, start "
            f"it, and once the coordinator has said what was answered: wardround site recover {folder}"
        )
        return
    members = ", ".join(name for name, member in read_roster(folder).items() if member.revoked is None) or "nobody"
    console.print(
        f"members, as of then: {members}. Whoever was revoked since is a member again: revoke them before you start; "
        "whoever was admitted since has to be admitted again"
    )
