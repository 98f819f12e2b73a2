"""What the pages in docs/ show is what happens: their files are written, their commands run, their output seen.

A block with a name behind its language is a file. Of a console block each `$ wardround …` is run, in one folder per
page, and the lines after it must stand in what it prints, with `…` for anything.
"""

import re
import shlex
from pathlib import Path

import pytest

from study_files import cli

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[tuple[list[str], str]]:
    """Each command of a console block, and what is printed after it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(shlex.split(first), shown) for first, _, shown in (part.partition("\n") for part in parts)]


def as_printed(shown: str) -> re.Pattern[str]:
    """What a page shows, as a pattern: blanks are as they fall, and … is anything."""
    words = [re.escape(word) for word in shown.split()]
    return re.compile(r"\s+".join(words).replace(re.escape("…"), r".*?"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / ".cache"))
    for language, name, block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if name:
            (tmp_path / name).write_text(block, encoding="utf-8")
        elif language == "console":
            for (program, *arguments), shown in commands(block):
                assert "wardround" == program
                ended = cli(*arguments, cwd=tmp_path, report=True)
                assert 0 == ended.code, (arguments, ended)
                assert as_printed(shown).search(ended.out + ended.err), (arguments, ended)


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    assert [] == [link for link in links if not (DOCS / link).exists()]
