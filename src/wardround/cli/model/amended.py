"""A finished run's model with one site more or less: what `model add` and `model forget` share."""

from pathlib import Path
from typing import Literal

from wardround.cli.options import console


def amend(run: Path, site: str, how: Literal["add", "forget"], beside: Path | None) -> None:
    """Solve the model anew, and print how it does."""
    from wardround.runs.members import amended

    metrics = amended(run, site, how, beside)
    tried = {key: value for key, value in metrics.final.items() if not key.startswith(("valid_", "train_"))}
    figures = ", ".join(f"{key} {value:.4f}" for key, value in list(tried.items())[:3])
    place = "in" if how == "add" else "out of"
    on = f", on the {tried['examples']:,.0f} test examples of who is in it now" if "examples" in tried else ""
    console.print(f"{site} is {place} the model in {run / 'model'}: {figures}{on}", soft_wrap=True)
