"""Who is told when something happens: a command of the coordinator's own, on its own machine.

    # coordinator.toml, beside consortium.json
    [notify]
    command = ["/usr/local/bin/tell-us"]

It is started as it stands, by no shell, with the event as JSON on its standard input: the kind of event, and names of
the consortium, the site, the study. Only this file can name it: a study that somebody sends cannot, and no note, figure
or error text is passed on. No torch here.
"""

import json
import os
import subprocess
import threading
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Gt, MinLen

from wardround.study.settings import StudyError, TomlTable, checked

SETTINGS = "coordinator.toml"
SECONDS = 60.0  # that a command has
Event = Literal["below-quorum", "site-gone", "finished", "failed"]
Say = Callable[[str], None]


class Notify(TomlTable):
    """Who is told when something happens, in the coordinator's own coordinator.toml."""

    command: Annotated[tuple[str, ...], MinLen(1)]
    """A program by its absolute path, and its arguments; it gets the event as JSON on standard input."""
    on: tuple[Event, ...] = ("below-quorum", "site-gone", "finished", "failed")
    """The events that it is started for."""
    gone_hours: Annotated[float, Gt(0)] = 24.0
    """After how many hours without a connection a site counts as gone."""


class _NotifyFile(TomlTable):
    """The file's own keys."""

    notify: dict[str, Any] | None = None
    """Who is told when something happens."""


def read_notify(folder: Path) -> Notify | None:
    """What a consortium's folder says of this, or None; all that is wrong at once."""
    path = folder / SETTINGS
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(str(path), [f"cannot be read: {error}"]) from None
    problems: list[str] = []
    checked(_NotifyFile, tables, "", problems)
    table = tables.get("notify")
    notify = checked(Notify, _listed(table), "notify", problems) if isinstance(table, dict) else None
    if notify is not None:
        problems += _unusable(notify.command[0])
    if problems:
        raise StudyError(str(path), problems)
    return notify


def _listed(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has lists, the settings tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _unusable(program: str) -> list[str]:
    if not program.startswith("/"):
        return [f"notify.command: {program!r} is not an absolute path; write, say, /usr/local/bin/tell-us"]
    if not os.access(program, os.X_OK) or not Path(program).is_file():
        return [f"notify.command: {program} is not a program that can be run; check the path and its rights"]
    return []


def notify(settings: Notify | None, say: Say, event: Event, **facts: str | float) -> threading.Thread | None:
    """Start the command for an event, if it is wanted, and do not wait for it."""
    if settings is None or event not in settings.on:
        return None
    thread = threading.Thread(target=_run, args=(settings.command, say, {"event": event, **facts}))
    thread.start()
    return thread


def _run(command: tuple[str, ...], say: Say, event: dict[str, str | float]) -> None:
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": SECONDS}
    why = ""
    try:
        done = subprocess.run(command, input=json.dumps(event).encode(), env=kept, check=False, **quiet)
        why = f"ended with code {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = f"has not ended within {SECONDS:.0f} seconds"
    except OSError as error:
        why = f"cannot be started: {error.strerror}"
    if why:
        with suppress(OSError):
            say(f"notify.command {why}; perhaps nobody knows of: {event['event']}")
