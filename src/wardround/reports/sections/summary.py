"""Which method was best, by how much, whether by more than chance, and what left the sites: in plain words."""

from collections.abc import Sequence

from wardround.metrics.constant import ABOUT
from wardround.metrics.defined import better, lower_is_better
from wardround.metrics.signs import remedy
from wardround.reports.compared import Report
from wardround.reports.figures import SPLIT_WORDS, named, split_of
from wardround.reports.html import Html, bytes_of, describe_p, figure, join, plural, plus_minus, tag
from wardround.reports.paired import LEVEL, Comparison
from wardround.reports.statistics import Group, Panel
from wardround.reports.words import SEEN, per_round
from wardround.runs.absent import absences, uncovered
from wardround.runs.wire import WireRow

WHO = {
    "alone": "each site training alone",
    "pooled": "all data in one place, which only a simulation can do",
    "public": "the coordinator alone, on public examples",
}


def summary(report: Report) -> Html:
    """One paragraph per panel, and what it leaves out."""
    parts: list[object] = []
    for panel, pairs in zip(report.panels, report.pairs, strict=True):
        parts += [report.heading(panel), _of_panel(panel, pairs, report.tests)]
    late = [run for panel in report.panels for g in panel.groups if g.finished for run in g.runs if not run.finished]
    if late:
        names = ", ".join(f"{run.label} seed {run.seed}" for run in late[:6]) + (" and others" if len(late) > 6 else "")
        verb = "is" if len(late) == 1 else "are"
        parts.append(
            tag("p", f"{plural(len(late), 'run')} of {len(report.runs)} {verb} not finished and left out: {names}.",
                class_="notice")
        )  # fmt: skip
    return join(parts)


def _of_panel(panel: Panel, pairs: Sequence[Comparison], tests: int) -> Html:
    """Which method was best, by how much, whether by more than chance, and what left the sites."""
    ranked = panel.ranked
    going = [group for group in panel.groups if not group.finished]
    if ranked:
        lead = _result(panel, ranked, pairs, tests)
        facts = [
            *_leaked(panel),
            *_wrong(panel),
            *_absent(panel),
            *_beside(panel),
            *_references(panel, ranked[0], pairs),
            *_traffic(ranked[0], several=len(ranked) > 1),
        ]
    else:
        lead, facts = join([_alone(panel)]), [*_leaked(panel), *_wrong(panel), *_absent(panel), *_beside(panel)]
    facts += [_going(going)] if going else []
    parts = [tag("p", lead, class_="lead")]
    return join([*parts, tag("ul", [tag("li", fact) for fact in facts], class_="facts") if facts else None])


def _over(group: Group, metric: str) -> str:
    final = group.final(metric)
    n = final.n if final else 0
    return f"mean ± standard deviation over {n} seeds" if n > 1 else "one seed, so its spread is not known"


def _result(panel: Panel, ranked: Sequence[Group], pairs: Sequence[Comparison], tests: int) -> Html:
    metric, best = panel.metrics[0], ranked[0]
    final = best.final(metric)
    when = "the round that validation chose" if any(run.chosen for run in best.counted) else "the last round"
    where = f"on the {SPLIT_WORDS[split_of(metric)]} in {when}"
    value = f"{plus_minus(final, 3)} ({_over(best, metric)})"
    strong = tag("span" if best.collapsed else "strong", best.label)
    if len(ranked) == 1:
        return join([strong, f" reached {_article(named(metric))} of {value} {where}."])
    other = ranked[1]
    second = other.final(metric)
    gap = abs(final.mean - second.mean) if final and second else 0.0
    most, side = ("lowest", "below") if lower_is_better(metric) else ("highest", "above")
    first = f" had the {most} {named(metric)} {where}: {value}, {figure(gap, 3)} {side} {other.label}"
    rest = ", the next best. " if len(ranked) > 2 else ". "
    return join(
        [f"Of {len(ranked)} federated methods, ", strong, first, rest, _verdict(_find(pairs, best, other), tests)]
    )


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'aeioF' else 'a'} {name}"


def _find(pairs: Sequence[Comparison], one: Group, other: Group) -> Comparison | None:
    return next((pair for pair in pairs if {pair.first.label, pair.second.label} == {one.label, other.label}), None)


def _verdict(pair: Comparison | None, tests: int) -> str:
    if pair is None:
        return ""
    if pair.adjusted is None:
        return f"Whether that is more than chance was not tested: {pair.why}."
    after = f" after Holm's correction for {tests} comparisons" if tests > 1 else ""
    how = f"paired t-test over {len(pair.seeds)} common seeds, {describe_p(pair.adjusted)}{after}"
    if pair.significant:
        return f"The difference is significant at the {100 * LEVEL:g} % level ({how})."
    return f"The difference is not significant at the {100 * LEVEL:g} % level ({how}): it may be chance."


def _references(panel: Panel, best: Group, pairs: Sequence[Comparison]) -> list[str]:
    metric = panel.metrics[0]
    mine = best.final(metric)
    facts = []
    for group in panel.groups:
        final = group.final(metric) if group.reference and group.finished else None
        if final is None or mine is None:
            continue
        side = "better" if better(metric, final.mean, mine.mean) else "worse"
        pair = _find(pairs, best, group)
        chance = f" ({describe_p(pair.adjusted)})" if pair and pair.adjusted is not None else ""
        beside = f"{figure(abs(final.mean - mine.mean), 3)} {side} than {best.label}{chance}"
        facts.append(f"For reference, {WHO[group.reference]} ({group.label}): {plus_minus(final, 3)}, {beside}.")
    return facts


