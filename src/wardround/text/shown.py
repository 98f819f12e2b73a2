"""What of a file may stand in a message, a log, a run folder or a report: the one place that decides.

    shown("Mrs Smith")                          # (a value of 9 characters)
    shown("flu", names_of(counts))              # "flu", if the column looks like labels and this one repeats
    with showing_text(): ...                    # --show-text: whoever sits at the machine that has the notes

Rules:
1. Of what is read from a text, token, label or id column only the length is shown.
2. A *name* may be shown: what the study declares, or what is short and repeats in a column of labels; one without a
   blank that repeats often (Request-Existing_Examination_and_Treatment) may be longer.
3. A column of which most values occur once is no column of labels, and holds no names; nor is one of many different
   values of several words, or long ones, that occur less than four times on average.
4. In a column of labels, a rare one that is worded as labels are is a class like any other; messages give its length.
5. An id may be shown if it has the form of one: short, ASCII, without blanks, with a digit, and no word behind it (as
   T3word, or a pair's id that is made of its entities: 17:aspirin-rash). A hash, a file's name with a digit, and the
   place in a file that a reader puts where there is no id have that form, too.
6. A first row names its columns if each is one word without a digit that never comes again there, and others have
   texts below it.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

NOT_SHOWN = "(not shown)"
FEWEST = 10  # values from which on a column can be told by how often each occurs
MANY, OFTEN = 20, 4  # different values, and how often each occurs on average
WIDTH = 40
LONGER = re.compile(r"[A-Za-z]+([_/.:+-][A-Za-z]+)*")  # of one piece, as no note is
WORDS = 4  # of a rare label, at most
SENTENCE = re.compile(r"[,;!?，。；！？、：…]|[.:](\s|$)")
ID = re.compile(r"[\w.:|/#@+-]{,40}\d[\w.:|/#@+-]{,40}", re.ASCII)
ENDING = r"\.(txt|text|ann|jsonl?|csv|tsv|tab|xml|xlsx|conll|iob2?|bio|con|rel|ast|pubtator|bioc|opennre|bags)"
ENDED = re.compile(ENDING + r"(?=[:#]|$)", re.IGNORECASE)  # a file's name
PLACE = re.compile(rf"[^\n]+{ENDING}(:\d[\d.]*)+", re.IGNORECASE)  # file and line
WORD_BEHIND = re.compile(r"\d.*[A-Za-z]{3}")  # a digit
HASH = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,64}", re.IGNORECASE)
COUNT = re.compile(r"(#\d+)+$")  # what readers put behind an id that comes again: no digit of its own
HEAD = re.compile(r"[A-Za-z][A-Za-z_.-]{,29}")
WORD = re.compile(r"[A-Za-z0-9_.-]{,30}")
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # what a terminal obeys

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
    """An id as it is, if it has the form of one."""
    own = COUNT.sub("", name)
    counts = ID.fullmatch(own) and not WORD_BEHIND.search(ENDED.sub("", own))
    like_id = len(own) <= 2 * WIDTH and (counts or PLACE.fullmatch(own) or HASH.fullmatch(own))
    return (
        name if like_id or (own.isascii() and len(own) < 3) or text_is_shown() else f"(an id of {len(name)} characters)"
    )


def quoted(name: str) -> str:
    """The same in quotes."""
    return f'"{name}"' if called(name) == name else called(name)


class LineNumber(int):
    """The number of a line in which several documents stand, and which of them is meant: `1 (task 17)`."""

    within: str
    count: int

    def __new__(cls, line: int, within: str, count: int) -> Self:
        """Beside the line, how its document is called, and how many of the file it is."""
        made = super().__new__(cls, line)
        made.within, made.count = within, count
        return made

    def __reduce__(self) -> tuple[type["LineNumber"], tuple[int, str, int]]:
        return LineNumber, (int(self), self.within, self.count)

    def __str__(self) -> str:
        return f"{int(self)} ({self.within})"

    def __format__(self, _spec: str) -> str:
        return str(self)


def line_of(line: int, noun: str, name: str, number: int, before: int = 1) -> int:
    """The line of a document, which is also named if it begins in the first line or in that of the one before it."""
    if line not in (1, before):
        return line
    return LineNumber(line, f"{noun} {name}" if name and called(name) == name else f"{noun} number {number:,}", number)


def harmless(text: str) -> str:
    """A text in which whatever could command a terminal, or turn the direction of writing, is a sign instead."""
    text = text.replace("\r\n", "\n")
    return COMMANDS.sub(lambda sign: chr(0x2400 + ord(sign[0])) if sign[0] < " " else "\ufffd", text)


def unnamed(file: str, line: int) -> str:
    """The id of a document that has none: file and line, and its number where several stand in it."""
    return (
        f"{file}:{int(line)}.{line.count}" if isinstance(line, LineNumber) and line.count > 1 else f"{file}:{int(line)}"
    )


def own_source(name: str, file: str, line: int) -> str:
    """What stands for the source of a note that names none: its id, or its place if that does not look like an id."""
    return name if called(name) == name else unnamed(file, line)


def code(language: str) -> str:
    """A language by its code; anything else in its place is not shown."""
    return (
        language
        if not language or re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", language) or text_is_shown()
        else NOT_SHOWN
    )


def short(value: str) -> bool:
    """Whether a value is no longer than names are: up to five words on one line."""
    return width(value) <= WIDTH and value.isprintable() and len(value.split()) <= 5


def width(value: str) -> int:
    """How much a value says: a Chinese character as much as three Latin letters."""
    return sum(1 if char < "\u2e80" else 3 for char in value)


def like_heads(first: Sequence[str]) -> bool:
    """Whether a first row has words alone, and no note."""
    return all(map(HEAD.fullmatch, first))


def heads(first: Sequence[str], rows: Iterable[Sequence[str]]) -> Sequence[str]:
    """The names of a table's columns, if the first row names them: each is one word, and stands there alone.

    A word with a digit may be the id of a first note, and the only column's word all of it.
    """
    columns = list(zip(*(row for row in rows if len(row) == len(first)), strict=True))
    alone = bool(columns) and all(name not in column for name, column in zip(first, columns, strict=True))
    texts = any(2 * sum(not WORD.fullmatch(cell) for cell in column) > len(column) for column in columns)
    return first if alone and texts and len(first) > 1 and like_heads(first) else ()


def names_of(values: Iterable[str] | Mapping[str, int], declared: Collection[str] = ()) -> frozenset[str]:
    """Those of a column's values that may be shown, the declared ones among them."""
    counts = Counter(values)
    if text_is_shown():
        return frozenset({*counts, *declared})
    if unlike_names(counts):
        return frozenset(declared)
    return frozenset({*(value for value, count in counts.items() if count > 1 and _named(value, count)), *declared})


