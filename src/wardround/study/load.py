"""A study file (TOML) becomes validated settings: the only source of what a run does.

    name = "synthetic-fedpap"
    rounds = 200
    [corpus]
    name = "synthetic"
    alpha = 0.5
    [task]
    name = "features"
    [method]
    name = "fedpap"
    mu = 0.03
    [grid]
    "method.step" = [1.2, 4.0]

`[method]`, `[task]`, `[corpus]` and `[partition]` each name an entry of a registry, or the first three a class of
your own as `module:Class`; their other keys are the fields of that entry's dataclass, with its types and limits. A
study is checked whole: all its errors come at once, unknown keys with the nearest valid one. `[grid]` lists values
for dotted keys (or whole tables); every combination is one run, a *cell*; `seeds` is one more such list.
`[[layers]]` are such tables too: what changes messages on their way (`wardround.layers`, or `module:Class`), in the
order from the step to the wire.
`[validation]` chooses the round whose model is kept by examples of their own (`wardround.federation.validation`).
`[public]` has a `fraction` of the training examples or a `[public.corpus]` that everybody may see (FedED needs one).
`references` names what the model should beat besides (`majority`, `tfidf`, …: `wardround.runs.references`).
`[expected]` is for the reader: published numbers, which the report shows beside measured ones.
"""

import copy
import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from wardround.formats.options import VIEWS
from wardround.study.defaults import Languages, left_open, set_apart
from wardround.study.files import files, is_files, misspelt_files
from wardround.study.grid import combinations, label_of, parsed, put
from wardround.study.outline import (
    DPTable,
    EvaluationTable,
    FinishTable,
    Outline,
    PrivacyTable,
    RobustTable,
    SitesTable,
    Stop,
    Validation,
    stopped,
)
from wardround.study.protection import in_sums, protecting
from wardround.study.schedule import ScheduleTable
from wardround.study.settings import OWN, SECTIONS, StudyError, checked, imported, layered, misspelt, named
from wardround.study.trusted import Trusted

if TYPE_CHECKING:
    from wardround.core.device import Precision
    from wardround.core.layer import Layer
    from wardround.core.method import Method
    from wardround.federation.partition import Public

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
WORDS: dict[str, str] = {"rows": "rows of numbers", **VIEWS}
BESIDES = frozenset(
    {"name", "description", "rounds", "expected", "references", "schedule"}
)  # what decides nothing of how a round goes


@dataclass(frozen=True)
class Study:
    """One run's validated settings: everything is built from these."""

    name: str
    description: str
    rounds: int
    seed: int
    method: "Method[Any]"
    task: Any
    corpus: Any
    partition: Any
    layers: "tuple[Layer, ...]"
    """What changes or watches messages on the wire, from the inside to the outside."""
    sites: SitesTable
    evaluation: EvaluationTable
    validation: Validation | None
    stop: Stop | None
    start: str | None
    finish: FinishTable | None
    public: "Public | None"
    references: tuple[str, ...] | None
    privacy: PrivacyTable | None
    device: str | None
    precision: "Precision | None"
    resolved: Mapping[str, Any]
    """The same as plain tables with every default filled in."""
    robust: RobustTable | None = None
    """What stands between a site that lies and the model."""
    schedule: ScheduleTable | None = None
    """When rounds may start."""
    notes: tuple[str, ...] = ()
    """What somebody should know who wrote it."""

    @property
    def dp(self) -> DPTable | None:
        """Differential privacy, if the study has it."""
        return self.privacy.dp if self.privacy else None

    @property
    def fingerprint(self) -> str:
        """A hash of all that decides the result, but for the number of rounds, unless noise is found from it."""
        return fingerprint_of(self.resolved)

    def toml(self) -> str:
        """The resolved study as a file that gives the same study again."""
        return tomli_w.dumps(self.resolved)


def fingerprint_of(resolved: Mapping[str, Any]) -> str:
    """The fingerprint of the study whose tables these are, with every default filled in."""
    besides = BESIDES - {"rounds"} if resolved.get("privacy", {}).get("dp") else BESIDES
    deciding = {key: value for key, value in resolved.items() if key not in besides}
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Cell:
    """One combination of the grid."""

    label: str
    study: Study
    choices: Mapping[str, Any]


