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
`[public]` has a `fraction` of the training examples or a `[public.corpus]` that everybody may see (FedED needs one).
`[expected]` is for the reader: published numbers beside measured ones.
"""

import copy
import dataclasses
import difflib
import hashlib
import importlib
import json
import re
import sys
import tomllib
import traceback
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from wardround.core.method import Method
from wardround.corpora import CORPORA, PARTITIONS
from wardround.corpora.public import Public
from wardround.grid import combinations, label_of, parsed, put, shown
from wardround.methods import METHODS, Named
from wardround.tasks import TASKS

__all__ = ["Cell", "Study", "StudyError", "load_study", "settings_of"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

CORPUS: tuple[str, Callable[[type], bool]] = (
    "a corpus: a dataclass with names() and open(name), or with documents(split)",
    lambda kind: (hasattr(kind, "names") and hasattr(kind, "open")) or hasattr(kind, "documents"),
)
OWN: dict[str, tuple[str, Callable[[type], bool]]] = {
    "method": ("a wardround Method", lambda kind: issubclass(kind, Method)),
    "task": ("a task: a dataclass with bind(corpus)", lambda kind: hasattr(kind, "bind")),
    "corpus": CORPUS,
    "public.corpus": CORPUS,
}
"""What a user's own `module:Class` must be, in words and as a test."""
SECTIONS: dict[str, Mapping[str, Any]] = {
    "method": METHODS, "task": TASKS, "corpus": CORPORA, "partition": PARTITIONS, "public.corpus": CORPORA,
}  # fmt: skip
"""Tables that name an entry of a registry."""


class StudyError(ValueError):
    """What is wrong with a study, all of it, one line each."""

    def __init__(self, where: str, problems: Iterable[str]) -> None:
        self.where, self.problems = where, list(problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        many = f"{len(self.problems)} problems" if len(self.problems) > 1 else "1 problem"
        super().__init__(f"{where}: {many}{lines}")


class _Table(BaseModel):
    """A TOML table: unknown keys, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)


class Sites(_Table):
    """Who takes part in a round."""

    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """C: the share of sites drawn for each round."""
    per_round: Annotated[int, Field(ge=1)] | None = None
    """Their number, instead of `fraction`."""
    quorum: Annotated[int, Field(ge=1)] = 1
    """With fewer usable replies the run stops."""
    private: tuple[str, ...] = ()
    """Parts of the model, by module name, that each site trains and keeps for itself; `all` leaves each alone."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """How much of its training examples a site uses, drawn by the seed; the pooled reference uses the same ones."""


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("should have at least one value")
    return values


class Evaluation(_Table):
    """When, on what, and how closely the shared model is tried."""

    every: Annotated[int, Field(ge=1)] = 1
    splits: Annotated[tuple[Literal["test", "train", "valid"], ...], AfterValidator(_some)] = ("test",)
    each: bool = False
    """Whether the coordinator sees each site's counts (then the report has them), not only their sum."""


class Stop(_Table):
    """Stop when a metric reaches its target."""

    metric: str = "accuracy"
    target: float
    early: bool = True
    """False goes on to the last round and only notes when the target was reached."""


class _Public(_Table):
    """Examples that everybody may see: one of the two."""

    fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    corpus: dict[str, Any] | None = None


class _Outline(_Table):
    """The study's own keys; the named tables are checked by what they name."""

    name: str
    description: str = ""
    rounds: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**32)], ...], Field(min_length=1)] | None = None
    method: dict[str, Any]
    task: dict[str, Any]
    corpus: dict[str, Any]
    partition: dict[str, Any] | None = None
    public: _Public | None = None
    sites: Sites = Sites()
    evaluation: Evaluation = Evaluation()
    stop: Stop | None = None
    grid: dict[str, Any] = {}
    expected: dict[str, Any] = {}


