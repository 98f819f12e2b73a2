"""What was published, as a study tells it in `[expected]`; measured figures beside it where a row names a grid's cell.

    [expected]
    source = "Sui et al., Findings of EMNLP 2021"
    "fraction=0.1" = { p_100 = 0.69, pr_auc_2000 = 0.2207 }

Other rows and columns are named as the authors of the study like, and shown as they are.
"""

import re
from collections.abc import Mapping
from typing import Any

from wardround.reports.apart import shown
from wardround.reports.compared import Report
from wardround.reports.figures import named, split_of
from wardround.reports.html import NBSP, Html, join, plus_minus, table, tag
from wardround.reports.statistics import Group


def published(report: Report) -> Html:
    """A table for each study that has something to compare with."""
    groups = [group for panel in report.panels for group in panel.groups]
    parts: list[object] = []
    for name in dict.fromkeys(str(run.study.get("name", "")) for run in report.runs):
        mine = [group for group in groups if group.runs[0].study.get("name") == name]
        tables = [run.study["expected"] for group in mine for run in group.runs if run.study.get("expected")]
        if tables and isinstance(tables[0], Mapping):
            parts += [tag("h3", name), _study(tables[0], mine)]
    return join(parts[1:] if len(parts) == 2 else parts)


def _study(expected: Mapping[str, Any], groups: list[Group]) -> Html:
    words = {key: value for key, value in expected.items() if isinstance(value, str)}
    rows = {key: _row(value) for key, value in expected.items() if key not in words}
    heads = dict.fromkeys(column for row in rows.values() for column in row)
    body: list[list[object]] = []
    for key, row in rows.items():
        own = _measured(key, groups)
        figures = {column: own.final(column) for column in heads} if own else {}
        measured = any(figures.values())
        body.append([f"{key}, published" if measured else key, *(_value(row[c]) if c in row else "—" for c in heads)])
        if measured:
            body.append([f"{key}, measured", *(plus_minus(figures[column]) for column in heads)])
    lines = [tag("p", f"{key.capitalize()}: {' '.join(value.split())}") for key, value in words.items()]
    caption = "Published figures, as the study file has them in [expected]; measured ones as in Results."
    return join([lines, table(caption, ["", *(_head(column) for column in heads)], body) if body else None])


def _measured(key: str, groups: list[Group]) -> Group | None:
    """The group whose place in the grid is called so, or the only one whose begins so; folders are called by it."""
    cells = {re.sub(r",?seed=\d+$", "", group.runs[0].folder): group for group in groups}
    near = [group for cell, group in cells.items() if cell.startswith(f"{key},")]
    return cells.get(key) or (near[0] if len(near) == 1 else None)


def _row(value: Any) -> Mapping[str, Any]:
    """Columns by name; a list's are numbered, and a single value's has no name."""
    if isinstance(value, Mapping):
        return value
    return {f"{at}.": one for at, one in enumerate(value, 1)} if isinstance(value, list) else {"": value}


def _value(value: Any) -> str:
    return ", ".join(map(shown, value)) if isinstance(value, list) else shown(value)


def _head(column: str) -> str:
    return named(column, split=split_of(column) != "test") if column else NBSP
