"""Every metric by round and by bytes uploaded."""

from wardround.metrics.defined import lower_is_better
from wardround.reports.compared import Report
from wardround.reports.figures import SPLIT_WORDS, named, of_one_class, split_of
from wardround.reports.html import Html, figure, join, tag
from wardround.reports.plots import Axis, curves, key
from wardround.reports.statistics import Panel, curve
from wardround.reports.words import method_list

WIDELY = 20  # a range of bytes beyond which the axis is logarithmic


def learning(report: Report) -> Html:
    """A pair of charts per metric but those of single classes; splits beyond the first are folded."""
    parts: list[object] = []
    for panel in report.panels:
        shown_groups = [group for group in report.drawn(panel) if group.counted]
        if not panel.metrics or not shown_groups:
            parts += [report.heading(panel), tag("p", "There are no figures.")]
            continue
        series = [report.series(group) for group in shown_groups]
        parts += [report.heading(panel), report.left_out(panel), key(series)]
        first = split_of(panel.metrics[0])
        shown = [metric for metric in panel.metrics if not of_one_class(metric) or metric == panel.metrics[0]]
        main = [metric for metric in shown if split_of(metric) == first]
        rest = [metric for metric in shown if split_of(metric) != first]
        parts += [_both(report, panel, metric) for metric in main]
        if rest:
            whole = [_both(report, panel, metric) for metric in rest]
            parts.append(tag("details", tag("summary", "The same on other splits"), whole))
        parts.append(_how_to_read(panel))
    return join(parts)


def _both(report: Report, panel: Panel, metric: str) -> Html:
    """The metric by round, and by bytes sent up."""
    points_of = {group.label: curve(group, metric) for group in report.drawn(panel)}
    groups = [group for group in report.drawn(panel) if points_of[group.label]]
    stop = groups[0].runs[0].study.get("stop") if groups else None
    target = float(stop["target"]) if isinstance(stop, dict) and stop.get("metric", "accuracy") == metric else None
    values = [point.mean for points in points_of.values() for point in points]
    log = lower_is_better(metric) and min(values) > 0 and max(values) / min(values) > 50
    name = named(metric)
    by_round = [report.series(g, [(p.round, p.mean, p.sd) for p in points_of[g.label]]) for g in groups]
    sending = [group for group in groups if not group.reference and points_of[group.label][-1].up > 0]
    by_bytes = [report.series(g, [(p.up, p.mean, p.sd) for p in points_of[g.label] if p.up > 0]) for g in sending]
    ends = "; ".join(f"{s.label} {figure(s.points[-1][1])}" for s in by_round)
    beside = {reference: over_seeds.mean for reference, over_seeds in panel.references(metric).items()}
    share = not lower_is_better(metric) and all(0 <= value <= 1 for value in (*values, *beside.values()))
    up = Axis(name, log=log, share=share, target=target, beside=beside)
    charts: list[Html] = [curves(by_round, Axis("round"), up, f"{name} by round; at the end: {ends}", by_round)]
    if by_bytes:
        totals = [series.points[-1][0] for series in by_bytes]
        wide = max(totals) / min(totals) > WIDELY
        across = Axis("bytes uploaded by all sites", log=wide, bytes=True)
        charts.append(curves(by_bytes, across, up, f"{name} by bytes uploaded; at the end: {ends}", by_round))
    where = SPLIT_WORDS[split_of(metric)]
    caption = f"{name[:1].upper()}{name[1:]} on the {where}, by round and by bytes uploaded in training."
    caption += f" Dotted line: the target, {target:g}." if target is not None else ""
    if beside:
        lines = "; ".join(f"{reference} {figure(value)}" for reference, value in beside.items())
        caption += f" Thin lines, which any model should beat: {lines}."
    return tag("figure", tag("div", charts, class_="pair"), tag("figcaption", caption))


def _how_to_read(panel: Panel) -> Html:
    sentences = []
    if any(len(group.counted) > 1 for group in panel.groups):
        sentences.append("Lines are means over seeds, bands ± one standard deviation.")
    if any(len({run.rounds for run in group.counted}) > 1 for group in panel.groups):
        sentences.append("Where seeds stopped in different rounds, a line ends where the first of them stopped.")
    references = [group for group in panel.groups if group.reference]
    if references:
        sentences.append(
            f"By bytes, references are left out ({method_list(references)}): a site or the coordinator alone "
            "sends nothing that it learnt, and pooled data would have to be sent whole."
        )
    return tag("p", " ".join(sentences), class_="soft")