def _leaked(panel: Panel) -> list[str]:
    """Test texts that a model may have learnt by heart, or was chosen by; and validation texts that chose wrongly."""
    data = [run.data for group in panel.groups for run in group.runs if run.data]
    remedy = "take them out of either, or set dedupe = true in [corpus] where it has that"
    kinds = {
        "leaked": ("Test examples whose text is also in training", "Figures on them are too good"),
        "test_in_valid": ("Test examples whose text is also in validation", "The round was chosen by them"),
        "leaked_valid": ("Validation examples whose text is also in training", "They favour what is learnt by heart"),
    }
    counts = {kind: max((getattr(one, kind) for one in data), default=0) for kind in kinds}
    return [f"{what}: {counts[kind]:,}. {why}; {remedy}." for kind, (what, why) in kinds.items() if counts[kind]]


def _wrong(panel: Panel) -> list[str]:
    """Models that have collapsed, or look odd."""
    return [
        f"{group.label} {'has collapsed' if group.collapsed else 'looks odd'}: {'; '.join(group.signs)}; "
        f"{remedy(group.signs, max(run.last.round for run in group.counted if run.last))}."
        for group in panel.groups
        if group.signs
    ]


def _absent(panel: Panel) -> list[str]:
    """Sites that were left out of rounds: the first of each group, and where the others are."""
    facts = []
    for group in panel.groups:
        words = [(run.seed, one) for run in group.counted for one in absences(run.lines)]
        if words:
            seed = f", seed {words[0][0]}" if len(group.counted) > 1 else ""
            others = f" ({len(words) - 1:,} more under Communication)" if len(words) > 1 else ""
            facts.append(f"Under {group.label}{seed}, {words[0][1]}{others}.")
            first = next(run for run in group.counted if absences(run.lines))
            facts += [f"{one[0].upper()}{one[1:]}." for one in uncovered(first.lines, first.data)]
    return facts


def _beside(panel: Panel) -> list[str]:
    """What any model should beat, and which does not."""
    if not panel.metrics:
        return []
    metric, facts = panel.metrics[0], []
    finals = [(group.label, final.mean) for group in panel.groups if group.finished and (final := group.final(metric))]
    for name, reference in panel.references(metric).items():
        below = [label for label, mean in finals if not better(metric, mean, reference.mean)]
        verb = "does not beat" if len(below) == 1 else "do not beat"
        verdict = f" {', '.join(below)} {verb} it." if below else ""
        facts.append(f"For reference, {ABOUT.get(name, name)} ({name}): {plus_minus(reference, 3)}.{verdict}")
    return facts


def _traffic(best: Group, *, several: bool) -> list[str]:
    """What a site sent per round, in words."""
    run = next((run for run in best.counted if run.wire), None)
    up = per_round(best.counted, "up")
    if run is None or up is None:
        return []
    leaving = [row for row in run.wire if row.direction == "from site"]
    under = f" under {best.label}" if several else ""
    training = [row for row in leaving if row.step != "evaluate"]
    facts = [
        f"Per round{under}, each site that took part sent {bytes_of(up)} to the coordinator. {_revealed(training)}"
    ]
    tried = [row for row in leaving if row.step == "evaluate"]
    if tried:
        size = bytes_of(sum(row.bytes for row in tried))
        facts.append(f"For each evaluation of a split, each site sent {size} more. {_revealed(tried)}")
    return facts


def _revealed(rows: Sequence[WireRow]) -> str:
    """What the fields reveal, one after another, and who sees it."""
    fields = [row for row in rows if row.field]
    revealed = dict.fromkeys(_aside(row.reveals) for row in fields if not row.reveals.startswith("nothing"))
    seen = {row.seen for row in fields}
    what = f"This tells: {'; '.join(revealed)}.".replace("`", "") if revealed else "This tells nothing about patients."
    return f"{what} {SEEN.get(seen.pop(), '')}".strip() if len(seen) == 1 else what


def _aside(text: str) -> str:
    """A remark after a semicolon in brackets, so that semicolons can part one from the next."""
    first, _, rest = text.partition("; ")
    return f"{first} ({rest})" if rest else first


def _alone(panel: Panel) -> str:
    """The summary where no federated method has finished."""
    if not panel.metrics and any(group.finished for group in panel.groups):
        return "There are no figures: none were counted, or sites kept back every label (smallest_count in site.toml)."
    if not panel.metrics:
        return "No round has been evaluated yet, so there are no figures."
    metric = panel.metrics[0]
    done = [group for group in panel.groups if group.finished]
    if not done:
        return "No run has finished yet; the figures below are those of the last round that was evaluated."
    parts = [f"{group.label} {plus_minus(group.final(metric), 3)} ({_over(group, metric)})" for group in done]
    name = named(metric, split=True)
    return f"No federated method has finished among these runs. {name[0].upper()}{name[1:]}: {'; '.join(parts)}."


def _going(groups: Sequence[Group]) -> str:
    far = []
    for group in groups:
        furthest = max(group.runs, key=lambda run: run.rounds)
        far.append(f"{group.label} (round {furthest.rounds} of {furthest.study.get('rounds', '?')})")
    return f"Not finished, so provisional and not compared: {'; '.join(far)}."
