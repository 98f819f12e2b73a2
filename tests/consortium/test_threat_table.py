"""The page on threats says what the tests try."""

import os
import re
from pathlib import Path

from threat_table import OPEN, TABLE

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_from_the_table() -> None:
    rows = [f"| {row.who} | {row.tries} | {row.happens} |" for row in TABLE.values()]
    gaps = [f"| {gap.what} | {gap.means} | {gap.instead} |" for gap in OPEN]
    text = "\n".join([
        "# Who may try what, and what happens", "",
        "Made from `tests/threat_table.py`; the tests try all of this, on real processes where",
        "processes are concerned (`WARDROUND_UPDATE_GOLDEN=1` rewrites this page).", "",
        "Trusted are: the machine of a hospital and its administrators, for that hospital's own notes; the holder of",
        "the coordinator's signing key, as far as the approval goes and no farther. Not trusted are: whatever NVFlare",
        "carries, at either end, the network, the other hospitals, other users of the machine.", "",
        "| who | tries what | what happens |", "|---|---|---|", *rows, "",
        "## What is not defended", "",
        "| what | what it means | what can be done |", "|---|---|---|", *gaps, "",
    ])  # fmt: skip
    path = ROOT / "docs" / "threats.md"
    if os.environ.get("WARDROUND_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_threat_of_the_table_is_tried_by_a_test() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert set(TABLE) == set(re.findall(r'^@threat\("(.+)"\)', sources, re.MULTILINE))
