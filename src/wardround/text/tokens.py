"""Documents with character spans to sentences of tokens with token spans; every oddity counted, none silent.

    for sentence in tokenised(document, problems): sentence.words, sentence.spans

1. A document of one line and at most `longest` tokens is one sentence; others are cut by the rules of `sentences`.
   What is still longer than `longest` is cut at that many tokens, before an entity rather than in it.
2. Tokens are words and single marks, or single characters with Latin words and numbers whole (Chinese). Invisible
   characters (zero-width, soft hyphens) belong to their word and are not part of its form. Models that spell words
   look at the first `LETTERS` characters; longer words are counted.
3. A span that cuts a token is widened to it.
4. Tags cannot overlap: of overlapping entities the longest stays, of equal ones the first; the others are left out.
   (Readers take discontinuous entities from their first to their last character.)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from wardround.text.document import DISCONTINUOUS, Document, Entity, Placed
from wardround.text.reading import Problems
from wardround.text.segment import plain
from wardround.text.sentences import sentences
from wardround.text.shown import called
from wardround.text.tags import Span

Unit = Literal["words", "characters"]
LETTERS = 30
INVISIBLE = "\u00ad\u200b-\u200f\u2060\ufeff"
PATTERNS: dict[str, re.Pattern[str]] = {
    "words": re.compile(rf"[\w{INVISIBLE}]+|[^\w\s]"),
    "characters": re.compile(rf"[A-Za-zÀ-ɏ{INVISIBLE}]+|\d+(?:\.\d+)?|\S"),
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and the entities among them, which do not overlap."""

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """Start and end of each token in the document's text."""

    def spaced(self, letters: int) -> list[str]:
        """The first letters of each word, behind a blank if the text has one: some encoders tell words by it."""
        ends = [0, *(end for _, end in self.places)]
        blanks = [" " * (0 < end < start) for end, (start, _) in zip(ends, self.places, strict=False)]
        return [blank + word[:letters] for blank, word in zip(blanks, self.words, strict=True)]


class InFile(Problems):
    """Problems of a document, noted with its file and line."""

    def __init__(self, placed: Placed, problems: Problems) -> None:
        super().__init__()
        self.placed, self.problems = placed, problems

    def at(self, kind: str, place: str, offset: int = 0) -> None:  # noqa: ARG002 -- an id says less than a line
        """One more of this kind."""
        self.problems.note(kind, self.placed.path, self.placed.line_at(offset))


def tokenised(
    document: Document, problems: Problems, *, unit: Unit = "words", longest: int = 200
) -> Iterator[Sentence]:
    """The sentences of a document; none if it has no token."""
    places = _places(document, unit, problems)
    if not places:
        problems.at("empty sentence, left out", _place(document))
        return
    spans = _apart(_snapped(document, places, problems), document, problems)
    first = 0
    for size in _sizes(document, places, spans, longest, problems):
        mine = tuple((k, s - first, min(e, first + size) - first) for k, s, e in spans if first <= s < first + size)
        here = tuple(places[first : first + size])
        yield Sentence(tuple(plain(document.text[s:e]) for s, e in here), mine, here)
        first += size


def _place(document: Document) -> str:
    """Its id; that of a note with a file of its own is the file's name."""
    return document.id if document.id == document.source else called(document.id)


def _places(document: Document, unit: Unit, problems: Problems) -> list[tuple[int, int]]:
    spans = []
    for match in PATTERNS[unit].finditer(document.text):
        form = plain(match[0])
        if len(form) < len(match[0]) and re.search(f"[{INVISIBLE}]", match[0]):
            problems.at("invisible characters, left out of the word", _place(document), match.start())
        if len(form) > LETTERS:
            problems.at(f"word of more than {LETTERS} characters, spelt only so far", _place(document), match.start())
        if form:
            spans.append(match.span())
    return spans


def _snapped(document: Document, places: list[tuple[int, int]], problems: Problems) -> list[tuple[Span, Entity]]:
    """Each entity as a span of tokens: all those that it touches."""
    snapped = []
    ordered = sorted(document.entities, key=lambda entity: (entity.start, entity.end))
    first = 0
    for entity in ordered:
        while first < len(places) and places[first][1] <= entity.start:
            first += 1
        last = first
        while last < len(places) and places[last][0] < entity.end:
            last += 1
        if last == first:
            problems.at("entity without a token, left out", _place(document), entity.start)
            continue
        if entity.parts:
            problems.at(DISCONTINUOUS, _place(document), entity.start)
        if places[first][0] < entity.start or places[last - 1][1] > entity.end:
            problems.at("span cuts a token, widened to it", _place(document), entity.start)
        snapped.append(((entity.type, first, last), entity))
    return snapped


def _apart(snapped: list[tuple[Span, Entity]], document: Document, problems: Problems) -> list[Span]:
    """Entities that do not overlap, in order."""
    taken: set[int] = set()
    kept: list[Span] = []
    seen: set[Span] = set()
    for span, entity in sorted(snapped, key=lambda item: (item[0][1] - item[0][2], item[0][1], item[0][0])):
        if span in seen:
            problems.at("entity occurs twice, the first taken", _place(document), entity.start)
        elif taken.isdisjoint(range(span[1], span[2])):
            taken.update(range(span[1], span[2]))
            kept.append(span)
        else:
            problems.at("overlapping entity, left out for a longer one", _place(document), entity.start)
        seen.add(span)
    return sorted(kept, key=lambda span: span[1])


def _sizes(
    document: Document, places: list[tuple[int, int]], spans: list[Span], longest: int, problems: Problems
) -> Iterator[int]:
    """How many tokens each sentence has."""
    cuts = [len(places)]
    if len(places) > longest or re.search(r"[\r\n]", document.text.strip()):
        numbers = _after(places, [end for _, end in sentences(document.text, whole=document.entities)])
        inside = {at for _, start, end in spans for at in range(start + 1, end)}  # a widened span may reach over an end
        cuts = sorted({number for number in numbers if number not in inside} | {len(places)})
    first = 0
    for cut in cuts:
        while cut - first > longest:
            limit = first + longest
            before = next((start for _, start, end in spans if first < start < limit < end), limit)
            if any(start < before < end for _, start, end in spans):
                problems.at("entity longer than a sentence may be, cut", _place(document), places[before][0])
            problems.at("sentence too long, cut", _place(document), places[before][0])
            yield before - first
            first = before
        if cut > first:
            yield cut - first
            first = cut


def _after(places: list[tuple[int, int]], ends: list[int]) -> Iterator[int]:
    """For each end of a sentence, the number of the first token behind it."""
    number = 0
    for end in ends:
        while number < len(places) and places[number][0] < end:
            number += 1
        yield number
