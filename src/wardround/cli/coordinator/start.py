"""`wardround coordinator start CONSORTIUM`: stays; sites can join."""

import os
import sys
from typing import Annotated

import typer

from wardround.cli.options import Consortium, errors
from wardround.runs.errors import RunError


def command(
    folder: Consortium,
    listen: Annotated[
        str,
        typer.Option(help="Which of this machine's addresses to listen on, if the consortium's is another's.",
                     metavar="ADDRESS"),
    ] = "",
) -> None:  # fmt: skip
    """Let sites join, and stay."""
    from wardround.consortium.admission import soon_over
    from wardround.consortium.forms import read_charter
    from wardround.consortium.kit_check import certificate_problems, key_problems
    from wardround.consortium.kits import needs_flare
    from wardround.consortium.switchboard import ListenError, servers_at

    needs_flare()
    charter = read_charter(folder)
    startup = folder / "server" / "startup"
    problems = [*key_problems(startup / "server.key"), *certificate_problems(startup, "server")]
    try:
        for server in servers_at(charter.host, charter.port, listen):
            server.close()
    except ListenError as error:
        problems.append(str(error))
    if problems:
        raise RunError("\n".join(problems))
    for warning in soon_over(folder):
        errors.print(warning)
    order = [sys.executable, "-P", "-m", "wardround.consortium.switchboard", str(folder)]
    os.execv(sys.executable, [*order, *([listen] if listen else [])])  # noqa: S606
