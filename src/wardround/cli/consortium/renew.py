"""`wardround consortium renew CONSORTIUM NAME`: a new certificate for the same key."""

from typing import Annotated

import typer

from wardround.cli.options import Consortium, Days, Door, console
from wardround.runs.errors import RunError

Member = Annotated[str, typer.Argument(help="The name of a site or a person, or: coordinator.")]


def command(folder: Consortium, name: Member, days: Days = 360, door: Door = "") -> None:
    """Make a new certificate for the key that is known."""
    from wardround.cli.consortium.fingerprint import show_kit, standing
    from wardround.cli.coordinator.start import place
    from wardround.consortium.admission import renew
    from wardround.consortium.forms import read_charter
    from wardround.consortium.people import read_people, renew_person

    standing(folder)
    if name in read_people(folder):
        card = renew_person(folder, name, days, place(door, "--door", read_charter(folder).host) if door else None)
        console.print(f"{card}: send it to {name}, for: wardround person join {name} {card.name}; it holds no secret")
        return
    if door:
        raise RunError(f"--door is for people, and {name} is none of them")
    kit = renew(folder, name, days)
    if kit is None:
        console.print("the coordinator's own certificates are new; they are used from its next start on")
    else:
        show_kit(name, kit)
