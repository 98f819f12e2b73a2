"""Columns of a table, or keys of JSON lines, that nothing is read from: listed, with what they could be.

    for what, remedy in unread(Path("notes.csv"), options, "csv"): ...

A name is shown only if it stands in a header or repeats, and is short; a value never. A first row that has one usual
name by chance may be a note, and so may the keys of a single line: of these, single words alone are shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from wardround.formats.doccano import KNOWN
from wardround.formats.header import KNOWN as USUAL
from wardround.formats.header import LOOKED_AT, has_usual, like_labels, like_texts
from wardround.formats.json_values import json_lines
from wardround.formats.jsonl import KEYS
from wardround.formats.options import Options
from wardround.formats.tables import by_looks, table_of
from wardround.text.reading import DataError, Problems
from wardround.text.shown import NOT_SHOWN, like_heads, names_of, short

UNREAD = "keys that are not read"
NAMED = 8
FLAGS = {"0", "1"}
ENDS = 4  # of two entities
TEXTS = {"text", "data", "tokens"}
PAIR = (
    '{"text": …, "entities": [{"id": "a", "type": …, "start": …, "end": …}, {"id": "b", …}], '
    '"relations": [{"type": …, "head": "a", "tail": "b"}]}'
)
READ = {"jsonl": KEYS, "doccano": KNOWN}


def unread(path: Path, options: Options, form: str) -> Iterator[tuple[str, str]]:
    """What is not read of a file, and how it could be; nothing if all is, or it cannot be read at all."""
    try:
        if form in ("csv", "tsv"):
            table = table_of(path, options, "csv" if form == "csv" else "tsv")
            columns, header, labelled = table.unread("all"), table.header, table.label is not None or bool(table.flags)
            if by_looks(table, options):  # these may be words of a note
                at, header = table.columns("all"), False
                columns = {str(at.index(name) + 1): values for name, values in columns.items()}
            has_text, sure = (
                True,
                bool(_named(options)) or len(USUAL & {one.casefold() for one in table.columns("all")}) > 1,
            )
        else:
            columns, labelled, has_text = _keys(path, options, form)
            header = sure = True
    except DataError:  # which whoever reads it tells
        return
    names = {name: _called(name, header=header, sure=sure) for name in columns}
    if not names:
        return
    listed = ", ".join([*names.values()][:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    shown = {} if has_text else {name: values for name, values in columns.items() if names[name] != NOT_SHOWN}
    texts = [name for name, values in shown.items() if like_texts(values)]
    offers = [f"texts? --text-column {names[texts[0]].strip(chr(34))}"] if len(texts) == 1 else []
    like = [name for name, values in columns.items() if names[name] != NOT_SHOWN and like_labels(values)]
    flags = [name for name in like if columns[name].keys() <= FLAGS]
    if like and not labelled:
        likely = [name for name in like if name not in flags] or like[:1]
        offers.append(f"labels? --label-column {' or '.join(names[name].strip(chr(34)) for name in likely[:NAMED])}")
    if len(flags) > 1:
        offers.append(f"labels as flags? flags = [{', '.join(names[name] for name in flags[:NAMED])}] in [corpus]")
    if any(_like_entities(values) for values in columns.values()):
        offers.append("entities? they are read from JSONL, BRAT, CoNLL, …: wardround data convert")
    if sum(map(_like_offsets, columns.values())) >= ENDS:
        offers.append(f"entities by their offsets? a table has no place for them; write a line for each text: {PAIR}")
    yield f"{'columns that are not read' if form in ('csv', 'tsv') else UNREAD}: {listed}", "; ".join(offers)


def headless(files: Iterable[tuple[Path, str]], options: Options) -> Iterator[tuple[Path, int, str, str]]:
    """Tables without a header beside such with one, each with its line, what that is and what to do."""
    told: dict[Path, bool] = {}
    for path, form in files if options.header is None else ():
        with suppress(DataError):  # which whoever reads it tells
            if form in ("csv", "tsv"):
                table = table_of(path, options, "csv" if form == "csv" else "tsv")
                names = table.columns("all")
                told[path] = has_usual(names) or not {*table.wanted}.isdisjoint(names)
    example = next((path.name for path, has in told.items() if has), "")
    for path in (path for path, has in told.items() if example and not has):
        yield path, 1, f"no header, which {example} has", "write the names of its columns into its first line"


def _keys(path: Path, options: Options, form: str) -> tuple[dict[str, Counter[str]], bool, bool]:
    """Of JSON lines, the keys that are not read, with what stands in the first; whether any has a label, and a text."""
    if form not in READ:
        return {}, True, True
    texts = options.text if isinstance(options.text, tuple) else (options.text,)
    named = _named(options)
    values: dict[str, Counter[str]] = {}
    labelled, has_text = bool(options.label or options.flags), False
    rows = 0
    for _, row in islice(json_lines(path, options.encoding, Problems(), ""), LOOKED_AT):
        rows += 1
        labelled = labelled or bool(row.keys() & {"label", "labels"})
        has_text = has_text or bool(row.keys() & ({*map(str, texts)} | TEXTS))
        for name in row.keys() - READ[form] - named:
            values.setdefault(name, Counter())[str(row[name])] += 1
    # A key of one line alone may be a piece of a note, and so may those that repeat where most do not.
    own = names_of({name: counts.total() for name, counts in values.items()})
    odd = [name for name in values if name not in own and (rows > 1 or not like_heads([name]))]
    known = {name: values[name] for name in sorted(values) if name not in odd}
    return known | ({NOT_SHOWN: Counter(odd)} if odd else {}), labelled, has_text


def _named(options: Options) -> set[str]:
    """The columns or keys that the user names."""
    texts = options.text if isinstance(options.text, tuple) else (options.text,)
    named = (*texts, options.label, options.id, options.source, options.patient, *options.flags)
    return {str(name) for name in named if name}


def _called(name: str, *, header: bool, sure: bool) -> str:
    if not header or name == NOT_SHOWN:
        return name  # its number
    return f'"{name}"' if short(name) and (sure or like_heads([name])) else NOT_SHOWN


def _like_offsets(values: Counter[str]) -> bool:
    """Whether a column holds many different whole numbers."""
    return all(value.isdecimal() for value in values) and len(values) > len(FLAGS)


def _like_entities(values: Counter[str]) -> bool:
    """Whether most cells are lists, as annotations are stored in a table."""
    lists = sum(count for value, count in values.items() if value.startswith(("[{", "[[")) and value.endswith("]"))
    return 2 * lists > values.total()
