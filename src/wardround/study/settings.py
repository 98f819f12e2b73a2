"""A table of a study file becomes the settings of what it names.

    built, plain = named("method", METHODS, {"name": "fedpap", "mu": 0.03}, problems, seed=0)

What a table names is an entry of a registry, or a user's own `module:Class`; its other keys are the fields of that
entry's dataclass, with its types and limits. Problems are collected, unknown keys with the nearest valid one. What the
tables alone can show (`misspelt`) is read off the source of the classes: torch is imported when one is built.
"""

import dataclasses
import difflib
import importlib
import json
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from wardround.core.refusal import Refusal
from wardround.core.register import Register, located
from wardround.corpora.register import CORPORA, PARTITIONS
from wardround.layers import LAYERS
from wardround.methods import ELSEWHERE, METHODS, NamedMethod
from wardround.study.grid import shown
from wardround.study.source import UNKNOWN, settings_in
from wardround.study.trusted import Trusted
from wardround.tasks import TASKS

NEARLY = 0.8  # a key so much like one of its own table is mistyped, whatever others have

CORPUS: tuple[str, Callable[[type], bool]] = (
    "a corpus: a dataclass with names() and open(name), or with documents(split)",
    lambda kind: (hasattr(kind, "names") and hasattr(kind, "open")) or hasattr(kind, "documents"),
)


def _derived(place: str) -> Callable[[type], bool]:
    """Whether a class extends the one at `module:Class`, which is imported, and torch with it, when it is asked."""
    return lambda kind: issubclass(kind, located(place))


OWN: dict[str, tuple[str, Callable[[type], bool]]] = {
    "method": ("a wardround Method", _derived("wardround.core.method:Method")),
    "task": (
        "a task: a dataclass with bind(corpus) that extends TaskSettings",
        _derived("wardround.tasks.task:TaskSettings"),
    ),
    "corpus": CORPUS,
    "public.corpus": CORPUS,
    "layers": ("a wardround Layer", _derived("wardround.core.layer:Layer")),
}
"""What a user's own `module:Class` must be, in words and as a test."""
SECTIONS: dict[str, Mapping[str, Any]] = {
    "method": METHODS, "task": TASKS, "corpus": CORPORA, "partition": PARTITIONS, "public.corpus": CORPORA,
}  # fmt: skip
"""Tables that name an entry of a registry."""


class StudyError(Refusal, ValueError):
    """What is wrong with a study, all of it, one line each."""

    def __init__(self, where: str, problems: Iterable[str]) -> None:
        self.where, self.problems = where, list(problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        many = f"{len(self.problems)} problems" if len(self.problems) > 1 else "1 problem"
        super().__init__(f"{where}: {many}{lines}")


class TomlTable(BaseModel):
    """A TOML table: unknown keys, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)


def imported(
    section: str, name: str, folder: Path | None, problems: list[str], trusted: Trusted | None = None
) -> dict[str, Any] | None:
    """A user's own class as a registry with this one entry; at a site, only of a module that it trusts."""
    module, _, attribute = name.partition(":")
    if trusted is None:
        _beside_first(module, folder)
    try:
        kind = getattr(trusted.load(module) if trusted else importlib.import_module(module), attribute)
    except Exception as error:  # noqa: BLE001 -- whatever the user's module does when it is imported
        reason = str(error)
        if not isinstance(error, ImportError | AttributeError | SyntaxError):  # whose text says enough
            frame = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
        where = "" if trusted else "; looked beside the study file and on the path"
        problems.append(f"{section}.name = {name!r} cannot be imported: {reason}{where}")
        return None
    what, fits = OWN[section]
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and fits(kind)):
        problems.append(f"{section}.name = {name!r} is not {what}")
        return None
    return {name: kind}


def layered(
    tables: Iterable[dict[str, Any]], folder: Path | None, problems: list[str], trusted: Trusted | None = None
) -> tuple[tuple[Any, ...], list[dict[str, Any]]]:
    """The layers that `[[layers]]` names, in its order, and the same as plain tables."""
    layers: list[Any] = []
    plain = []
    for table in tables:
        name = str(table.get("name"))
        registry = imported("layers", name, folder, problems, trusted) if ":" in name else LAYERS
        if registry is not None:
            layer, settings = named("layers", registry, table, problems)
            if any(type(layer) is type(other) for other in layers):
                problems.append(f"layers.name = {name!r} is there twice; take one out")
            layers.append(layer)
            plain.append(settings)
    return tuple(layers), plain


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
    """The checked settings of one table alone, as a model's folder has them; a class of one's own is on the path."""
    problems: list[str] = []
    name = str(table.get("name"))
    known = imported(section, name, None, problems) if ":" in name else SECTIONS[section]
    built, _ = named(section, known, dict(table), problems, folder=str(folder)) if known else (None, {})
    if problems:
        raise StudyError(str(folder), problems)
    return built


def named(
    section: str, registry: Mapping[str, Any], table: dict[str, Any], problems: list[str], **given: Any
) -> tuple[Any, dict[str, Any]]:
    """The registry's entry that a table names, with the table's other keys as its settings."""
    name = table.get("name")
    if not isinstance(name, str) or name not in registry:
        problems.append(_unknown(section, name, registry))
        return None, {}
    entry = registry[name]
    kind, preset = (entry.kind, entry.settings) if isinstance(entry, NamedMethod) else (entry, {})
    known = {field.name for field in dataclasses.fields(kind)}
    preset = {**{key: value for key, value in given.items() if key in known}, **preset}
    return _filled(section, name, kind, preset, table, problems)


