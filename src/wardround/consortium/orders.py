"""Studies that people submit from other machines: what they may name, where their runs lie, and how far these are.

    order = Order(study=text, changes=("rounds=5",))
    runs = Orders(north)
    run = runs.place("ada", order)           # north/runs/ada/mentions; a `StudyError` says what is refused, all at once
    runs.lines("ada", "mentions", 0)         # what it has said so far

A study is data. Rules of this file:
1. No class of anybody's own (`module:Class`), no path that leaves `CONSORTIUM/public/`, no `$VARIABLE`, no `~`, no
   `folder` where paths would begin instead: what a study from elsewhere makes this machine read is what its
   coordinator has put there for that, and it runs nothing.
2. A run belongs to whoever submitted it, by its place. An order lies beside the run for as long as it is not done; one
   that is there when the coordinator starts is taken up again. So does the wish that it stop after its round: between
   an order and its run lie seconds in which there is no folder yet that could be told.
No torch here.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any

from pydantic import Field

from wardround.consortium.forms import Form, FormError, parsed
from wardround.consortium.submitted import ORDERED, called, submitted
from wardround.core.files import write
from wardround.core.lock import held
from wardround.runs.errors import RunError
from wardround.runs.files import LOCK
from wardround.runs.stopping import ask_to_stop
from wardround.study.grid import parsed as value_of
from wardround.study.grid import put
from wardround.study.load import NAME, Study, cells
from wardround.study.settings import StudyError
from wardround.study.trusted import Trusted

LARGEST = 1 << 18  # bytes of an order
PUBLIC = "public"
ORDER, OUTPUT, ENDED, FAILED, STOP = BESIDE = ".order", ".output", ".ended", ".failed", ".stop"
"""How files are called that lie beside a run."""
FREE = frozenset({"name", "description", "expected"})  # words for the reader, which name nothing
DEEPEST = 20
DOTS = 200  # of a line: reading a key takes the square of its parts
Seconds = Annotated[float, Field(ge=0, le=366 * 86400, allow_inf_nan=False)]


class Order(Form):
    """A study to be run, as a person wrote it."""

    study: str
    changes: tuple[str, ...] = ()
    resume: bool = False
    wait: Seconds = 600.0
    deadline: Annotated[Seconds, Field(ge=1)] = 3600.0
    alone: bool = False
    trust_sizes: bool = False

    def tables(self) -> dict[str, Any]:
        """The study with its changes, which names nothing that it may not; a `StudyError` has all that is wrong."""
        if any(line.count(".") > DOTS for text in (self.study, *self.changes) for line in text.splitlines()):
            raise StudyError("study", [f"a line has more than {DOTS} dots; break it into several"])
        try:
            tables = tomllib.loads(self.study.removeprefix("\ufeff"))
            for change in self.changes:
                key, _, value = change.partition("=")
                put(tables, key.strip(), value_of(value.strip()))
        except (ValueError, RecursionError) as error:
            words = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            raise StudyError("study", [f"not a study: {words}"]) from None
        problems = []
        if "grid" in tables or "seeds" in tables:
            problems.append("is a grid; submit one of its runs, with --set for each choice")
        if not isinstance(name := tables.get("name"), str) or not _plain(name):
            problems.append("name becomes a folder's name; use up to 100 letters, digits, - _ and single dots")
        problems += _foreign({key: value for key, value in tables.items() if key not in FREE})
        if problems:
            raise StudyError("study", problems)
        return tables


def _plain(name: str) -> bool:
    """Whether a name is a folder's, and no file's beside it."""
    return bool(NAME.fullmatch(name)) and ".." not in name and not name.lower().endswith(BESIDE)


def _foreign(value: Any, key: str = "", depth: int = 0) -> Iterator[str]:
    """Why a study from another machine may not say this, key by key."""
    if depth > DEEPEST:
        yield f"{key} is nested too deeply"
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if reason := "says where paths begin" if name == "folder" else _outside(str(name)):
                yield f"{key or 'study'} has a key that {reason}"
            yield from _foreign(inner, f"{key}.{name}" if key else str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _foreign(inner, key, depth + 1)
    elif isinstance(value, str):
        if key.rpartition(".")[2] == "name" and ":" in value:
            yield f"{key} = {value[:80]!r} is a class of somebody's own: from another machine only wardround's are run"
        elif reason := _outside(value):
            yield f"{key} = {value[:80]!r} {reason}; files for studies from elsewhere lie in the coordinator's public/"


def _outside(text: str) -> str:
    """Why a text, taken as a path, would leave the one folder where paths begin."""
    if "\0" in text:
        return "holds a NUL"
    if "$" in text or text.startswith("~"):
        return "would be filled in from this machine's environment"
    posix, windows = PurePosixPath(text), PureWindowsPath(text)
    if posix.is_absolute() or windows.is_absolute() or windows.drive or ".." in (*posix.parts, *windows.parts):
        return "is a path that leads elsewhere"
    return ""


class Orders:
    """The orders of a consortium, and the runs that they became."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place_of_runs = folder, folder / ORDERED

    def run(self, person: str, name: str) -> Path:
        """The folder of somebody's run, whether it is there or not."""
        return self.place_of_runs / person / name

    def known(self, person: str, name: str) -> bool:
        """Whether somebody has, or had, a run of this name."""
        beside = self.place_of_runs / person
        return (
            _plain(person) and _plain(name) and any((beside / f"{name}{ending}").is_file() for ending in (ORDER, ENDED))
        )

    def called(self, run: Path) -> str:
        """How people name a run."""
        return called(self.folder, run)

    def place(self, person: str, order: Order) -> str:
        """Put an order where it is taken up; the name of its run."""
        name = str(order.tables()["name"])
        run = self.run(person, name)
        if self.open(person, name):
            raise RunError(f"{name} of {person} is running; stop it first, or give the study another name")
        if (run / "study.toml").exists() and not order.resume:
            raise RunError(f"{name} of {person} has been run already; go on with --resume, or give it another name")
        run.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(run.parent / f"{name}{ORDER}", order.encode())  # first: on a full disk, what there was stays as it is
        for ending in (OUTPUT, ENDED, STOP):
            (run.parent / f"{name}{ending}").unlink(missing_ok=True)
        return name

    def read(self, person: str, name: str) -> Order:
        """An order that is not done."""
        path = self.place_of_runs / person / f"{name}{ORDER}"
        try:
            return parsed(Order, path.read_bytes())
        except (OSError, FormError) as error:
            raise RunError(f"{path} cannot be read: {error}") from None

    def study(self, order: Order) -> Study:
        """What it wants to be run, built without anything of its author's."""
        public = self.folder / PUBLIC
        return cells(order.tables(), folder=public.resolve(), trusted=Trusted(public, {}))[0].study

    def done(self, person: str, name: str, code: int) -> None:
        """Note how it ended."""
        beside = self.place_of_runs / person
        write(beside / f"{name}{ENDED}", str(code).encode())
        for ending in (ORDER, STOP):
            (beside / f"{name}{ending}").unlink(missing_ok=True)

    def withdraw(self, person: str, name: str) -> None:
        """Take back what could not be begun."""
        (self.place_of_runs / person / f"{name}{ORDER}").unlink(missing_ok=True)

    def open(self, person: str, name: str) -> bool:
        """Whether an order is not done yet."""
        return (self.place_of_runs / person / f"{name}{ORDER}").exists()

    def all_open(self) -> list[tuple[str, str]]:
        """Whose orders are not done, and their names."""
        return sorted((path.parent.name, path.name[: -len(ORDER)]) for path in self.place_of_runs.glob(f"*/*{ORDER}"))

    def stoppable(self) -> dict[Path, str]:
        """The folders of runs that were submitted or ordered, whether they are there yet or not, and their names."""
        ordered = (self.run(person, name).resolve() for person, name in self.all_open())
        return {place: self.called(place) for place in (*map(Path, submitted(self.folder)), *ordered)}

    def stop(self, run: Path) -> bool:
        """Have a run that is going on, or what an order is to become, end after its round; whether there is one."""
        ordered = run.parent.parent == self.place_of_runs.resolve() and self.open(run.parent.name, run.name)
        if ordered:
            run.with_name(f"{run.name}{STOP}").touch()
        if there := run.is_dir() and held(run / LOCK) is not False:
            ask_to_stop(run)
        return ordered or there

    def stopping(self, person: str, name: str) -> bool:
        """Whether somebody wants an order to end after its round."""
        return (self.place_of_runs / person / f"{name}{STOP}").exists()

    def ending(self, person: str) -> str:
        """What becomes of the runs of somebody who was revoked just now, in words; nothing if there are none."""
        runs = [f"{owner}/{name}" for owner, name in self.all_open() if owner == person]
        return f"{', '.join(runs)} will end after this round" if runs else ""

    def lines(self, person: str, name: str, start: int) -> tuple[list[str], int, int | None]:
        """What a run has said from a byte on, where that ends, and the code with which it has ended, if it has."""
        beside = self.place_of_runs / person
        code = None if self.open(person, name) else _code(beside / f"{name}{ENDED}")
        try:
            with (beside / f"{name}{OUTPUT}").open("rb") as file:
                file.seek(max(start, 0))
                data = file.read(LARGEST)
        except OSError:
            return [], start, code
        ended = code is not None and len(data) < LARGEST
        whole = data if ended else data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == LARGEST:  # a line longer than what is read at once comes in pieces
            whole = data
        if len(whole) < len(data) and code is not None:
            code = None  # more is to come
        return whole.decode(errors="replace").splitlines(), start + len(whole), code

    def files(self, person: str, name: str) -> dict[str, int]:
        """What its author may fetch of a run that has ended, with sizes: figures, report and model."""
        run = self.run(person, name)
        paths = [run / "metrics.json", run / "report.html", *sorted((run / "model").rglob("*"))]
        return {
            path.relative_to(run).as_posix(): path.stat().st_size
            for path in paths
            if path.is_file() and not path.is_symlink()
        }


def _code(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii")
    except OSError:
        return 1
    return int(text) if re.fullmatch(r"-?\d{1,4}", text) else 1