@dataclass(frozen=True)
class Study:
    """One run's validated settings: everything is built from these."""

    name: str
    description: str
    rounds: int
    seed: int
    method: Method[Any]
    task: Any
    corpus: Any
    partition: Any
    sites: Sites
    evaluation: Evaluation
    stop: Stop | None
    public: Public | None
    resolved: Mapping[str, Any]
    """The same as plain tables with every default filled in."""

    @property
    def fingerprint(self) -> str:
        """A hash of all that decides the result, but for the number of rounds."""
        told = {key: value for key, value in self.resolved.items() if key not in ("rounds", "description", "name")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def toml(self) -> str:
        """The resolved study as a file that gives the same study again."""
        return tomli_w.dumps(self.resolved)


@dataclass(frozen=True)
class Cell:
    """One combination of the grid."""

    label: str
    study: Study
    choices: Mapping[str, Any]


def load_study(path: Path, changes: Iterable[str] = (), *, beside: Path | None = None) -> list[Cell]:
    """All cells of a study file, with `a.b=c` changes on top; one cell if it has no grid.

    A user's own modules are looked for in the folder `beside`, which is the file's own unless given.
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
    return cells(tables, where=str(path), folder=beside or path.parent)


def cells(tables: Mapping[str, Any], *, where: str = "study", folder: Path | None = None) -> list[Cell]:
    """All cells of a study given as plain tables."""
    problems: list[str] = []
    found = []
    seeds = {"seed": tables["seeds"]} if tables.get("seeds") and isinstance(tables["seeds"], list) else {}
    for choices in combinations(tables.get("grid", {}), seeds, problems):
        cell = copy.deepcopy({key: value for key, value in tables.items() if key not in ("grid", "expected")})
        if seeds:
            del cell["seeds"]
        mine: list[str] = []
        for key, value in choices.items():
            try:
                put(cell, key, value)
            except ValueError as error:
                mine.append(f"grid: {error}")
        study = _study(cell, folder, mine)
        problems += [problem for problem in mine if problem not in problems]
        if study is not None:
            found.append(Cell(label_of(choices), study, choices))
    labels = [cell.label for cell in found]
    problems += [
        f"grid: two cells are both called {label!r}; list each value once"
        for label in sorted({x for x in labels if labels.count(x) > 1})
    ]
    if problems:
        raise StudyError(where, problems)
    return found


def _study(tables: Mapping[str, Any], folder: Path | None, problems: list[str]) -> Study | None:
    outline = _checked(_Outline, tables, "", problems)
    name, seed = tables.get("name"), outline.seed if outline else 0
    if isinstance(name, str) and (not NAME.fullmatch(name) or ".." in name):
        problems.append(f"name = {name!r} becomes a folder's name; use up to 100 letters, digits, - _ and single dots")

    built: dict[str, Any] = {}
    plain: dict[str, dict[str, Any]] = {}
    for section, registry in SECTIONS.items():
        settings = _table(tables, section)
        if settings is None:
            continue
        kind = str(settings.get("name"))
        own = _imported(section, kind, folder, problems) if section in OWN and ":" in kind else {}
        if own is not None:
            built[section], plain[section] = _named(
                section, own or registry, settings, problems, seed=seed, folder=str(folder or "")
            )
    if outline and outline.public and len(outline.public.model_fields_set) != 1:
        problems.append("public should have either fraction or [public.corpus]")
    if problems or outline is None:
        return None
    resolved: dict[str, Any] = outline.model_dump(mode="json", exclude={"grid", "expected"}, exclude_none=True)
    if "public.corpus" in plain:
        resolved["public"] = {"corpus": plain.pop("public.corpus")}
    o = outline
    public = Public(o.public.fraction, built.get("public.corpus")) if o.public else None
    return Study(
        o.name, o.description, o.rounds, o.seed, built["method"], built["task"], built["corpus"],
        built.get("partition"), o.sites, o.evaluation, o.stop, public, resolved | plain,
    )  # fmt: skip


def _table(tables: Mapping[str, Any], section: str) -> dict[str, Any] | None:
    """The table of a section, with what a corpus of files need not say."""
    found: Any = tables
    for part in section.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return None  # what else it is the outline has named already
    files = {"name": "files"} if section.endswith("corpus") and "name" not in found and "format" in found else {}
    unread = {"test": found["train"]} if section == "public.corpus" and "train" in found else {}
    return {**files, **unread, **found}


def _imported(section: str, name: str, folder: Path | None, problems: list[str]) -> dict[str, Any] | None:
    """A user's own class as a registry with this one entry."""
    module, _, attribute = name.partition(":")
    _beside_first(module, folder)
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # noqa: BLE001 -- whatever the user's module does when it is imported
        said = str(error)
        if not isinstance(error, ImportError | AttributeError | SyntaxError):  # whose text says enough
            frame = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
        problems.append(
            f"{section}.name = {name!r} cannot be imported: {said}; looked beside the study file and on the path"
        )
        return None
    what, fits = OWN[section]
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and fits(kind)):
        problems.append(f"{section}.name = {name!r} is not {what}")
        return None
    return {name: kind}


