"""`wardround predict MODEL… (--text "…" | PATH | -)`: what trained models find in texts.

The path is the last argument; before it stand one or several models' folders. Exit codes: 0 all is well, 1 no room to
write, 2 the command, a model or the input is wrong, 3 all is written except what `--skip` passed over. Messages never
quote a note.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast, get_args

import typer

from wardround import __version__
from wardround.cli.data.findings import SKIPPED, show_skipped
from wardround.cli.drawn import drawn
from wardround.cli.options import (
    Rename,
    SkipUnread,
    Trust,
    console,
    errors,
    fail,
    one_of,
    refusals,
    remove_unfinished,
    renames,
)
from wardround.cli.reading import reading
from wardround.core.files import NO_ROOM
from wardround.formats.options import VIEWS, Options
from wardround.formats.register import TARGETS
from wardround.text.document import Document, Placed
from wardround.text.prediction import OUTPUTS, Prediction
from wardround.text.reading import DataError, Problems
from wardround.text.shown import WORDS

if TYPE_CHECKING:
    from wardround.core.device import Precision
    from wardround.trained.fhir_findings import Resources
    from wardround.trained.model import Entities, Model
    from wardround.trained.note_nlp import Concepts
    from wardround.trained.outputs import Sink

TERMINAL = "terminal"


@dataclass(frozen=True)
class Target:
    """Where predictions go, and in which form."""

    to: str
    path: Path | None

    def __str__(self) -> str:
        return str(self.path or "standard output")


class Mappings(NamedTuple):
    """What types and concepts of the findings are elsewhere."""

    concepts: "Concepts | None"
    resources: "Resources | None"


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
    trust: Trust = None,
    entities: Annotated[
        str,
        typer.Option(help="Which to use: those given, those found, or both; default: found, if a model tags."),
    ] = "",
    at_least: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out what a model is less sure of.", show_default=False)
    ] = 0.0,
    uncertain: Annotated[
        int,
        typer.Option(min=0, help="Only this many texts, those that a model is least sure of.", show_default=False),
    ] = 0,
    concepts: Annotated[
        Path | None, typer.Option(help="For omop: a CSV that maps concepts, words or types to concept_id.")
    ] = None,
    resources: Annotated[
        Path | None, typer.Option(help="For fhir: a CSV that says which types are Conditions or Observations.")
    ] = None,
    skip: SkipUnread = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Keep what is done if this is interrupted; the same command then goes on."),
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with the model.")] = 1,
    precision: Annotated[str, typer.Option(help="Of an encoder's products: fp32, or bf16, which is faster.")] = "fp32",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no warnings.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Tell what models find in texts: labels, entities, relations."""  # fmt: skip
    from wardround.cli.progress import Counter
    from wardround.core.doing import noticed
    from wardround.formats.check import Findings
    from wardround.runs.loop import one_thread
    from wardround.trained.languages import Languages
    from wardround.trained.least_sure import LeastSure
    from wardround.trained.mentions import Mentions
    from wardround.trained.model import load
    from wardround.trained.pool import predictions
    from wardround.trained.resume import resumed
    from wardround.trained.source import count_files, read_texts

    folders, path = _split(paths, text)
    target = _target(to, out, one=text is not None)
    _known(entities, precision)
    _fitting(target, concepts, resources)
    _look_back(target, resume=resume)
    problems, losses, languages = (Findings(skips=True) if skip else Problems()), Problems(), Languages()
    with one_thread(), _refusals(target):
        model = load(*folders, rename=renames(rename), trust=trust or (), precision=cast("Precision", precision))
        model = model.using(cast("Entities", entities or ("found" if model.tags else "given")))
        mentions = Mentions(model)
        options = _as_trained(path, replace(options, labelled=False), form, model, quiet=quiet)
        texts = _one(text, options) if path is None else read_texts(path, problems, options, form)
        total = count_files(path, form) if path else 1
        silent = quiet or (target.to == TERMINAL and sys.stdout.isatty())
        mappings = _mappings(concepts, resources)
        least_sure = LeastSure(uncertain)
        kept = resumed(target.path, model) if resume and target.path else nullcontext()
        with (
            kept as journal,
            Counter("predicting", total, quiet=silent) as counter,
            noticed(None, counter.doing),
            _sink(target, model, losses, mappings) as sink,
        ):
            for placed, prediction in predictions(model, texts, workers, journal):
                if uncertain:
                    least_sure.take(placed, prediction)
                else:
                    sink(placed, prediction.at_least(at_least))
                languages.take(placed.document, prediction)
                mentions.take(placed.document, prediction)
                counter.step()
            for placed, prediction in least_sure.texts():
                sink(placed, prediction.at_least(at_least))
            if not languages.texts:
                _skipped(problems, quiet=quiet)
                raise DataError(path or "--text", None, "no text", "name the file or folder that holds the notes")
    if not quiet:
        _warn(problems, losses, [*mentions.lines(), *languages.warnings(model.about, _called(path))], target)
        if target.path is not None or counter.rich:
            chosen = f", {journal.texts:,} of them done before" if journal and journal.texts else ""
            chosen += f", the {len(least_sure.texts()):,} least sure of them" if uncertain else ""
            errors.print(f"{counter.words()}{chosen}: {target}")
    if _skipped(problems, quiet=quiet):
        raise SystemExit(SKIPPED)