def load_study(
    path: Path, changes: Iterable[str] = (), *, beside: Path | None = None, trusted: Trusted | None = None
) -> list[Cell]:
    """All cells of a study file, with `a.b=c` changes on top; one cell if it has no grid.

    A user's own modules are looked for in the folder `beside`, which is the file's own unless given. Where another
    party wrote the study, `trusted` has the only modules that it may name.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.toml")], 1)
        hint = f"did you mean {path.with_name(near[0])}?" if near else "check the path"
        raise StudyError(str(path), [f"there is no such file; {hint}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(str(path), [f"cannot be read: {error}; a study is a text file in UTF-8"]) from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(str(path), [f"not valid TOML: {error}"]) from None
    if not tables:
        raise StudyError(str(path), ["the file is empty; a study has at least name, rounds, method, task, corpus"])
    for change in changes:
        key, separator, value = change.partition("=")
        if not separator:
            raise StudyError(f"--set {change}", ["write it as key=value, e.g. --set method.mu=0.1"])
        try:
            put(tables, key.strip(), parsed(value.strip()))
        except ValueError as error:
            raise StudyError(f"--set {change}", [str(error)]) from None
    return cells(tables, where=str(path), folder=beside or path.parent, trusted=trusted)


def cells(
    tables: Mapping[str, Any], *, where: str = "study", folder: Path | None = None, trusted: Trusted | None = None
) -> list[Cell]:
    """All cells of a study given as plain tables: checked as they are written, and only then built."""
    problems: list[str] = []
    drafts = []
    seeds = {"seed": tables["seeds"]} if tables.get("seeds") and isinstance(tables["seeds"], list) else {}
    for choices in combinations(tables.get("grid", {}), seeds, problems):
        cell = copy.deepcopy({key: value for key, value in tables.items() if key != "grid"})
        if seeds:
            del cell["seeds"]
        mine: list[str] = []
        for key, value in choices.items():
            try:
                put(cell, key, value)
            except ValueError as error:
                mine.append(f"grid: {error}")
        drafts.append((choices, cell, _outlined(cell, mine)))
        problems += [problem for problem in mine if problem not in problems]
    labels = [label_of(choices) for choices, _, _ in drafts]
    problems += [
        f"grid: two cells are both called {label!r}; list each value once"
        for label in sorted({x for x in labels if labels.count(x) > 1})
    ]
    if problems:
        raise StudyError(where, problems)
    whole, languages = [], None if trusted is not None else Languages()
    for choices, cell, outline in drafts:
        mine = []
        if outline and (study := _study(outline, cell, folder, mine, trusted, languages)):
            whole.append(Cell(label_of(choices), study, choices))
        problems += [problem for problem in mine if problem not in problems]
    if problems:
        raise StudyError(where, problems)
    return whole


def _outlined(tables: Mapping[str, Any], problems: list[str]) -> Outline | None:
    """The study's own keys; what is wrong with any table is noted, as far as that is known before anything is built."""
    sites = tables.get("sites")
    if isinstance(sites, dict) and "bound" in sites:
        problems.append("sites.bound is now bound in [robust]; move it there")
        tables = {**tables, "sites": {key: value for key, value in sites.items() if key != "bound"}}
    outline: Outline | None = checked(Outline, tables, "", problems, tables)
    name = tables.get("name")
    if isinstance(name, str) and (not NAME.fullmatch(name) or ".." in name):
        problems.append(f"name = {name!r} becomes a folder's name; use up to 100 letters, digits, - _ and single dots")
    for section in SECTIONS:
        settings = _table(tables, section)
        if settings is not None and is_files(section, settings):
            misspelt_files(section, settings, problems, tables)
        elif settings is not None and not _own(section, settings):
            misspelt(section, settings, problems, tables)
    if outline and outline.public and len(outline.public.model_fields_set) != 1:
        problems.append("public should have either fraction or [public.corpus]")
    if outline and outline.robust:
        rule, set_ = outline.robust.rule, outline.robust.model_dump(exclude_defaults=True)  # a run's own copy has all
        owners = {"liars": {"median", "trimmed", "geometric", "krum"}, "keep": {"krum"}}
        problems += [
            f"robust.{key} is a setting of {' and '.join(sorted(rules))}, and robust.rule = {rule!r}; take it out"
            for key, rules in owners.items()
            if key in set_ and rule not in rules
        ]
    problems += stopped(outline) if outline else ()
    return outline


