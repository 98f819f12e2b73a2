"""A `[corpus]` without a name is of files: its `format` says how they are read, the task what is taken of them.

built, plain = files("corpus", {"format": "brat", "train": "a", "test": "b"}, task, problems, {"folder": "…"})
"""

from collections.abc import Mapping
from typing import Any

from wardround.corpora.register import FILES, MOVED
from wardround.formats.options import VIEWS
from wardround.formats.register import misuses
from wardround.study.settings import checked, model_in, named, unknown_key
from wardround.study.source import settings_in
from wardround.tasks import TASKS

SHARED = "wardround.corpora.files:Files"
"""What has the settings of all views."""


def is_files(section: str, table: Mapping[str, Any]) -> bool:
    """Whether a table is a corpus of files, be it by a name that these once had."""
    return section.endswith("corpus") and ("name" not in table or table["name"] in MOVED)


def misspelt_files(section: str, table: Mapping[str, Any], problems: list[str], whole: Mapping[str, Any]) -> None:
    """Note what is wrong with the table of a corpus of files, whatever the task takes."""
    if "name" in table:
        form = table.get("format", MOVED[table["name"]])
        now = f'is now format = "{form}", without a name; the task chooses what is read'
        problems.append(f"{section}.name = {table['name']!r} {now}")
        return
    if "format" not in table:
        problems.append(f'{section} has neither a name nor a format; of files say format = "csv" (or "jsonl", …)')
        return
    known = {key for place in FILES.places.values() for key in settings_in(place)}
    problems += [unknown_key(section, key, known, whole) for key in table if key not in known]
    problems += [f"{section}: {wrong}" for wrong in misuses(str(table["format"]), table)]
    shared = settings_in(SHARED)
    checked(model_in(SHARED), {key: value for key, value in table.items() if key in shared}, section, problems)


def files(
    section: str, table: Mapping[str, Any], task: Any, problems: list[str], given: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The files as what the task takes (labels, if a task of one's own does not say), and the same as a plain table."""
    view = getattr(task, "takes", "labels")
    if view not in FILES:
        problems.append(f"{section}.format: the task takes no texts, and files hold nothing else; name a corpus")
        return None, {}
    mine = settings_in(FILES.places[view])
    known = {key: other for other in reversed([*FILES]) for key in settings_in(FILES.places[other])}
    others = {key: other for key, other in known.items() if key not in mine}
    problems += [
        f"{section}.{key} is for {VIEWS[others[key]]}, and the task takes {VIEWS[view]}; {_instead(others[key])}"
        for key in table
        if key in others
    ]
    chosen = {"name": "files", **{key: value for key, value in table.items() if key not in others}}
    built, plain = named(section, {"files": FILES[view]}, chosen, problems, **given)
    return built, {key: value for key, value in plain.items() if key != "name"}


def _instead(view: str) -> str:
    """What to do about a setting of another view, and which task to set if the files hold that."""
    tasks = " or ".join(repr(name) for name, kind in TASKS.items() if kind.takes == view)
    return "take it out" + (f", or, if these files hold {VIEWS[view]}, set task.name = {tasks}" if tasks else "")
