"""A prediction for a person: the text with its entities underlined, their types and confidence, and relations below.

Whatever in a note could command the terminal (escape sequences, marks that turn the direction of writing) is shown as a
sign instead.
"""

from collections.abc import Iterator

from rich.text import Text

from wardround.text.prediction import Prediction, sure
from wardround.text.shown import harmless

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta", "bright_green")
LONGEST = 60  # characters of an entity that an arrow names


def drawn(prediction: Prediction, *, colour: bool, title: bool) -> Text:
    """The prediction as text; without colour, brackets stand around entities."""
    whole = Text()
    if title and prediction.id:
        whole.append(f"{harmless(prediction.id)}\n", "bold")
    for label in prediction.labels:
        whole.append(f"{label.name} {label.confidence:.2f}\n", "bold")
    for piece, style in _pieces(prediction, colour=colour):
        whole.append(harmless(piece), style)
    whole.rstrip()
    for link in prediction.relations:
        head, tail = (_short(harmless(prediction.words(end))) for end in (link.head, link.tail))
        whole.append("\n  ").append(head).append(f" ──{link.type} {sure(link.confidence):.2f}──▶ ", "bold").append(tail)
    return whole


def _pieces(prediction: Prediction, *, colour: bool) -> Iterator[tuple[str, str]]:
    """The text piece by piece with styles; where entities overlap, the one that began last gives the colour."""
    kinds = sorted({one.type for one in prediction.entities})
    colours = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(kinds)}
    spans = [(one.start, one.end) for one in prediction.entities]
    begins = sorted(range(len(spans)), key=lambda n: (spans[n][0], -spans[n][1]))
    ends = sorted(range(len(spans)), key=lambda n: (spans[n][1], -spans[n][0]))
    edges = sorted({0, len(prediction.text), *(edge for one in prediction.entities for edge in (one.start, one.end))})
    open_: list[int] = []
    for start, end in zip(edges, [*edges[1:], len(prediction.text)], strict=True):
        while ends and prediction.entities[ends[0]].end == start:
            one = prediction.entities[number := ends.pop(0)]
            open_.remove(number)
            tag = f"{one.type} given" if one.given else f"{one.type} {sure(one.confidence):.2f}"
            yield (f" {tag} ", f"reverse {colours[one.type]}") if colour else (f" {tag}]", "")
        while begins and prediction.entities[begins[0]].start == start:
            open_.append(begins.pop(0))
            if not colour:
                yield "[", ""
        style = f"underline {colours[prediction.entities[open_[-1]].type]}" if open_ and colour else ""
        yield prediction.text[start:end], style


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
