"""The final figures, the paired tests, and every run by itself."""

from collections.abc import Sequence

from wardround.metrics.constant import ABOUT
from wardround.metrics.defined import better, lower_is_better
from wardround.privacy.words import of_figures
from wardround.reports.compared import Report
from wardround.reports.figures import SPLIT_WORDS, named, of_one_class, split_of
from wardround.reports.html import Html, figure, join, p_value, plural, plus_minus, signed, table, tag
from wardround.reports.paired import Comparison
from wardround.reports.record import RunRecord
from wardround.reports.statistics import Group, Panel, of_documents
from wardround.reports.words import REFERENCES

PAIRS_SHOWN = 10


def _name(group: Group) -> Html:
    """A group's label with what a reader must know about it."""
    late = [run for run in group.runs if not run.finished]
    furthest = max(group.runs, key=lambda run: run.rounds)
    if not late:
        state = ""
    elif group.finished:
        state = f"{plural(len(late), 'run')} left out: not finished"
    else:
        state = f"not finished: round {furthest.rounds} of {furthest.study.get('rounds', '?')}"
    wrong = f"{'collapsed: ' if group.collapsed else ''}{'; '.join(group.signs)}" if group.signs else ""
    words = ((REFERENCES.get(group.reference), "tag"), (state, "tag late"), (wrong, "tag late"))
    tags = [tag("span", text, class_=kind) for text, kind in words if text]
    return join([group.label, tags])


def results(report: Report) -> Html:
    """Per panel its tables and tests, then all runs, folded."""
    parts: list[object] = []
    for panel, pairs in zip(report.panels, report.pairs, strict=True):
        parts += [report.heading(panel), _chosen(panel), _noise(panel)]
        if not panel.metrics:
            parts.append(tag("p", "There are no figures."))
            continue
        first = split_of(panel.metrics[0])
        splits = dict.fromkeys(split_of(metric) for metric in panel.metrics)
        for split in splits:
            mine = [metric for metric in panel.metrics if split_of(metric) == split]
            single = [metric for metric in mine if of_one_class(metric)]
            rest = [metric for metric in mine if metric not in single or metric == panel.metrics[0]]
            parts.append(_final(panel, split, rest, interval=split == first))
            if single:
                by_class = _final(panel, split, single, interval=False)
                parts.append(tag("details", tag("summary", f"Each class by itself, {SPLIT_WORDS[split]}"), by_class))
        parts.append(_tests(pairs, panel.metrics[0]))
    parts.append(_every_run(report))
    return join(parts)


def _kept(run: RunRecord) -> str:
    """The chosen round among all of a run."""
    return "[finish]" if (run.chosen or 0) > run.rounds else f"{run.chosen} of {run.rounds}"


def _chosen(panel: Panel) -> Html | None:
    """How the round whose figures are shown was chosen, unless it is the last."""
    runs = [run for group in panel.groups for run in group.counted]
    sentences = []
    by = dict.fromkeys(run.metrics.chosen_by for run in runs if run.metrics and run.chosen)
    if by:
        names = " or ".join(f"{named(metric)} on the {SPLIT_WORDS[split_of(metric)]}" for metric in by)
        rounds = "; ".join(
            f"{group.label} {', '.join(_kept(run) for run in group.counted if run.chosen)}"
            for group in panel.groups
            if any(run.chosen for run in group.counted)
        )
        sentences.append(f"Of each run the round with the best {names} counts, in every table: {rounds}.")
    if amended := [group.label for group in panel.groups if any(run.members for run in group.counted)]:
        sentences.append(
            f"Sites have left the model of {', '.join(amended)} since, or joined it: the final figures are those of "
            "the model as it is now, the curves those of the run."
        )
    if any(run.study.get("stop", {}).get("on_test_figures") for run in runs):
        target = "Runs ended when a figure of the test split met its target"
        sentences.append(f"{target}: these figures look better than they are.")
    return tag("p", " ".join(sentences), class_="notice" if len(sentences) > len(by) else "soft") if sentences else None


