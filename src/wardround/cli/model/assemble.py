"""`wardround model assemble RUN SITE --out DIR`: a site's own model, where each keeps a part for itself."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, refusals
from wardround.trained.assemble import assembled_run

__all__ = ["command", "show_assembled"]


def command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    site: Annotated[str, typer.Argument(help="The site's name.", metavar="SITE")],
    out: Annotated[Path, typer.Option(help="A new folder.")],
    beside: Annotated[
        Path | None, typer.Option(help="Where the study file lay, if it names files or modules of its own.")
    ] = None,
) -> None:
    """Put a simulated site's model together, where each keeps a part for itself (`[sites] private`, `local`)."""
    with refusals(out):
        assembled_run(run, site, out, beside)
    show_assembled(site, out)


def show_assembled(site: str, out: Path) -> None:
    """Where the model is, and whose."""
    console.print(f"the model of {site} is in {out}; it has what {site} kept for itself")
