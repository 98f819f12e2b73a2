"""`wardround site trust SITE`: the keys by which hospitals know each other, whatever the coordinator says.

wardround site trust charite/                             this site's fingerprint, and what is known of the others'
wardround site trust charite/ mainz "3f2a 91c0 …"         pin another's, as it was read out over the phone
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
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
    for line in next_steps(folder, others(folder), known):
        console.print(line, soft_wrap=True)


def next_steps(folder: Path, names: Sequence[str], known: Mapping[str, str]) -> Iterator[str]:
    """What a person does now: whom to telephone, what to type, and how this site hears of those it does not know."""
    if missing := [name for name in names if name not in known]:
        yield f"next: telephone {', '.join(missing)}; read yours out, have theirs read out, and pin what you hear:"
        yield from (f'  wardround site trust {folder} {name} "…"' for name in missing)
        yield "  (not what the coordinator shows: a coordinator that lies would show a key of its own)"
    elif known:
        yield "the keys of all others that this site knows of are pinned; they pin yours likewise."
        yield f"next: wardround site check {folder} --study study.toml, then wardround site approve {folder} study.toml"
    yield (
        "a site that is admitted later comes into the list when the coordinator tells of it, while this one is "
        "connected; or have its people tell you its name, and pin it as above:"
        if names
        else "this site knows of no other yet: it hears of them from the coordinator, while it is connected. Or have "
        "their people tell you their names, and pin what you hear:"
    )
    yield f'  wardround site trust {folder} NAME "FINGERPRINT"'
