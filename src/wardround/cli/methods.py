"""`wardround methods`: a list of them."""

from rich.table import Table

from wardround.cli.options import console, wide
from wardround.methods import METHODS


def command() -> None:
    """List the methods, with one line each."""
    table = Table("name", "what it does", box=None)
    for name, method in METHODS.items():
        table.add_row(name, method.about)
    wide().print(table)
    console.print('your own: name = "my_module:MyMethod" in the study file\'s [method]')
