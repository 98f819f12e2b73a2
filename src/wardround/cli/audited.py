"""An audit on a screen: one line for each attack under each set of protections."""

from rich.table import Table

from wardround.audit.audit import Audit
from wardround.cli.options import console, wide


def show_audit(audit: Audit) -> None:
    """Print what each attack could tell, beside chance, and what is not available."""
    shown = Table("attack", "with", "told", "chance", "that is", box=None)
    for one in audit.findings:
        if one.value is not None:
            shown.add_row(one.attack, one.protection, f"{one.value:.2f}", f"{one.chance:.2f}", one.tells)
    wide().print(shown)
    untried = dict.fromkeys((one.attack, one.why) for one in audit.findings if one.value is None)
    for attack, why in untried:
        console.print(f"not tried: {attack}: {why}")
    for label, why in audit.missing.items():
        console.print(f"not available: {label}: {why}")
