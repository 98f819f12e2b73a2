"""The runs of a page, grouped, compared, and with a colour each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from wardround.reports.html import Html, tag
from wardround.reports.paired import Comparison, pairs
from wardround.reports.plots import Series
from wardround.reports.record import RunRecord
from wardround.reports.statistics import Group, Panel, grouped

DRAWN = 12  # lines in a chart that can still be told apart


@dataclass(frozen=True)
class Report:
    """The runs of a page, grouped and compared."""

    runs: tuple[RunRecord, ...]

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """Groups measured on the same data."""
        return grouped(self.runs)

    @cached_property
    def pairs(self) -> tuple[tuple[Comparison, ...], ...]:
        """The comparisons of each panel."""
        return pairs(self.panels)

    @cached_property
    def tests(self) -> int:
        """How many comparisons could be tested."""
        return sum(pair.p is not None for mine in self.pairs for pair in mine)

    @cached_property
    def looks(self) -> dict[str, int]:
        """The place of each label among the colours, the same all over the page."""
        places: dict[str, int] = {}
        for reference in (False, True):
            drawn = [group for panel in self.panels for group in self.drawn(panel)]
            everyone = (*drawn, *(group for panel in self.panels for group in panel.groups))
            labels = dict.fromkeys(group.label for group in everyone if bool(group.reference) is reference)
            places |= {label: index for index, label in enumerate(labels)}
        return places

    def drawn(self, panel: Panel) -> tuple[Group, ...]:
        """The groups that charts have lines for: all, or the best of many, and the references."""
        methods = [group for group in panel.groups if not group.reference]
        if len(methods) <= DRAWN:
            return panel.groups
        rest = (group for group in methods if group not in panel.ranked)
        best = {group.label for group in [*panel.ranked, *rest][:DRAWN]}
        return tuple(group for group in panel.groups if group.reference or group.label in best)

    def left_out(self, panel: Panel) -> Html | None:
        """Says so, if charts do not have them all."""
        if len(self.drawn(panel)) == len(panel.groups):
            return None
        many = sum(not group.reference for group in panel.groups)
        how = f"the {DRAWN} best" if len(panel.ranked) >= DRAWN else f"{DRAWN}, the finished ones first,"
        return tag("p", f"Shown are {how} of {many} methods; the figures of all are in Results.", class_="soft")

    def series(self, group: Group, points: Sequence[tuple[float, float, float | None]] = ()) -> Series:
        """A group's line or dots, in its colour."""
        return Series(group.label, self.looks[group.label], points, bool(group.reference))

    def heading(self, panel: Panel) -> Html | None:
        """What the panel was measured on, if there are several."""
        return tag("h3", panel.label) if len(self.panels) > 1 else None
