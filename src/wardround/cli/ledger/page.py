"""`wardround ledger page SITE --out FILE.html`: what a data-protection officer reads and prints."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Site, console, refusals
from wardround.runs.errors import RunError


def command(
    folder: Site,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("ledger.html"),
) -> None:
    """Write a page for the data-protection officer: what was approved, what left, what was refused, what is left."""
    from wardround.watch.officer import write_page

    with refusals(out):
        house = write_page(folder, out)
    console.print(f"the page is in {out}; open it in a browser, or print it")
    if house.account.broken:
        raise RunError(house.account.broken)
