"""The coordinator's commands: a consortium is made, started, given a study, looked at and stopped.

wardround consortium new north a b c --address fl.example.org      certificates, and a kit for each site
wardround coordinator start north                                  stays; sites can join
wardround submit STUDY.toml --to north                             waits for the sites, runs, reports
wardround status north                                             who is there
wardround stop north
wardround consortium rehearse STUDY.toml                           all of it on this machine, with generated notes
"""

import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from wardround.progress import Single
from wardround.run_folder import NO_ROOM, Result, RunError
from wardround.study import Study, StudyError, load_study

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
PORT = 8002


@consortium.command("new")
def new_command(
    name: Annotated[str, typer.Argument(help="The consortium's name.")],
    sites: Annotated[list[str], typer.Argument(help="The sites' names.", metavar="SITE…")],
    address: Annotated[str, typer.Option(help="Where sites reach the coordinator: HOST or HOST:PORT.")],
    out: Annotated[Path | None, typer.Option(help="Where to put it; default: a folder of its name.")] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the certificates last.")] = 360,
) -> None:
    """Make certificates and one start-up kit per site."""
    kits = _needs_flare()
    host, colon, port = address.rpartition(":") if not address.endswith("]") else (address, "", "")
    if colon and not port.isdecimal():
        raise RunError(f"--address {address}: {port!r} is no port; write HOST or HOST:PORT")
    folder = out or Path(name)
    made = kits.new_consortium(folder, name, sites, host if colon else address, int(port) if colon else PORT, days)
    for kit in made:
        console.print(f"{kit}: send it to {kit.stem} and to nobody else, then delete it; it holds the site's key")
    console.print(f"then: wardround coordinator start {folder}")


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
def start_command(folder: Folder) -> None:
    """Let sites join, and stay."""
    kits = _needs_flare()
    told = _told(folder)
    startup = folder / "server" / "startup"
    problems = [*kits.key_problems(startup / "server.key"), *kits.certificate_problems(startup, "server")]
    problems += _port_problems(int(told["port"]))
    if problems:
        raise RunError("\n".join(problems))
    os.execv(sys.executable, [sys.executable, "-m", "wardround.consortium.switchboard", str(folder)])  # noqa: S606


def _port_problems(port: int) -> Iterator[str]:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("0.0.0.0", port))  # noqa: S104 -- as NVFlare's server will
        except OSError as error:
            yield f"port {port} cannot be used ({error.strerror}); is a coordinator running already? see: ss -ltnp"


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
        words = "ready" if state["line"] else "connected, being linked" if state["connected"] else "not connected"
        table.add_row(name, words)
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
    from wardround.cli import tell_result  # noqa: PLC0415 -- which imports this file

    tell_result(study, folder, result)