def _noise(panel: Panel) -> Html | None:
    """Which methods' figures come out of noise, and how much of it is in the figures themselves."""
    labels: dict[str, list[str]] = {}
    for group in panel.groups:
        for words in {of_figures(dp) for run in group.runs if (dp := run.study.get("privacy", {}).get("dp"))}:
            labels.setdefault(words, []).append(group.label)
    sentences = [f"{', '.join(names)}: {words}." for words, names in labels.items()]
    return tag("p", " ".join(sentences), class_="notice") if sentences else None


def _final(panel: Panel, split: str, metrics: Sequence[str], *, interval: bool) -> Html:
    best = {metric: _best(panel, metric) for metric in metrics}
    several = max((len(group.counted) for group in panel.groups), default=0) > 1
    ranged = metrics[0] if interval and several else None  # the figure that gets an interval over seeds
    known = any(of_documents(group.counted, metrics[0]) for group in panel.groups)
    sure = metrics[0] if interval and known else None  # and over test documents
    rows = []
    for group in panel.groups:
        row: list[object] = [_name(group)]
        for metric in metrics:
            value = plus_minus(group.final(metric))
            row.append(tag("strong", value) if best[metric] is group else value)
            row += [_interval(group, metric)] * (metric == ranged) + [_over_documents(group.counted, metric)] * (
                metric == sure
            )
        rows.append([*row, str(len(group.counted)), _rounds(group.counted)])
    references = {metric: panel.references(metric) for metric in metrics}
    for name in dict.fromkeys(name for spreads in references.values() for name in spreads):
        row = [join([name, tag("span", f"reference: {ABOUT.get(name, '')}", class_="tag")])]
        for metric in metrics:
            row.append(plus_minus(references[metric].get(name)))
            row += ["—"] * ((metric == ranged) + (metric == sure))
        rows.append([*row, str(max(spreads[name].n for spreads in references.values() if name in spreads)), "—"])
    heads = ["method"]
    for metric in metrics:
        seeds = ["95 % interval, seeds"] * (metric == ranged)
        heads += [named(metric), *seeds, *["95 % interval, test documents"] * (metric == sure)]
    heads += ["seeds", "rounds"]
    over = "mean ± standard deviation over seeds" if several else "one seed each"
    bold = "; bold: the best federated method" if any(best.values()) else ""
    how = f" {_how(panel)}" if sure else ""
    return table(f"Final figures on the {SPLIT_WORDS[split]}: {over}{bold}.{how}", heads, rows)


def _best(panel: Panel, metric: str) -> Group | None:
    """The federated group with the best mean; nothing if there is no other to be better than."""
    finals = [(final.mean, group) for group in panel.ranked if (final := group.final(metric)) and not group.collapsed]
    if len(finals) < 2:
        return None
    sign = 1 if lower_is_better(metric) else -1
    return min(finals, key=lambda pair: sign * pair[0])[1]


def _interval(group: Group, metric: str) -> str:
    final = group.final(metric)
    if final is None or final.low is None or final.high is None:
        return "—"
    return f"{figure(final.low)} to {figure(final.high)}"


def _how(panel: Panel) -> str:
    """What the intervals over test documents were drawn from."""
    known = [run.intervals for group in panel.groups for run in group.counted if run.intervals]
    ways = {one.way: one.count for one in known}
    words = {
        "documents": f"drawn anew with replacement, whole ({ways.get('documents', 0):,} of them)",
        "answers": "from sums alone: each answer drawn anew by itself, which is "
        "exact where a document is one example, and else somewhat narrow",
    }
    return f"Intervals over test documents: {'; elsewhere '.join(words[way] for way in sorted(ways, reverse=True))}."


