"""Whether methods differ by more than chance: two groups compared seed by seed, on the same data.

A paired t-test of the final figures, from 3 common seeds on; the p-values of all pairs of a report are corrected
together by Holm's method. From 6 common seeds on, Wilcoxon's signed-rank test stands beside it; with fewer it cannot
fall below 0.05. Only finished runs count.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wardround.metrics.defined import better
from wardround.reports.figures import Spread
from wardround.reports.record import RunRecord
from wardround.reports.statistics import Group, Panel, spread

LEVEL = 0.05
TESTED_FROM = 3
RANKED_FROM = 6  # with five pairs the smallest two-sided p-value of the signed-rank test is 1/16


@dataclass(frozen=True)
class Comparison:
    """Two groups, compared seed by seed; the one with the better mean comes first."""

    first: Group
    second: Group
    seeds: tuple[int, ...]
    difference: Spread | None = None
    p: float | None = None
    adjusted: float | None = None
    ranks: float | None = None
    why: str = ""
    """Why there is no test."""

    @property
    def significant(self) -> bool:
        """Whether the corrected p-value is below 0.05."""
        return self.adjusted is not None and self.adjusted < LEVEL


def pairs(panels: Sequence[Panel]) -> tuple[tuple[Comparison, ...], ...]:
    """Per panel, every two finished groups by the panel's first metric; Holm's correction spans all of them."""
    compared = [
        [_pair(one, other, panel.metrics[0]) for one, other in itertools.combinations(_finished(panel), 2)]
        for panel in panels
    ]
    tested = [pair.p for mine in compared for pair in mine if pair.p is not None]
    adjusted = iter(holm(tested))
    return tuple(
        tuple(replace(pair, adjusted=next(adjusted)) if pair.p is not None else pair for pair in mine)
        for mine in compared
    )


def _finished(panel: Panel) -> list[Group]:
    return [group for group in panel.groups if panel.metrics and group.finished and group.final(panel.metrics[0])]


def _pair(one: Group, other: Group, metric: str) -> Comparison:
    mine, theirs = ({run.seed: run for run in group.counted if metric in run.final} for group in (one, other))
    means = [statistics.fmean(run.final[metric] for run in runs.values()) for runs in (mine, theirs)]
    if better(metric, means[1], means[0]):
        one, other, mine, theirs = other, one, theirs, mine
    seeds = tuple(sorted(mine.keys() & theirs.keys()))
    changed = [seed for seed in seeds if not _same_data(mine[seed], theirs[seed])]
    if changed:
        return Comparison(
            one, other, seeds, why=f"the data of seed {changed[0]} are not the same (fingerprints differ)"
        )
    ours, others = ([runs[seed].final[metric] for seed in seeds] for runs in (mine, theirs))
    differences = [a - b for a, b in zip(ours, others, strict=True)]
    difference = spread(differences)
    if len(seeds) < TESTED_FROM:
        there = f"there {'is' if len(seeds) == 1 else 'are'} {len(seeds)}"
        return Comparison(one, other, seeds, difference, why=f"needs at least {TESTED_FROM} common seeds, {there}")
    if max(differences) - min(differences) <= 1e-12 * max(map(abs, differences)):
        return Comparison(one, other, seeds, difference, why="the difference is the same for every seed")
    from scipy import stats  # noqa: PLC0415 -- takes a second, and most reports have no such pair

    p = float(stats.ttest_rel(ours, others).pvalue)
    ranks = float(stats.wilcoxon(differences).pvalue) if len(seeds) >= RANKED_FROM and any(differences) else None
    return Comparison(one, other, seeds, difference, p, None, ranks)


def _same_data(one: RunRecord, other: RunRecord) -> bool:
    marks = [run.data.fingerprint if run.data else None for run in (one, other)]
    return None in marks or marks[0] == marks[1]


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m p-values times m − i + 1, never falling, at most 1."""
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(np.argsort(np.asarray(values), kind="stable").tolist()):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected
