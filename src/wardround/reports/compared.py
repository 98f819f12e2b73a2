"""The runs of a page, grouped, compared, and with a colour each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from wardround.reports.html import Html, tag
from wardround.reports.plots import Series
from wardround.reports.read import RunRecord
from wardround.reports.statistics import Group, Pair, Panel, grouped, pairs

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """The runs of a page, grouped and compared."""

    runs: tuple[RunRecord, ...]

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """Groups measured on the same data."""
        return grouped(self.runs)

    @cached_property
    def pairs(self) -> tuple[tuple[Pair, ...], ...]:
        """The comparisons of each panel."""
        return pairs(self.panels)

    @cached_property
    def tests(self) -> int:
        """How many comparisons could be tested."""
        return sum(pair.p is not None for mine in self.pairs for pair in mine)

    @cached_property
    def looks(self) -> dict[str, int]:
        """The place of each label among the colours, the same all over the page."""
        told: dict[str, int] = {}
        for reference in (False, True):
            groups = (g for panel in self.panels for g in panel.groups if bool(g.reference) is reference)
            labels = dict.fromkeys(group.label for group in groups)
            told |= {label: index for index, label in enumerate(labels)}
        return told

    def series(self, group: Group, points: Sequence[tuple[float, float, float | None]] = ()) -> Series:
        """A group's line or dots, in its colour."""
        return Series(group.label, self.looks[group.label], points, bool(group.reference))

    def heading(self, panel: Panel) -> Html | None:
        """What the panel was measured on, if there are several."""
        return tag("h3", panel.label) if len(self.panels) > 1 else None