def _known(entities: str, precision: str) -> None:
    """Refuse words that these options do not have."""
    from wardround.core.device import Precision
    from wardround.trained.model import Entities

    one_of(entities, get_args(Entities), "--entities")
    one_of(precision, get_args(Precision), "--precision")


def _fitting(target: Target, concepts: Path | None, resources: Path | None) -> None:
    """Refuse mappings that the wanted form has no use for."""
    if concepts is not None and target.to != "omop":
        fail(
            f"--concepts goes with --to omop, not {target.to}; {target.to} has the concept ids that came with the texts"
        )
    if resources is not None and target.to != "fhir":
        fail(f"--resources goes with --to fhir, not {target.to}")


def _mappings(concepts: Path | None, resources: Path | None) -> Mappings:
    from wardround.trained.fhir_findings import read_resources
    from wardround.trained.note_nlp import read_concepts

    try:
        return Mappings(read_concepts(concepts) if concepts else None, read_resources(resources) if resources else None)
    except DataError as error:
        if not error.remedy.startswith("set encoding"):
            raise
        raise DataError(error.path, error.line, error.what, "save it as UTF-8") from None  # --encoding is the texts'


def _look_back(target: Target, *, resume: bool) -> None:
    """Deal with what commands that were cut have left."""
    from wardround.trained.resume import journal_of

    if target.path is not None:
        remove_unfinished(target.path)
        if not resume and (journal := journal_of(target.path)).exists():
            errors.print(f"{journal} is left from a prediction that was interrupted; go on with --resume, or remove it")
    elif resume:
        fail("--resume goes with --out: what went to standard output cannot be taken back")


def _split(paths: list[str], text: str | None) -> tuple[list[str], Path | None]:
    """The models, and the texts behind them."""
    from wardround.trained.about import model_folder
    from wardround.trained.source import STDIN

    if text is not None:
        if not text.strip():
            fail('--text is empty; give a text, such as --text "Aspirin gave her a rash"')
        return paths, None
    for path in paths:
        if len(path.split()) > WORDS and not _exists(path):  # which is not quoted: it may be a note
            fail(f"there is no such path, of {len(path):,} characters; is it a text? Then put --text before it")
    if len(paths) == 1 or _is_model(paths[-1]):
        for path in paths:
            model_folder(Path(path))  # raises an error if texts stand where a model should
        fail(f'no texts: name a file, a folder or - after {paths[-1]}, or give --text "…"')
    return paths[:-1], STDIN if paths[-1] == "-" else Path(paths[-1])


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # it is too long for a path
        return False


