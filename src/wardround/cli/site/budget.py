"""`wardround site budget SITE`: what studies have cost this site's patients, and what is left."""

from pathlib import Path

from wardround.cli.options import Site, console
from wardround.runs.errors import RunError


def command(folder: Site = Path()) -> None:
    """Show what of the privacy budget is spent and left, by study."""
    from rich.table import Table

    from wardround.cli.options import wide
    from wardround.consortium.private_site import JOURNAL, budget_journal
    from wardround.consortium.settings import read_site
    from wardround.privacy.journal import Tampered

    settings = read_site(folder)
    try:
        journal = budget_journal(settings)
    except Tampered as error:
        raise RunError(f"{error}; no study with privacy.dp is answered until the file is as it was written") from None
    table = Table("study", "run", "protects", "trained", "counted", "ε spent", "of", "δ", box=None)
    for (mark, run), spent in journal.runs.items():
        trained, cost = str(spent.had("train")), f"{spent.cost:.3f}"
        table.add_row(
            f"{spent.name} ({mark[:8]})", run, f"one {spent.unit}", trained, str(spent.counted), cost,
            f"{spent.epsilon:g}", f"{spent.delta:g}",
        )  # fmt: skip
    if journal.runs:
        wide().print(table)
    else:
        console.print("no study with differential privacy has been answered here")
    epsilon, delta = journal.spent
    if settings.allowance is None:
        console.print(
            f"spent in all: ε = {epsilon:.3f}, δ = {delta:g}; site.toml has no [budget], so nothing limits it"
        )
        return
    left, rest = max(settings.allowance.epsilon - epsilon, 0.0), max(settings.allowance.delta - delta, 0.0)
    console.print(
        f"spent in all: ε = {epsilon:.3f} of {settings.allowance.epsilon:g}, δ = {delta:g} of "
        f"{settings.allowance.delta:g}; left: ε = {left:.3f}, δ = {rest:g}"
    )
    console.print(f"written down in {folder / JOURNAL}, a chain: wardround ledger verify {folder / JOURNAL}")
