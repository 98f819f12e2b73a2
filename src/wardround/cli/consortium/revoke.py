"""`wardround consortium revoke CONSORTIUM NAME`: out, for good."""

from typing import Annotated

import typer

from wardround.cli.consortium.fingerprint import standing
from wardround.cli.options import Consortium, console
from wardround.consortium.admission import revoke

__all__ = ["command"]


def command(folder: Consortium, name: Annotated[str, typer.Argument(help="The site's name.")]) -> None:
    """Let a site take part no longer, for good."""
    standing(folder)
    revoke(folder, name)
    console.print(f"{name} is revoked: it is asked no more, and refused; what it kept and what it sent stays as it is")
