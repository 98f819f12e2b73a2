"""`wardround serve MODEL…`: a page where one pastes a note and sees what models find, and a JSON endpoint.

Exit codes: 0 ended by Ctrl-C, 2 the command or a model is wrong.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Rename, Trust, console, errors, fail, renames, serving


def command(
    models: Annotated[list[Path], typer.Argument(help="Folders of models; several answer together.", metavar="MODEL…")],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8765,
    largest: Annotated[int, typer.Option(min=1, help="The largest request, in MB.")] = 5,
    waiting: Annotated[int, typer.Option(min=1, help="How many requests may wait at a time.")] = 8,
    patience: Annotated[float, typer.Option(min=0.1, help="Seconds for a request's body to arrive.")] = 30.0,
    answer: Annotated[float, typer.Option(min=0.1, help="Seconds that the answer to a request may take.")] = 300.0,
    rename: Rename = None,
    trust: Trust = None,
) -> None:
    """Serve models on this machine: a page for pasted notes, and POST /predict; no note is stored or logged."""
    from wardround.trained.about import ModelError
    from wardround.trained.model import load

    with serving():
        from wardround.serve.app import application
        from wardround.serve.desk import Desk
        from wardround.serve.server import HostError, address, listening, loopback, names, serve
    try:
        with listening(host, port) as door:
            model = load(*models, rename=renames(rename), trust=trust or ())
            desk = Desk(model, largest * 1_000_000, waiting, patience, answer)
            if not loopback(door):
                errors.print(
                    f"warning: at {host}, notes cross the network without TLS, and whoever reaches it can ask; "
                    "leave --host out, or put a proxy with TLS and a login in front"
                )
            console.print(f"{address(host, door)}   (Ctrl-C ends it; not for clinical decisions)")
            serve(application(desk, names(host)), door)
            console.print("stopped")
    except (HostError, ModelError) as error:
        fail(str(error))
    if desk.busy:
        sys.stdout.flush()
        os._exit(0)  # the prediction under way would be waited for
