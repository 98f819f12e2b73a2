"""Means over seeds: groups of runs, panels of groups, and what is drawn of them. Whether they differ is in `paired`.

Definitions:

- A *group* is a method with its settings: its runs differ in nothing but the seed. A *panel* holds the groups that
  were measured on the same corpus, cut in the same way.
- The *spread* is the sample standard deviation over seeds (n − 1); the interval is mean ± t(0.975, n − 1) · sd / √n,
  as far as the figure can go: no share is below 0 or above 1.

Only finished runs count; a group without one is shown as far as it got, and not compared.
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wardround.metrics.by_class import ByClass, each_class
from wardround.metrics.defined import better, limits, lower_is_better
from wardround.metrics.signs import collapsed
from wardround.reports.figures import Spread, split_of
from wardround.reports.record import RunRecord


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed, by seed."""

    label: str
    runs: tuple[RunRecord, ...]

    @property
    def finished(self) -> bool:
        """Whether any of its runs came to its end."""
        return any(run.finished for run in self.runs)

    @property
    def counted(self) -> tuple[RunRecord, ...]:
        """Its finished runs; if there is none, those that got anywhere."""
        return tuple(run for run in self.runs if (run.finished if self.finished else run.final))

    @property
    def reference(self) -> str:
        """`alone`, `pooled` or `public` if it is no federated method."""
        return self.runs[0].start.reference

    @property
    def personal(self) -> bool:
        """Whether its figures are of each site's own model, learnt beside others' or alone."""
        return self.runs[0].start.personal

    @property
    def signs(self) -> tuple[str, ...]:
        """What looks wrong with the models of its runs, each once."""
        return tuple(dict.fromkeys(sign for run in self.counted for sign in run.signs))

    @property
    def collapsed(self) -> bool:
        """Whether a model of its runs has nothing to compare."""
        return any(collapsed(run.signs) for run in self.counted)

    def final(self, metric: str) -> Spread | None:
        """The figure of the round that counts, over seeds."""
        return spread((run.final[metric] for run in self.counted if metric in run.final), limits(metric))


