"""The command line.

wardround run STUDY.toml        train, with checkpoints, a journal and a ledger
wardround report RUN…           one page about one run or many
wardround methods               what there is
wardround protocol METHOD       what would leave a hospital
wardround clinic write DIR      generated hospitals as files
wardround align                 notes and public facts to bags
wardround data check PATH       what is in your files, and every problem
wardround data convert IN OUT   from one format to another
wardround data split IN DIR     some documents set aside for testing
wardround serve MODEL…          a page for notes and a JSON endpoint, on this machine
wardround export MODEL          a model for transformers, spaCy or ONNX
wardround predict MODEL… PATH   what trained models find in texts
wardround model show MODEL      what a model is, and whether its folder is whole
wardround model assemble RUN S  a site's own model, where each keeps a part for itself
wardround consortium …          real hospitals: certificates and kits, or a rehearsal on this machine
wardround coordinator …         start; also submit, status, stop
wardround site …                a hospital's commands: init, check, approve, start
wardround ledger …              show and verify what crossed the wire
"""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from wardround.cli.align import align_command
from wardround.cli.clinic import clinic
from wardround.cli.consortium import consortium, coordinator, submit_commands
from wardround.cli.data import data
from wardround.cli.export import export_command
from wardround.cli.model import model
from wardround.cli.predict import predict_command
from wardround.cli.progress import Grid, Single
from wardround.cli.serve import serve_command
from wardround.cli.site import ledger, site
from wardround.core.cohort import BelowQuorum
from wardround.core.files import NO_ROOM
from wardround.engines.inline import SiteFailed
from wardround.methods import METHODS
from wardround.metrics.signs import REMEDY, collapsed
from wardround.runs.checkpoint import CheckpointError
from wardround.runs.errors import RunError
from wardround.runs.exchanges import rows
from wardround.runs.files import DATA, METRICS, REFERENCES
from wardround.runs.folder import Result
from wardround.runs.loop import CHECKPOINT_SECONDS, run
from wardround.runs.protocol import rehearsed, toy
from wardround.runs.references import missed
from wardround.runs.sweep import CellState, summary, sweep
from wardround.runs.wire import HEADER, NEVER, SUMMED
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError
from wardround.text.shown import showing_text
from wardround.trained.about import ModelError

__all__ = ["app", "main"]

app = typer.Typer(help="Federated learning on medical text.", no_args_is_help=True, add_completion=False)
app.add_typer(clinic, name="clinic")
app.command("align")(align_command)
app.add_typer(data, name="data")
app.command("serve")(serve_command)
app.command("export")(export_command)
app.command("predict")(predict_command)
app.add_typer(model, name="model")
app.add_typer(consortium, name="consortium")
app.add_typer(coordinator, name="coordinator")
app.add_typer(submit_commands)
app.add_typer(site, name="site")
app.add_typer(ledger, name="ledger")
literal = partial(Console, markup=False, emoji=False, highlight=False)  # a file's name may look like markup
out_console, error_console = literal(), literal(stderr=True, soft_wrap=True)


@app.command("run")
def run_command(
    context: typer.Context,
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
    show_text: Annotated[
        bool, typer.Option("--show-text", help="Quote the notes in messages, and take any label as a name.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.html at the end.")] = False,
    beside: Annotated[Path | None, typer.Option(hidden=True, help="Where the study's own modules lie.")] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(hidden=True, min=0, help="The least time between two checkpoints.")
    ] = CHECKPOINT_SECONDS,
) -> None:
    """Train: one run, or every combination of the study's grid."""
    context.with_resource(showing_text(show_text))
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
                    checkpoint_seconds=checkpoint_seconds,
                )  # fmt: skip
            if not quiet:
                _odd(folder)
            tell_result(cells[0].study, folder, result, report=not no_report)
            return
        options = ["--no-report"] + ["--strict"] * strict + ["--traceback"] * traceback
        options += ["--show-text"] * show_text
        options += ["--checkpoint-seconds", str(checkpoint_seconds)]
        with Grid(cells, quiet=quiet) as grid:
            states = sweep(
                cells, folder, workers=workers, resume=resume, beside=beside, options=options, watch=grid.show
            )
    except KeyboardInterrupt:
        _fail(f"stopped; nothing is lost, go on with: {again}", 130)
    except StudyError as error:  # what only the data can tell
        raise StudyError(str(study), error.problems) from None
    except (OSError, SiteFailed) as error:
        cause = error.__cause__ if isinstance(error, SiteFailed) else error
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            _fail(f"no room left to write {cause.filename or folder}; nothing written before is lost: make room, "
                  f"then go on with: {again}", 1)  # fmt: skip
        raise
    if not quiet:
        _odd(states[0].folder)
    _tell(states, again, None if no_report else folder)


def tell_result(study: Study, folder: Path, result: Result, *, report: bool = True) -> None:
    """How a run ended, where it is, and its report."""
    _say(f"{result.stopped}: {_figures(result.metrics)}")
    if wrong := _signs(folder):
        _say(f"{study.resolved['method']['name']}: {wrong}")
    for said in missed(result.metrics, REFERENCES.read(folder) or {}):
        _say(f"{study.resolved['method']['name']}: {said}")
    if report:
        _report(folder)
    where = f", the model in {folder / 'model'}" if study.method.shares else "; sites keep their models"
    _say(f"the run is in {folder}{where}")
    if study.sites.private or not study.method.shares:
        _say(f"a site's own model: {shlex.join(['wardround', 'model', 'assemble', str(folder)])} SITE --out DIR")


def _signs(folder: Path) -> str:
    """What looks wrong with the model of a run that has ended."""
    metrics = METRICS.read(folder)
    if metrics is None or not metrics.signs:
        return ""
    state = "has collapsed" if collapsed(metrics.signs) else "looks odd"
    return f"the model {state}: {'; '.join(metrics.signs)}; {REMEDY}"


