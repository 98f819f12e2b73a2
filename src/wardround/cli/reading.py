"""The options of every command that reads a user's own files.

    @reading
    def command(path: …, *, options: Options, form: str) -> None: ...

The command line then has `--from`, `--encoding`, `--text-column` and all the others in place of `options` and `form`.
"""

import inspect
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any

import typer

from wardround.cli.options import fail, one_of
from wardround.formats.options import Options, text_twice
from wardround.formats.register import FORMATS
from wardround.text.shown import showing_text

FORM = Annotated[str, typer.Option("--from", help=f"The format, if it is not recognised: {', '.join(FORMATS)}.")]
SHARED: dict[str, tuple[Any, Any]] = {
    "encoding": (
        Annotated[str | None, typer.Option("--encoding", help="The files' encoding, if it is not UTF-8.")],
        None,
    ),
    "language": (Annotated[str, typer.Option("--language", help="The texts' language, e.g. en.")], ""),
    "text": (Annotated[str, typer.Option("--text-column", help="The column or key that holds the text.")], ""),
    "label": (Annotated[str, typer.Option("--label-column", help="The column or key that holds the label.")], ""),
    "id": (Annotated[str, typer.Option("--id-column", help="The column or key that holds the id.")], ""),
    "source": (
        Annotated[str, typer.Option("--source-column", help="The column or key that names the hospital, ward, ….")],
        "",
    ),
    "patient": (
        Annotated[str, typer.Option("--patient-column", help="The column or key that says whom a text is about.")],
        "",
    ),
    "separator": (
        Annotated[str, typer.Option("--separator", help="What separates several labels in one cell.")],
        "",
    ),
    "delimiter": (
        Annotated[str | None, typer.Option("--delimiter", help="What stands between the cells of CSV, if not shown.")],
        None,
    ),
    "header": (
        Annotated[
            bool | None,
            typer.Option("--header/--no-header", help="Whether a table's first row has names.", show_default=False),
        ],
        None,
    ),
    "quoting": (
        Annotated[
            bool | None,
            typer.Option(
                "--quoting/--no-quoting", help="Whether quotes enclose the cells of a table.", show_default=False
            ),
        ],
        None,
    ),
    "fix_offsets": (
        Annotated[bool, typer.Option("--fix-offsets", help="Repair offsets that are shifted or count bytes.")],
        False,
    ),
    "show_text": (Annotated[bool, typer.Option("--show-text", help="Quote the notes in messages.")], False),
}
"""By the name that `Options` has for it; a command may have a parameter of that name of its own."""
COLUMNS = ("text", "label", "id", "source", "patient")


def as_given(options: Options, form: str) -> str:
    """These options as they stand on a command line, each after a blank."""
    words = [f" --from {form}"] if form else []
    for name, (_, default) in SHARED.items():
        if (value := getattr(options, name)) != default:
            option = f"--{name}-column" if name in COLUMNS else f"--{name.replace('_', '-')}"
            off = option.replace("--", "--no-", 1)
            words.append({True: f" {option}", False: f" {off}"}.get(value, f" {option} {shlex.quote(str(value))}"))
    return "".join(words)


def _one_sign(delimiter: str | None) -> str | None:
    """A delimiter, a tab also as most shells take it."""
    sign = "\t" if delimiter == "\\t" else delimiter
    if sign is not None and len(sign) != 1:
        fail(f"--delimiter {delimiter}: give one character, such as ';', or \\t for a tab")
    return sign


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of reading, which get to it as one `Options` and the wanted format."""

    @wraps(command)
    def read(**given: Any) -> None:
        options = Options(**{name: given.pop(f"read_{name}") for name in SHARED})
        options = replace(options, delimiter=_one_sign(options.delimiter))
        one_of(given["form"], FORMATS, "--from")
        if twice := text_twice(options):
            fail(f"--text-column and --{twice}-column name the same; a text is no {twice}")
        with showing_text(options.show_text):
            command(options=options, **given)

    own = inspect.signature(command)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [one.replace(kind=keyword) for name, one in own.parameters.items() if name not in ("options", "form")]
    parameters.append(inspect.Parameter("form", keyword, default="", annotation=FORM))
    for name, (kind, default) in SHARED.items():
        parameters.append(inspect.Parameter(f"read_{name}", keyword, default=default, annotation=kind))
    read.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect's own protocol
    read.__annotations__ = {one.name: one.annotation for one in parameters}
    return read
