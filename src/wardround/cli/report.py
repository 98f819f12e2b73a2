"""`wardround report RUN…`: one page about one run or many."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import console, refusals


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.", metavar="RUN…")],
    out: Annotated[
        Path | None, typer.Option(help="The page; default: report.html in the run folder, for several runs here.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="A folder for the tables as CSV and LaTeX.", metavar="DIR")
    ] = None,
) -> None:
    """Write one self-contained page about one run or many: results, curves, tests, what crossed the wire."""
    from wardround.reports.page import write_report
    from wardround.reports.tables import write_tables

    folder = runs[0] if len(runs) == 1 else Path()
    console.print(f"the report is in {write_report(runs, out or folder / 'report.html')}")
    if tables is not None:
        with refusals(tables):
            written = write_tables(runs, tables)
        console.print(f"the tables are in {tables}: {', '.join(path.name for path in written)}")
