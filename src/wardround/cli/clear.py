"""`wardround clear FOLDER`: what old runs have left at a site or a coordinator, with sizes; `--yes` clears it."""

from typing import Annotated

import typer

from wardround.cli.backup import Folder
from wardround.cli.options import console


def command(
    folder: Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Clear what can go; without this, it is only listed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also clear what unfinished runs still need.")] = False,
) -> None:
    """List what old runs have left in a site's or a coordinator's folder, with sizes, and clear it."""
    from rich.table import Table

    from wardround.cli.options import wide
    from wardround.consortium.leftovers import clear, leftovers

    rows = leftovers(folder)
    going = [one for one in rows if force or not one.kept]
    table = Table("what", "MB", "", "where", box=None)
    for one in rows:
        stays = one.kept if not force else ""
        table.add_row(one.what, f"{one.size / 1e6:.1f}", f"stays: {stays}" if stays else "goes", str(one.path))
    if rows:
        wide().print(table)
    size = sum(one.size for one in going) / 1e6
    if not going:
        console.print("there is nothing to clear")
    elif not yes:
        if unmade := [one.path.name for one in going if one.unmade]:
            words = "has kept a part of its own model of the run"
            console.print(f"this site {words} {', '.join(unmade)}: wardround site model comes first")
        console.print(f"{len(going):,} of {len(rows):,} can go, {size:.1f} MB: wardround clear {folder} --yes")
    else:
        console.print(f"cleared {len(clear(rows, force=force)):,} of {len(rows):,}, {size:.1f} MB")
