"""What commands that read a user's own files share: the options of reading, and how a refusal is told.

    @data.command("check")
    @reading
    def check_command(path: …, options: Options, form: str) -> None: ...

The command line then has `--from`, `--encoding`, `--text-column` and all the others in place of `options` and `form`.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from wardround.core.files import NO_ROOM
from wardround.formats.options import Options
from wardround.formats.recognise import FORMATS
from wardround.text.reading import DataError, nearest
from wardround.text.shown import showing_text

__all__ = ["fail", "in_options", "literal", "one_of", "reading", "refusals", "renames"]

literal = partial(Console, markup=False, emoji=False, highlight=False, soft_wrap=True)

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
        Annotated[str, typer.Option("--source-column", help="The column or key that tells hospital, ward, ….")],
        "",
    ),
    "separator": (
        Annotated[str, typer.Option("--separator", help="What stands between several labels of one cell.")],
        "",
    ),
    "fix_offsets": (
        Annotated[bool, typer.Option("--fix-offsets", help="Repair offsets that are shifted or count bytes.")],
        False,
    ),
    "show_text": (Annotated[bool, typer.Option("--show-text", help="Quote the notes in messages.")], False),
}
"""By the name that `Options` has for it; a command may have a parameter of that name of its own."""


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of reading, which get to it as one `Options` and the wanted format."""

    @wraps(command)
    def told(**given: Any) -> None:
        options = Options(**{name: given.pop(f"read_{name}") for name in SHARED})
        one_of(given["form"], FORMATS, "--from")
        with showing_text(options.show_text):
            command(options=options, **given)

    own = inspect.signature(command)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [one.replace(kind=keyword) for name, one in own.parameters.items() if name not in ("options", "form")]
    parameters.append(inspect.Parameter("form", keyword, default="", annotation=FORM))
    for name, (kind, default) in SHARED.items():
        parameters.append(inspect.Parameter(f"read_{name}", keyword, default=default, annotation=kind))
    told.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect's own protocol
    told.__annotations__ = {one.name: one.annotation for one in parameters}
    return told


@contextmanager
def refusals(target: Path | str) -> Iterator[None]:
    """Let what cannot be read or written end with one message."""
    try:
        yield
    except DataError as error:
        fail(in_options(str(error)))
    except OSError as error:
        if error.errno in NO_ROOM:
            fail(f"no room left to write {target}; nothing was written: make room and try again", 1)
        fail(f"{error.filename or target}: {error.strerror or 'cannot be written'}; nothing was written")


def one_of(value: str, known: Iterable[str], option: str) -> None:
    """Fail with the nearest name unless the value is empty or known."""
    names = list(known)
    if value and value not in names:
        close = nearest(value, names)
        fail(f"{option} {value}: " + (f"did you mean {close}?" if close else f"use one of {', '.join(names)}"))


def renames(told: Iterable[str]) -> dict[str, str]:
    """From a tagger's type to the next model's, as `--rename` says it."""
    found = {}
    for one in told:
        mine, _, theirs = one.partition("=")
        if not (mine and theirs):
            fail(f"--rename {one}: write the tagger's type, =, the next model's: --rename DRUG=treatment")
        found[mine] = theirs
    return found


def fail(message: str, code: int = 2) -> NoReturn:
    """End with a message."""
    literal(stderr=True).print(message)
    raise SystemExit(code)


def in_options(text: str) -> str:
    """Readers speak of a study's settings; here these are options."""
    text = re.sub(r'set encoding = "([\w-]+)"', r"give --encoding \1", text)
    text = text.replace("fix_offsets = true", "--fix-offsets").replace("a separator", "a --separator")
    text = text.replace("name the key that holds the text", "name it with --text-column")
    return text.replace("name the column in [corpus], or set header = false", "name it with --text-column")
