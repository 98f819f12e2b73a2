"""`wardround site start SITE`: joins and stays."""

import os
import sys
from pathlib import Path

from wardround.cli.options import Site, console
from wardround.runs.errors import RunError


def next_start(folder: Path) -> str:
    """What comes after a study was approved."""
    from wardround.core.lock import held

    if held(folder / ".lock"):
        return "the site is running: it takes part as soon as the coordinator submits the study"
    return f"next: wardround site start {folder}, or as a service: wardround site install {folder}"


def command(folder: Site = Path()) -> None:
    """Join the consortium, and stay."""
    from wardround.consortium.kit_check import ends_soon, kit_problems
    from wardround.consortium.kits import needs_flare

    needs_flare()
    if (folder / "kit").is_dir() and (problems := [f"kit: {problem}" for problem in kit_problems(folder)]):
        raise RunError("\n".join(problems))
    from wardround.consortium.check import checked  # slow to import, and a broken kit needs no more
    from wardround.consortium.settings import read_site

    name = read_site(folder).name
    problems = [f"{one.what}: {one.detail}" for one in checked(folder, None) if not one.good]
    if problems:
        raise RunError("\n".join(problems))
    if warning := ends_soon(folder / "kit" / "startup"):
        console.print(warning)
    module = "wardround.consortium.site_start"
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, str(folder), name])  # noqa: S606