def _named(value: str, count: int) -> bool:
    """Whether a value that repeats is a name: a short one, or one in a single piece that repeats often."""
    return short(value) or (count >= FEWEST and len(value) <= 2 * WIDTH and bool(LONGER.fullmatch(value)))


def unlike_names(counts: Mapping[str, int], fewest: int = FEWEST) -> str:
    """Why these values are no labels or types, or nothing, as of fewer than so many values."""
    whole, once = sum(counts.values()), sum(count == 1 for count in counts.values())
    if whole >= fewest and 2 * once > whole:
        return f"{once:,} of {whole:,} values occur once"
    texts = [count for value, count in counts.items() if width(value) > WIDTH // 2 or " " in value.strip()]
    if len(texts) >= MANY and whole < 2 * sum(texts) and sum(texts) < OFTEN * len(texts):  # short texts, some repeated
        each = sum(texts) / len(texts)
        return f"{len(texts):,} of {len(counts):,} are of several words or long, and occur {each:.1f} times"
    return ""


def worded(value: str) -> bool:
    """Whether a value that occurs once can be a label all the same: short, of few words, no part of a sentence."""
    return short(value) and len(value.split()) <= WORDS and not SENTENCE.search(value)


def rare(counts: Mapping[str, int]) -> list[str]:
    """The values that are no labels: too long, or once there and not worded as labels are."""
    names, odd = names_of(counts), unlike_names(counts, 1)
    return sorted(value for value in counts if value not in names and (odd or not worded(value)))


def occurring(
    what: str,
    key: str,
    train: Iterable[tuple[Sequence[str], str]],
    more: Iterable[str] = (),
    where: Callable[[str], str] | None = None,
) -> tuple[str, ...]:
    """The labels, types or relations in training, each document's with its id; an error if some look like none."""
    rows = list(train)
    mine = Counter(name for names, _ in rows for name in names)
    counts = mine + Counter(more)
    odd = set() if text_is_shown() else set(rare(counts)) & mine.keys()
    remedy = f"declare all that are right ({key} = […]), or give --show-text"
    if why := odd and unlike_names(counts, 1):
        swapped = f"are columns swapped? Otherwise {remedy}"
        raise ValueError(f"what stands for {what} does not look like {what}: {why}; {swapped}")
    if odd:
        name, place = next((name, place) for names, place in rows for name in names if name in odd)
        raise ValueError(
            f"{len(odd)} of {len(mine)} {what} {'is' if len(odd) == 1 else 'are'} long, or rare and worded like a note;"
            f" the first has {len(name)} characters and stands in {(where or called)(place)}; mend it, {remedy}"
        )
    return tuple(sorted(mine))


def note_of(name: str) -> str:
    """The id of a note, given that of one of its sentences or pairs; a row's is its own."""
    note, _, _ = name.rpartition(":")
    return name if not note or re.fullmatch(r"[^:]+\.\w+", note) else note


def named_sources(
    sources: Iterable[tuple[str, str]],
    ids: Collection[str] = (),
    declared: Collection[str] = (),
    where: Callable[[str], str] | None = None,
) -> None:
    """An error if what would be sites' names might be notes; each source comes with the id of a note.

    A source is a name, or looks like an id.
    """
    rows = list(sources)
    counts = Counter(source for source, _ in rows)
    sure = {"", *ids, *declared}
    known = {source: count for source, count in counts.items() if source not in sure and called(source) != source}
    odd = {*rare(known)}
    if not odd or text_is_shown():
        return
    remedy = "Otherwise cut sites by a [partition], or give --show-text"
    if why := unlike_names(known, 1):
        raise ValueError(f"the sources do not look like names of sites: {why}; are columns swapped? {remedy}")
    source, place = next(row for row in rows if row[0] in odd)
    raise ValueError(
        f"{len(odd):,} of {len(counts):,} sources {'is' if len(odd) == 1 else 'are'} long, or rare and worded like a "
        f"note; the first has {len(source)} characters and stands in {(where or called)(place)}; "
        f"is it the right column? {remedy}"
    )
