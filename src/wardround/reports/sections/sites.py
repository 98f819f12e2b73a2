"""Labels by site, and results by site."""

import statistics
from collections.abc import Sequence

from wardround.metrics.defined import lower_is_better
from wardround.reports.compared import Report
from wardround.reports.figures import named
from wardround.reports.heatmap import MOST_SITES, heat_map, shade
from wardround.reports.html import Html, count, figure, join, plural, table, tag
from wardround.reports.plots import dots
from wardround.reports.read import natural
from wardround.reports.statistics import Group, Panel, SiteResults, per_site
from wardround.runs.files import Data


def sites(report: Report) -> Html:
    """Per panel the map of labels, and figures by site where they are known."""
    parts: list[object] = []
    for panel in report.panels:
        parts += [report.heading(panel), *_labels(panel), *_per_site(report, panel)]
    return join(parts)


def _labels(panel: Panel) -> list[Html]:
    """What is odd about the first seed's data, such as texts on two sides, and their heat map."""
    run = min((run for group in panel.groups for run in group.runs if run.data), key=lambda run: run.seed, default=None)
    if run is None or run.data is None:
        return [tag("p", "The run folder holds no counts by site (data.json), so there is no map of labels.")]
    data = run.data
    if not data.sites:
        return [tag("p", f"There are {count(data.count)} sites; their labels were not counted."), *_odd(data)]
    train = {site: dict(splits.get("train", {})) for site, splits in data.sites.items()}
    counts = [n for mine in train.values() for n in mine.values()]
    labels = {label for mine in train.values() for label in mine}
    marks = {r.data.fingerprint for g in panel.groups for r in g.runs if r.data}
    seeds = f" of seed {run.seed}; other seeds have other data" if len(marks) > 1 else ""
    some = f", the {MOST_SITES} largest shown" if len(train) > MOST_SITES else ""
    alt = f"training examples per label and site: {len(train)} sites, {len(labels)} labels"
    caption = (
        f"Training examples{seeds}: {plural(len(labels), 'label')} (rows), {plural(len(train), 'site')} (columns)"
        f"{some}, {count(sum(counts))} examples. Bars: examples per site. Shades are logarithmic, blank is none; point "
        "at a cell for its count."
    )
    scroll = tag("div", heat_map(train, alt), class_="scroll", tabindex="0", role="region", aria_label=alt)
    return [*_odd(data), tag("figure", scroll, _shades(max(counts, default=1)), tag("figcaption", caption))]


def _odd(data: Data) -> list[Html]:
    return [tag("p", f"In the data: {words}.", class_="notice") for words in data.problems]


def _shades(most: int) -> Html:
    steps = [1]
    while steps[-1] * 10 < most:
        steps.append(steps[-1] * 10)
    parts = [
        (tag("i", style=f"opacity:{shade(n, most):.2f}"), tag("span", count(n)))
        for n in ([*steps, most] if most > steps[-1] else steps)
    ]
    return tag("div", tag("span", "examples"), parts, class_="shades")


def _per_site(report: Report, panel: Panel) -> list[Html]:
    if not panel.metrics:
        return []
    metric = panel.metrics[0]
    known = [
        (group, results) for group in panel.groups if (results := per_site(group, metric)) and len(results.values) > 1
    ]
    if not known:
        return [
            tag("p", "Results by site are not known: the coordinator asked only for sums over sites. With ",
                tag("code", "evaluation.each = true"), " each site's own counts are sent, and shown here.",
                class_="soft")
        ]  # fmt: skip
    every = [value for _, results in known for value in results.values.values()]
    reach = (min(every), max(every))
    strips = [
        tag("div", tag("h4", group.label), dots(report.series(group), results.values, _notes(results, metric), reach))
        for group, results in known
    ]
    seeds = known[0][1].seeds
    which = f"means over {len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    name = named(metric, split=True)
    caption = f"Final {name} at each site ({which}): one dot per site, the line is the median over sites."
    figure_ = tag("figure", tag("div", strips, class_="small-multiples"), tag("figcaption", caption))
    return [figure_, _quartiles(known, metric), *_gains(known, metric), _site_table(known, metric)]


def _notes(results: SiteResults, metric: str) -> dict[str, str]:
    return {
        site: f"{site}: {named(metric)} {figure(value)}, {count(results.examples.get(site, 0))} examples"
        for site, value in results.values.items()
    }


def _quartiles(known: Sequence[tuple[Group, SiteResults]], metric: str) -> Html:
    rows = []
    for group, results in known:
        ordered = sorted(results.values.values())
        low, middle, high = statistics.quantiles(ordered, n=4, method="inclusive")
        worst = max(ordered) if lower_is_better(metric) else min(ordered)
        where = next(site for site in sorted(results.values, key=natural) if results.values[site] == worst)
        rows.append([
            group.label, where, str(len(ordered)), figure(worst), figure(low), figure(middle), figure(high),
            figure(min(ordered) if lower_is_better(metric) else max(ordered)),
        ])  # fmt: skip
    heads = ["method", "worst site", "sites", "worst", "lower quartile", "median", "upper quartile", "best"]
    return table(f"Final {named(metric, split=True)}, over sites; each site counts once.", heads, rows, words=2)


def _gains(known: Sequence[tuple[Group, SiteResults]], metric: str) -> list[Html]:
    """Who gains from a model of its own, beside the best model that all sites share."""
    sign = -1 if lower_is_better(metric) else 1
    shared = [(group, results) for group, results in known if not group.personal and not group.reference]
    owners = [(group, results) for group, results in known if group.personal]
    if not shared or not owners:
        return []
    base, common = max(shared, key=lambda pair: sign * statistics.fmean(pair[1].values.values()))
    rows = []
    for group, results in owners:
        apart = {site: value - common.values[site] for site, value in results.values.items() if site in common.values}
        ordered = sorted(apart, key=lambda site: (-sign * apart[site], natural(site)))
        if ordered:
            ends = [f"{site} {apart[site]:+.4f}" for site in (ordered[0], ordered[-1])]
            better, worse = (sum(sign * side * gap > 0 for gap in apart.values()) for side in (1, -1))
            rows.append([group.label, *ends, str(better), str(worse), str(len(apart) - better - worse)])
    caption = f"Who gains from a model of its own: {named(metric, split=True)} at each site beside {base.label}'s, the "
    caption += "shared model with the best mean over sites."
    heads = ["method", "gains most", "gains least", "sites that gain", "that lose", "as before"]
    return [table(caption, heads, rows, words=3)] if rows else []


def _site_table(known: Sequence[tuple[Group, SiteResults]], metric: str) -> Html:
    names = sorted({site for _, results in known for site in results.values}, key=natural)
    examples = {site: n for _, results in known for site, n in results.examples.items()}
    rows = [
        [site, count(examples.get(site, 0)),
         *(figure(results.values[site]) if site in results.values else "—" for _, results in known)]
        for site in names
    ]  # fmt: skip
    caption = f"Final {named(metric, split=True)} at each site, with the number of examples it was measured on."
    whole = table(caption, ["site", "examples", *(group.label for group, _ in known)], rows)
    return tag("details", tag("summary", f"All {len(names)} sites as a table"), whole)
