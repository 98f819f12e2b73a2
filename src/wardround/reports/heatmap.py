"""Labels × sites: how many examples of each label a site has, the darker the more.

    heat_map({"north": {"drug": 12}, "south": {"drug": 3, "dose": 40}}, "examples per label and site")

Shades are logarithmic and blank is none. Up to 100 sites and 40 labels are drawn: the largest sites, and the most
frequent labels with the others as one row. The exact count is said when a cell is pointed at, and printed in the
cell where it fits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wardround.reports.html import Html, count, tag
from wardround.reports.read import natural
from wardround.reports.svg import at, cut, drawing, rect, stroke, text, width_of

MOST_SITES, MOST_LABELS = 100, 40
BARS = 44.0  # the height of the bars above the map
TOP = BARS + 10.0
NAME = 170.0  # the longest name's width
DIGIT = 0.58  # a digit's width, as a part of the font size

Counts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class _Sheet:
    """The map's measures."""

    sites: Sequence[str]
    labels: Sequence[str]
    counts: Counts
    most: int
    left: float
    wide: float
    tall: float

    @property
    def right(self) -> float:
        return self.left + len(self.sites) * self.wide

    @property
    def floor(self) -> float:
        return TOP + len(self.labels) * self.tall


def heat_map(counts: Counts, alt: str) -> Html:
    """The map, with each site's number of examples as a bar above it."""
    largest = sorted(counts, key=lambda site: (-sum(counts[site].values()), natural(site)))[:MOST_SITES]
    sites = sorted(largest, key=natural)
    labels, kept = _labels({site: counts[site] for site in sites})
    most = max((n for mine in kept.values() for n in mine.values()), default=1)
    totals = {site: sum(kept[site].values()) for site in sites}
    highest = max(totals.values(), default=0) or 1
    left = min(NAME, max(width_of(name) for name in [*labels, count(highest)])) + 12
    wide = min(40.0, max(9.0, 900.0 / max(len(sites), 1)))
    sheet = _Sheet(sites, labels, kept, most, left, wide, max(14.0, min(wide, 24.0)))
    small = min(11.0, wide - 0.5)
    parts: list[object] = [_bars(sheet, totals, highest), _cells(sheet)]
    for row, label in enumerate(labels):
        middle = TOP + (row + 0.5) * sheet.tall + 4
        parts.append(text(left - 6, middle, [tag("title", label), cut(label, NAME)], "end"))
    for column, site in enumerate(sites):
        middle = left + (column + 0.5) * wide + small * 0.36
        name = [tag("title", site), cut(site, 0.7 * NAME)]
        parts.append(text(middle, sheet.floor + 6, name, "end", turned=True, style=f"font-size:{at(small)}px"))
    parts.append(rect(left, TOP, sheet.right - left, sheet.floor - TOP, "frame"))
    below = min(0.7 * NAME, max(width_of(site) for site in sites)) * small / 11 + 12
    return drawing(alt, sheet.right + 4, sheet.floor + below, parts, "heat", fixed=True)


def shade(n: int, most: int) -> float:
    """How dark a count is: from 0.1 for one example to 1 for the most, by its logarithm."""
    return 0.1 + 0.9 * (math.log(n) / math.log(most) if most > 1 else 1.0)


def _labels(counts: Counts) -> tuple[list[str], Counts]:
    """The labels to draw; if there are too many, the rarest become one row."""
    totals: dict[str, int] = {}
    for mine in counts.values():
        for label, n in mine.items():
            totals[label] = totals.get(label, 0) + n
    if len(totals) <= MOST_LABELS:
        return sorted(totals, key=natural), counts
    kept = sorted(totals, key=lambda label: (-totals[label], natural(label)))[: MOST_LABELS - 1]
    rest = f"{len(totals) - len(kept)} other labels"
    fewer = {
        site: {label: mine[label] for label in kept if label in mine}
        | {rest: sum(n for label, n in mine.items() if label not in kept)}
        for site, mine in counts.items()
    }
    return [*kept, rest], fewer


def _bars(sheet: _Sheet, totals: Mapping[str, int], highest: int) -> list[Html]:
    inset = min(2.0, sheet.wide * 0.12)
    parts = [
        text(sheet.left - 6, 10, count(highest), "end", class_="small"),
        text(sheet.left - 6, BARS, "0", "end", class_="small"),
        stroke(sheet.left, BARS, sheet.right, BARS, "axis"),
    ]
    for column, site in enumerate(sheet.sites):
        high = (BARS - 2) * totals[site] / highest
        x = sheet.left + column * sheet.wide + inset
        hint = f"{site}: {count(totals[site])} examples"
        parts.append(rect(x, BARS - high, sheet.wide - 2 * inset, high, "total", hint))
    return parts


def _cells(sheet: _Sheet) -> list[Html]:
    font = min(10.0, (sheet.wide - 4) / (DIGIT * len(count(sheet.most))))
    cells, numbers = [], []
    for column, site in enumerate(sheet.sites):
        own = sum(sheet.counts[site].values())
        for row, label in enumerate(sheet.labels):
            n = sheet.counts[site].get(label, 0)
            if not n:
                continue
            x, y, dark = sheet.left + column * sheet.wide, TOP + row * sheet.tall, shade(n, sheet.most)
            hint = f"{site}, {label}: {count(n)} examples, {100 * n / own:.0f} % of the site's"
            box = (x + 0.5, y + 0.5, sheet.wide - 1, sheet.tall - 1)
            cells.append(rect(*box, "cell", hint, fill_opacity=f"{dark:.2f}"))
            kind = "in dark" if dark > 0.6 else "in"
            numbers.append(text(x + sheet.wide / 2, y + sheet.tall / 2 + 3.5, count(n), "middle", class_=kind))
    if font < 8:  # too small to read: then only on hover
        return cells
    return [*cells, tag("g", numbers, style=f"font-size:{at(font)}px", aria_hidden="true")]
