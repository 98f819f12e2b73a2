"""`wardround model assemble RUN SITE --out DIR`: a site's own model, where each keeps a part for itself."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Beside, Finished, SiteName, console, refusals


def command(
    run: Finished, site: SiteName, out: Annotated[Path, typer.Option(help="A new folder.")], beside: Beside = None
) -> None:
    """Put a simulated site's model together, where each keeps a part for itself (`[sites] private`, `local`)."""
    from wardround.trained.assemble import assembled_run

    with refusals(out):
        assembled_run(run, site, out, beside)
    show_assembled(site, out)


def show_assembled(site: str, out: Path) -> None:
    """Where the model is, and whose."""
    console.print(f"the model of {site} is in {out}; it has what {site} kept for itself")
