"""Every setting there is, read off the classes that have them: what `wardround settings` and docs/settings.md show.

    page("method", "fedprox").settings["mu"]      # Setting(Annotated[float, Ge(0)], 0.03, "μ: how hard …")
    print(markdown())                             # docs/settings.md

A *table* is one of a study's, or `site.toml`; some name an *entry* of a register, or a format of files. Nothing is
imported for it but names, so the answer comes without torch.
"""

import json
import re
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen

from wardround.core.refusal import Refusal
from wardround.core.register import Register
from wardround.corpora.register import CORPORA, FILES, PARTITIONS
from wardround.formats.options import VIEWS, Options
from wardround.formats.register import FORMATS
from wardround.layers import LAYERS
from wardround.methods import METHODS
from wardround.study.settings import nearest
from wardround.study.source import UNKNOWN, Setting, about_in, settings_in
from wardround.tasks import TASKS

OWN = "wardround.study.outline"
TABLES: dict[str, tuple[str, str | Mapping[str, Any]]] = {
    "study": ("the file's own keys, above all tables", f"{OWN}:Outline"),
    "method": ("how the sites learn together", METHODS),
    "task": ("what is learnt", TASKS),
    "corpus": ("what it is learnt from: a corpus by name, or files of one's own by `format`", CORPORA),
    "partition": ("how a corpus is cut into sites", PARTITIONS),
    "privacy": ("what protects sites from the coordinator and from each other", f"{OWN}:PrivacyTable"),
    "privacy.dp": ("how little of one example, document or patient a site may tell", f"{OWN}:DPTable"),
    "sites": ("who takes part in a round", f"{OWN}:SitesTable"),
    "robust": ("what stands between a site that lies and the model", f"{OWN}:RobustTable"),
    "evaluation": ("when, on what, and how closely the shared model is tried", f"{OWN}:EvaluationTable"),
    "validation": ("examples that choose the round whose model is kept", f"{OWN}:Validation"),
    "stop": ("the figure at which a run may stop", f"{OWN}:Stop"),
    "schedule": ("when rounds may start", "wardround.study.schedule:ScheduleTable"),
    "finish": ("what is done once after the last round", f"{OWN}:FinishTable"),
    "public": ("examples that everybody may see: one of the two", f"{OWN}:PublicTable"),
    "layers": ("what changes messages on their way", LAYERS),
    "site.toml": ("a site's own file", "wardround.consortium.settings:_Outline"),
    "coordinator.toml": ("a coordinator's own file, beside consortium.json", "wardround.consortium.notify:_NotifyFile"),
    "notify": ("who is told when something happens, in coordinator.toml", "wardround.consortium.notify:Notify"),
    "consent": ("what a site takes part in, in its site.toml", "wardround.consortium.settings:Consent"),
    "budget": ("what all studies may cost a site, in its site.toml", "wardround.consortium.settings:BudgetTable"),
}
"""What each table is for, and where its settings are, or those of what it may name."""
FILLED_IN = {"seed": None, "folder": None}
"""What has a default that counts only where there is no study."""
WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", Any: "table", type(None): ""}
LIMITS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}


class UnknownTable(Refusal, ValueError):
    """A table or an entry that there is none of."""


@dataclass(frozen=True)
class Page:
    """One table, or one entry that it may name: what it is, and its settings."""

    about: str
    settings: Mapping[str, Setting]
    entries: Sequence[str] = ()
    """What the table may name."""


def page(table: str, entry: str = "") -> Page:
    """What there is to set in a table, or for what it names."""
    if table not in TABLES:
        owners = [name for name, (_, known) in TABLES.items() if not isinstance(known, str) and table in known]
        hint = f"write: wardround settings {owners[0]} {table}" if owners else nearest(table, TABLES)
        raise UnknownTable(f"there is no table {table!r}; {hint}")
    about, known = TABLES[table]
    if isinstance(known, str):
        if entry:
            raise UnknownTable(f"{table} names nothing; write: wardround settings {table}")
        return Page(about, settings_in(known))
    entries = [*known, *(FORMATS if table == "corpus" else ())]
    if not entry:
        return Page(about, {}, entries)
    if entry not in entries:
        raise UnknownTable(f"there is no {table} {entry!r}; {nearest(entry, entries)}")
    return files_page(entry) if entry not in known else _entry(table, entry)


