"""Which corpora a task cannot read, told from what both say of themselves."""

from collections.abc import Iterator, Mapping
from typing import Any

from wardround.formats.options import VIEWS
from wardround.study.settings import SECTIONS

WORDS: dict[str, str] = {"rows": "rows of numbers", **VIEWS}


def misfits(built: Mapping[str, Any], plain: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Corpora whose examples the task does not take; a class of somebody's own need not say what it gives."""
    for section in ("corpus", "public.corpus"):
        takes, views = getattr(built.get("task"), "takes", None), getattr(built.get(section), "views", None)
        if takes is not None and views is not None and takes not in views:
            given, name = " or ".join(WORDS[view] for view in views), str(plain[section]["name"])
            fitting = [known for known, kind in SECTIONS["corpus"].items() if takes in getattr(kind, "views", ())]
            near = [known for known in fitting if known.partition("-")[0] == name.partition("-")[0]] or fitting
            tasks = [known for known, kind in SECTIONS["task"].items() if kind.takes in views]
            yield (
                f"{section}.name = {name!r} has {given}, and the task {plain['task']['name']!r} takes {WORDS[takes]}; "
                f"set {section}.name = {' or '.join(map(repr, near))}, or task.name = {' or '.join(map(repr, tasks))}"
            )
