"""The settings: those that differ in a table, all of them folded, with the differing lines marked."""

import re
from collections.abc import Iterable, Sequence

from wardround.reports.apart import BY_HAND, differing, settings, shown
from wardround.reports.compared import Report
from wardround.reports.html import Html, join, table, tag
from wardround.reports.statistics import Group, Panel

COLUMNS_SHOWN = 6


def all_settings(report: Report) -> Html:
    """Seeds, differences, and each group's whole study."""
    groups = [(panel, group) for panel in report.panels for group in panel.groups]
    keys = [k for k in differing(group.runs[0].study for _, group in groups) if k not in BY_HAND]
    parts: list[object] = []
    seeds = {group.label: ", ".join(str(run.seed) for run in group.runs) for _, group in groups}
    each = (
        [f"{label}: {own}" for label, own in seeds.items()] if len(set(seeds.values())) > 1 else [*seeds.values()][:1]
    )
    parts.append(tag("p", f"Seeds: {'; '.join(each)}."))
    if keys:
        parts.append(_differences(groups, keys, several=len(report.panels) > 1))
        parts.append(tag("p", "All other settings are the same.", class_="soft"))
    elif len(groups) > 1:
        parts.append(tag("p", "The settings of all groups are the same."))
    for panel, group in groups:
        title = f"All settings of {group.label}" + (f", {panel.label}" if panel.label else "")
        parts.append(tag("details", tag("summary", title), tag("pre", toml_with_marks(group.runs[0].toml, keys))))
    return join(parts)


def _differences(groups: Sequence[tuple[Panel, Group]], keys: Sequence[str], *, several: bool) -> Html:
    def cell(group: Group, name: str) -> str:
        own = settings(group.runs[0].study)
        return shown(own[name]) if name in own else "—"

    def title(panel: Panel, group: Group) -> str:
        return f"{group.label} ({panel.label})" if several else group.label

    caption = "Settings that differ; — is a setting that the method, corpus or task does not have."
    if len(groups) <= COLUMNS_SHOWN:
        heads = ["setting", *(title(panel, group) for panel, group in groups)]
        rows = [[tag("code", name), *(cell(group, name) for _, group in groups)] for name in keys]
        return table(caption, heads, rows, words=len(heads))
    heads = ["method", *keys]
    rows = [[title(panel, group), *(cell(group, name) for name in keys)] for panel, group in groups]
    return table(caption, heads, rows, words=len(heads))


def toml_with_marks(toml: str, keys: Iterable[str]) -> Html:
    """A resolved study as text, with the lines of these dotted keys marked."""
    wanted = set(keys)
    section = name = ""
    parts = []
    for line in toml.rstrip().splitlines():
        header = re.fullmatch(r"\[([^\]]+)\]", line)
        entry = re.match(r"([A-Za-z0-9_-]+) = ", line)
        if header:
            section, name = f"{header[1]}.", ""
        elif entry:
            name = section + entry[1]
        parts.append(tag("mark", line) if name in wanted and line else line)
    return join(parts, "\n")
