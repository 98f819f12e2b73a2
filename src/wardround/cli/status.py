"""`wardround status CONSORTIUM`: who is there."""

from rich.table import Table

from wardround.cli.options import Consortium, console


def command(folder: Consortium) -> None:
    """Say who is there."""
    from wardround.consortium.submit import asked

    status = asked(folder, "status")
    table = Table("site", "state", box=None)
    for name, state in status["sites"].items():
        table.add_row(name, state["words"])
    console.print(f"consortium {status['name']} at {status['address']}")
    console.print(table)
