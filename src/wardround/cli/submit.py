"""`wardround submit STUDY.toml --to CONSORTIUM`: waits for the sites, runs, reports."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Changes, Quiet, StudyFile, errors, fail, single
from wardround.cli.starting import starting

__all__ = ["command"]


def command(
    study: StudyFile,
    to: Annotated[Path, typer.Option(help="The consortium's folder.", metavar="CONSORTIUM")],
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was stopped.")] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for sites that are missing.")] = 600.0,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds that a site has for one answer.")] = 3600.0,
    alone: Annotated[bool, typer.Option("--alone", help="Let one site be enough, whose updates we can read.")] = False,
    trust_sizes: Annotated[
        bool, typer.Option("--trust-sizes", help="Let a site have over 100 times the others' examples.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a study over the consortium's sites."""
    with starting():
        chosen = single(study, changes or (), "submit one of them, with --set for each choice")
        from wardround.cli.progress import Single
        from wardround.cli.results import show_result
        from wardround.consortium.submit import Consortium, await_coordinator, submit
        from wardround.core.files import NO_ROOM
        from wardround.study.settings import StudyError

    folder = out or Path("runs") / chosen.name
    again = shlex.join(["wardround", "submit", str(study), "--to", str(to), "--out", str(folder), "--resume"])
    over = Consortium(to, deadline=deadline, trust_sizes=trust_sizes)
    say = (lambda _: None) if quiet else errors.print
    await_coordinator(to, wait, say)
    try:
        with Single(chosen, quiet=quiet) as progress:
            result = submit(
                chosen, folder, over, wait=wait, resume=resume, alone=alone, progress=progress.line, say=say
            )  # fmt: skip
    except KeyboardInterrupt:
        fail(f"stopped; nothing is lost, go on with: {again}", 130)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        fail(f"no room left to write {error.filename or folder}; nothing written before is lost: make room, "
             f"then go on with: {again}", 1)  # fmt: skip
    except StudyError as error:
        raise StudyError(str(study), error.problems) from None
    show_result(chosen, folder, result)
