"""`wardround consortium rehearse STUDY.toml`: all of it on this machine, with generated notes."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Changes, Quiet, StudyFile, errors, single
from wardround.cli.starting import starting


def command(
    study: StudyFile,
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/NAME-rehearsal.")] = None,
    quiet: Quiet = False,
) -> None:
    """Run a study over real connections between local processes, with generated notes; all of them end afterwards."""
    with starting():
        from wardround.consortium.kits import needs_flare

        needs_flare()
        written = single(study, changes or (), "submit one of them, with --set for each choice")
        from wardround.cli.progress import Single
        from wardround.cli.results import show_result
        from wardround.consortium.rehearse import Rehearsal, generated
        from wardround.consortium.submit import submit
        from wardround.runs.errors import RunError

    chosen = generated(written, study.parent)
    folder = out or Path("runs") / f"{chosen.name}-rehearsal"
    if (folder / "study.toml").exists():
        raise RunError(f"{folder} holds a run already; choose another --out")
    with (
        tempfile.TemporaryDirectory(prefix="wardround-") as place,
        Rehearsal(Path(place), chosen, study.parent) as everybody,
    ):
        with Single(chosen, quiet=quiet) as progress:
            say = (lambda _: None) if quiet else errors.print
            result = submit(
                chosen, folder, everybody.over, wait=180.0, progress=progress.line, say=say, show=progress.doing
            )
        show_result(chosen, folder, result, apart=True)
