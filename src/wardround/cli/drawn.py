"""A prediction for a person: the text with its entities underlined, their types and confidence, and relations below.

Whatever in a note could command the terminal (escape sequences, marks that turn the direction of writing) is shown as a
sign instead.
"""

import re
from collections.abc import Iterator

from rich.text import Text

from wardround.trained.predicted import Found, Prediction

__all__ = ["drawn"]

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta", "bright_green")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LONGEST = 60  # characters of an entity that an arrow names


def drawn(told: Prediction, *, colour: bool, title: bool) -> Text:
    """The prediction as text; without colour, brackets stand around entities."""
    whole = Text()
    if title and told.id:
        whole.append(f"{_safe(told.id)}\n", "bold")
    for label in told.labels:
        whole.append(f"{label.name} {label.confidence:.2f}\n", "bold")
    for piece, style in _pieces(told, colour=colour):
        whole.append(_safe(piece), style)
    whole.rstrip()
    for link in told.relations:
        head, tail = (_short(_safe(told.words(number))) for number in (link.head, link.tail))
        whole.append("\n  ").append(head).append(f" ──{link.type} {link.confidence:.2f}──▶ ", "bold").append(tail)
    return whole


def _pieces(told: Prediction, *, colour: bool) -> Iterator[tuple[str, str]]:
    """The text piece by piece with styles; where entities overlap, the one that began last gives the colour."""
    kinds = sorted({one.type for one in told.entities})
    colours = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(kinds)}
    begins, ends = (sorted(range(len(told.entities)), key=lambda n: at(told.entities[n])) for at in (_start, _end))
    edges = sorted({0, len(told.text), *(edge for one in told.entities for edge in (one.start, one.end))})
    open_: list[int] = []
    for start, end in zip(edges, [*edges[1:], len(told.text)], strict=True):
        while ends and told.entities[ends[0]].end == start:
            one = told.entities[number := ends.pop(0)]
            open_.remove(number)
            said = f"{one.type} {one.confidence:.2f}"
            yield (f" {said} ", f"reverse {colours[one.type]}") if colour else (f" {said}]", "")
        while begins and told.entities[begins[0]].start == start:
            open_.append(begins.pop(0))
            if not colour:
                yield "[", ""
        style = f"underline {colours[told.entities[open_[-1]].type]}" if open_ and colour else ""
        yield told.text[start:end], style


def _start(one: Found) -> tuple[int, int]:
    return one.start, -one.end


def _end(one: Found) -> tuple[int, int]:
    return one.end, -one.start


def _safe(text: str) -> str:
    text = text.replace("\r\n", "\n")
    return UNSAFE.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd", text)


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