def _warn(states: list[CellState], rows: list[dict[str, Any]]) -> None:
    """Which references are not beaten, and which models look wrong."""
    for row in rows:
        final = {name: value["mean"] for name, value in row["final"].items() if value}
        beside = {
            name: {metric: value["mean"] for metric, value in figures.items() if value}
            for name, figures in row["references"].items()
        }
        for said in missed(final, beside):
            _say(f"{row['label']}: {said}")
    for state in states:
        if state.done and (wrong := _signs(state.folder)):
            _say(f"{state.cell.label}: {wrong}")


def _tell(states: list[CellState], again: str, reported: Path | None) -> None:
    """The grid's table of results, and what failed."""
    table = Table("cell", "seeds", "metric", "final", "best", "MB up", title=None)
    rows = summary(states)
    for row in rows:
        for metric in (name for name in row["best"] if "[" not in name):  # by class: in the report
            final, best = row["final"][metric], row["best"][metric]
            up = f"{row['up'] / 1e6:.2f}"
            table.add_row(row["label"], str(len(row["seeds"])), metric, _pm(final), _pm(best), up)
    _wide().print(table)
    _warn(states, rows)
    if done := [state.folder for state in states if state.done]:
        _say(f"the runs are in {done[0].parent}, a folder for each cell; the first is {done[0]}")
    if reported:
        _report(reported)
    failed = [state for state in states if state.failed]
    for said in dict.fromkeys(state.failed for state in failed):  # the same mistake in many cells is one message
        error_console.print(f"{', '.join(state.cell.label for state in failed if state.failed == said)}: {said}")
    if failed:
        _fail(f"{len(failed)} of {len(states)} cells failed; the others are kept, go on with: {again}", 1)


@app.command()
def methods() -> None:
    """List the methods, with one line each."""
    table = Table("name", "what it does", box=None)
    for name, method in METHODS.items():
        table.add_row(name, method.about)
    _wide().print(table)
    _say('your own: name = "my_module:MyMethod" in the study file\'s [method]')


@app.command()
def protocol(
    method: Annotated[str, typer.Argument(help="A method's name, my_module:MyMethod, or a study file.")],
    study: Annotated[Path | None, typer.Option(help="Rehearse on this study's model and data.")] = None,
) -> None:
    """Print what would leave a hospital, by rehearsing the method."""
    if method.endswith(".toml") and study is not None:
        _fail(f"protocol takes one study file; {method} and --study {study} are two", 2)
    if method.endswith(".toml"):
        found = load_study(Path(method))
        told = found[0].study
        if len(found) > 1:
            _say(f"the first of the {len(found)} runs of this grid: {found[0].label}")
    else:
        told = load_study(study, [f"method.name={method}"])[0].study if study else toy(method)
    if told.method.pooled:
        _say(
            f"{told.resolved['method']['name']} pools all sites' notes in one place. It runs only in a simulation, as "
            "the upper bound that others are compared with: on real sites every note would have to leave."
        )
        return
    table = Table(*HEADER, box=None)
    for row in rows(rehearsed(told)):
        table.add_row(*row.columns)
    _wide().print(table)
    _say(f"{SUMMED}\n{NEVER}")


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.", metavar="RUN…")],
    out: Annotated[
        Path | None, typer.Option(help="The page; default: report.html in the run folder, for several runs here.")
    ] = None,
) -> None:
    """Write one self-contained page about one run or many: results, curves, tests, what crossed the wire."""
    folder = runs[0] if len(runs) == 1 else Path()
    _say(f"the report is in {_written(runs, out or folder / 'report.html')}")


def _written(runs: list[Path], out: Path) -> Path:
    from wardround.reports.page import write_report  # noqa: PLC0415 -- scipy takes a second that workers can spare

    return write_report(runs, out)


def _odd(folder: Path) -> None:
    """What the readers found odd in the data and counted: file and line, never text."""
    data = DATA.read(folder)
    for line in data.problems if data else ():
        error_console.print(f"in the data: {line}")


def _report(folder: Path) -> None:
    """The report of a run that has ended; should it fail, the run is still good."""
    try:
        _say(f"the report is in {_written([folder], folder / 'report.html')}")
    except Exception as error:  # noqa: BLE001 -- whatever it is, it must not spoil a finished run
        again = shlex.join(["wardround", "report", str(folder)])
        error_console.print(f"the run is complete, but its report could not be written: {error}; try: {again}")


def _say(text: str) -> None:
    out_console.print(text, soft_wrap=True)


def _wide() -> Console:
    """For tables: a terminal's own width; elsewhere wide enough for whole lines."""
    return literal(width=None if out_console.is_terminal else max(out_console.width, 200))


def _pm(value: dict[str, float]) -> str:
    """Mean ± standard deviation over seeds; a single seed has no spread."""
    return f"{value['mean']:.4f}" + (f" ± {value['sd']:.4f}" if value["sd"] else "")


def _figures(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if not name.endswith(("examples", "]")))


def _command(study: Path, changes: list[str], out: Path | None) -> str:
    parts = ["wardround", "run", str(study), *(part for change in changes for part in ("--set", change))]
    return shlex.join([*parts, *(["--out", str(out)] if out else []), "--resume"])


def _fail(message: str, code: int) -> NoReturn:
    error_console.print(message)
    raise SystemExit(code)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; mistakes in the input end with one message and exit code 2."""
    try:
        app(args=arguments, prog_name="wardround", standalone_mode=True)
    except (StudyError, RunError, CheckpointError, ModelError) as error:
        _fail(str(error), 2)
    except (BelowQuorum, SiteFailed) as error:
        _fail(str(error), 1)
