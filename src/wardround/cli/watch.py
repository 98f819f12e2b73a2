"""`wardround watch RUN…`: a page about runs as they go on, on this machine.

Exit codes: 0 ended by Ctrl-C, 2 the command or a folder is wrong.
"""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.watching import Host, Port, TokenFile, watch


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders, folders of a grid's runs, or a person's folder: the coordinator's page.", metavar="RUN…"
        ),
    ],
    host: Host = "127.0.0.1",
    port: Port = 8766,
    token_file: TokenFile = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no way to stop a run.")] = False,
) -> None:
    """Watch runs in a browser while they go on: rounds, figures, sites, bytes, what was refused."""
    from wardround.consortium.people import is_person

    if len(runs) == 1 and is_person(runs[0]):
        from wardround.cli.afar import watch_from_afar

        watch_from_afar(runs[0], port)
        return
    from wardround.watch.board import RunBoard

    watch(RunBoard(runs, stoppable=not read_only), host, port, token_file)
