"""The page on faults says what the tests do."""

import os
import re
from pathlib import Path

from fault_table import TABLE

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_from_the_table() -> None:
    rows = [f"| {row.what} | {row.sees} | {row.kept} |" for row in TABLE.values()]
    text = "\n".join([
        "# What can go wrong, and what happens then", "",
        "Made from `tests/fault_table.py`; the tests in `tests/consortium` do all of this, to real processes where",
        "processes are concerned (`WARDROUND_UPDATE_GOLDEN=1` rewrites this page).", "",
        "| what happens | what you see | what is kept |", "|---|---|---|", *rows, "",
    ])  # fmt: skip
    path = ROOT / "docs" / "faults.md"
    if os.environ.get("WARDROUND_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_fault_of_the_table_is_done_by_a_test() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert set(TABLE) == set(re.findall(r'^@fault\("(.+)"\)', sources, re.MULTILINE))
