"""What commands share: how they print, how they refuse, and the arguments that several of them have."""

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from wardround.core.files import NO_ROOM
from wardround.core.refusal import Refusal
from wardround.core.unfinished import remove_stale
from wardround.text.reading import DataError, nearest

if TYPE_CHECKING:
    from wardround.study.load import Study

NO_PLACE = (errno.ENOTDIR, errno.EISDIR)
literal = partial(Console, markup=False, emoji=False, highlight=False, soft_wrap=True)  # a name may look like markup
console, errors = literal(), literal(stderr=True)

StudyFile = Annotated[Path, typer.Argument(help="The study file (TOML).")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting: --set method.mu=0.1", metavar="KEY=VALUE")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, only the result.")]
Days = Annotated[int, typer.Option(min=1, help="How long the certificates last.")]
Door = Annotated[str, typer.Option(help="Where the person reaches the coordinator: HOST:PORT.", metavar="ADDRESS")]
Consortium = Annotated[Path, typer.Argument(help="The consortium's folder.", metavar="CONSORTIUM")]
SiteName = Annotated[str, typer.Argument(help="The site's name.", metavar="SITE")]
Finished = Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")]
Beside = Annotated[Path | None, typer.Option(help="Where the study file lay, if it names files or modules of its own.")]
Site = Annotated[Path, typer.Argument(help="The site's folder.", metavar="SITE")]
SkipUnread = Annotated[
    bool,
    typer.Option("--skip", help="Go on without files and lines that cannot be read; each is listed with its reason."),
]
Rename = Annotated[
    list[str] | None,
    typer.Option("--rename", help="What the next model calls a tagger's type: drug=Chemical", metavar="TYPE=TYPE"),
]

Trust = Annotated[
    list[Path] | None,
    typer.Option("--trust", help="Take only models that this public key has signed; may be repeated.", metavar="KEY"),
]


def wide() -> Console:
    """For tables: a terminal's own width; elsewhere wide enough for whole lines."""
    return literal(soft_wrap=False, width=None if console.is_terminal else max(console.width, 200))


def single(path: Path, changes: Iterable[str], remedy: str) -> "Study":
    """The study of a file that is no grid."""
    from wardround.study.load import load_study
    from wardround.study.settings import StudyError

    cells = load_study(path, changes)
    if len(cells) > 1:
        raise StudyError(str(path), [f"is a grid of {len(cells)} runs; {remedy}"])
    return cells[0].study


@contextmanager
def ending() -> Iterator[None]:
    """Let what a user should know end the process with one message and no traceback."""
    try:
        yield
    except Refusal as error:
        fail(str(error), error.code)
    except OSError as error:
        if error.errno in NO_PLACE:
            fail(f"{error.filename}: {error.strerror}; check the path")
        if error.errno != errno.ENAMETOOLONG:
            raise
        fail(f"a path of {len(str(error.filename)):,} characters is longer than a path can be; is it a text?")


@contextmanager
def resumable(study: Path, folder: Path, again: str) -> Iterator[None]:
    """Let what stops a run end with how to go on with it; `again` is the command that does."""
    from wardround.engines.inline import SiteFailed
    from wardround.runs.stopping import Stopped
    from wardround.study.settings import StudyError

    try:
        yield
    except KeyboardInterrupt:
        fail(f"stopped; nothing is lost, go on with: {again}", 130)
    except Stopped as stopped:
        fail(f"{stopped}, go on with: {again}", stopped.code)
    except StudyError as error:  # what only the data can show
        raise StudyError(str(study), error.problems) from None
    except (OSError, SiteFailed) as error:
        cause = error.__cause__ if isinstance(error, SiteFailed) else error
        if isinstance(cause, OSError) and cause.errno == errno.EROFS:
            fail(f"{cause.filename or folder} cannot be written to ({cause.strerror}); choose another --out")
        if not isinstance(cause, OSError) or cause.errno not in NO_ROOM:
            raise
        place = f"{cause.filename or folder}; nothing written before is lost"
        fail(f"no room left to write {place}: make room, then go on with: {again}", 1)


def remove_unfinished(target: Path) -> None:
    """Remove what processes that were killed have left beside a target, and tell."""
    for path in remove_stale(target.parent):
        errors.print(f"removed {path}: half written by a process that was killed")


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


@contextmanager
def serving() -> Iterator[None]:
    """Import what a page is served with, or say how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"h11", "starlette", "uvicorn"}:
            raise
        fail(f"this needs {missing}; install it with: pip install 'wardround[serve]'")


def one_of(value: str, known: Iterable[str], option: str) -> None:
    """Fail with the nearest name, and all, unless the value is empty or known."""
    names = list(known)
    if value and value not in names:
        close = nearest(value, names)
        fail(f"{option} {value}: " + (f"did you mean {close}? " if close else "") + f"use one of {', '.join(names)}")


def renames(pairs: Iterable[str] | None, order: str = "the tagger's type, =, the next model's") -> dict[str, str]:
    """From one name to another, as `--rename` has them in this order."""
    names = {}
    for one in pairs or ():
        mine, _, theirs = one.partition("=")
        if not (mine and theirs):
            fail(f"--rename {one}: write {order}: --rename DRUG=treatment")
        names[mine] = theirs
    return names


def fail(message: str, code: int = 2) -> NoReturn:
    """End with a message."""
    errors.print(message)
    raise SystemExit(code)


def in_options(text: str) -> str:
    """Readers speak of a study's settings; here these are options."""
    text = re.sub(r'set encoding = "([\w-]+)"', r"give --encoding \1", text)
    text = text.replace("fix_offsets = true", "--fix-offsets").replace("a separator", "a --separator")
    text = text.replace("name the key that holds the text", "name it with --text-column")
    text = re.sub(r'set format = "(\w+)"', r"give --from \1", text)
    text = text.replace("set delimiter = ", "give --delimiter ").replace("set quoting = false", "give --no-quoting")
    text = re.sub(r"(?<!or )set header = false", "give --no-header", text)
    return re.sub(
        r"name the (\w+ )?column in \[corpus\](.*?)(, or set header = false|$)",
        lambda remedy: f"name it with --{(remedy[1] or 'text').strip()}-column{remedy[2]}",
        text,
    )