def _own(section: str, settings: Mapping[str, Any]) -> bool:
    """Whether a table names a class of the user's own."""
    return section in OWN and ":" in str(settings.get("name"))


def _study(
    outline: Outline,
    tables: Mapping[str, Any],
    folder: Path | None,
    problems: list[str],
    trusted: Trusted | None,
    languages: Languages | None,
) -> Study | None:
    from wardround.federation.partition import Public  # noqa: PLC0415 -- what is built needs more than what is checked
    from wardround.methods.heads import headed  # noqa: PLC0415 -- likewise

    built: dict[str, Any] = {}
    plain: dict[str, dict[str, Any]] = {}
    registers: dict[str, Mapping[str, Any]] = {}
    given = {"seed": outline.seed, "folder": str(folder or "")}
    for section, registry in SECTIONS.items():
        settings = _table(tables, section)
        if settings is None:
            continue
        if is_files(section, settings):
            built[section], plain[section] = files(section, settings, built.get("task"), problems, given)
            continue
        own = imported(section, str(settings["name"]), folder, problems, trusted) if _own(section, settings) else {}
        if own is not None:
            registers[section] = own or registry
            built[section], plain[section] = named(section, registers[section], settings, problems, **given)
    if not problems:
        for section, more in left_open(built, tables, languages).items():
            settings = {**more, **(_table(tables, section) or {})}
            built[section], plain[section] = named(section, registers[section], settings, problems, **given)
    layers, described = layered(outline.layers or (), folder, problems, trusted)
    layers = (*layers, *protecting(outline))
    problems += _misfits(built, plain)
    in_sums(built, plain, _table(tables, "method") or {}, layers, problems)
    if problems:
        return None
    o = outline = _trying(outline)
    resolved: dict[str, Any] = outline.model_dump(mode="json", exclude={"grid", "expected"}, exclude_none=True)
    shown = {"expected": outline.expected} if outline.expected else {}
    if "public.corpus" in plain:
        resolved["public"] = {"corpus": plain.pop("public.corpus")}
    dp = o.privacy.dp if o.privacy else None
    whole = dp is not None and dp.unit == "patient"
    public = Public(o.public.fraction, built.get("public.corpus"), patients=whole) if o.public else None
    heads = [name for name in (o.start, o.finish.head if o.finish else None) if name]
    try:
        method = _counting(headed(built["method"], *heads, **(o.finish.settings if o.finish else {})), built["task"], o)
    except ValueError as error:
        problems.append(str(error))
        return None
    return Study(
        o.name, o.description, o.rounds, o.seed, method, built["task"], built["corpus"], built.get("partition"), layers,
        o.sites, o.evaluation, o.validation, o.stop, o.start, o.finish, public, o.references, o.privacy,
        o.device, o.precision,
        resolved | plain | shown | ({"layers": described} if described else {}), o.robust, o.schedule,
        set_apart(built, _table(tables, "method") or {}),
    )  # fmt: skip


def _counting(method: "Method[Any]", task: Any, outline: Outline) -> "Method[Any]":
    """The method, with an exchange of document counts before it where the task weighs words that are shared."""
    from wardround.methods.weighing import weighing  # noqa: PLC0415 -- what is built needs more than what is checked

    return (
        weighing(method) if getattr(task, "counts_documents", False) and "all" not in outline.sites.private else method
    )


def _trying(outline: Outline) -> Outline:
    """With validation, the model is tried on those examples, too."""
    splits = outline.evaluation.splits
    if outline.validation is None or "valid" in splits:
        return outline
    return outline.model_copy(
        update={"evaluation": outline.evaluation.model_copy(update={"splits": (*splits, "valid")})}
    )


def _misfits(built: Mapping[str, Any], plain: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
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


def _table(tables: Mapping[str, Any], section: str) -> dict[str, Any] | None:
    """The table of a section, with what a public corpus need not say."""
    table: Any = tables
    for part in section.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        return None  # what else it is the outline has named already
    unread = {"test": table["train"]} if section == "public.corpus" and "train" in table else {}
    return {**unread, **table}
