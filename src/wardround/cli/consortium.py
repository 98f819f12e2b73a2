"""The coordinator's commands: a consortium is made, started, given a study, looked at and stopped.

wardround consortium new north --address fl.example.org            keys and certificates of the coordinator
wardround consortium admit north charite.request                   signs a hospital's key; north/kits/charite.zip
wardround consortium renew north charite                           a new certificate for the same key
wardround consortium revoke north charite                          out, for good
wardround coordinator start north                                  stays; sites can join
wardround submit STUDY.toml --to north                             waits for the sites, runs, reports
wardround status north                                             who is there
wardround stop north
wardround consortium new north a b c --address localhost           ready-made kits with keys, for rehearsals
wardround consortium add north d                                   one more of them
wardround consortium rehearse STUDY.toml                           all of it on this machine, with generated notes
"""

import os
import shlex
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from wardround.cli.progress import Single
from wardround.core.files import NO_ROOM
from wardround.runs.errors import RunError
from wardround.runs.folder import Result
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError

__all__ = ["consortium", "coordinator", "submit_commands"]

consortium = typer.Typer(help="A consortium of hospitals.", no_args_is_help=True)
coordinator = typer.Typer(help="The consortium's coordinator.", no_args_is_help=True)
submit_commands = typer.Typer()
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
errors = Console(markup=False, emoji=False, highlight=False, soft_wrap=True, stderr=True)

Folder = Annotated[Path, typer.Argument(help="The consortium's folder.", metavar="CONSORTIUM")]
File = Annotated[Path, typer.Argument(help="The study file (TOML).")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="Change a setting.", metavar="KEY=VALUE")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, only the result.")]
Days = Annotated[int, typer.Option(min=1, help="How long the certificates last.")]
PORT = 8002


@consortium.command("new")
def new_command(
    name: Annotated[str, typer.Argument(help="The consortium's name.")],
    address: Annotated[str, typer.Option(help="Where sites reach the coordinator: HOST or HOST:PORT.")],
    sites: Annotated[
        list[str] | None,
        typer.Argument(help="Sites whose keys are made here, for rehearsals; others are admitted.", metavar="[SITE…]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to put it; default: a folder of its name.")] = None,
    days: Days = 360,
) -> None:
    """Make the coordinator's keys and certificates."""
    kits = _needs_flare()
    host, colon, port = address.rpartition(":") if not address.endswith("]") else (address, "", "")
    if colon and not port.isdecimal():
        raise RunError(f"--address {address}: {port!r} is no port; write HOST or HOST:PORT")
    folder = out or Path(name)
    port_number = int(port) if colon else PORT
    made = kits.new_consortium(folder, name, sites or [], host if colon else address, port_number, days)
    _tell_ready_made(made)
    _tell_fingerprint(folder)
    if not made:
        console.print(
            f"hospitals: wardround site init NAME; then here: wardround consortium admit {folder} NAME.request"
        )
    console.print(f"then: wardround coordinator start {folder}")


def _tell_ready_made(made: list[Path]) -> None:
    for kit in made:
        console.print(
            f"{kit}: holds the site's private keys; for rehearsals; send it to {kit.stem} and to nobody else, then "
            f"delete it"
        )
    if made:
        console.print("for patients' notes keys are made at the hospital: wardround site init, consortium admit")


def _tell_fingerprint(folder: Path) -> None:
    from wardround.consortium.admission import fingerprint_of  # noqa: PLC0415 -- slow

    console.print(f"the coordinator's fingerprint, for hospitals to compare: {fingerprint_of(folder)}")


@consortium.command("admit")
def admit_command(
    folder: Folder,
    request: Annotated[Path, typer.Argument(help="The file that the hospital sent.", metavar="REQUEST")],
    fingerprint: Annotated[str, typer.Option(help="What the hospital read out to you; otherwise you are asked.")] = "",
    days: Days = 360,
) -> None:
    """Sign the key that a hospital made, and make its kit: no private key leaves the hospital."""
    _needs_flare()
    from wardround.consortium.admission import admit  # noqa: PLC0415 -- slow
    from wardround.consortium.kit_files import read_request  # noqa: PLC0415
    from wardround.engines.certificates import same_fingerprint  # noqa: PLC0415

    _told(folder)
    read = read_request(request)
    console.print(f"{read.name} asks to join, with the fingerprint {read.fingerprint}")
    if not fingerprint and not sys.stdin.isatty():
        raise RunError("compare it with what the hospital reads out to you, then give it with --fingerprint")
    if not fingerprint and not typer.confirm("Does the hospital read out the same?"):
        raise RunError("not admitted; nothing was written")
    if fingerprint and not same_fingerprint(fingerprint, read.fingerprint):
        raise RunError(
            f"{request} has the fingerprint {read.fingerprint}, not {fingerprint}; it is not what the hospital made: "
            f"nothing was written"
        )
    kit = admit(folder, read, days)
    console.print(f"{kit}: send it to {read.name}, for: wardround site join {read.name} {kit.name}; it holds no secret")
    _tell_fingerprint(folder)


@consortium.command("add")
def add_command(
    folder: Folder, name: Annotated[str, typer.Argument(help="The site's name.")], days: Days = 360
) -> None:
    """Make one more ready-made kit, with keys made here, for rehearsals."""
    _needs_flare()
    from wardround.consortium.admission import add  # noqa: PLC0415 -- slow

    _told(folder)
    _tell_ready_made(add(folder, [name], days))


@consortium.command("renew")
def renew_command(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The site's name, or: coordinator.")],
    days: Days = 360,
) -> None:
    """Make a new certificate for the key that is known."""
    _needs_flare()
    from wardround.consortium.admission import renew  # noqa: PLC0415 -- slow

    _told(folder)
    kit = renew(folder, name, days)
    if kit is None:
        console.print("the coordinator's own certificates are new; they are used from its next start on")
    else:
        console.print(f"{kit}: send it to {name}, for: wardround site join {name} {kit.name}; "
                      f"it holds no secret")  # fmt: skip


