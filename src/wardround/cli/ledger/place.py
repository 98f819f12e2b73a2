"""Where a ledger lies, in whatever folder a user names."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.runs.errors import RunError

Ledger = Annotated[Path, typer.Argument(help="A site's folder, or a ledger file.", metavar="SITE|FILE")]


def ledger_at(path: Path) -> Path:
    """The ledger of a site's folder or a run's, or the file itself."""
    places = (path, path / "ledger" / "site.jsonl", path / "ledger" / "coordinator.jsonl")
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise RunError(f"{path}: there is no ledger; name a site's folder, a run folder or a file")
    return file