def misspelt(
    section: str, table: Mapping[str, Any], problems: list[str], whole: Mapping[str, Any] | None = None
) -> None:
    """Note what is wrong with a table that names an entry of its registry, as far as the entry's source can tell."""
    registry, name = SECTIONS[section], table.get("name")
    if not isinstance(name, str) or name not in registry:
        problems.append(_unknown(section, name, registry))
        return
    place = registry.places[name] if isinstance(registry, Register) else registry[name].place
    settings = {key: value for key, value in table.items() if key != "name"}
    checked(model_in(place), settings, section, problems, whole)


def _unknown(section: str, name: Any, registry: Mapping[str, Any]) -> str:
    mistake = "is missing" if name is None else f"= {name!r} is unknown"
    word = str(name).lower().replace("_", "-")
    if registry is METHODS and word in ELSEWHERE:
        return f"{section}.name = {name!r} is no method but {ELSEWHERE[word]}"
    return f"{section}.name {mistake}; {nearest(str(name), registry)}"


def _filled(
    section: str, name: str, kind: Any, preset: Mapping[str, Any], table: Mapping[str, Any], problems: list[str]
) -> tuple[Any, dict[str, Any]]:
    values = checked(_model_of(kind), {**preset, **{k: v for k, v in table.items() if k != "name"}}, section, problems)
    if values is None:
        return None, {}
    settings = {field: getattr(values, field) for field in type(values).model_fields}
    try:
        built = kind(**settings)
    except ValueError as error:
        problems.append(f"{section}: {error}")
        return None, {}
    written = values.model_dump(mode="json").items()
    plain = {key: value for key, value in written if value is not None and key != "folder"}  # a place, not a choice
    return built, {"name": name, **plain}


@cache
def model_in(place: str) -> type[BaseModel]:
    """The same of the class at `module:Class`, which is not imported."""
    fields: dict[str, Any] = {
        name: (one.kind, ... if one.required else None if one.default is UNKNOWN else one.default)
        for name, one in settings_in(place).items()
    }
    model: type[BaseModel] = create_model(place.rpartition(":")[2], __config__=TomlTable.model_config, **fields)
    return model


@cache
def _model_of(kind: Any) -> type[BaseModel]:
    """A dataclass's fields, types and defaults as a table that can be checked."""
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        has_default = field.default is not dataclasses.MISSING
        fields[field.name] = (hints[field.name], field.default if has_default else ...)
    model: type[BaseModel] = create_model(kind.__name__, __config__=TomlTable.model_config, **fields)
    return model


def checked(
    kind: type[Any],
    values: Mapping[str, Any],
    section: str,
    problems: list[str],
    whole: Mapping[str, Any] | None = None,
) -> Any:
    """The values as this kind of table, or nothing and what is wrong with them; `whole` is the study that has it."""
    try:
        return kind.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        wrong: dict[str, list[str]] = {}
        for mistake in error.errors():
            what, words = _problem(kind, section, mistake, whole)
            wrong.setdefault(what, []).append(words)
        problems += [what + ", or ".join(dict.fromkeys(words)) for what, words in wrong.items()]
        return None


def _problem(
    kind: type[BaseModel], section: str, mistake: Mapping[str, Any], whole: Mapping[str, Any] | None
) -> tuple[str, str]:
    """The key and its value, and what is wrong with it: of one value of several types, in several ways."""
    first, *rest = mistake["loc"] or ("",)
    kinds = kind.model_fields[first].annotation if first in kind.model_fields else None
    if get_origin(kinds) in (types.UnionType, Union) and len({*get_args(kinds)} - {type(None)}) > 1:
        rest = rest[1:]  # which of the types was tried
    key = ".".join([section] * bool(section) + [str(part) for part in (first, *rest)])
    if mistake["type"] == "missing":
        return f"{key} is missing", ""
    if mistake["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        parent = kind
        for part in mistake["loc"][:-1]:
            parent = _submodel(parent, str(part))
        return unknown_key(key.rpartition(".")[0], str(mistake["loc"][-1]), parent.model_fields, whole), ""
    wrong = mistake["msg"].removeprefix("Input ").removeprefix("Value error, ").replace("an object", "a table")
    if key == "corpus.valid" and isinstance(mistake["input"], float):
        wrong = f"should name files; a share of the training examples is share = {mistake['input']} in [validation]"
    return f"{key} = {shown(mistake['input'])}: ", wrong


def unknown_key(section: str, key: str, known: Iterable[str], whole: Mapping[str, Any] | None = None) -> str:
    """That a table has no such key, and which it has, or which other table of the whole study has it."""
    from wardround.study.elsewhere import homes  # noqa: PLC0415 -- which reads the settings of all tables

    remedy = nearest(key, names) if (names := list(known)) else "it has nothing to set but its name; leave it out"
    misspelt = difflib.get_close_matches(key.lower(), names, 1, NEARLY)
    if whole is not None and not misspelt and (others := homes(section, key, whole)):
        remedy = f"it belongs {' or '.join(others)}; move it there"
    return f"{section}{'.' if section else ''}{key} is unknown; {remedy}"


def _submodel(kind: type[BaseModel], part: str) -> type[BaseModel]:
    annotation = kind.model_fields[part].annotation if part in kind.model_fields else None
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
        if isinstance(candidate, type) and dataclasses.is_dataclass(candidate):
            return _model_of(candidate)
    return kind


def nearest(name: str, names: Iterable[str]) -> str:
    """The name that was meant, as a question, or all there are."""
    known = list(names)
    near = difflib.get_close_matches(name.lower(), known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