@consortium.command("revoke")
def revoke_command(folder: Folder, name: Annotated[str, typer.Argument(help="The site's name.")]) -> None:
    """Let a site take part no longer, for good."""
    _needs_flare()
    from wardround.consortium.admission import revoke  # noqa: PLC0415 -- slow

    _told(folder)
    revoke(folder, name)
    console.print(f"{name} is revoked: it is asked no more, and refused; what it kept and what it sent stays as it is")


@consortium.command("rehearse")
def rehearse_command(
    study: File,
    changes: Changes = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/NAME-rehearsal.")] = None,
    quiet: Quiet = False,
) -> None:
    """Run a study over real connections between local processes, with generated notes; all of them end afterwards."""
    _needs_flare()
    from wardround.consortium.rehearse import Rehearsal, generated  # noqa: PLC0415 -- an extra
    from wardround.consortium.submit import submit  # noqa: PLC0415

    told = generated(_single(study, changes), study.parent)
    folder = out or Path("runs") / f"{told.name}-rehearsal"
    if (folder / "study.toml").exists():
        raise RunError(f"{folder} holds a run already; choose another --out")
    with tempfile.TemporaryDirectory(prefix="wardround-") as place, Rehearsal(Path(place), told, study.parent) as all_:
        with Single(told, quiet=quiet) as progress:
            say = (lambda _: None) if quiet else errors.print
            result = submit(told, folder, all_.over, wait=180.0, progress=progress.line, say=say)
        _tell(told, folder, result)


@coordinator.command("start")
def start_command(
    folder: Folder,
    listen: Annotated[
        str,
        typer.Option(help="Which of this machine's addresses to listen on, if the consortium's is another's.",
                     metavar="ADDRESS"),
    ] = "",
) -> None:  # fmt: skip
    """Let sites join, and stay."""
    from wardround.consortium.switchboard import ListenError, servers_at  # noqa: PLC0415 -- beside its extra

    _needs_flare()
    from wardround.consortium.admission import soon_over  # noqa: PLC0415 -- slow
    from wardround.consortium.kit_check import certificate_problems, key_problems  # noqa: PLC0415

    told = _told(folder)
    startup = folder / "server" / "startup"
    problems = [*key_problems(startup / "server.key"), *certificate_problems(startup, "server")]
    try:
        for server in servers_at(str(told["host"]), int(told["port"]), listen):
            server.close()
    except ListenError as error:
        problems.append(str(error))
    if problems:
        raise RunError("\n".join(problems))
    for warning in soon_over(folder):
        errors.print(warning)
    order = [sys.executable, "-P", "-m", "wardround.consortium.switchboard", str(folder)]
    os.execv(sys.executable, [*order, *([listen] if listen else [])])  # noqa: S606


@submit_commands.command("submit")
def submit_command(
    study: File,
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
    from wardround.consortium.submit import Consortium, asked, submit  # noqa: PLC0415 -- beside its extra

    told = _single(study, changes)
    folder = out or Path("runs") / told.name
    again = shlex.join(["wardround", "submit", str(study), "--to", str(to), "--out", str(folder), "--resume"])
    over = Consortium(to, deadline=deadline, trust_sizes=trust_sizes)
    asked(to, "status")
    say = (lambda _: None) if quiet else errors.print
    try:
        with Single(told, quiet=quiet) as progress:
            result = submit(told, folder, over, wait=wait, resume=resume, alone=alone, progress=progress.line, say=say)
    except KeyboardInterrupt:
        errors.print(f"stopped; nothing is lost, go on with: {again}")
        raise SystemExit(130) from None
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        errors.print(f"no room left to write {error.filename or folder}; nothing written before is lost: make room, "
                     f"then go on with: {again}")  # fmt: skip
        raise SystemExit(1) from None
    except StudyError as error:
        raise StudyError(str(study), error.problems) from None
    _tell(told, folder, result)


@submit_commands.command("status")
def status_command(folder: Folder) -> None:
    """Say who is there."""
    from wardround.consortium.submit import asked  # noqa: PLC0415 -- beside its extra

    said = asked(folder, "status")
    table = Table("site", "state", box=None)
    for name, state in said["sites"].items():
        table.add_row(name, state["words"])
    console.print(f"consortium {said['name']} at {said['address']}")
    console.print(table)


@submit_commands.command("stop")
def stop_command(folder: Folder) -> None:
    """Stop the coordinator; runs can be resumed later."""
    from wardround.consortium.submit import asked, gone  # noqa: PLC0415 -- beside its extra

    asked(folder, "stop")
    if not gone(folder, 30.0):
        raise RunError(f"the coordinator of {folder} has not stopped within 30 seconds")
    console.print("stopped")


def _single(study: Path, changes: list[str] | None) -> Study:
    found = load_study(study, changes or ())
    if len(found) > 1:
        raise StudyError(
            str(study), [f"is a grid of {len(found)} runs; submit one of them, with --set for each choice"]
        )
    return found[0].study


def _told(folder: Path) -> dict[str, Any]:
    from wardround.consortium.submit import consortium_at  # noqa: PLC0415 -- beside its extra

    return consortium_at(folder)


def _needs_flare() -> ModuleType:
    from wardround.consortium import kits  # noqa: PLC0415 -- slow

    kits.needs_flare()
    return kits


def _tell(study: Study, folder: Path, result: Result) -> None:
    from wardround.cli.app import tell_result  # noqa: PLC0415 -- which imports this file

    tell_result(study, folder, result)
