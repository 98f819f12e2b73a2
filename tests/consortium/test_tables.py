"""The pages on faults and on threats say what the tests do."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import fault_table
import threat_table

ROOT = Path(__file__).parents[2]
FAULTS = [
    "# What can go wrong, and what happens then", "",
    "Made from `tests/fault_table.py`; the tests in `tests/consortium` do all of this, to real processes where",
    "processes are concerned (`WARDROUND_UPDATE_GOLDEN=1` rewrites this page).", "",
    "| what happens | what you see | what is kept |", "|---|---|---|", fault_table.TABLE.values(), "",
]  # fmt: skip
THREATS = [
    "# Who may try what, and what happens", "",
    "Made from `tests/threat_table.py`; the tests try all of this, on real processes where",
    "processes are concerned (`WARDROUND_UPDATE_GOLDEN=1` rewrites this page).", "",
    "Trusted are: the machine of a hospital and its administrators, for that hospital's own notes; the holder of",
    "the coordinator's signing key, as far as the approval goes and no farther. Not trusted are: whatever NVFlare",
    "carries, at either end, the network, the other hospitals, other users of the machine.", "",
    "| who | tries what | what happens |", "|---|---|---|", threat_table.TABLE.values(), "",
    "## What is not defended", "",
    "| what | what it means | what can be done |", "|---|---|---|", threat_table.OPEN, "",
]  # fmt: skip


@pytest.mark.parametrize(("page", "parts"), [("faults", FAULTS), ("threats", THREATS)])
def test_a_page_is_made_from_its_table(page: str, parts: Sequence[object]) -> None:
    lines: list[str] = []
    for part in parts:
        lines += [part] if isinstance(part, str) else [f"| {' | '.join(row)} |" for row in part]  # type: ignore[attr-defined]
    path, text = ROOT / "docs" / f"{page}.md", "\n".join(lines)
    if os.environ.get("WARDROUND_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("mark", "names"), [("fault", set(fault_table.TABLE)), ("threat", set(threat_table.TABLE))])
def test_every_row_of_a_table_is_done_by_a_test(mark: str, names: set[str]) -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert names == set(re.findall(rf'^@{mark}\("(.+)"\)', sources, re.MULTILINE))
