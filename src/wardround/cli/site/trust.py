"""`wardround site trust SITE`: the keys by which hospitals know each other, whatever the coordinator says.

wardround site trust charite/                             this site's fingerprint, and what is known of the others'
wardround site trust charite/ mainz "3f2a 91c0 …"         pin another's, as it was read out over the phone
"""

from typing import Annotated

import typer
from rich.table import Table

from wardround.cli.options import Site, console


def command(
    folder: Site,
    name: Annotated[str, typer.Argument(help="Another site, whose key is to be pinned.")] = "",
    fingerprint: Annotated[str, typer.Argument(help="Its fingerprint, as its people read it out.")] = "",
) -> None:
    """Show this site's fingerprint and those of the others, or pin one: who may be in a masked sum with this site."""
    from wardround.consortium.identity import others, own_fingerprint, pin, pinned, seen
    from wardround.consortium.kit_check import site_name
    from wardround.engines.certificates import same_fingerprint
    from wardround.runs.errors import RunError

    if name and not fingerprint:
        raise RunError(f"give the fingerprint that {name} reads out, too: wardround site trust {folder} {name} 3f2a…")
    if name:
        pin(folder, name, fingerprint)
    own = str(site_name(folder))
    console.print(f"{own}, read this out to the other hospitals over the phone: {own_fingerprint(folder, own)}")
    table, known, shown = (
        Table("site", "pinned", "shown by the coordinator", "", box=None),
        pinned(folder),
        seen(folder),
    )
    for other in others(folder):
        mine, theirs = known.get(other, ""), shown.get(other, "")
        same = not (mine and theirs) or same_fingerprint(mine, theirs)
        words = "" if same else "ANOTHER KEY: find out why before you take part"
        table.add_row(other, mine or "—", theirs or "—", words)
    if table.row_count:
        console.print(table)
    missing = [other for other in others(folder) if other not in known]
    if missing:
        console.print(
            f"not pinned: {', '.join(missing)}. Ring each of them up, at a number that you know them by, let them read "
            f"out what `wardround site trust` shows them, and pin that:\n"
            f'wardround site trust {folder} {missing[0]} "…"',
            soft_wrap=True,
        )
    elif table.row_count:
        console.print(
            f"all are pinned. Next: wardround site check {folder} --study study.toml, approve, start", soft_wrap=True
        )
    console.print(
        "Hospitals that were admitted after this one's kit was made are not in this list until the kit is renewed (by "
        "the coordinator: wardround consortium renew) or a masked study shows their keys; pin them by name before.",
        soft_wrap=True,
    )
