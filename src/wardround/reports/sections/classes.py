"""Each class by itself: precision, recall and F1, and which class was taken for which."""

from collections.abc import Callable, Sequence

from wardround.metrics.by_class import ByClass
from wardround.reports.compared import Report
from wardround.reports.confusion import MOST, confusion_map, mistakes
from wardround.reports.html import Html, count, figure, join, plural, plus_minus, table, tag
from wardround.reports.statistics import Group, Panel, classes_of, spread
from wardround.reports.words import NOTHING

LISTED = 15  # of the commonest mistakes


def classes(report: Report) -> Html:
    """Per panel the F1 of each class by method, then each method's figures and matrix; empty if none was counted."""
    parts: list[object] = []
    for panel in report.panels:
        groups = [group for group in report.drawn(panel) if classes_of(group)]
        if not groups:
            continue
        parts += [report.heading(panel), report.left_out(panel)]
        if len(groups) > 1:
            parts.append(_by_method(panel, groups))
        first = panel.ranked[0] if panel.ranked and panel.ranked[0] in groups else groups[0]
        for group in [first, *(group for group in groups if group is not first)]:
            content = join([_each(group), _confusion(group)])
            title = group.label if len(groups) > 1 else ""
            if group is first:
                parts += [tag("h4", title) if title else None, content]
            else:
                parts.append(tag("details", tag("summary", f"Each class under {title}"), content))
    return join(parts)


def _by_method(panel: Panel, groups: Sequence[Group]) -> Html:
    known = {group.label: classes_of(group) for group in groups}
    names = dict.fromkeys(name for mine in known.values() for name in mine)
    federated = [group.label for group in panel.ranked if not group.collapsed]
    rows = []
    for name in names:
        finals = {label: spread(one.f1 for one in mine.get(name, ())) for label, mine in known.items()}
        means = {label: value.mean for label, value in finals.items() if value and label in federated}
        best = max(means.values()) if len(means) > 1 else None
        support = next((mine[name][0].support for mine in known.values() if name in mine), 0)
        cells = [
            tag("strong", plus_minus(value)) if best is not None and means.get(label) == best else plus_minus(value)
            for label, value in finals.items()
        ]
        rows.append([name, _examples(support, *groups), *cells])
    bold = "; bold: the best federated method" if len(federated) > 1 else ""
    caption = f"F1 of each class on the test split, by method{bold}. Examples are those of the first seed."
    return table(caption, ["class", "examples", *known], rows)


def _each(group: Group) -> Html:
    known = classes_of(group)
    seeds = max(len(mine) for mine in known.values())

    def mean(of: Callable[[ByClass], float], mine: Sequence[ByClass]) -> str:
        return plus_minus(spread(of(one) for one in mine))

    def figures(mine: Sequence[ByClass]) -> list[str]:
        if all(_untold(one.support, group) for one in mine):  # a zero would say that the model is at fault
            return ["—"] * 3
        return [mean(of, mine) for of in (lambda one: one.precision, lambda one: one.recall, lambda one: one.f1)]

    rows = [
        [name, *figures(mine), _examples(mine[0].support, group), count(mine[0].answered)]
        for name, mine in known.items()
    ]
    over = "mean ± standard deviation over seeds; counts are those of the first" if seeds > 1 else "one seed"
    heads = ["class", "precision", "recall", "F1", "examples", "answered"]
    return table(f"Each class on the test split, in the round that counts: {over}.", heads, rows)


def _examples(support: float, *groups: Group) -> str:
    """How many test examples of a class were counted; of none, real sites do not say whether they have a few."""
    return "withheld, or none" if _untold(support, *groups) else count(support)


def _untold(support: float, *groups: Group) -> bool:
    return support <= 0 and any(run.apart for group in groups for run in group.counted)


def _confusion(group: Group) -> Html | None:
    run = next((run for run in group.counted if run.tally and run.tally.confusion), None)
    if run is None or run.tally is None:
        return None
    names, matrix = list(run.tally.names), run.tally.confusion
    entities = len(matrix) > len(names)
    names += [NOTHING] * entities
    whole = sum(map(sum, matrix))
    alt = f"which class was taken for which, {group.label}: {len(names)} classes, {count(whole)} answers"
    some = f", the {MOST} with most examples" if len(names) > MOST else ""
    nothing = (
        f" {NOTHING} answered is an entity that was missed, {NOTHING} true one that is not there; only entities with "
        "the same ends can be taken for each other."
    ) * entities
    caption = (
        f"Which class was taken for which, seed {run.seed}: true classes are rows, answers columns{some}; the darker "
        f"the larger the share of the row, framed what is right. Sums over sites.{nothing}"
    )
    scroll = tag("div", confusion_map(names, matrix, alt), class_="scroll", tabindex="0", role="region", aria_label=alt)
    wrong = mistakes(names, matrix, LISTED)
    rows = [[true, answer, count(n), f"{figure(100 * share, 1)} %"] for true, answer, n, share in wrong]
    listed = table("The commonest mistakes.", ["true", "answered", "how often", "of the true"], rows, words=2)
    folded = tag("details", tag("summary", f"The commonest mistakes ({plural(len(rows), 'kind')})"), listed)
    return join([tag("figure", scroll, tag("figcaption", caption)), folded if rows else None])
