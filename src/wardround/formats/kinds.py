"""How often each label, entity type and relation type occurs, and whether these are names at all.

    kinds = Kinds()
    kinds.take(placed)
    for what, remedy in kinds.unlike("diagnosis"): ...

Labels that differ only in capitals, in full-width letters, in Cyrillic or Greek letters that look like Latin ones,
blanks, hyphens or underscores are one label written twice, as a rule; `alike` lists them. A bag names its relation and
types once, however many sentences it has, and is counted as often.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wardround.text.document import Document, Placed
from wardround.text.facts import BagSentence
from wardround.text.language import has_words
from wardround.text.reading import nearest
from wardround.text.shown import FEWEST, names_of, rare, shown, unlike_names

KINDS = {"labels": "labels", "entities": "types of entities", "relations": "types of relations"}

LIKE_LATIN = str.maketrans("авекмнорстухіјѕԛԝґүһԁӏαβεικνορτυχζηѵ", "abekmhopctyxijsqwryhdlabeikvoptuxzhv")
"""Cyrillic and Greek letters, their capitals taken for small ones, and the Latin ones that they look like."""
MOST = 200  # names among which a mistyped one is looked for
NEARLY = 0.8


@dataclass
class Kinds:
    """Counts by name."""

    labels: Counter[str] = field(default_factory=Counter)
    entities: Counter[str] = field(default_factory=Counter)
    relations: Counter[str] = field(default_factory=Counter)
    firsts: dict[tuple[str, str], tuple[Path, int]] = field(default_factory=dict)
    """By kind and name, where it stands first."""
    documents: int = 0
    worded: int = 0
    """Those with a letter or a digit."""
    again: Callable[[], Iterator[tuple[Placed, Mapping[str, Any]]]] = field(default=lambda: iter(()), repr=False)
    """Reads those that a task makes examples of once more, each with its format's rules for that."""
    bag: str = ""
    """The place of the last bag."""

    def take(self, placed: Placed) -> None:
        """One more document."""
        document = placed.document
        self.documents += 1
        self.worded += has_words(document.text)
        if isinstance(document, BagSentence):
            before, self.bag = self.bag, f"{placed.path}:{placed.line}"
            if before == self.bag:
                return
        for kind, name, _ in _named(document):
            getattr(self, kind)[name] += 1

    def learnt(self, view: str) -> Counter[str]:
        """What a task that takes this view of documents is to tell apart."""
        return Counter(getattr(self, view if view in KINDS else "relations"))

    @property
    def names(self) -> frozenset[str]:
        """All that may be shown."""
        return frozenset[str]().union(*(names_of(getattr(self, kind)) for kind in KINDS))

    def unlike(self, column: str | int = "", known: Collection[str] = ()) -> Iterator[tuple[str, str]]:
        """What does not look like names, apart from those known from training, and what to do."""
        for kind, words in KINDS.items():
            counts: Counter[str] = getattr(self, kind)
            if why := unlike_names({name: count for name, count in counts.items() if name not in known}):
                where = f'column "{column}" does' if column and kind == "labels" else f"what stands for {words} does"
                remedy = f"are columns swapped, or is one misnamed? If these are {words}, give --show-text"
                yield f"{where} not look like {words}: {why}", remedy

    def alone(self) -> Iterator[tuple[str, str]]:
        """That there is one label, where each of several would be a class."""
        if len(self.labels) == 1 and self.labels.total() >= FEWEST and not self.entities:
            yield (
                "one label alone, so there is nothing to tell apart",
                "is it the right column? Or add texts with another",
            )

    def place(self, placed: Placed) -> None:
        """Remember where the names of a document stand first, as long as there are few."""
        for kind, name, start in _named(placed.document):
            if (kind, name) not in self.firsts and len(self.firsts) < MOST:
                self.firsts[kind, name] = placed.path, placed.line_at(start)

    def mistyped(self) -> Iterator[tuple[Path, int, str, str]]:
        """Where a name stands that occurs once and is nearly one that repeats, letters and not digits apart."""
        for (kind, name), (path, line) in self.firsts.items() if len(self.firsts) < MOST else ():
            counts: Counter[str] = getattr(self, kind)
            others = [one for one in names_of(counts) if counts[one] > 1 and _letters(one) != _letters(name)]
            turned = (one for one in others if _turned(_letters(name), _letters(one)))
            if counts[name] == 1 and (close := nearest(name, others, alike=NEARLY) or next(turned, None)):
                what = f'one of the {KINDS[kind]} occurs once, has {len(name)} characters, and is nearly "{close}"'
                yield path, line, what, "mistyped? Mend it, or map it with rename"

    def like_notes(self, view: str) -> Iterator[tuple[Path, int, str, str]]:
        """Where a name stands first that a run of a task with this view takes for a piece of a note."""
        kind = view if view in KINDS else "relations"
        counts = self.learnt(view)
        for name in () if unlike_names(counts, 1) else rare(counts):
            if (kind, name) in self.firsts:
                what = (
                    f"one of the {KINDS[kind]} has {len(name)} characters, and is long, or rare and worded like a note"
                )
                yield *self.firsts[kind, name], what, "mend it; a study that means it has to declare all of them"

    def alike(self) -> Iterator[tuple[str, str]]:
        """Names that look like one name written in several ways, and what to do."""
        for kind, words in KINDS.items():
            counts: Counter[str] = getattr(self, kind)
            names, forms = names_of(counts), dict[str, list[str]]()
            for name in sorted(counts):
                folded = unicodedata.normalize("NFKC", name).casefold().translate(LIKE_LATIN)
                forms.setdefault(re.sub(r"[\s_-]+", "", folded), []).append(name)
            for same in forms.values():
                if len(same) > 1:
                    alike = ", ".join(f"{shown(name, names)} {counts[name]:,} times" for name in same)
                    yield f"{words} that look alike: {alike}", "if they are one, write or map them alike"


def _named(document: Document) -> Iterator[tuple[str, str, int]]:
    """The names in a document, of which kind each is, and where what has it begins."""
    starts = {one.id: one.start for one in document.entities}
    whole = "relations" if isinstance(document, BagSentence) else "labels"
    yield from ((whole, label, 0) for label in document.labels)
    yield from (("entities", one.type, one.start) for one in document.entities)
    yield from (("relations", one.type, starts[one.head]) for one in document.relations)


def _letters(name: str) -> str:
    return re.sub(r"[\d\W_]+", "", name.casefold())


def _turned(name: str, other: str) -> bool:
    """Whether two names differ by two neighbours that have changed places: `yse`."""
    unlike = [at for at, (mine, theirs) in enumerate(zip(name, other, strict=False)) if mine != theirs]
    first, last = (unlike[0], unlike[-1]) if len(unlike) == 2 else (0, 0)
    return len(name) == len(other) and last == first + 1 and name[first : last + 1] == other[last] + other[first]
