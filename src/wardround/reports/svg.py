"""What charts are drawn with: scales, and a few SVG elements with short numbers.

Colours come from the page's style sheet by class, so that a chart follows light, dark and print.
"""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from wardround.reports.html import Html, tag

LETTER = 6.3  # an average letter's width at the charts' font size of 11.5


@dataclass(frozen=True)
class Scale:
    """From values to places along a line."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value."""
        low, high, here = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round values inside, at most so many."""
        if not self.log:
            step = _step(self.high - self.low, most - 1)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [index * step for index in range(first, last + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        inside: list[float] = []
        for factors in ((1, 2, 5), (1, 3), (1,)):
            values = [factor * 10.0**decade for decade in decades for factor in factors]
            inside = [value for value in values if self.low <= value <= self.high]
            if len(inside) <= most:
                break
        return inside[:: max(1, math.ceil(len(inside) / most))]


def _step(width: float, most: int) -> float:
    """The smallest of 1, 2, 5 · 10^k of which no more than that fit."""
    base = 10.0 ** math.floor(math.log10(width / most))
    return next(base * factor for factor in (1, 2, 5, 10, 20) if width / (base * factor) <= most + 1e-9)


def fit(values: Iterable[float], start: float, end: float, *, log: bool = False, exact: bool = False) -> Scale:
    """A scale for these values, with round ends unless they are to be `exact`."""
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    if log:
        return Scale(low / 1.15, high * 1.15, start, end, log=True)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        pad = abs(low) * 0.1 or 0.1
        return Scale(low - pad, high + pad, start, end)
    if exact:
        return Scale(low, high, start, end)
    step = _step(high - low, 5)
    return Scale(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end)


def decimals(ticks: Sequence[float]) -> int:
    """As many decimals as the step between ticks needs."""
    step = min((b - a for a, b in pairwise(ticks)), default=1.0)
    return max(0, -math.floor(math.log10(step) + 1e-9))


def at(value: float) -> str:
    """A coordinate, as short as it can be."""
    return f"{value:.1f}".removesuffix(".0")


def width_of(text: str) -> float:
    """About how wide a text is; Chinese characters count twice."""
    return LETTER * sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def cut(text: str, most: float) -> str:
    """A text that is no wider than that."""
    if width_of(text) <= most:
        return text
    while text and width_of(text) > most - LETTER:
        text = text[:-1]
    return f"{text}…"


def drawing(alt: str, wide: float, high: float, parts: object, class_: str, *, fixed: bool = False) -> Html:
    """A whole picture; `alt` is what it shows, for whoever cannot see it."""
    size = {"width": at(wide), "height": at(high)} if fixed else {}
    view = f"0 0 {at(wide)} {at(high)}"
    return tag("svg", tag("title", alt), parts, viewBox=view, role="img", class_=class_, **size)


def stroke(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """A straight line."""
    return tag("line", x1=at(x1), y1=at(y1), x2=at(x2), y2=at(y2), class_=class_)


def rect(x: float, y: float, wide: float, high: float, class_: str, hint: str | None = None, **more: object) -> Html:
    """A box that says something when pointed at."""
    title = tag("title", hint) if hint else None
    return tag("rect", title, x=at(x), y=at(y), width=at(wide), height=at(high), class_=class_, **more)


def text(x: float, y: float, content: object, anchor: str = "start", *, turned: bool = False, **more: object) -> Html:
    """Words at a place, `turned` to be read from below."""
    if turned:
        return tag("text", content, transform=f"translate({at(x)} {at(y)}) rotate(-90)", text_anchor=anchor, **more)
    return tag("text", content, x=at(x), y=at(y), text_anchor=anchor, **more)


def path(points: Iterable[tuple[float, float]]) -> str:
    """The way through these points."""
    return "M" + "L".join(f"{at(x)} {at(y)}" for x, y in points)
