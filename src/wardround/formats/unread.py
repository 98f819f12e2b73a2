"""Columns of a table that nothing is read from: listed, with what they could be.

    for what, remedy in unread(Path("notes.csv"), options, "csv"): ...

A name is shown only if it stands in a header and is short; a value never.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from wardround.formats.options import Options
from wardround.formats.tables import table_of
from wardround.text.reading import DataError
from wardround.text.shown import NOT_SHOWN, names_of, short

MOST = 50  # classes
NAMED = 8
FLAGS = {"0", "1"}


def unread(path: Path, options: Options, form: str) -> Iterator[tuple[str, str]]:
    """What is not read of a table, and how it could be; nothing if all is, or it cannot be read at all."""
    if form not in ("csv", "tsv"):
        return
    try:
        table = table_of(path, options, "csv" if form == "csv" else "tsv")
        columns = table.unread("all")
    except DataError:  # which whoever reads it tells
        return
    names = {name: _called(name, header=table.header) for name in columns}
    if not names:
        return
    listed = ", ".join([*names.values()][:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    offers = []
    like = [name for name, values in columns.items() if _like_labels(values)]
    flags = [name for name in like if columns[name].keys() <= FLAGS]
    if like and table.label is None and not table.flags:
        first = names[next((name for name in like if name not in flags), like[0])]
        offers.append(f"labels? --label-column {first.strip(chr(34))}")
    if len(flags) > 1:
        offers.append(f"labels as flags? flags = [{', '.join(names[name] for name in flags[:NAMED])}] in [corpus]")
    if any(_like_entities(values) for values in columns.values()):
        offers.append("entities? they are read from JSONL, BRAT, CoNLL, …: wardround data convert")
    yield f"columns that are not read: {listed}", "; ".join(offers)


def _called(name: str, *, header: bool) -> str:
    if not header:
        return name  # its number
    return f'"{name}"' if short(name) else NOT_SHOWN


def _like_labels(values: Counter[str]) -> bool:
    """Whether a column holds few values that repeat."""
    return 1 < len(values) <= MOST and sum(values[name] for name in names_of(values)) > 0.9 * values.total()


def _like_entities(values: Counter[str]) -> bool:
    """Whether most cells are lists, as annotations are stored in a table."""
    lists = sum(count for value, count in values.items() if value.startswith(("[{", "[[")) and value.endswith("]"))
    return 2 * lists > values.total()
