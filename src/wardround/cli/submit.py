"""`wardround submit STUDY.toml --to CONSORTIUM`: waits for the sites, runs, reports.

On the coordinator's machine CONSORTIUM is its folder; from another one, the folder of a person who may submit.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import Changes, Quiet, StudyFile, errors, resumable, single
from wardround.cli.starting import starting

if TYPE_CHECKING:
    from wardround.consortium.submit import Consortium
    from wardround.study.load import Study


def command(
    study: StudyFile,
    to: Annotated[
        Path, typer.Option(help="The consortium's folder; from another machine, a person's own.", metavar="CONSORTIUM")
    ],
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
    fetch: Annotated[
        float, typer.Option(min=0, help="From another machine: how much of a run is fetched at most.", metavar="GB")
    ] = 4.0,
    quiet: Quiet = False,
) -> None:
    """Run a study over the consortium's sites."""
    from wardround.consortium.people import is_person

    if is_person(to):
        from wardround.cli.afar import submit_from_afar
        from wardround.consortium.orders import Order

        order = Order(
            study="", changes=tuple(changes or ()), resume=resume, wait=wait, deadline=deadline, alone=alone,
            trust_sizes=trust_sizes,
        )  # fmt: skip
        submit_from_afar(study, to, out, order, quiet=quiet, most=fetch)
        return
    with starting():
        chosen = single(study, changes or (), "submit one of them, with --set for each choice")
        from wardround.consortium.submit import Consortium

    folder = out or Path("runs") / chosen.name
    again = shlex.join(["wardround", "submit", str(study), "--to", str(to), "--out", str(folder), "--resume"])
    over = Consortium(to, deadline=deadline, trust_sizes=trust_sizes)
    carry_out(chosen, study, folder, over, again, wait=wait, resume=resume, alone=alone, quiet=quiet)


def carry_out(
    chosen: "Study",
    study: Path,
    folder: Path,
    over: "Consortium",
    again: str,
    *,
    wait: float,
    resume: bool,
    alone: bool,
    quiet: bool,
) -> None:
    """Run a study that was read, and say how it went."""
    from wardround.cli.progress import Single
    from wardround.cli.results import show_result
    from wardround.consortium.asking import await_coordinator
    from wardround.consortium.submit import submit

    say = (lambda _: None) if quiet else errors.print
    await_coordinator(over.folder, wait, say)
    with resumable(study, folder, again), Single(chosen, quiet=quiet, out=folder) as progress:
        result = submit(
            chosen, folder, over, wait=wait, resume=resume, alone=alone, progress=progress.line, say=say,
            show=progress.doing,
        )  # fmt: skip
    show_result(chosen, folder, result, apart=True)
