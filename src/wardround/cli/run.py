"""`wardround run STUDY.toml`: train, with checkpoints, a journal and a ledger; a grid's cells side by side."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from wardround.cli.options import Changes, Quiet, StudyFile, ending, errors, fail, resumable
from wardround.cli.starting import starting
from wardround.text.shown import showing_text


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
    checkpoint_seconds: Annotated[
        float, typer.Option(hidden=True, min=0, help="The least time between two checkpoints.")
    ] = 5.0,
) -> None:
    """Train: one run, or every combination of the study's grid."""
    context.with_resource(showing_text(show_text))
    with starting():
        from wardround.study.load import load_study

        cells = load_study(study, changes or ())
        from wardround.cli.progress import Grid, Single
        from wardround.cli.results import report_of, show_failures, show_grid, show_oddities, show_result
        from wardround.runs.loop import run
        from wardround.runs.sweep import sweep

    folder = out or Path("runs") / cells[0].study.name
    again = _again(study, changes or [], out)
    work = partial(run, strict=strict, show_errors=traceback, checkpoint_seconds=checkpoint_seconds)

    def cell(one: Any, place: Path, corpus: Any) -> None:
        with ending(), resumable(study, place, again):
            work(one, place, resume=True, corpus=corpus)

    for words in () if quiet else dict.fromkeys(note for one in cells for note in one.study.notes):
        errors.print(f"in the study: {words}")
    with resumable(study, folder, again):
        if len(cells) == 1:
            several = 1 if strict else workers
            with Single(cells[0].study, quiet=quiet, out=folder) as progress:
                result = work(
                    cells[0].study, folder, workers=several, resume=resume,
                    progress=progress.line, show=progress.doing, tell=progress.tell,
                )  # fmt: skip
            if not quiet:
                show_oddities(folder)
            show_result(cells[0].study, folder, result, report=not no_report)
            return
        with Grid(cells, quiet=quiet) as grid:
            states = sweep(cells, folder, workers=workers, resume=resume, work=cell, watch=grid.show)
    if not quiet:
        show_oddities(states[0].folder)
    show_grid(states)
    if not no_report and not all(state.failed for state in states):
        report_of(folder)
    if failed := show_failures(states):
        others = "the others are kept, go on" if failed < len(states) else "mend it, then go on"
        fail(f"{failed} of {len(states)} cells failed; {others} with: {again}", 1)


def _again(study: Path, changes: list[str], out: Path | None) -> str:
    """The command that goes on with this run."""
    parts = ["wardround", "run", str(study), *(part for change in changes for part in ("--set", change))]
    return shlex.join([*parts, *(["--out", str(out)] if out else []), "--resume"])
