"""The parts of a page about one run, as markup: each is sent again only when it has changed.

Every name and figure comes from outside and is escaped (`wardround.reports.html`).
"""

from collections.abc import Mapping, Sequence

from wardround.metrics.defined import lower_is_better
from wardround.privacy.words import short
from wardround.reports.figures import SPLIT_WORDS, named, of_one_class, split_of
from wardround.reports.html import Html, bytes_of, count, figure, join, plural, table, tag
from wardround.reports.plots import Axis, Series, curves
from wardround.watch.events import Log
from wardround.watch.run import WatchedRun, rank
from wardround.watch.sites import SiteState
from wardround.watch.words import STATES, left, span, standing

CHARTS = 4
ROWS = 200  # of sites
SHORT = 60  # events on a page
MARKS = {"good": "✓", "busy": "…", "late": "!", "bad": "✕", "": "·"}
MOODS = {"good": "in order", "busy": "working", "late": "late", "bad": "needs a look", "": "nothing to say"}


def state(run: WatchedRun, *, stop: str = "") -> Html:
    """Where the run is, how long it will take, and the one thing that can be done: `stop` is where to ask for it."""
    where = standing(run)
    words = [tag("p", _badge(run.state), " ", where, class_="lead")]
    if run.rounds:
        words.append(tag("progress", max=run.rounds, value=run.round, aria_label="rounds done"))
    if text := left(run):
        words.append(tag("p", text, class_="soft"))
    privacy = dict(dict(run.study.get("privacy") or {}).get("dp") or {})
    if privacy:
        words.append(tag("p", f"Differential privacy, for the whole run: {short(privacy)}.", class_="soft"))
    if run.problem and run.problem != where:
        words.append(tag("p", run.problem, class_="notice"))
    if run.seen.signs:
        words.append(tag("p", tag("strong", "Looks wrong: "), "; ".join(run.seen.signs), class_="notice"))
    if run.stopping and run.state in ("running", "waiting"):
        words.append(tag("p", "It will stop after this round, as was asked.", class_="notice"))
    elif stop and run.state in ("running", "waiting"):
        button = tag("button", "Stop after this round …", type="button", data_stop=stop, data_name=run.name)
        words.append(tag("p", button, class_="row"))
    return join(words)


def _badge(of: str) -> Html:
    return tag("span", STATES[of], class_=f"badge {of}")


def figures(run: WatchedRun) -> Html:
    """The figures as they come: a table, and curves that grow."""
    names = [name for name in sorted(run.seen.curves, key=rank) if not of_one_class(name)]
    if not names:
        return tag("p", "No round has been evaluated yet.", class_="soft")
    rows = []
    for name in names:
        curve = run.seen.curves[name]
        if curve.last and curve.best:
            rows.append((named(name), SPLIT_WORDS[split_of(name)], figure(curve.last[1]), count(curve.last[0]),
                         figure(curve.best[1]), count(curve.best[0])))  # fmt: skip
    head = ("figure", "split", "last", "round", "best", "round")
    charts = [chart([(name, run.seen.curves[name].drawn)], name, run) for name in names[:CHARTS]]
    return join([tag("div", charts, class_="pair"), table("Figures so far", head, rows, words=2)])


def chart(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]], metric: str, run: WatchedRun | None = None) -> Html:
    """A figure by round; with the study's target, if it has one for this figure."""
    series = [
        Series(label, look, [(float(at), value, None) for at, value in points])
        for look, (label, points) in enumerate(lines)
        if points
    ]
    if not series:
        return tag("p", "No figures yet.", class_="soft")
    stop = dict(run.study.get("stop") or {}) if run else {}
    target = float(stop["target"]) if "target" in stop and stop.get("metric", "accuracy") == metric else None
    values = [point[1] for one in series for point in one.points]
    share = not lower_is_better(metric) and all(0 <= value <= 1 for value in values)
    name = named(metric, split=split_of(metric) != "test")
    ends = "; ".join(f"{one.label} {figure(one.points[-1][1])}" for one in series[:12])
    return curves(
        series, Axis("round"), Axis(name, share=share, target=target), f"{name} by round; now: {ends}", series
    )


def sites(states: Sequence[SiteState]) -> Html:
    """Who is there, who is late, who was left out and why."""
    if not states:
        return tag("p", "No site has been heard of yet.", class_="soft")
    whole = ("site", "state", "last seen", "left out", "why the last time", "approval left", "version")
    used = [True, True, *(any(getattr(one, key) not in ("", "—", 0) for one in states)
                          for key in ("seen", "absent", "why", "left", "version"))]  # fmt: skip
    rows = [[cell for cell, shown in zip(_site(one), used, strict=True) if shown] for one in states[:ROWS]]
    more = f"; {plural(len(states) - ROWS, 'more site')} in order" if len(states) > ROWS else ""
    head = [title for title, shown in zip(whole, used, strict=True) if shown]
    return table(f"{plural(len(states), 'site')}{more}", head, rows, words=len(head))


def _site(one: SiteState) -> tuple[object, ...]:
    mark = tag("span", tag("span", MARKS[one.mood], aria_hidden="true"), tag("span", MOODS[one.mood], class_="unseen"),
               class_=f"mood {one.mood}")  # fmt: skip
    absent = plural(one.absent, "round") if one.absent else ""
    return one.name, join([mark, " ", one.state]), one.seen, absent, one.why, one.left, one.version


def wire(run: WatchedRun) -> Html:
    """What crossed the wire so far."""
    sums, line = run.seen.bytes, run.seen.line
    rows = [
        ("training", bytes_of(sums["up"]), bytes_of(sums["down"]), bytes_of(line.up), bytes_of(line.down)),
        ("evaluation", *map(bytes_of, (sums["evaluation_up"], sums["evaluation_down"], line.evaluation_up,
                                       line.evaluation_down))),
    ]  # fmt: skip
    head = ("what for", "from sites, so far", "to sites, so far", "from sites, last round", "to sites, last round")
    took = f"Rounds took {span(run.seen.took)} in all." if run.seen.took >= 1 else None
    return join([table("Messages, as they were counted", head, rows), tag("p", took, class_="soft") if took else None])


def refused(reasons: Mapping[str, int]) -> Html:
    """For which reasons sites were left out, and how often."""
    if not reasons:
        return tag("p", "Nothing was refused, and no site was left out.", class_="soft")
    rows = sorted(reasons.items(), key=lambda pair: -pair[1])
    return table("Why sites were left out, and in how many rounds", ("reason", "times"),
                 [(why, count(times)) for why, times in rows])  # fmt: skip


def log(events: Log) -> Html:
    """What happened, the newest first."""
    shown = list(events.lines)[-SHORT:][::-1]
    if not shown:
        return tag("p", "No events are on record.", class_="soft")
    items = [
        tag("li", tag("span", " · ".join(
            part for part in (one.clock, f"round {one.round}" if one.round else "") if part), class_="when"),
            " ", one.text, class_=one.weight or None)
        for one in shown
    ]  # fmt: skip
    before = events.count - len(shown)
    rest = tag("p", f"{plural(before, 'earlier event')} not shown.", class_="soft") if before else None
    return join([tag("ol", items, class_="log", reversed="reversed"), rest])
