"""Bytes up and down, rounds to target, and sites left out."""

import statistics
from collections.abc import Sequence

from wardround.metrics.defined import lower_is_better
from wardround.reports.compared import Report
from wardround.reports.figures import named
from wardround.reports.html import Html, bytes_of, join, plus_minus, table, tag
from wardround.reports.record import RunRecord
from wardround.reports.statistics import Group, Panel, spread, to_target
from wardround.reports.words import per_round
from wardround.runs.absent import absences, uncovered


def communication(report: Report) -> Html:
    """Traffic and targets of each group, and whose answers were not used."""
    parts: list[object] = []
    for panel in report.panels:
        rows = []
        means = {g.label: (_mean(g, "up"), _mean(g, "down")) for g in panel.groups if g.reference != "pooled"}
        most = max((value for pair in means.values() for value in pair), default=0.0) or 1.0
        for group in panel.groups:
            if group.reference == "pooled":
                rows.append([group.label, *["—"] * 6, _seconds(group)])
                continue
            up, down = means[group.label]
            each = [per_round(group.counted, way) for way in ("up", "down")]
            tried = [bytes_of(_mean(group, way)) for way in ("evaluation_up", "evaluation_down")]
            rows.append([
                group.label, *(bytes_of(one) if one is not None else "—" for one in each),
                _bar(up, most, "bar"), _bar(down, most, "bar down"), *tried, _seconds(group),
            ])  # fmt: skip
        heads = [
            "method", "up, per site and round", "down, per site and round", "up, whole run", "down, whole run",
            "evaluation, up", "evaluation, down", "seconds per run",
        ]  # fmt: skip
        caption = (
            "Bytes of messages: up is from sites to the coordinator, down the other way. Whole runs count all sites "
            "and rounds of training; evaluation is counted apart. Means over seeds."
        )
        parts += [report.heading(panel), table(caption, heads, rows)]
        if any(group.reference == "pooled" for group in panel.groups):
            parts.append(tag("p", "Pooled data have no entry: every note would have to leave its site.", class_="soft"))
        parts.append(_targets(panel))
    parts.append(_left_out(report.runs))
    return join(parts)


def _mean(group: Group, way: str) -> float:
    sums = [sum(getattr(line, way) for line in run.lines) for run in group.counted]
    return statistics.fmean(sums) if sums else 0.0


def _bar(value: float, most: float, kind: str) -> Html:
    return join([bytes_of(value), tag("span", class_=kind, style=f"width:{100 * value / most:.1f}%")])


def _seconds(group: Group) -> str:
    sums = [sum(line.seconds for line in run.lines) for run in group.counted]
    return f"{statistics.fmean(sums):,.1f}" if sums else "—"


def _targets(panel: Panel) -> Html:
    """Rounds and bytes to the study's target."""
    rows = []
    names = set()
    for group in panel.groups:
        targets = [reached for run in group.counted if (reached := to_target(run))]
        if not targets:
            continue
        metric, target = targets[0].metric, targets[0].target
        names.add(f"{named(metric, split=True)} {'≤' if lower_is_better(metric) else '≥'} {target:g}")
        met = [one for one in targets if one.round is not None]
        sent = [one.up for one in met if one.up is not None]
        bytes_up = "—" if group.reference == "pooled" or not sent else bytes_of(statistics.fmean(sent))
        rounds = spread(float(one.round) for one in met if one.round is not None)
        rows.append(
            [group.label, f"{len(met)} of {len(targets)}", plus_minus(rounds, 1 if len(met) > 1 else 0), bytes_up]
        )
    if not rows:
        return tag("p", "Rounds to target: the study sets no target ([stop] with metric and target).", class_="soft")
    caption = (
        f"Rounds to target ({'; '.join(sorted(names))}); mean ± standard deviation over the seeds that reached it."
    )
    return table(caption, ["method", "seeds that reached it", "rounds", "bytes up until then"], rows)


def _left_out(runs: Sequence[RunRecord]) -> Html | None:
    """Sites whose answers were not used."""
    rows = [
        [run.label, site, why, str(run.seed), str(line.round)]
        for run in runs
        for line in run.lines
        for site, why in line.left_out.items()
    ]
    if not rows:
        return tag("p", "No site was left out of any round.", class_="soft")
    whole = table(
        "Sites left out of a round, and why.", ["method", "site", "reason", "seed", "round"], rows[:200], words=3
    )
    often = [
        (run.label, str(run.seed), words)
        for run in runs
        for words in (*absences(run.lines), *uncovered(run.lines, run.data))
    ]
    counted = table("How often each was left out, and what that did.", ["method", "seed", "what"], often[:200], words=3)
    return join([counted, tag("details", tag("summary", f"Sites left out of rounds ({len(rows)})"), whole)])