def _entry(table: str, name: str) -> Page:
    known: Any = TABLES[table][1]
    place = known.places[name] if isinstance(known, Register) else known[name].place
    preset: Mapping[str, Any] = {} if isinstance(known, Register) else known[name].settings
    settings = _with_defaults(settings_in(place), {**FILLED_IN, **preset})
    about = about_in(place)
    if preset:
        about = f"{place.rpartition(':')[2]} with " + ", ".join(f"{key} = {value}" for key, value in preset.items())
    return Page(about, settings)


def files_page(form: str, view: str = "") -> Page:
    """What there is to set for files in a format, be it of what one view takes."""
    known = FORMATS[form]
    idle = {field.name for field in fields(Options)} - {"encoding", "language", *known.options}
    settings: dict[str, Setting] = {}
    for one in [view] if view else known.holds:
        settings = {**settings_in(FILES.places[one]), **settings}
    own = {key: setting for key, setting in settings.items() if key not in idle}
    return Page(known.about, _with_defaults(own, FILLED_IN))


def _with_defaults(settings: Mapping[str, Setting], defaults: Mapping[str, Any]) -> dict[str, Setting]:
    return {key: replace(one, default=defaults.get(key, one.default)) for key, one in settings.items()}


def kind_words(kind: Any) -> str:
    """A type and its limits in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return kind_words(inner[0]) + "".join(_limits(inner[1:]))
    if origin is Literal:
        return " or ".join(json.dumps(value) for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(words for one in inner if (words := kind_words(one))))
    if origin is tuple:
        several = re.sub(r"\b(number|text|table)\b(?!s)", r"\1s", kind_words(inner[0]))
        return f"list of {several}" + ("" if inner[-1] is ... else f", {len(inner)} of them")
    return "table" if origin is dict else WORDS[kind]


def _limits(marks: Iterable[Any]) -> Iterator[str]:
    yield from (", at least one" for mark in marks if isinstance(mark, MinLen))
    bounds = [
        f"{sign} {getattr(mark, name)}" for mark in marks for sign, name in [LIMITS.get(type(mark), ("", ""))] if sign
    ]
    if bounds:
        yield " " + " and ".join(bounds)


def default_words(setting: Setting) -> str:
    """A default as a study would write it."""
    if setting.required:
        return "required"
    if setting.default is None or setting.default is UNKNOWN:
        return "not set"
    return json.dumps(setting.default, ensure_ascii=False)


def markdown() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings", "",
        "Every key of a study, of a hospital's `site.toml` and of a coordinator's `coordinator.toml`, made from the",
        "settings themselves; `wardround settings` shows the same (`WARDROUND_UPDATE_GOLDEN=1` rewrites it).", "",
    ]  # fmt: skip
    for table, (about, known) in TABLES.items():
        lines += [f"## {table}", "", f"{about[0].upper()}{about[1:]}.", ""]
        if isinstance(known, str):
            lines += _rows(settings_in(known))
            continue
        lines += _pages({name: _entry(table, name) for name in known}, f"every {table}")
        if table == "corpus":
            lines += ["### Files of one's own", "", "Without `name`; what a format has no use for is refused.", ""]
            views = {
                VIEWS[view]: Page("", _with_defaults(settings_in(place), FILLED_IN))
                for view, place in FILES.places.items()
            }
            lines += _pages(views, "all formats", "####")
    return "\n".join(lines)


def _pages(pages: Mapping[str, Page], all_of_them: str, level: str = "###") -> Iterator[str]:
    """What most entries have alike comes first, and of each entry the rest."""
    common: dict[str, Setting] = {}
    for key in next(iter(pages.values())).settings:
        if all(key in one.settings for one in pages.values()) and len(pages) > 1:
            kinds = {repr(one.settings[key]): one.settings[key] for one in pages.values()}
            most = Counter(repr(one.settings[key]) for one in pages.values()).most_common(1)[0][0]
            common[key] = kinds[most]
    if common:
        yield from (f"{level} For {all_of_them}", "")
        yield from _rows(common)
    for name, one in pages.items():
        own = {key: setting for key, setting in one.settings.items() if setting != common.get(key)}
        yield from (f"{level} {name}", "")
        yield from (one.about, "") if one.about else ()
        yield from _rows(own)


def _rows(settings: Mapping[str, Setting]) -> list[str]:
    if not settings:
        return []
    rows = [
        f"| `{key}` | {kind_words(one.kind)} | {default_words(one)} | {one.about} |" for key, one in settings.items()
    ]
    return ["| key | type | default | what it is |", "|---|---|---|---|", *rows, ""]
