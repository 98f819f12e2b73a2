"""`wardround submit STUDY.toml --to CONSORTIUM`: waits for the sites, runs, reports."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Changes, Quiet, StudyFile, errors, resumable, single
from wardround.cli.starting import starting


def command(
    study: StudyFile,
    to: Annotated[Path, typer.Option(help="The consortium's folder.", metavar="CONSORTIUM")],
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was stopped.")] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for sites that are missing.")] = 600.0,
    deadline: Annotated[
        float, typer.Option(min=1, help="Seconds that a site has for one answer; a slow one gets more, up to 8 times.")
    ] = 3600.0,
    alone: Annotated[
        bool, typer.Option("--alone", help="Let one site be enough; the coordinator can read its updates.")
    ] = False,
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

    folder = out or Path("runs") / chosen.name
    again = shlex.join(["wardround", "submit", str(study), "--to", str(to), "--out", str(folder), "--resume"])
    over = Consortium(to, deadline=deadline, trust_sizes=trust_sizes)
    say = (lambda _: None) if quiet else errors.print
    await_coordinator(to, wait, say)
    with resumable(study, folder, again), Single(chosen, quiet=quiet) as progress:
        result = submit(
            chosen, folder, over, wait=wait, resume=resume, alone=alone, progress=progress.line, say=say,
            show=progress.doing,
        )  # fmt: skip
    show_result(chosen, folder, result, apart=True)
