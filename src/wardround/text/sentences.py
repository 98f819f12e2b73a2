"""Sentences of notes, by rules that can be told in one breath.

    for start, end in sentences(text, whole=entities): ...

A sentence ends at 。！？, at `.`, `!` or `?` before a blank (but not before a lower-case letter, nor after an
abbreviation or a single letter), and at a line's end (but not if the line has 60 characters or more and the next
begins in lower case: a wrapped line). Where the rules err, they rather join two sentences than cut one, for a
relation that is cut is lost. No entity is ever cut.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Literal

from wardround.text.document import Entity

Scope = Literal["sentence", "line", "note"]

CLOSING = "\"'”’)\\]」』）"
# A run of marks is looked at once, from its beginning: otherwise a million full stops take a day.
STOP = re.compile(rf"(?<![.!?])[.!?]++[{CLOSING}]*+\s++|[。！？]++[{CLOSING}]*+\s*+|[\r\n]\s*+")
LINE = re.compile(r"[\r\n]\s*+")
WRAPPED = 60
ABBREVIATIONS = frozenset(
    {"al", "approx", "ca", "cf", "dr", "e.g", "etc", "fig", "figs", "i.e", "incl", "mr", "mrs", "ms", "no", "nos", "pt",
     "pts", "resp", "sp", "spp", "st", "vs"}
)  # fmt: skip


def sentences(text: str, scope: Scope = "sentence", whole: Iterable[Entity] = ()) -> list[tuple[int, int]]:
    """Start and end of each sentence, line or note, without blanks around; no entity of `whole` is cut."""
    spans = sorted((entity.start, entity.end) for entity in whole)
    starts = [start for start, _ in spans]
    reach = list(accumulate((end for _, end in spans), max))
    cuts = [0]
    if scope != "note":
        for stop in (STOP if scope == "sentence" else LINE).finditer(text):
            before = bisect_left(starts, stop.end())
            inside = before > 0 and reach[before - 1] > stop.end()
            if not inside and (scope == "line" or _ends(text, stop)):
                cuts.append(stop.end())
    parts = []
    for start, end in pairwise([*cuts, len(text)]):
        held = spans[bisect_left(starts, start) : bisect_left(starts, end)]
        part = text[start:end]
        left, right = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
        if held:  # an entity may begin or end with a blank
            left, right = min(left, held[0][0]), max(right, *(last for _, last in held))
        if left < right:
            parts.append((left, right))
    return parts


def held(spans: Sequence[tuple[int, int]], entities: Iterable[Entity]) -> dict[int, list[int]]:
    """By the number of the sentence, the numbers of the entities that begin in it, in the order given."""
    starts = [start for start, _ in spans]
    by_sentence: dict[int, list[int]] = {}
    for number, entity in enumerate(entities):
        by_sentence.setdefault(bisect_right(starts, entity.start) - 1, []).append(number)
    return by_sentence


def _ends(text: str, stop: re.Match[str]) -> bool:
    mark, breaks = stop[0][0], re.findall(r"\r\n|[\r\n]", stop[0])
    if mark in "。！？" or len(breaks) > 1:
        return True
    if text[stop.end() : stop.end() + 1].islower():
        full = stop.start() >= WRAPPED and not re.search("[\r\n]", text[stop.start() - WRAPPED : stop.start()])
        return bool(breaks) and not full
    word = re.split(r"[\s(]", text[max(0, stop.start() - 12) : stop.start()])[-1]
    initial = len(word) == 1 and word.isalpha()
    return mark != "." or bool(breaks) or not (initial or word.casefold() in ABBREVIATIONS)
