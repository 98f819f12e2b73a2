"""A study for somebody's own files, as far as the files tell: what `wardround new` writes.

    survey = check(train, Options(), task=Tagging())
    text = drafted(Draft("notes", "tagging", "entities", "brat", {"train": "a", "test": "b"}, [survey], {}))

What the files tell is filled in; every other setting stands there as a comment, with its default and its sentence from
the reference. Labels, types and relations are named only if all of them may be shown (`text.shown`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.formats.kinds import Kinds
from wardround.formats.register import FORMATS
from wardround.study.reference import files_page, kind_words, page
from wardround.study.source import UNKNOWN, Setting
from wardround.tasks.relation import called_unrelated
from wardround.text.facts import UNRELATED
from wardround.text.shown import names_of

DECLARED = ("labels", "types", "relations")
"""The settings that list what is to be told apart; each view has one of them."""
TABLES = ("table", "list of tables")
ROUNDS, SITES = 10, 3
MOST = 20  # sources that are a site each; whole ones are put together where there are more, such as dialogues
ABOUT = {
    "validation": "  # the best round by validation examples is kept, not the last",
}


@dataclass(frozen=True)
class Draft:
    """What is known of a study."""

    name: str
    task: str
    view: str
    format: str
    files: Mapping[str, Any]
    """The paths by split, and the columns."""
    kinds: Sequence[Kinds]
    """What was counted in each split: a text that stands in two does not make a name of what it has for a label."""
    learnt: Mapping[str, Any]
    """What the task needs to be told."""
    sources: int = 0
    """Hospitals, wards or dialogues that the training texts name."""
    sourceless: int = 0
    """Training texts that name none."""


def drafted(draft: Draft) -> str:
    """The study as the text of a TOML file."""
    cut, words = _cut(draft.sources, draft.sourceless)
    tables: dict[str, tuple[Mapping[str, Any], Mapping[str, Setting]]] = {
        "corpus": (
            {"format": draft.format, **draft.files, **_names(draft)},
            files_page(draft.format, draft.view).settings,
        ),
        "partition": (cut, page("partition", cut["name"]).settings),
        "task": ({"name": draft.task, **draft.learnt}, page("task", draft.task).settings),
        "method": ({"name": "fedavg"}, page("method", "fedavg").settings),
        "sites": ({}, page("sites").settings),
        "evaluation": ({}, page("evaluation").settings),
    }
    held = "# [validation] sets texts aside, and the best round by them is kept: wardround settings validation"
    if "valid" in draft.files:
        tables["validation"], held = ({}, page("validation").settings), ""
    own = {key: one for key, one in page("study").settings.items() if kind_words(one.kind) not in TABLES}
    lines = [*_lines({"name": draft.name, "rounds": ROUNDS}, own)]
    for table, (given, settings) in tables.items():
        about = words if table == "partition" else ABOUT.get(table, "")
        lines += ["", f"[{table}]{about}", *_lines(given, settings)]
    return "\n".join([*lines, "", *[held] * bool(held), "# Other tables, methods and tasks: wardround settings", ""])


def _cut(sources: int, sourceless: int) -> tuple[dict[str, Any], str]:
    """How the training texts become sites, and a comment that says so."""
    if sources > 1 and sourceless:
        why = f"{sourceless:,} of the training texts name no source"
        return {"name": "iid", "sites": SITES}, f"  # a simulation: {why}, so all are cut into {SITES} sites"
    if sources < 2:
        return {"name": "iid", "sites": SITES}, f"  # a simulation: the training texts cut into {SITES} sites"
    if sources <= MOST:
        return {"name": "source"}, f"  # each of the {sources} sources is a site"
    return {
        "name": "source",
        "sites": SITES,
    }, f"  # a simulation: the {sources:,} sources put together into {SITES} sites"


def _lines(given: Mapping[str, Any], settings: Mapping[str, Setting]) -> Iterator[str]:
    yield from (f"{key} = {_toml(value)}" for key, value in given.items())
    for key, one in settings.items():
        if key not in given and key != "folder":
            default = "…" if one.default is None or one.default is UNKNOWN else _toml(one.default)
            yield f"# {key} = {default}  # {one.about} ({kind_words(one.kind)})"


def _toml(value: Any) -> str:
    """A text, a number or a list of them, which TOML writes as JSON does; or a table in one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(one)}' for key, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def _names(draft: Draft) -> dict[str, Any]:
    """All labels, types or relations, if each may be shown and the format has not its own.

    Files that name pairs without a relation (`NA`) name all there are: no others are candidates.
    """
    counts, form = [kinds.learnt(draft.view) for kinds in draft.kinds], FORMATS[draft.format]
    key = next(name for name in DECLARED if name in files_page(draft.format, draft.view).settings)
    names = sorted({name for split in counts for name in split} - ({UNRELATED} if key == "relations" else set()))
    if not names or key in form.usual or not frozenset().union(*map(names_of, counts)).issuperset(names):
        return {}
    if draft.view != "pairs" or form.ready or "none" in names:
        return {key: names}
    return {key: names, "none": ""} if called_unrelated(names) else {key: ["none", *names]}