def _rounds(runs: Sequence[RunRecord]) -> str:
    counts = sorted({run.rounds for run in runs})
    if not counts:
        return "—"
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def _tests(pairs: Sequence[Comparison], metric: str) -> Html | None:
    """The paired tests: a table, or why there is none."""
    if not pairs:
        return None
    untested = [pair for pair in pairs if pair.p is None]
    reasons = dict.fromkeys(pair.why for pair in untested)
    if len(untested) == len(pairs) and len(reasons) == 1:
        return tag("p", f"No paired test between methods: {next(iter(reasons))}.", class_="soft")
    ranked = any(pair.ranks is not None for pair in pairs)

    def row(pair: Comparison) -> list[object]:
        gap = pair.difference
        mean = between = "—"
        if gap is not None:
            mean = signed(gap.mean) + (f" ± {figure(gap.sd)}" if gap.sd is not None else "")
        if gap is not None and gap.low is not None and gap.high is not None:
            between = f"{signed(gap.low)} to {signed(gap.high)}"
        raw, corrected, ranks = (p_value(p) if p is not None else "—" for p in (pair.p, pair.adjusted, pair.ranks))
        strong = tag("strong", corrected) if pair.significant else corrected
        names = [pair.first.label, pair.second.label]
        return [*names, str(len(pair.seeds)), mean, between, raw, strong, *[ranks] * ranked]

    caption = (
        f"Paired comparison by {named(metric, split=True)}: better minus worse, seed by seed, mean ± standard "
        "deviation; p-values of the paired t-test, bold where significant at 0.05 after Holm's correction."
    )
    heads = ["better", "worse", "common seeds", "difference", "95 % interval", "p, uncorrected", "p, corrected"]
    heads += ["p, Wilcoxon, uncorrected"] * ranked
    ordered = sorted(pairs, key=lambda pair: (pair.adjusted is None, pair.adjusted or 0.0, pair.p or 0.0))
    whole = table(caption, heads, [row(pair) for pair in ordered], words=2)
    why = [
        f"{'; '.join(f'{p.first.label} and {p.second.label}' for p in untested if p.why == reason)}: {reason}."
        for reason in reasons
    ]
    note = tag("p", "No test: ", " ".join(why), class_="soft") if why else None
    if len(pairs) <= PAIRS_SHOWN:
        return join([whole, note])
    return tag("details", tag("summary", f"Paired comparison of all {len(pairs)} pairs"), whole, note)


def _every_run(report: Report) -> Html:
    rows = []
    several, documents = len(report.panels) > 1, any(run.intervals for run in report.runs)
    for panel in report.panels:
        metric = panel.metrics[0] if panel.metrics else ""
        for group in panel.groups:
            for run in group.runs:
                best = _best_round(run, metric)
                rows.append([
                    group.label, *([panel.label] * several), _end(run), str(run.seed), str(run.rounds),
                    figure(run.final[metric]) if metric in run.final else "—",
                    *[_over_documents([run], metric)] * documents,
                    f"{figure(best[0])} ({best[1]})" if best else "—",
                    f"{sum(line.seconds for line in run.lines):,.1f}",
                ])  # fmt: skip
    first = report.panels[0].metrics
    name = named(first[0]) if first else "figure"
    several_heads = ["measured on"] * several
    interval = ["95 % interval, test documents"] * documents
    heads = ["method", *several_heads, "end", "seed", "rounds", f"final {name}", *interval, "best (round)", "seconds"]
    whole = table("Every run by itself.", heads, rows, words=2 + several)
    return tag("details", tag("summary", f"Every run by itself ({len(report.runs)})"), whole)


def _over_documents(runs: Sequence[RunRecord], metric: str) -> str:
    span = of_documents(runs, metric)
    return f"{figure(span[0])} to {figure(span[1])}" if span else "—"


def _end(run: RunRecord) -> str:
    if run.metrics and run.finished:
        return run.metrics.stopped
    return f"not finished, {run.rounds} of {run.study.get('rounds', '?')} rounds"


def _best_round(run: RunRecord, metric: str) -> tuple[float, int] | None:
    best: tuple[float, int] | None = None
    for line in run.lines:
        value = line.metrics.get(metric)
        if value is not None and (best is None or better(metric, value, best[0])):
            best = value, line.round
    return best
