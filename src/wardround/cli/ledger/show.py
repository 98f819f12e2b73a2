"""`wardround ledger show SITE|FILE`: what left, by day."""

from pathlib import Path

from rich.table import Table

from wardround.cli.ledger.place import Ledger, ledger_at
from wardround.cli.options import wide


def command(path: Ledger) -> None:
    """Show what left, by day, study and message; and of each approval, its runs and what is left."""
    from wardround.consortium.house_ledger import summed

    table = Table("day", "study", "message", "times", "bytes", "reveals", box=None)
    for (day, study, kind), sent in summed(ledger_at(path)).items():
        words = "; ".join(f"{name}: {what}" for name, what in sent.reveals.items())
        table.add_row(day, study, kind, f"{sent.times:,}", f"{sent.bytes:,}", words)
    wide().print(table)
    if (path / "approved").is_dir():
        _show_budgets(path)


def _show_budgets(folder: Path) -> None:
    """Print what each approval of a site was spent on, and what is left of it."""
    from wardround.consortium.budget import budgets

    table = Table("study", "runs", "rounds", "exchanges", "restarts", "left", box=None)
    for budget in budgets(folder):
        spent, approval = budget.spent, budget.approval
        used = [len(spent.runs), spent.rounds, spent.exchanges, spent.restarts]
        if approval is None:
            table.add_row(budget.name, *map(str, used), "nothing: taken back")
            continue
        most = ["", f" of {approval.rounds}", f" of {approval.exchanges}", f" of {approval.restarts}"]
        left = f"{max(approval.exchanges - spent.exchanges, 0)} exchanges"
        table.add_row(budget.name, *(f"{number}{of}" for number, of in zip(used, most, strict=True)), left)
    if table.row_count:
        wide().print()
        wide().print(table)
