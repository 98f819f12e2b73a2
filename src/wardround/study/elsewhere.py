"""In which table of a study a key belongs that stands in another: `labels` of [task] is one of [corpus].

homes("task", "labels", tables)     # ["in [corpus]"]
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wardround.core.register import Register
from wardround.corpora.register import FILES
from wardround.study.reference import TABLES
from wardround.study.source import settings_in

TOP = "study"
NOT_A_STUDY = ("layers", "site.toml", "coordinator.toml", "notify", "consent", "budget")
HIDDEN = ("name", "folder")


def homes(section: str, key: str, tables: Mapping[str, Any]) -> list[str]:
    """The other tables that have this key, as this study's tables are named; what it has no table of counts, too."""
    places = {table: place for table, (_, place) in TABLES.items() if table not in (*NOT_A_STUDY, section or TOP)}
    if key in (*HIDDEN, *TABLES):  # a table is no key of another
        places.pop(TOP, None)
    mine = [table for table, place in places.items() if key not in HIDDEN and key in _keys(table, place, tables)]
    return ["at the top of the file, above all tables" if table == TOP else f"in [{table}]" for table in mine]


def _keys(table: str, place: str | Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a table, or of the entry that the study has it name."""
    if isinstance(place, str):
        yield from settings_in(place)
        return
    named = tables.get(table)
    name = named.get("name") if isinstance(named, dict) else None
    if table == "corpus" and isinstance(named, dict) and name is None:
        yield from (key for view in FILES.places.values() for key in settings_in(view))
    elif isinstance(name, str) and name in place:
        yield from settings_in(place.places[name] if isinstance(place, Register) else place[name].place)
