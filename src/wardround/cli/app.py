"""The command line: every file beside this one that defines `command` is a command, every folder a group of them.

    wardround run STUDY.toml            cli/run.py
    wardround site check hospital/      cli/site/check.py

A list of commands needs their names and first lines, which are read off the files; a command's file is imported when it
is the one that was asked for, and what it works with when the work begins. So nobody waits seconds for a help text, a
completion or the answer that a name is mistyped.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from wardround import __version__
from wardround.cli.options import ending
from wardround.cli.starting import starting

HOME = Path(__file__).parent
COMMAND = re.compile(r'^def command\(.*?"""(.+?)(?:"""|$)', re.DOTALL | re.MULTILINE)


class Folder(TyperGroup):
    """The commands and groups in one folder."""

    def __init__(self, *, folder: Path = HOME, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": dict(sorted(_listed(folder)))})
        self.folder = folder

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was asked for, imported now; a group as it is."""
        name, command, rest = super().resolve_command(ctx, args)
        if name and isinstance(command, _Line):
            command = _imported(self.folder, name)
        return name, command, rest


class _Line(TyperCommand):
    """A command as a list shows it."""


def _listed(folder: Path) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    for path in folder.iterdir():
        name = path.stem.replace("_", "-")
        if (first := path / "__init__.py").is_file():
            about = first.read_text(encoding="utf-8").strip().strip('"')
            yield name, Folder(folder=path, name=name, help=about, no_args_is_help=True)
        elif path.suffix == ".py" and (line := COMMAND.search(path.read_text(encoding="utf-8"))):
            yield name, _Line(name, help=_literal(line[1]))


def _imported(folder: Path, name: str) -> Any:
    package = ".".join(("wardround", "cli", *folder.relative_to(HOME).parts))
    with starting():
        module = import_module(f"{package}.{name.replace('-', '_')}")
    single = typer.Typer(add_completion=False)
    single.command(name, help=_literal(inspect.getdoc(module.command) or ""))(module.command)
    return typer.main.get_command(single)


def _literal(text: str) -> str:
    """A help text in which `[sites]` is no markup."""
    return text.replace("[", r"\[")


app = typer.Typer(cls=Folder, help="Federated learning on medical text.", no_args_is_help=True)


def _version(value: bool) -> None:
    if value:
        print(f"wardround {__version__}")  # noqa: T201 -- for a pipe
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Federated learning on medical text."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what a user should know ends it with one message and no traceback."""
    with ending():
        app(args=arguments, prog_name="wardround", standalone_mode=True)