def _called(path: Path | None) -> str:
    if path is None:
        return "this text"
    return "this folder" if path.is_dir() else "this file" if path.is_file() else "this input"


def _as_trained(path: Path | None, options: Options, form: str, model: "Model", *, quiet: bool) -> Options:
    """The options with the columns that the model's training texts stood in, which is said."""
    from wardround.trained.source import as_trained

    known = options if path is None else as_trained(path, options, form, [part.folder for part in model.parts])
    if known.text != options.text and not quiet:
        texts = " and ".join(map(str, known.text if isinstance(known.text, tuple) else (known.text,)))
        errors.print(f"texts are read from column {texts}, as those of the model's training were")
    if known.encoding != options.encoding and not quiet:
        errors.print(f"read as {known.encoding}, as the texts of the model's training were")
    columns = {name: (getattr(options, name), getattr(known, name)) for name in ("id", "source", "patient")}
    more = [f"{name} from {now}" for name, (before, now) in columns.items() if now != before]
    if more and not quiet:
        errors.print(f"also as in its training: {', '.join(more)}")
    return known


def _is_model(path: str) -> bool:
    from wardround.trained.about import ABOUT

    return any((Path(path) / place / ABOUT).is_file() for place in ("", "model"))


def _target(to: str, out: Path | None, *, one: bool) -> Target:
    if to in TARGETS and to not in OUTPUTS:
        able = f"predictions are written as {', '.join(OUTPUTS)}"
        held = " and ".join(VIEWS[view] for view in TARGETS[to].holds)
        way = f"wardround data convert found.jsonl {out or 'converted'} --to {to}"
        fail(f"--to {to}: {able}; {to}, which holds {held}, is made of jsonl: --to jsonl --out found.jsonl, then {way}")
    one_of(to, OUTPUTS, "--to")
    if not to and out is not None:
        to = {".json": "label-studio", ".ndjson": "fhir"}.get(out.suffix, out.suffix.removeprefix("."))
        if to not in OUTPUTS:
            fail(f"--out {out}: say in which form with --to: {', '.join(OUTPUTS)}")
    if to == "brat" and out is None:
        fail("--to brat makes a folder; name it with --out")
    return Target(to or (TERMINAL if one or sys.stdout.isatty() else "jsonl"), out)


def _one(text: str | None, options: Options) -> Iterator[Placed]:
    yield Placed(Document("", text or "", language=options.language), Path("--text"), 1)


@contextmanager
def _sink(target: Target, model: "Model", losses: Problems, mappings: Mappings) -> "Iterator[Sink]":
    from wardround.trained.outputs import written

    if target.to != TERMINAL:
        system = f"wardround {__version__}: {', '.join(part.version for part in model.parts)}"
        with written(target.to, target.path, system=system, losses=losses, **mappings._asdict()) as sink:
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
        except OSError as error:
            if target.path is not None:
                raise
            # Neither a closed pipe nor a full disk takes what is still in the buffer when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if isinstance(error, BrokenPipeError):  # whoever read has seen enough
                raise SystemExit(0) from None
            fail(f"{target}: {error.strerror}; not everything was written", 1 if error.errno in NO_ROOM else 2)


def _skipped(problems: Problems, *, quiet: bool) -> int:
    from wardround.formats.check import Findings

    return show_skipped(errors, problems.skipped, quiet=quiet) if isinstance(problems, Findings) else 0


def _warn(problems: Problems, losses: Problems, warnings: Iterable[str], target: Target) -> None:
    for line in str(problems).splitlines():
        errors.print(f"in the texts: {line}")
    for kind, count in losses.counts.items():
        errors.print(f"{target.to} has no place for: {kind}: {count:,}")
    for line in warnings:
        errors.print(f"warning: {line}")
