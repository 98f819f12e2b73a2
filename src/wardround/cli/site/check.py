"""`wardround site check SITE --study S.toml`: what is wrong, and what would leave."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import Site, console
from wardround.runs.errors import RunError

if TYPE_CHECKING:
    from wardround.study.load import Study


def command(
    folder: Site = Path(),
    study: Annotated[Path | None, typer.Option(help="Check against this study, too.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not knock at the coordinator's address.")] = False,
) -> None:
    """Test everything that can be wrong, and print what would leave this site in a study."""
    from wardround.cli.site.leaving import show_leaving, study_at
    from wardround.consortium.check import checked
    from wardround.consortium.machine_check import machine

    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder; check the path, or make a site with wardround site init")
    chosen = study_at(folder, study) if study else None
    bad = 0
    kit = [folder / "kit" / "site.json", folder / "kit" / "startup" / "client.crt"]
    early = offline and not any(file.exists() for file in kit)  # a hospital may look before it joins
    for finding in chain(checked(folder, chosen, online=not offline), machine(folder, room=chosen is None)):
        if early and finding.what in ("kit", "keys"):
            console.print(f"??  {finding.what}: {finding.detail}")
            continue
        console.print(f"{finding.mark} {finding.what}: {finding.detail}")
        bad += not finding.good
    if bad:
        raise RunError(f"{bad} thing{'s' * (bad > 1)} to put right")
    if chosen is not None:
        show_leaving(folder, chosen)
    join = "with the kit that the coordinator sends for your request: wardround site join"
    console.print(f"next, {join} {folder} KIT.zip" if early else _next(folder, study, chosen))


def _next(folder: Path, file: Path | None, study: "Study | None") -> str:
    """The command that comes after a check in which all was well."""
    from wardround.cli.site.start import next_start
    from wardround.consortium.approval import read_approval
    from wardround.consortium.deployed import study_hash

    if study is None:
        return f"next, with the study file that the coordinator sends: wardround site check {folder} --study STUDY.toml"
    if read_approval(folder, study_hash(study)) is None:
        return f"next, if this may leave: wardround site approve {folder} {file}"
    return next_start(folder)
