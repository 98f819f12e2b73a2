"""What of a file may stand in a message, a log, a run folder or a report: the one place that decides.

    shown("Mrs Smith")                          # (a value of 9 characters)
    shown("flu", names_of(counts))              # "flu", if the column looks like labels and this one repeats
    with showing_text(): ...                    # --show-text: whoever sits at the machine that has the notes

Rules:
1. Of what is read from a text, token, label or id column only the length is shown.
2. A *name* may be shown: what the study declares, or what is short and repeats in a column of labels.
3. A column of which most values occur once is no column of labels, and holds no names.
4. An id may be shown if it looks like one: short, without blanks, with a digit.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "NOT_SHOWN",
    "called",
    "code",
    "named_sources",
    "names_of",
    "note_of",
    "occurring",
    "quoted",
    "rare",
    "short",
    "showing_text",
    "shown",
    "text_is_shown",
    "unlike_names",
]

NOT_SHOWN = "(not shown)"
FEWEST = 10  # values from which on a column can be told by how often each occurs
WIDTH = 40
ID = re.compile(r"[\w.:|/#@+-]{,40}\d[\w.:|/#@+-]{,40}|[^\n]+\.\w{1,9}(:\d+)+")  # or file and line

_showing: ContextVar[bool] = ContextVar("showing_text", default=False)


@contextmanager
def showing_text(show: bool = True) -> Iterator[None]:
    """Let messages quote what they speak of."""
    before = _showing.set(show)
    try:
        yield
    finally:
        _showing.reset(before)


def text_is_shown() -> bool:
    """Whether the user has asked for quotes."""
    return _showing.get()


def shown(value: str, names: Collection[str] = ()) -> str:
    """The value in quotes if it is a name, otherwise its length."""
    return f'"{value}"' if value in names or text_is_shown() else f"(a value of {len(value)} characters)"


def called(name: str) -> str:
    """An id as it is, if it looks like one."""
    like_id = (name.isascii() and len(name) < 3) or (len(name) <= 2 * WIDTH and ID.fullmatch(name))
    return name if like_id or text_is_shown() else f"(an id of {len(name)} characters)"


def quoted(name: str) -> str:
    """The same in quotes."""
    return f'"{name}"' if called(name) == name else called(name)


def code(language: str) -> str:
    """A language by its code; anything else in its place is not shown."""
    return (
        language
        if not language or re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", language) or text_is_shown()
        else NOT_SHOWN
    )


def short(value: str) -> bool:
    """Whether a value is no longer than names are: up to five words on one line."""
    # A Chinese character says as much as three Latin letters.
    width = sum(1 if char < "\u2e80" else 3 for char in value)
    return width <= WIDTH and value.isprintable() and len(value.split()) <= 5


def names_of(values: Iterable[str] | Mapping[str, int], declared: Collection[str] = ()) -> frozenset[str]:
    """Those of a column's values that may be shown, the declared ones among them."""
    counts = Counter(values)
    if text_is_shown():
        return frozenset({*counts, *declared})
    if unlike_names(counts):
        return frozenset(declared)
    return frozenset({*(value for value, count in counts.items() if count > 1 and short(value)), *declared})


def unlike_names(counts: Mapping[str, int]) -> str:
    """Why these values are no labels or types, or nothing."""
    whole, once = sum(counts.values()), sum(count == 1 for count in counts.values())
    if whole >= FEWEST and 2 * once > whole:
        return f"{once:,} of {whole:,} values occur once"
    return ""


def rare(counts: Mapping[str, int]) -> list[str]:
    """The values that are no names: they occur once, or are too long."""
    return sorted(counts.keys() - names_of(counts))


def occurring(
    what: str, key: str, train: Iterable[tuple[Sequence[str], str]], more: Iterable[str] = ()
) -> tuple[str, ...]:
    """The names in training, each document's with its id; an error where a study should declare which are names."""
    told = list(train)
    mine = Counter(name for names, _ in told for name in names)
    counts = mine + Counter(more)
    odd = set() if text_is_shown() else set(rare(counts)) & mine.keys()
    if why := odd and unlike_names(counts):
        raise ValueError(f"what stands for {what} does not look like {what}: {why}; are columns swapped?")
    if odd:
        name, place = next((name, place) for names, place in told for name in names if name in odd)
        raise ValueError(
            f"{len(odd)} of {len(mine)} {what} occur once or are too long to be names, the first in {called(place)} "
            f"({len(name)} characters); mend them, declare all that are right ({key} = […]), or give --show-text"
        )
    return tuple(sorted(mine))


def note_of(name: str) -> str:
    """The id of a note, given that of one of its sentences or pairs; a row's is its own."""
    note, _, _ = name.rpartition(":")
    return name if not note or re.fullmatch(r"[^:]+\.\w+", note) else note


def named_sources(sources: Iterable[str], ids: Collection[str] = (), declared: Collection[str] = ()) -> None:
    """An error if what would be sites' names might be notes: a source is a name, or looks like an id."""
    counts = Counter(sources)
    names = names_of({source: count for source, count in counts.items() if source not in ids}, declared)
    odd = [source for source in counts if source not in names and called(source) != source and source]
    if odd:
        raise ValueError(
            f"{len(odd):,} of {len(counts):,} sources occur once or are too long to name sites, the first has "
            f"{len(odd[0])} characters; is it the right column? Else cut sites by a [partition], or give --show-text"
        )
