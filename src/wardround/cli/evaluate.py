"""`wardround evaluate MODEL DATA…`: the figures of a model on labelled files.

Exit codes: 0 all is well, 1 no room to write, 2 the command, the model or the data are wrong. Messages never quote a
note.
"""

import json
import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from wardround.cli.options import Trust, console, errors, fail, in_options, refusals, renames, wide
from wardround.cli.reading import reading
from wardround.core.files import write
from wardround.formats.options import Options
from wardround.text.reading import nearest

if TYPE_CHECKING:
    from wardround.trained.evaluate import Evaluation

MOST = 12  # classes of which a terminal takes the confusion matrix
NOTHING = "(nothing)"


@reading
def command(
    model: Annotated[str, typer.Argument(help="A model's folder, or a run's.", metavar="MODEL")],
    data: Annotated[list[Path], typer.Argument(help="Labelled files or folders; each counts by itself.")],
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", help="What the model calls a label or type of the files: DRUG=drug", metavar="X=Y"),
    ] = None,
    trust: Trust = None,
    kb: Annotated[Path | None, typer.Option(help="The public facts that notes are aligned with, for bags.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="A file for the numbers.", metavar="FILE")] = None,
    *,
    options: Options,
    form: str,
) -> None:
    """Tell how well a model does on labelled files: figures, base rate, each class, confusion."""  # fmt: skip
    from wardround.trained.evaluate import evaluate

    with refusals(as_json or model):
        try:
            result = evaluate(
                model,
                *data,
                form=form,
                options=options,
                rename=renames(rename, "the files' name, =, the model's"),
                kb=kb,
                trust=trust or (),
            )
        except ValueError as error:
            text = in_options(str(error)).replace("kb = …", "--kb FACTS").replace("rename to", "--rename to")
            fail(re.sub(r'rename = { "…" = "(.*)" }', lambda name: _renaming("THEIRS", name[1]), text))
        if as_json:
            write(as_json, (json.dumps(result.plain(), ensure_ascii=False, indent=1) + "\n").encode())
    _show(result)


def _show(result: "Evaluation") -> None:
    if result.classes and not any(one.answered for one in result.classes):  # tables of zeros say nothing
        there = sum(one.support for one in result.classes)
        console.print(f"the model found nothing: none of the {there:,} that there are; --json FILE has the figures")
        _warn(result)
        return
    table = Table("figure", "model", result.constant or "constant answer")
    for name, value in result.figures.items():
        if not name.endswith("]"):  # by class: below
            table.add_row(name, _number(name, value), _number(name, result.base.get(name)))
    wide().print(table)
    if result.classes:
        table = Table("class", "precision", "recall", "F1", "examples", "answered")
        for one in result.classes:
            shares = (f"{value:.4f}" for value in (one.precision, one.recall, one.f1))
            table.add_row(one.name, *shares, f"{one.support:,}", f"{one.answered:,}")
        wide().print(table)
    if result.confusion and len(result.confusion) > MOST:
        console.print(f"the confusion matrix of {len(result.classes)} classes is for a file: --json FILE")
    elif result.confusion:
        names = [one.name for one in result.classes]
        names += [NOTHING] * (len(result.confusion) - len(names))
        table = Table("true, then as answered", *names)
        for name, row in zip(names, result.confusion, strict=True):
            table.add_row(name, *(f"{count:,}" for count in row))
        wide().print(table)
    _warn(result)


def _warn(result: "Evaluation") -> None:
    if result.noise:
        console.print(result.noise)
    for line in result.problems:
        errors.print(f"in the data: {line}")
    named = [f"{name} {count:,}" for name, count in result.unknown.items()]
    names = [one.name for one in result.classes]
    if named or result.unnamed:
        others = [f"{'others' if named else 'not shown'} {result.unnamed:,}"] if result.unnamed else []
        errors.print(
            f"warning: the model does not know: {', '.join(named + others)}; if it has another name for one: "
            + _renaming(theirs := next(iter(result.unknown), "THEIRS"), nearest(theirs, names) or "ITS")
        )
    if result.left_out:
        errors.print(f"warning: examples without a label that the model knows, left out: {result.left_out:,}")


def _renaming(theirs: str, known: str) -> str:
    """How a name of the files is said to be one of the model's."""
    return f"--rename {quote(f'{theirs}={known}')}, first the files' name, then the model's"


def _number(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{int(value):,}" if name == "examples" else f"{value:.4f}"
