"""Which class was taken for which, as a map: true classes are rows, answers are columns, the darker the more of a row.

    confusion_map(("flu", "cold"), ((8, 2), (1, 9)), "which class was taken for which")

The classes with most examples are drawn, up to `MOST`. Counts stand in the cells; shares are said when one is pointed
at.
"""

from collections.abc import Sequence

from wardround.reports.html import Html, count, tag
from wardround.reports.svg import cut, drawing, rect, text, width_of

MOST = 25
NAME, TALL = 160.0, 26.0
DIGIT = 6.5  # a digit's width
Matrix = Sequence[Sequence[int]]


def confusion_map(names: Sequence[str], matrix: Matrix, alt: str) -> Html:
    """The map; names are those of rows and columns alike."""
    kept = sorted(sorted(range(len(names)), key=lambda row: -sum(matrix[row]))[:MOST])
    most = max((matrix[row][column] for row in kept for column in kept), default=0)
    wide = max(38.0, DIGIT * len(count(most)) + 10)
    left = min(NAME, max(width_of(names[row]) for row in kept)) + 30
    cells: list[object] = [text(12, len(kept) * TALL / 2, "true", "middle", turned=True, class_="title")]
    for place, row in enumerate(kept):
        y, whole = place * TALL, sum(matrix[row])
        cells.append(text(left - 6, y + TALL / 2 + 4, [tag("title", names[row]), cut(names[row], NAME)], "end"))
        for across, column in enumerate(kept):
            x, n = left + across * wide, matrix[row][column]
            box = (x + 0.5, y + 0.5, wide - 1, TALL - 1)
            if n:
                share = n / whole
                hint = f"{names[row]}, answered {names[column]}: {count(n)} of {count(whole)}, {100 * share:.0f} %"
                cells.append(rect(*box, "cell", hint, fill_opacity=f"{0.06 + 0.94 * share:.2f}"))
                kind = "in dark" if share > 0.6 else "in"
                cells.append(text(x + wide / 2, y + TALL / 2 + 3.5, count(n), "middle", class_=kind))
            if row == column:
                cells.append(rect(*box, "right"))
    floor = len(kept) * TALL
    turned = max(width_of(names[column]) for column in kept) > wide - 4
    for across, column in enumerate(kept):
        middle = left + (across + 0.5) * wide
        name = [tag("title", names[column]), cut(names[column], NAME)]
        x, y = (middle + 4, floor + 6) if turned else (middle, floor + 14)
        cells.append(text(x, y, name, "end" if turned else "middle", turned=turned))
    below = min(NAME, max(width_of(names[row]) for row in kept)) + 12 if turned else 18
    right = left + len(kept) * wide
    cells.append(rect(left, 0.5, right - left, floor - 0.5, "frame"))
    cells.append(text((left + right) / 2, floor + below + 12, "answered", "middle", class_="title"))
    return drawing(alt, max(right, left + 60) + 4, floor + below + 20, cells, "heat", fixed=True)


def mistakes(names: Sequence[str], matrix: Matrix, most: int) -> list[tuple[str, str, int, float]]:
    """The commonest mistakes: the true class, the answer, how often, and the share of the class."""
    pairs = [
        (names[row], names[column], matrix[row][column], matrix[row][column] / sum(matrix[row]))
        for row in range(len(names))
        for column in range(len(names))
        if row != column and matrix[row][column]
    ]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))[:most]
