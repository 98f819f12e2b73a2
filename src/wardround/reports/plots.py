"""Curves over rounds or bytes, and results by site, as inline SVG.

    lines = [Series("fedavg", 0, points)]
    curves(lines, Axis("round"), Axis("accuracy"), "accuracy by round", lines)

A series has a colour, a dash and a marker of its own, so that it is known without colour too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wardround.reports.html import Html, bytes_of, count, figure, tag
from wardround.reports.read import natural
from wardround.reports.svg import Scale, at, decimals, drawing, fit, path, stroke, text

COLOURS = 6
DASHES = (None, "7 3", "2 2.5", "9 3 2 3")
WIDE, HIGH = 430.0, 275.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 16.0, 12.0, 44.0
MARKERS = 6  # along a curve
SHAPES: tuple[tuple[tuple[float, float], ...], ...] = (
    (),  # a circle
    ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ((0, -1.25), (1.15, 0.95), (-1.15, 0.95)),
    ((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)),
    ((0, 1.25), (1.15, -0.95), (-1.15, -0.95)),
    ((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4),
     (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
)  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """What an axis shows; `target` and `beside` draw lines across, and `share` is of what runs from 0 to 1."""

    title: str
    log: bool = False
    bytes: bool = False
    share: bool = False
    target: float | None = None
    beside: Mapping[str, float] = field(default_factory=dict)
    """References, each a line with its name."""


@dataclass(frozen=True)
class Series:
    """A named line: (x, y, spread or none) in order of x. `look` is its place among colours, dashes and markers."""

    label: str
    look: int
    points: Sequence[tuple[float, float, float | None]] = ()
    reference: bool = False

    @property
    def colour(self) -> str:
        """The CSS class of its colour: references are grey."""
        return "grey" if self.reference else f"c{self.look % COLOURS}"

    @property
    def dash(self) -> str | None:
        """References are always broken lines, methods once the colours are used up."""
        if self.reference:
            return DASHES[1 + self.look % 2]
        return DASHES[self.look // COLOURS % len(DASHES)]

    def mark(self, x: float, y: float, size: float = 3.1) -> Html:
        """Its marker around a point."""
        corners = SHAPES[self.look % len(SHAPES)]
        if not corners:
            return tag("circle", cx=at(x), cy=at(y), r=at(size), class_="mark")
        return tag(
            "polygon", points=" ".join(f"{at(x + size * a)},{at(y + size * b)}" for a, b in corners), class_="mark"
        )


def key(series: Sequence[Series]) -> Html:
    """The legend, as a list that wraps."""
    items = []
    for one in series:
        line = tag("path", d="M1 7L33 7", class_="curve", stroke_dasharray=one.dash)
        drawn = tag("svg", line, one.mark(17, 7, 3.5), viewBox="0 0 34 14", class_=one.colour, aria_hidden="true")
        items.append(tag("li", drawn, tag("span", one.label)))
    return tag("ul", items, class_="key")


def curves(series: Sequence[Series], across: Axis, up: Axis, alt: str, reaching: Sequence[Series]) -> Html:
    """Lines with bands of ± one standard deviation; the axis reaches as high as that of the series `reaching`."""
    x = fit((point[0] for one in series for point in one.points), LEFT, WIDE - RIGHT, log=across.log, exact=True)
    points = [point for one in reaching for point in one.points]
    reach = [value for _, mean, sd in points for value in (mean - (sd or 0.0), mean + (sd or 0.0))]
    reach += [*([up.target] if up.target is not None else []), *up.beside.values()]
    reach = [min(max(value, 0.0), 1.0) for value in reach] if up.share else reach
    y = fit((value for value in reach if value > 0 or not up.log), HIGH - BOTTOM, TOP, log=up.log)
    parts = [*_axis_up(y, up), *_axis_across(x, across), [_band(one, x, y, up) for one in series]]
    parts += [_line(one, x, y) for one in series]
    parts += _beside(y, up)
    if up.target is not None:
        parts.append(stroke(LEFT, y(up.target), WIDE - RIGHT, y(up.target), "target"))
    return drawing(alt, WIDE, HIGH, parts, "chart")


def _beside(y: Scale, up: Axis) -> list[object]:
    """The references' lines, with names at the left that keep out of each other's way; equal ones share a line."""
    lines: dict[float, list[str]] = {}
    for name, value in sorted(up.beside.items(), key=lambda pair: -pair[1]):
        if not up.log or value > 0:
            near = next((place for place in lines if abs(place - y(value)) < 1), y(value))
            lines.setdefault(near, []).append(f"{name} {figure(value)}")
    parts: list[object] = []
    taken = [HIGH - BOTTOM + 10]  # where the axis has its numbers
    for place, names in lines.items():
        line = stroke(LEFT, place, WIDE - RIGHT, place, "beside")
        parts.append(tag("g", tag("title", ", ".join(names)), line))
        label = next((at for at in (place - 3, place + 10) if all(abs(at - other) > 9 for other in taken)), None)
        if label is not None:
            taken.append(label)
            words = ", ".join(name.rpartition(" ")[0] for name in names)
            parts.append(text(LEFT + 4, label, words, class_="small halo"))
    return parts


def _axis_up(y: Scale, up: Axis) -> list[object]:
    ticks = y.ticks(7)
    parts: list[object] = []
    for value in ticks:
        label = f"{value:g}" if y.log else figure(value, decimals(ticks))
        parts.append(stroke(LEFT, y(value), WIDE - RIGHT, y(value), "grid"))
        parts.append(text(LEFT - 6, y(value) + 4, label, "end"))
    title = f"{up.title}, logarithmic" if up.log else up.title
    return [*parts, text(12, (TOP + HIGH - BOTTOM) / 2, title, "middle", turned=True, class_="title")]


def _axis_across(x: Scale, across: Axis) -> list[object]:
    floor = HIGH - BOTTOM
    parts: list[object] = [stroke(LEFT, floor, WIDE - RIGHT, floor, "axis")]
    ticks = x.ticks(6 if across.bytes else 9)
    for value in ticks:
        if across.bytes or across.share or value.is_integer():
            label = _size(value) if across.bytes else figure(value, decimals(ticks)) if across.share else count(value)
            parts.append(stroke(x(value), floor, x(value), floor + 4, "axis"))
            parts.append(text(x(value), floor + 17, label, "middle"))
    title = f"{across.title}, logarithmic" if across.log else across.title
    return [*parts, text((LEFT + WIDE - RIGHT) / 2, HIGH - 6, title, "middle", class_="title")]


def _size(value: float) -> str:
    """A tick's size: 2 MB, not 2.00 MB."""
    number, _, unit = bytes_of(value).partition(" ")
    return f"{value:,.0f} B" if unit.startswith("byte") else f"{float(number):g} {unit}"


