"""`wardround predict MODEL… (--text "…" | PATH | -)`: what trained models find in texts.

The path is the last argument; before it stand one or several models' folders. Exit codes: 0 all is well, 1 no room to
write, 2 the command, a model or the input is wrong. Messages never quote a note.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from wardround import __version__
from wardround.cli.drawn import drawn
from wardround.cli.options import Rename, console, errors, fail, one_of, refusals, renames
from wardround.cli.progress import Counter
from wardround.cli.reading import reading
from wardround.core.files import NO_ROOM
from wardround.formats.options import Options
from wardround.runs.loop import one_thread
from wardround.text.document import Document, Placed
from wardround.text.prediction import Prediction
from wardround.text.reading import DataError, Problems
from wardround.trained.about import ABOUT, ModelError, model_folder
from wardround.trained.languages import Languages
from wardround.trained.mentions import Mentions
from wardround.trained.model import Entities, Model, load
from wardround.trained.outputs import OUTPUTS, Sink, written
from wardround.trained.pool import WorkerError, predictions
from wardround.trained.source import STDIN, count_files, read_texts

__all__ = ["command"]

TERMINAL = "terminal"


@dataclass(frozen=True)
class Target:
    """Where predictions go, and in which form."""

    to: str
    path: Path | None

    def __str__(self) -> str:
        return str(self.path or "standard output")


@reading
def command(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Models' folders, and last a file or folder of texts, or - for standard input.",
            metavar="MODEL… [PATH|-]",
        ),
    ],
    text: Annotated[str | None, typer.Option("--text", help="One text, in place of a path.")] = None,
    to: Annotated[str, typer.Option(help=f"The form: {', '.join(OUTPUTS)}; on a terminal a coloured view.")] = "",
    out: Annotated[Path | None, typer.Option(help="A new file; for brat a new folder.")] = None,
    rename: Rename = None,
    entities: Annotated[
        str,
        typer.Option(help="Those given with the texts, those found, or both; by default found, given if no tagger."),
    ] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with the model.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no warnings.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Tell what models find in texts: labels, entities, relations."""  # fmt: skip
    folders, path = _split(paths, text)
    target = _target(to, out, one=text is not None)
    one_of(entities, get_args(Entities), "--entities")
    problems, losses, languages = Problems(), Problems(), Languages()
    with one_thread(), _refusals(target):
        model = load(*folders, rename=renames(rename))
        model = model.using(cast("Entities", entities or ("found" if model.tags else "given")))
        mentions = Mentions(model)
        texts = (
            _one(text, options) if path is None else read_texts(path, problems, replace(options, labelled=False), form)
        )
        total = count_files(path, form) if path else 1
        silent = quiet or (target.to == TERMINAL and sys.stdout.isatty())
        with Counter("predicting", total, quiet=silent) as counter, _sink(target, model, losses) as sink:
            for placed, prediction in predictions(model, texts, workers):
                sink(placed, prediction)
                languages.take(placed.document, prediction)
                mentions.take(placed.document, prediction)
                counter.step()
            if not languages.texts:
                raise DataError(path or "--text", None, "no text", "name the file or folder that holds the notes")
    if not quiet:
        _warn(problems, losses, [*mentions.lines(), *languages.warnings(model.about, _called(path))], target)
        if target.path is not None or counter.rich:
            errors.print(f"{counter.words()}: {target}")


def _split(paths: list[str], text: str | None) -> tuple[list[str], Path | None]:
    """The models, and the texts behind them."""
    if text is not None:
        if not text.strip():
            fail('--text is empty; give a text, such as --text "Aspirin gave her a rash"')
        return paths, None
    if len(paths) == 1 or _is_model(paths[-1]):
        for path in paths:
            model_folder(Path(path))  # raises an error if texts stand where a model should
        fail(f'no texts: name a file, a folder or - after {paths[-1]}, or give --text "…"')
    return paths[:-1], STDIN if paths[-1] == "-" else Path(paths[-1])


def _called(path: Path | None) -> str:
    if path is None:
        return "this text"
    return "this folder" if path.is_dir() else "this file" if path.is_file() else "this input"


def _is_model(path: str) -> bool:
    return any((Path(path) / place / ABOUT).is_file() for place in ("", "model"))


def _target(to: str, out: Path | None, *, one: bool) -> Target:
    one_of(to, OUTPUTS, "--to")
    if not to and out is not None:
        to = out.suffix.removeprefix(".")
        if to not in OUTPUTS:
            fail(f"--out {out}: say in which form with --to: {', '.join(OUTPUTS)}")
    if to == "brat" and out is None:
        fail("--to brat makes a folder; name it with --out")
    return Target(to or (TERMINAL if one or sys.stdout.isatty() else "jsonl"), out)


def _one(text: str | None, options: Options) -> Iterator[Placed]:
    yield Placed(Document("", text or "", language=options.language), Path("--text"), 1)


@contextmanager
def _sink(target: Target, model: Model, losses: Problems) -> Iterator[Sink]:
    if target.to != TERMINAL:
        system = f"wardround {__version__}: {', '.join(about.study for about in model.about)}"
        with written(target.to, target.path, system=system, losses=losses) as sink:
            yield sink
        return

    def show(_placed: Placed, prediction: Prediction) -> None:
        console.print(drawn(prediction, colour=console.is_terminal and not console.no_color, title=True))

    yield show


@contextmanager
def _refusals(target: Target) -> Iterator[None]:
    with refusals(str(target)):
        try:
            yield
        except (ModelError, WorkerError) as error:
            fail(str(error))
        except OSError as error:
            if target.path is not None:
                raise
            # Neither a closed pipe nor a full disk takes what is still in the buffer when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if isinstance(error, BrokenPipeError):  # whoever read has seen enough
                raise SystemExit(0) from None
            fail(f"{target}: {error.strerror}; what was written is not all", 1 if error.errno in NO_ROOM else 2)


def _warn(problems: Problems, losses: Problems, warnings: Iterable[str], target: Target) -> None:
    for line in str(problems).splitlines():
        errors.print(f"in the texts: {line}")
    for kind, count in losses.counts.items():
        errors.print(f"{target.to} has no place for: {kind}: {count:,}")
    for line in warnings:
        errors.print(f"warning: {line}")