@dataclass(frozen=True)
class Panel:
    """Groups that can be compared: measured on the same data."""

    label: str
    groups: tuple[Group, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """What was measured, in the order of the journal; the first is the one that methods are ranked by."""
        measured = dict.fromkeys(name for group in self.groups for run in group.counted for name in run.final)
        names = [name for name in measured if not name.endswith("examples")]
        first = primary(names, self.groups[0].runs[0].study.get("stop"))
        return tuple(sorted(names, key=lambda name: (split_of(name) != split_of(first), name != first)))

    def references(self, metric: str) -> dict[str, Spread]:
        """Of what any model should beat, the figure over seeds: each seed's once, whichever method tells of it."""
        by_name: dict[str, dict[int, float]] = {}
        for group in self.groups:
            for run in group.counted:
                for name, figures in run.references.items():
                    if metric in figures:
                        by_name.setdefault(name, {})[run.seed] = figures[metric]
        spreads = {name: spread(by_seed.values(), limits(metric)) for name, by_seed in sorted(by_name.items())}
        return {name: over_seeds for name, over_seeds in spreads.items() if over_seeds}

    @property
    def ranked(self) -> tuple[Group, ...]:
        """The finished federated groups, the best first, and those that have collapsed last."""
        if not self.metrics:
            return ()
        metric = self.metrics[0]
        finals = [(group.final(metric), group) for group in self.groups if group.finished and not group.reference]
        known = [(final.mean, group) for final, group in finals if final]
        sign = 1 if lower_is_better(metric) else -1
        return tuple(g for _, g in sorted(known, key=lambda pair: (pair[1].collapsed, sign * pair[0])))


@dataclass(frozen=True)
class Point:
    """A curve's value in one round, over seeds, and the bytes sent up to get there."""

    round: int
    mean: float
    sd: float | None
    up: float


@dataclass(frozen=True)
class Reached:
    """When a run met its study's target; `round` is none if it never did."""

    metric: str
    target: float
    round: int | None
    up: int | None


@dataclass(frozen=True)
class SiteResults:
    """A group's final figure at each site, and the seeds it is the mean of."""

    values: Mapping[str, float]
    seeds: tuple[int, ...]
    examples: Mapping[str, float]


def primary(metrics: Sequence[str], stop: Mapping[str, object] | None) -> str:
    """The metric to rank by: the study's target, else the first of the test split that is no loss.

    What was measured to choose a round or to stop ranks nothing: its test figure does.
    """
    named = str(stop.get("metric", "")).removeprefix("valid_").removeprefix("train_") if stop else ""
    if named in metrics:
        return named
    wanted = sorted(metrics, key=lambda name: (split_of(name) != "test", lower_is_better(name)))
    return wanted[0] if wanted else ""


def spread(values: Iterable[float], within: tuple[float, float] = (-math.inf, math.inf)) -> Spread | None:
    """Mean, standard deviation and 95 % t-interval of the values, as far as it is `within`; nothing of none."""
    numbers = list(values)
    if not numbers:
        return None
    mean = statistics.fmean(numbers)
    if len(numbers) == 1:
        return Spread(1, mean)
    from scipy.special import stdtrit  # noqa: PLC0415 -- most reports are of one seed, and need none of it

    sd = statistics.stdev(numbers)
    half = float(stdtrit(len(numbers) - 1, 0.975)) * sd / math.sqrt(len(numbers))
    least, most = within
    return Spread(len(numbers), mean, sd, max(mean - half, least), min(mean + half, most))


def grouped(runs: Sequence[RunRecord]) -> tuple[Panel, ...]:
    """Panels of groups, in the order in which they were given; references come last."""
    panels: dict[str, dict[str, list[RunRecord]]] = {}
    for run in runs:
        panels.setdefault(run.measured_on, {}).setdefault(run.label, []).append(run)
    made = []
    for ground, groups in panels.items():
        inside = [Group(label, tuple(sorted(mine, key=lambda run: run.seed))) for label, mine in groups.items()]
        made.append(Panel(ground, tuple(sorted(inside, key=lambda group: group.reference))))
    return tuple(made)


def curve(group: Group, metric: str) -> tuple[Point, ...]:
    """The metric in the rounds that all the group's counted runs have, with the bytes sent up by then."""
    by_round: list[dict[int, tuple[float, int]]] = []
    for run in group.counted:
        up = itertools.accumulate(line.up for line in run.lines)
        by_round.append(
            {
                line.round: (line.metrics[metric], sent)
                for line, sent in zip(run.lines, up, strict=True)
                if metric in line.metrics
            }
        )
    if not by_round:
        return ()
    common = sorted(set(by_round[0]).intersection(*by_round[1:]))
    points = []
    for round_ in common:
        values = [mine[round_][0] for mine in by_round]
        sd = statistics.stdev(values) if len(values) > 1 else None
        sent_up = statistics.fmean(mine[round_][1] for mine in by_round)
        points.append(Point(round_, statistics.fmean(values), sd, sent_up))
    return tuple(points)


def to_target(run: RunRecord) -> Reached | None:
    """When the run met its study's target; nothing if the study has none."""
    stop = run.study.get("stop")
    if not isinstance(stop, Mapping):
        return None
    metric, target = str(stop.get("metric", "accuracy")), float(stop["target"])
    up = 0
    for line in run.lines:
        up += line.up
        value = line.metrics.get(metric)
        if value is not None and (value == target or better(metric, value, target)):
            return Reached(metric, target, line.round, up)
    return Reached(metric, target, None, None)


def per_site(group: Group, metric: str) -> SiteResults | None:
    """The final figure at each site: the mean over seeds if all have the same data, else the first seed's."""
    evaluated = []
    for run in group.counted:
        line = run.last
        if line and any(metric in own for own in line.per_site.values()):
            evaluated.append((run, line))
    if not evaluated:
        return None
    marks = {run.data.fingerprint if run.data else None for run, _ in evaluated}
    used = evaluated if len(marks) == 1 and None not in marks else evaluated[:1]
    values: dict[str, list[float]] = {}
    examples: dict[str, float] = {}
    split = split_of(metric)
    for _, line in used:
        for site, own in line.per_site.items():
            if metric in own:
                values.setdefault(site, []).append(own[metric])
                examples[site] = own.get("examples" if split == "test" else f"{split}_examples", 0.0)
    means = {site: statistics.fmean(mine) for site, mine in values.items()}
    return SiteResults(means, tuple(run.seed for run, _ in used), examples)


def classes_of(group: Group) -> dict[str, list[ByClass]]:
    """Per class, its figures in the round that counts of each of the group's counted runs."""
    known: dict[str, list[ByClass]] = {}
    for run in group.counted:
        tally = run.tally
        if tally is None or not tally.names:
            continue
        counts = {"hits": tally.hits, "false_alarms": tally.false_alarms, "misses": tally.misses}
        for one in each_class(counts, tally.names):
            known.setdefault(one.name, []).append(one)
    return known


def of_documents(runs: Iterable[RunRecord], metric: str) -> tuple[float, float] | None:
    """The 95 % interval of a final figure over test documents; of several runs, the mean of their bounds."""
    spans = [run.intervals.figures[metric] for run in runs if run.intervals and metric in run.intervals.figures]
    if not spans:
        return None
    low, high = (statistics.fmean(ends) for ends in zip(*spans, strict=True))
    return low, high
