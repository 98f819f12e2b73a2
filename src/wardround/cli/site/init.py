"""`wardround site init NAME`: makes a site's keys, its site.toml, and a request for the coordinator.

wardround site init KIT.zip hospital/          all at once, from a ready-made kit: for rehearsals
"""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console
from wardround.runs.errors import RunError


def command(
    what: Annotated[
        Path, typer.Argument(help="The site's name; or a ready-made kit with keys in it.", metavar="NAME|KIT.zip")
    ],
    folder: Annotated[Path | None, typer.Argument(help="For a kit: a new folder; default: the site's name.")] = None,
) -> None:
    """Make a site's keys, its site.toml and a request to the coordinator; or take all of it from a ready-made kit."""
    from wardround.consortium.kits import init_site, new_site

    if what.suffix == ".zip" or what.is_file():
        place = folder or Path(what.stem)
        name = init_site(what, place)
        console.print(f"{place / 'site.toml'}: say there where the notes of {name} are, then: wardround site check "
                      f"{place}")  # fmt: skip
        return
    if folder is not None:
        raise RunError(
            f"{what} is not a kit; give one name, which the new folder gets as well: wardround site init {folder}"
        )
    request, path = new_site(what)
    console.print(f"{path}: send it to the coordinator; it holds no secret, the keys stay here")
    console.print(f"read this out to the coordinator over the phone: {request.fingerprint}")
    console.print(f"with the kit that comes back: wardround site join {what} {request.name}.zip")
    console.print(f"{what / 'site.toml'}: say there where the notes of {request.name} are")
