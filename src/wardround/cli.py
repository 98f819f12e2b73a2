"""The command line.

wardround run STUDY.toml        train, with checkpoints, a journal and a ledger
wardround methods               what there is
wardround protocol METHOD       what would leave a hospital
"""

import errno
import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from wardround.checkpoint import CheckpointError
from wardround.core.cohort import BelowQuorum
from wardround.engines.inline import SiteFailed
from wardround.methods import METHODS
from wardround.progress import Grid, Single
from wardround.protocol import rehearsed, toy
from wardround.run import RunError, run
from wardround.study import StudyError, load_study
from wardround.sweep import CellState, summary, sweep
from wardround.wire import rows

__all__ = ["app", "main"]

app = typer.Typer(help="Federated learning on medical text.", no_args_is_help=True, add_completion=False)
out_console, error_console = Console(), Console(stderr=True, soft_wrap=True, highlight=False)


@app.command("run")
def run_command(
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: --set method.mu=0.1", metavar="KEY=VALUE"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; default: runs/NAME.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes; default: the cores.")] = os.cpu_count() or 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was stopped.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, only the result.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Encode and decode every message (serial).")] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show a site's error in full; it may quote a note.")
    ] = False,
    beside: Annotated[Path | None, typer.Option(hidden=True, help="Where the study's own modules lie.")] = None,
) -> None:
    """Train: one run, or every combination of the study's grid."""
    cells = load_study(study, changes or (), beside=beside)
    folder = out or Path("runs") / cells[0].study.name
    beside = beside or study.parent
    again = _command(study, changes or [], out)
    try:
        if len(cells) == 1:
            with Single(cells[0].study, quiet=quiet) as progress:
                result = run(
                    cells[0].study, folder, workers=1 if strict else workers, strict=strict, resume=resume,
                    progress=progress.line, folder=beside, show_errors=traceback,
                )  # fmt: skip
            out_console.print(f"{result.stopped}: {_figures(result.metrics)}", highlight=False)
            model = (
                f", the model in {folder / 'model'}" if cells[0].study.method.shares else "; sites keep their models"
            )
            out_console.print(f"the run is in {folder}{model}", highlight=False)
            return
        options = ["--strict"] * strict + ["--traceback"] * traceback
        with Grid(cells, quiet=quiet) as grid:
            states = sweep(
                cells, folder, workers=workers, resume=resume, beside=beside, options=options, watch=grid.show
            )
    except KeyboardInterrupt:
        _fail(f"stopped; nothing is lost, go on with: {again}", 130)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            _fail(f"no room left to write {error.filename or folder}; nothing written before is lost: make room, "
                  f"then go on with: {again}", 1)  # fmt: skip
        raise
    _tell(states, again)


def _tell(states: list[CellState], again: str) -> None:
    """The grid's table of results, and what failed."""
    table = Table("cell", "seeds", "metric", "final", "best", "MB up", title=None)
    for row in summary(states):
        for metric in (name for name in row["best"]):
            final, best = row["final"][metric], row["best"][metric]
            up = f"{row['up'] / 1e6:.2f}"
            table.add_row(row["label"], str(len(row["seeds"])), metric, _pm(final), _pm(best), up)
    out_console.print(table)
    failed = [state for state in states if state.failed]
    for state in failed:
        error_console.print(f"[red]{state.cell.label}[/]: {state.failed}")
    if failed:
        _fail(f"{len(failed)} of {len(states)} cells failed; the others are kept, go on with: {again}", 1)


@app.command()
def methods() -> None:
    """List the methods, with one line each."""
    table = Table("name", "what it does", box=None)
    for name, method in METHODS.items():
        table.add_row(name, method.about)
    out_console.print(table)
    out_console.print('your own: name = "my_module:MyMethod" in the study file\'s [method]', highlight=False)


@app.command()
def protocol(
    method: Annotated[str, typer.Argument(help="A method's name, or my_module:MyMethod.")],
    study: Annotated[Path | None, typer.Option(help="Rehearse on this study's model and data.")] = None,
) -> None:
    """Print what would leave a hospital, by rehearsing the method."""
    told = load_study(study, [f"method.name={method}"])[0].study if study else toy(method)
    if told.method.pooled:
        out_console.print(
            f"{method} pools all sites' notes in one place. It runs only in a simulation, as the upper bound that "
            "others are compared with: on real sites every note would have to leave.", highlight=False,
        )  # fmt: skip
        return
    table = Table("step", "direction", "message", "field", "shape", "bytes", "seen", "reveals", box=None)
    for row in rows(rehearsed(told)):
        table.add_row(*vars(row).values())
    console = Console(width=max(out_console.width, 200) if not out_console.is_terminal else None)
    console.print(table)


def _pm(value: dict[str, float]) -> str:
    return f"{value['mean']:.4f} ± {value['sd']:.4f}"


def _figures(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if not name.endswith("examples"))


def _command(study: Path, changes: list[str], out: Path | None) -> str:
    parts = ["wardround run", str(study), *(f"--set {change}" for change in changes)]
    return " ".join([*parts, *([f"--out {out}"] if out else []), "--resume"])


def _fail(message: str, code: int) -> NoReturn:
    error_console.print(message)
    raise SystemExit(code)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; mistakes in the input end with one message and exit code 2."""
    try:
        app(args=arguments, prog_name="wardround", standalone_mode=True)
    except (StudyError, RunError, CheckpointError) as error:
        _fail(str(error), 2)
    except (BelowQuorum, SiteFailed) as error:
        _fail(str(error), 1)
