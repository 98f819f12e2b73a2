"""`wardround settings [TABLE [NAME]]`: every key with its type, limits, default and one sentence; see docs/settings.md.

wardround settings method fedprox
wardround settings corpus csv
wardround settings site.toml
"""

from typing import Annotated

import typer
from rich.table import Table

from wardround.cli.options import wide


def command(
    table: Annotated[str, typer.Argument(help="A table of a study, such as method, or site.toml.")] = "",
    name: Annotated[str, typer.Argument(help="What the table names, such as fedprox; of corpus also a format.")] = "",
) -> None:
    """Show what can be set: the tables of a study, or the keys of one."""
    from wardround.study.reference import TABLES, default_words, kind_words, page

    console = wide()
    rows = Table(box=None, show_header=False)
    if not table:
        for one, (about, _) in TABLES.items():
            rows.add_row(one, about)
        console.print(rows)
        console.print("the keys of one: wardround settings TABLE [NAME], e.g. wardround settings method fedprox")
        return
    shown = page(table, name)
    console.print(f"{table} {name}".strip() + f": {shown.about}")
    if shown.entries:
        console.print(f"name one of: {', '.join(shown.entries)}")
        return
    rows = Table("key", "type", "default", "what it is", box=None)
    for key, setting in shown.settings.items():
        rows.add_row(key, kind_words(setting.kind), default_words(setting), setting.about)
    console.print(rows if shown.settings else "nothing to set")
