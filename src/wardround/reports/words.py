"""Metrics by the names that people use, and small sentences that several sections share."""

import statistics
from collections.abc import Iterable, Sequence

from wardround.metrics.defined import defined
from wardround.reports.figures import split_of
from wardround.reports.record import RunRecord
from wardround.reports.statistics import Group

SEEN = {
    "sum": "The method sees only the sum over sites; the coordinator's machine receives each site's answer.",
    "masked": "It leaves masked: the coordinator sees the sum over sites, and nobody can read one site's answer.",
    "each": "The coordinator sees each site's answer.",
}
REFERENCES = {
    "alone": "reference: each site alone",
    "pooled": "reference: all data in one place",
    "public": "reference: the coordinator alone, on public examples",
}
NOTHING = "(nothing)"
"""What an entity is taken for that is missed, or was made up of."""


def definition_of(metrics: Iterable[str]) -> dict[str, str]:
    """What each metric means, whatever its split and class."""
    return defined(metric.removeprefix(f"{split_of(metric)}_").partition("[")[0] for metric in metrics)


def method_list(groups: Iterable[Group]) -> str:
    """Labels as an enumeration; they may have commas of their own."""
    return "; ".join(group.label for group in groups)


def per_round(runs: Sequence[RunRecord], way: str) -> float | None:
    """The bytes that one site sends or gets in a round of training, on average."""
    sizes = [getattr(line, way) / line.asked for run in runs for line in run.lines if line.asked]
    return statistics.fmean(sizes) if sizes else None
