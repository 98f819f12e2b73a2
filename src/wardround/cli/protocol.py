"""`wardround protocol METHOD`: what would leave a hospital."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from wardround.cli.options import console, fail, wide
from wardround.cli.starting import starting


def command(
    method: Annotated[str, typer.Argument(help="A method's name, my_module:MyMethod, or a study file.")],
    study: Annotated[Path | None, typer.Option(help="Rehearse on this study's model and data.")] = None,
) -> None:
    """Print what would leave a hospital, by rehearsing the method."""
    if method.endswith(".toml") and study is not None:
        fail(f"protocol takes one study file; {method} and --study {study} are two")
    path, changes = (Path(method), []) if method.endswith(".toml") else (study, [f"method.name={method}"])
    with starting():
        from wardround.study.load import load_study

        cells = load_study(path, changes) if path else []
        from wardround.runs.exchanges import rows
        from wardround.runs.protocol import rehearsed, toy
        from wardround.runs.wire import HEADER, NEVER, who_sees

    if len(cells) > 1 and not changes:
        console.print(f"the first of the {len(cells)} runs of this grid: {cells[0].label}")
    chosen = cells[0].study if cells else toy(method)
    if chosen.method.pooled:
        console.print(
            f"{chosen.resolved['method']['name']} pools all sites' notes in one place. It runs only in a simulation, "
            "as the upper bound that others are compared with: on real sites every note would have to leave."
        )
        return
    table = Table(*HEADER, box=None)
    listed = rows(rehearsed(chosen), chosen.dp)
    for row in listed:
        table.add_row(*row.columns)
    wide().print(table)
    console.print(f"{who_sees(listed)}\n{NEVER}".strip())
    if chosen.dp:
        from wardround.privacy.words import in_words

        console.print("\n".join(in_words(chosen.dp.model_dump())))
