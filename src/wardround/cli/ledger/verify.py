"""`wardround ledger verify SITE|FILE --against OTHER`: that nobody changed it."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.ledger.place import Ledger, ledger_at
from wardround.cli.options import console
from wardround.runs.errors import RunError


def command(
    path: Ledger,
    against: Annotated[Path | None, typer.Option(help="The other side's ledger: a cut tail shows only there.")] = None,
) -> None:
    """Verify that no line was changed, put in or taken out."""
    from wardround.consortium.forms import read_membership
    from wardround.consortium.house_ledger import compared, proven
    from wardround.layers.ledger import LedgerError, verify

    file = ledger_at(path)
    try:
        console.print(f"{file}: {verify(file):,} lines, the chain is intact")
        if (path / "kit" / "site.json").is_file():
            count = proven(file, read_membership(path / "kit").ask_key)
            console.print(f"the coordinator has signed each of the {count:,} messages that were answered")
        if against is not None:
            other = ledger_at(against)
            console.print(f"{other} has noted the head of it {compared(file, other):,} times, and each is there")
    except LedgerError as error:
        raise RunError(str(error)) from None