def _beside_first(module: str, folder: Path | None) -> None:
    """Have the study's own folder looked into first; a module of that name from another study's folder is let go."""
    if folder is None:
        return
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    mine, known = folder.resolve() / f"{module}.py", getattr(sys.modules.get(module), "__file__", None)
    if mine.is_file() and known and Path(known).resolve() != mine:
        sys.path.remove(place)
        sys.path.insert(0, place)
        del sys.modules[module]
        importlib.invalidate_caches()


def settings_of(section: str, table: Mapping[str, Any], folder: Path) -> Any:
    """The checked settings of one table alone, as a model's folder has them."""
    problems: list[str] = []
    built, _ = _named(section, SECTIONS[section], dict(table), problems, folder=str(folder))
    if problems:
        raise StudyError(str(folder), problems)
    return built


def _named(
    section: str, registry: Mapping[str, Any], table: dict[str, Any], problems: list[str], **given: Any
) -> tuple[Any, dict[str, Any]]:
    """The registry's entry that a table names, with the table's other keys as its settings."""
    name = table.get("name")
    if not isinstance(name, str) or name not in registry:
        said = "is missing" if name is None else f"= {name!r} is unknown"
        problems.append(f"{section}.name {said}; {_nearest(str(name), registry)}")
        return None, {}
    entry = registry[name]
    kind, preset = (entry.kind, entry.settings) if isinstance(entry, Named) else (entry, {})
    known = {field.name for field in dataclasses.fields(kind)}
    preset = {**{key: value for key, value in given.items() if key in known}, **preset}
    return _filled(section, name, kind, preset, table, problems)


def _filled(
    section: str,
    name: str,
    kind: Any,
    preset: Mapping[str, Any],
    table: Mapping[str, Any],
    problems: list[str],
) -> tuple[Any, dict[str, Any]]:
    values = _checked(_model_of(kind), {**preset, **{k: v for k, v in table.items() if k != "name"}}, section, problems)
    if values is None:
        return None, {}
    settings = {field: getattr(values, field) for field in type(values).model_fields}
    try:
        built = kind(**settings)
    except ValueError as error:
        problems.append(f"{section}: {error}")
        return None, {}
    told = values.model_dump(mode="json").items()
    plain = {key: value for key, value in told if value is not None and key != "folder"}  # a place, not a choice
    return built, {"name": name, **plain}


def _model_of(kind: Any) -> type[BaseModel]:
    """A dataclass's fields, types and defaults as a table that can be checked."""
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        has_default = field.default is not dataclasses.MISSING
        fields[field.name] = (hints[field.name], field.default if has_default else ...)
    model: type[BaseModel] = create_model(kind.__name__, __config__=_Table.model_config, **fields)
    return model


def _checked(kind: type[Any], values: Mapping[str, Any], section: str, problems: list[str]) -> Any:
    try:
        return kind.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        told: dict[str, list[str]] = {}
        for found in error.errors():
            what, said = _problem(kind, section, found)
            told.setdefault(what, []).append(said)
        problems += [what + ", or ".join(said) for what, said in told.items()]
        return None


def _problem(kind: type[BaseModel], section: str, found: Mapping[str, Any]) -> tuple[str, str]:
    """The key and its value, and what is wrong with it: of one value of several types, in several ways."""
    first, *rest = found["loc"] or ("",)
    kinds = kind.model_fields[first].annotation if first in kind.model_fields else None
    if get_origin(kinds) in (types.UnionType, Union) and len({*get_args(kinds)} - {type(None)}) > 1:
        rest = rest[1:]  # which of the types was tried
    key = ".".join([section] * bool(section) + [str(part) for part in (first, *rest)])
    if found["type"] == "missing":
        return f"{key} is missing", ""
    if found["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        parent = kind
        for part in found["loc"][:-1]:
            parent = _submodel(parent, str(part))
        return f"{key} is unknown; {_nearest(str(found['loc'][-1]), parent.model_fields)}", ""
    said = found["msg"].removeprefix("Input ").removeprefix("Value error, ").replace("an object", "a table")
    return f"{key} = {shown(found['input'])}: ", said


def _submodel(kind: type[BaseModel], part: str) -> type[BaseModel]:
    annotation = kind.model_fields[part].annotation if part in kind.model_fields else None
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return kind


def _nearest(name: str, names: Iterable[str]) -> str:
    known = list(names)
    near = difflib.get_close_matches(name.lower(), known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
