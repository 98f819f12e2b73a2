"""Precision over recall at the end of each run, where a task ranks its predictions."""

import bisect
import statistics
from collections.abc import Sequence

from wardround.reports.compared import Report
from wardround.reports.html import Html, figure, join, tag
from wardround.reports.plots import Axis, curves, key
from wardround.reports.statistics import Group

GRID = 60  # places along the curve: more than a chart of this size can show
Points = Sequence[tuple[float, float]]


def precision_recall(report: Report) -> Html:
    """One chart per panel; empty if no run has a curve."""
    parts: list[object] = []
    for panel in report.panels:
        drawn = [(group, _mean([run.pr for run in group.counted if run.pr])) for group in report.drawn(panel)]
        series = [report.series(group, points) for group, points in drawn if points]
        if not series:
            continue
        starts = "; ".join(
            f"{one.label} {figure(one.points[0][1])} at recall {figure(one.points[0][0])}" for one in series
        )
        chart = curves(
            series,
            Axis("recall", share=True),
            Axis("precision", share=True),
            f"precision over recall; it begins with {starts}",
            series,
        )
        caption = "Precision over recall of facts on the test split, in the round that counts."
        if any(_seeds(group) > 1 for group, _ in drawn):
            caption += (
                " Lines are means over seeds at equal recall, as far as all reach; bands ± one standard deviation."
            )
        drawing = tag("figure", tag("div", chart, class_="pair"), tag("figcaption", caption))
        parts += [report.heading(panel), report.left_out(panel), key(series), drawing]
    return join(parts)


def _seeds(group: Group) -> int:
    return sum(bool(run.pr) for run in group.counted)


def _mean(lines: Sequence[Points]) -> list[tuple[float, float, float | None]]:
    """Precision at equal recalls over runs; a single run's curve as it is."""
    if not lines:
        return []
    if len(lines) == 1:
        return [(recall, precision, None) for recall, precision in lines[0]]
    low = max(points[0][0] for points in lines)
    high = min(points[-1][0] for points in lines)
    mean: list[tuple[float, float, float | None]] = []
    for place in range(GRID + 1):
        recall = low + (high - low) * place / GRID
        values = [_at(points, recall) for points in lines]
        mean.append((recall, statistics.fmean(values), statistics.stdev(values)))
    return mean


def _at(points: Points, recall: float) -> float:
    """The precision where the curve reaches this recall."""
    place = min(bisect.bisect_left(points, recall, key=lambda point: point[0]), len(points) - 1)
    (x1, y1), (x2, y2) = points[max(place - 1, 0)], points[place]
    return y2 if x2 <= x1 else y1 + (y2 - y1) * (recall - x1) / (x2 - x1)
