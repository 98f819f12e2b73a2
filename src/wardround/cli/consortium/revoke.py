"""`wardround consortium revoke CONSORTIUM NAME`: a site or a person is out, for good."""

from typing import Annotated

import typer

from wardround.cli.options import Consortium, console


def command(
    folder: Consortium,
    name: Annotated[str, typer.Argument(help="The name of a site or a person.")],
) -> None:
    """Let a site or a person take part no longer, for good; an administrator may do so from another machine."""
    from wardround.cli.consortium.fingerprint import standing
    from wardround.consortium.admission import revoke
    from wardround.consortium.errand import Errand
    from wardround.consortium.orders import Orders
    from wardround.consortium.people import is_person, read_people, revoke_person

    if is_person(folder):
        ending = str(Errand(folder).ask("/revoke", {"name": name}).get("ending", ""))
        console.print(f"{name} is revoked" + (f"; {ending}" if ending else ""))
        return
    standing(folder)
    if name in read_people(folder):
        revoke_person(folder, name)
        ending = Orders(folder).ending(name)
        console.print(f"{name} is revoked, and may do nothing more" + (f"; {ending}" if ending else ""))
        return
    revoke(folder, name)
    console.print(f"{name} is revoked: it is asked no more, and refused; what it kept and what it sent stays as it is")
