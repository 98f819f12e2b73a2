"""`wardround consortium renew CONSORTIUM NAME`: a new certificate for the same key."""

from typing import Annotated

import typer

from wardround.cli.options import Consortium, Days, console

Member = Annotated[str, typer.Argument(help="The name of a site or a person, or: coordinator.")]


def command(folder: Consortium, name: Member, days: Days = 360) -> None:
    """Make a new certificate for the key that is known."""
    from wardround.cli.consortium.fingerprint import show_kit, standing
    from wardround.consortium.admission import renew
    from wardround.consortium.people import read_people, renew_person

    standing(folder)
    if name in read_people(folder):
        card = renew_person(folder, name, days)
        console.print(f"{card}: send it to {name}, for: wardround person join {name} {card.name}; it holds no secret")
        return
    kit = renew(folder, name, days)
    if kit is None:
        console.print("the coordinator's own certificates are new; they are used from its next start on")
    else:
        show_kit(name, kit)
