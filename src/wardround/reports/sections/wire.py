"""What crossed the wire, in words, from each run's own record of it."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from wardround.reports.compared import Report
from wardround.reports.html import Html, bytes_of, join, plural, tag
from wardround.reports.words import SEEN
from wardround.runs.wire import WireRow

TYPES = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "yes or no", "NoneType": "nothing"}


def wire(report: Report) -> Html:
    """One manifest for all groups that send the same."""
    kinds: dict[tuple[WireRow, ...], list[tuple[str, str]]] = {}
    pooled: list[str] = []
    unknown: list[str] = []
    for panel in report.panels:
        for group in panel.groups:
            sent = next((run.wire for run in group.runs if run.wire), ())
            if group.reference == "pooled":
                pooled.append(group.label)
            elif sent:
                kinds.setdefault(sent, []).append((group.label, panel.label))
            else:
                unknown.append(group.label)
    parts: list[object] = [
        tag("p", "Made from the messages themselves, as they were sent up to and including the first evaluation. Sizes "
            "are of one message, framing included. The ledger in the run folder lists every message of every round.")
    ]  # fmt: skip
    parts += [_manifest(rows, _names(mine, kinds.values())) for rows, mine in kinds.items()]
    pooled, unknown = list(dict.fromkeys(pooled)), list(dict.fromkeys(unknown))
    if pooled:
        why = (
            "pools the notes of all sites in one place, which is possible only in a simulation: on real sites every "
            "note would have to leave. It has no manifest."
        )
        parts += [tag("h3", "; ".join(pooled)), tag("p", f"{'; '.join(pooled)} {why}")]
    if unknown:
        parts.append(tag("p", f"No messages on record yet (wire.json): {'; '.join(unknown)}.", class_="soft"))
    return join(parts)


def _names(mine: Sequence[tuple[str, str]], all_: Iterable[Sequence[tuple[str, str]]]) -> list[str]:
    """The labels, with what they were measured on if the same label sends otherwise elsewhere."""
    often = Counter(label for others in all_ for label in {label for label, _ in others})
    return list(dict.fromkeys(label if often[label] == 1 else f"{label} ({ground})" for label, ground in mine))


def _manifest(rows: Sequence[WireRow], labels: Sequence[str]) -> Html:
    steps = dict.fromkeys(row.step for row in rows)
    parts: list[object] = [tag("h3", "; ".join(labels))]
    for step in steps:
        mine = [row for row in rows if row.step == step]
        kinds = dict.fromkeys((row.direction, row.message, row.seen) for row in mine)
        boxes = [
            _message([row for row in mine if (row.direction, row.message, row.seen) == kind])
            for kind in sorted(kinds, key=lambda kind: kind[0])  # what leaves stands first
        ]
        parts.append(tag("div", boxes, class_="wire"))
    return join(parts)


def _message(rows: Sequence[WireRow]) -> Html:
    """One message: its fields, and who sees it."""
    leaves = rows[0].direction == "from site"
    way = "leaves the site" if leaves else "comes to the site"
    title = f"Step {rows[0].step}, {way}: {rows[0].message}, {bytes_of(sum(row.bytes for row in rows))}"
    items = []
    for row in rows:
        size = f", {bytes_of(row.bytes)}" if row.bytes else ""
        if row.field:
            content = f" ({content_of(row)}{size}). Reveals: {row.reveals}."
            items.append(tag("li", tag("strong", row.field), content))
    seen = SEEN.get(rows[0].seen)
    return tag(
        "div", tag("h4", title), tag("ul", items), tag("p", seen, class_="soft") if seen else None,
        class_="leaves" if leaves else None,
    )  # fmt: skip


def content_of(row: WireRow) -> str:
    """A field's content in words, such as *610 numbers in 2 tensors, float32*."""
    if row.shape is None:
        return TYPES.get(row.type, row.type)
    if row.tensors is not None:
        return f"{math.prod(row.shape):,} numbers in {plural(row.tensors, 'tensor')}, {row.type}"
    inside = f" ({' × '.join(map(str, row.shape))})" if len(row.shape) > 1 else ""
    return f"{plural(math.prod(row.shape), 'number')}{inside}, {row.type}"
