"""`wardround methods`: a list of them."""

from rich.table import Table

from wardround.cli.options import console, wide
from wardround.methods import METHODS, NamedMethod
from wardround.study.source import about_in


def command() -> None:
    """List the methods, with one line each."""
    table = Table("name", "what it does", box=None)
    for name, entry in METHODS.items():
        table.add_row(name, _about(entry))
    wide().print(table)
    console.print('your own: name = "my_module:MyMethod" in the study file\'s [method]')


def _about(entry: NamedMethod) -> str:
    """One line, read off the source: torch is not imported for it."""
    if not entry.settings:
        return about_in(entry.place)
    given = ", ".join(f"{key} = {value}" for key, value in entry.settings.items())
    return f"{entry.place.partition(':')[2]} with {given}"
