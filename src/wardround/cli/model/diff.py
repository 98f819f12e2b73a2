"""`wardround model diff MODEL MODEL`: what two models differ in."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, wide


def command(
    one: Annotated[Path, typer.Argument(help="A model's folder, or a run's.", metavar="MODEL")],
    other: Annotated[Path, typer.Argument(help="Another.", metavar="MODEL")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Compare two models: settings, labels, what they were trained from, files and weights."""
    from rich.table import Table

    from wardround.trained.compared import differences

    lines = differences(one, other)
    if as_json:
        print(json.dumps([asdict(line) for line in lines], ensure_ascii=False, indent=2))  # noqa: T201 -- for a pipe
    elif not lines:
        console.print("no difference")
    else:
        table = Table("", str(one), str(other))
        for line in lines:
            table.add_row(line.what, line.one, line.other)
        wide().print(table)
