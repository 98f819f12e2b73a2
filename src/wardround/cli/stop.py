"""`wardround stop CONSORTIUM`: the coordinator ends."""

from wardround.cli.options import Consortium, console
from wardround.runs.errors import RunError


def command(folder: Consortium) -> None:
    """Stop the coordinator; runs can be resumed later."""
    from wardround.consortium.asking import asked, gone

    asked(folder, "stop")
    if not gone(folder, 30.0):
        raise RunError(f"the coordinator of {folder} has not stopped within 30 seconds")
    console.print("stopped")