def _band(one: Series, x: Scale, y: Scale, up: Axis) -> Html | None:
    spread = [(px, mean, sd) for px, mean, sd in one.points if sd is not None]
    if len(spread) < 2:
        return None
    floor = y.low if y.log else 0.0 if up.share else -math.inf
    ceiling = 1.0 if up.share else math.inf
    edge = [(x(px), y(min(mean + sd, ceiling))) for px, mean, sd in spread]
    edge += [(x(px), y(max(mean - sd, floor))) for px, mean, sd in reversed(spread)]
    return tag("path", d=f"{path(edge)}Z", class_=f"band {one.colour}")


def _line(one: Series, x: Scale, y: Scale) -> Html:
    places = [(x(px), y(mean)) for px, mean, _ in one.points]
    _, mean, sd = one.points[-1]
    hint = f"{one.label}: {figure(mean)}" + (f" ± {figure(sd)}" if sd is not None else "") + " at the end"
    every = max(1, math.ceil(len(places) / MARKERS))
    # Each series a little apart, so that markers on close lines do not hide each other.
    last = len(places) - 1
    marked = [place for index, place in enumerate(places) if index % every == one.look % every or index == last]
    line = tag("path", d=path(places), class_="curve", stroke_dasharray=one.dash)
    return tag("g", tag("title", hint), line, [one.mark(*place) for place in marked], class_=one.colour)


def dots(series: Series, values: Mapping[str, float], notes: Mapping[str, str], reach: tuple[float, float]) -> Html:
    """One dot per site along the metric, stacked where they meet, with the median; `notes` are said on hover."""
    wide, side, radius = 340.0, 14.0, 3.6
    x = fit(reach, side, wide - side)
    placed: list[tuple[float, int, str]] = []
    for site, value in sorted(values.items(), key=lambda pair: (pair[1], natural(pair[0]))):
        taken = {level for px, level, _ in placed if abs(px - x(value)) < 2 * radius}
        placed.append((x(value), next(level for level in range(len(values)) if level not in taken), site))
    levels = 1 + max(level for _, level, _ in placed)
    step = min(2 * radius, 100.0 / levels)
    floor = max(30.0, levels * step + 14.0)
    ordered = sorted(values.values())
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    ticks = x.ticks(6)
    parts: list[object] = [
        stroke(side, floor, wide - side, floor, "axis"), stroke(x(middle), 4, x(middle), floor, "median")
    ]  # fmt: skip
    for value in ticks:
        parts.append(stroke(x(value), floor, x(value), floor + 3, "axis"))
        parts.append(text(x(value), floor + 15, figure(value, decimals(ticks)), "middle"))
    marks = [
        tag("circle", tag("title", notes[site]), cx=at(px), cy=at(floor - radius - 1 - level * step), r=at(radius),
            class_="dot")
        for px, level, site in placed
    ]  # fmt: skip
    low, high = figure(ordered[0]), figure(ordered[-1])
    alt = f"{series.label}: {len(values)} sites from {low} to {high}, median {figure(middle)}"
    return drawing(alt, wide, floor + 20, [*parts, tag("g", marks, class_=series.colour)], "dots")
