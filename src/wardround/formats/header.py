"""Whether a table's first row names its columns, and what the columns could hold.

    usual_columns(["Note", "ward"])      # {"text": "Note"}
    headed(first, rows)                  # whether the first row looks like a header, and unlike the rows below it
    like_texts(cells), like_labels(cells)

What of a first row may be shown `text.shown` says; the others' columns are told by their numbers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from wardround.formats.options import Column
from wardround.text.reading import nearest
from wardround.text.shown import SENTENCE, heads, like_heads, names_of, short, width

HEADER = ("id", "text", "label", "source", "language")
USUAL = {
    "text": ("text", "note_text", "note", "sentence", "content", "document", "report"),
    "label": ("label", "labels", "class", "category"),
    "id": ("id",),
    "source": ("source",),
    "patient": ("patient",),
}
"""Names under which columns are found if nobody names them."""
KNOWN = {name for usual in USUAL.values() for name in usual} - {"patient"} | set(HEADER)
"""By these a header is known: many a note begins with the patient."""
ONE_COLUMN = {
    "csv": ', or say what stands between its cells: set delimiter = "…"',
    "tsv": ', or set format = "csv", for it has no tabs',
}
LOOKED_AT = 1000  # rows, to tell what a column could be
MOST = 50  # classes
FEWEST = 10  # rows, to tell a header by those below it
LONG = 20  # characters, of texts on average
LONGER = 3  # times, are texts than their column's name


def usual_columns(names: Sequence[str]) -> dict[str, str]:
    """By what it holds, the column of a header that is called as is usual."""
    folded = {name.casefold(): name for name in reversed(names)}
    first = ((meaning, next(filter(folded.__contains__, known), None)) for meaning, known in USUAL.items())
    return {meaning: folded[name] for meaning, name in first if name is not None}


def has_usual(names: Iterable[str]) -> bool:
    """Whether a first row is a header: it has a usual name."""
    return any(name.casefold() in KNOWN for name in names)


def headed(first: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Whether a first row looks like a header, as no row of a column of labels beside one of texts would.

    Each cell is short, has no digit and never comes again below; labels repeat, and texts are far longer.
    """
    columns = [*zip(*(row for row in rows if len(row) == len(first)), strict=True)]
    if len(columns) < 2 or len(columns[0]) < FEWEST or len({*first}) < len(first):
        return False
    named = [*zip(first, columns, strict=True)]
    if any(not _names(name) or name in map(str.strip, column) for name, column in named):
        return False
    texts = any(_mean(column) > LONGER * len(name) and like_texts(Counter(column)) for name, column in named)
    return texts and any(like_labels(Counter(column)) for column in columns)


def missing(
    column: Column, meaning: str, names: Sequence[str], rows: Sequence[Sequence[str]], *, header: bool, form: str
) -> str:
    """What to do about a column that is not there; the names of others might be a first row, and a note."""
    there, close = heads(names, rows) if header else (), nearest(str(column), names)
    named = close and (close in there or ("_" in close and like_heads(names)))
    if close and (named or close.casefold() == str(column).casefold()):
        return f'did you mean "{close}"?'
    what = f"name the {meaning}{' ' * bool(meaning)}column in [corpus]"
    if there:
        return f"{what}: {', '.join(there)}"
    if len(names) < 2:
        return f"{what}{ONE_COLUMN[form]}, or set header = false"
    return f"{what}, or by its number from 1 to {len(names)}{_likely(names, rows)}, or set header = false"


def _likely(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Which columns, by number, look like texts and labels."""
    columns = [Counter(column) for column in zip(*(row for row in rows if len(row) == len(names)), strict=True)]
    if not columns or columns[0].total() < FEWEST:
        return ""
    texts = [number for number, values in enumerate(columns, 1) if like_texts(values)]
    labels = [number for number, values in enumerate(columns, 1) if like_labels(values)]
    looks = [
        f"{what} in {' or '.join(map(str, some))}" for what, some in (("texts", texts), ("labels", labels)) if some
    ]
    return f" (by their looks {', '.join(looks)})" if looks else ""


def like_labels(values: Counter[str]) -> bool:
    """Whether a column holds few values that repeat."""
    return 1 < len(values) <= MOST and sum(values[name] for name in names_of(values)) > 0.9 * values.total()


def like_texts(values: Counter[str]) -> bool:
    """Whether a column holds long values that hardly repeat."""
    return 2 * len(values) > values.total() and sum(map(width, values)) > LONG * len(values)


def _names(cell: str) -> bool:
    return bool(cell) and short(cell) and not SENTENCE.search(cell) and not any(map(str.isdigit, cell))


def _mean(cells: Sequence[str]) -> float:
    return sum(map(len, cells)) / len(cells)
