"""`wardround run STUDY.toml`: train, with checkpoints, a journal and a ledger; a grid's cells side by side."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Changes, Quiet, StudyFile, fail
from wardround.cli.starting import starting
from wardround.text.shown import showing_text

__all__ = ["command"]


def command(
    context: typer.Context,
    study: StudyFile,
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/NAME.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes; default: the cores.")] = os.cpu_count() or 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was stopped.")] = False,
    quiet: Quiet = False,
    strict: Annotated[bool, typer.Option("--strict", help="Encode and decode every message (serial).")] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show a site's error in full; it may quote a note.")
    ] = False,
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Quote the notes in messages, and take any label as a name.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.html at the end.")] = False,
    beside: Annotated[Path | None, typer.Option(hidden=True, help="Where the study's own modules lie.")] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(hidden=True, min=0, help="The least time between two checkpoints.")
    ] = 5.0,
) -> None:
    """Train: one run, or every combination of the study's grid."""
    context.with_resource(showing_text(show_text))
    with starting():
        from wardround.study.load import load_study

        cells = load_study(study, changes or (), beside=beside)
        from wardround.cli.app import main
        from wardround.cli.progress import Grid, Single
        from wardround.cli.results import report_of, show_failures, show_grid, show_oddities, show_result
        from wardround.core.files import NO_ROOM
        from wardround.engines.inline import SiteFailed
        from wardround.runs.loop import run
        from wardround.runs.sweep import sweep
        from wardround.study.settings import StudyError

    folder = out or Path("runs") / cells[0].study.name
    beside = beside or study.parent
    again = _again(study, changes or [], out)
    try:
        if len(cells) == 1:
            with Single(cells[0].study, quiet=quiet) as progress:
                result = run(
                    cells[0].study, folder, workers=1 if strict else workers, strict=strict, resume=resume,
                    progress=progress.line, show_errors=traceback, checkpoint_seconds=checkpoint_seconds,
                )  # fmt: skip
            if not quiet:
                show_oddities(folder)
            show_result(cells[0].study, folder, result, report=not no_report)
            return
        options = ["--beside", str(beside), "--no-report", *["--strict"] * strict, *["--traceback"] * traceback]
        options += ["--show-text"] * show_text
        options += ["--checkpoint-seconds", str(checkpoint_seconds)]
        with Grid(cells, quiet=quiet) as grid:
            states = sweep(
                cells, folder, workers=workers, resume=resume, command=main, options=options, watch=grid.show
            )
    except KeyboardInterrupt:
        fail(f"stopped; nothing is lost, go on with: {again}", 130)
    except StudyError as error:  # what only the data can show
        raise StudyError(str(study), error.problems) from None
    except (OSError, SiteFailed) as error:
        cause = error.__cause__ if isinstance(error, SiteFailed) else error
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            fail(f"no room left to write {cause.filename or folder}; nothing written before is lost: make room, "
                 f"then go on with: {again}", 1)  # fmt: skip
        raise
    if not quiet:
        show_oddities(states[0].folder)
    show_grid(states)
    if not no_report:
        report_of(folder)
    if failed := show_failures(states):
        fail(f"{failed} of {len(states)} cells failed; the others are kept, go on with: {again}", 1)


def _again(study: Path, changes: list[str], out: Path | None) -> str:
    """The command that goes on with this run."""
    parts = ["wardround", "run", str(study), *(part for change in changes for part in ("--set", change))]
    return shlex.join([*parts, *(["--out", str(out)] if out else []), "--resume"])
