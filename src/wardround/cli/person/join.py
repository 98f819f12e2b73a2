"""`wardround person join PERSON CARD`: takes the card that an administrator made for this person's key."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console


def command(
    folder: Annotated[Path, typer.Argument(help="The person's folder.", metavar="PERSON")],
    card: Annotated[Path, typer.Argument(help="The file that was sent back.", metavar="CARD")],
    fingerprint: Annotated[str, typer.Option(help="What the coordinator read out to you.")] = "",
) -> None:
    """Take the card that was made for this person's key, the first or a renewed one."""
    from wardround.consortium.people import take_card
    from wardround.engines.certificates import dates, read_certificate

    taken = take_card(folder, card, fingerprint)
    until = dates(read_certificate(taken.certificate.encode()))[1]
    console.print(
        f"{taken.name} has the role {taken.role} in the consortium {taken.consortium} at {taken.host}:{taken.port}, "
        f"until {until:%Y-%m-%d}"
    )
    console.print(f"compare with what the coordinator reads out over the phone: {taken.fingerprint}")
    console.print(f"then: wardround status {folder}")
