"""The manual as a site: every link leads somewhere, nothing is loaded from elsewhere, and a phone and a keyboard do."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from browser import Browser, chromium
from manual import FIRST, ROOT, BrokenLinksError, Page, build, collect, navigation

OFFICER = "docs/data-protection.md"
STARTS = ("researcher", "hospital", "coordinator", "informatician")


class Seen(HTMLParser):
    """What a page points at, what it loads, and what can be pointed at in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" and value:
                self.anchors.add(value)
            elif key in ("href", "src") and value is not None:
                (self.links if tag == "a" else self.loads).append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("built") / "site"
    build(folder)
    return folder


def nowhere(site: Path, pages: dict[Path, Seen]) -> Iterator[str]:
    """Links of built pages to files or places that are not there."""
    for page, seen in pages.items():
        for link in seen.links + seen.loads:
            file, _, anchor = unquote(link).partition("#")
            target = (page.parent / file).resolve() if file else page
            if link != "data:," and (not target.is_file() or (anchor and anchor not in pages[target].anchors)):
                yield f"{page.relative_to(site)}: {link}"


def test_every_link_of_the_site_leads_somewhere_within_it(site: Path) -> None:
    pages = {page: Seen(page) for page in site.resolve().rglob("*.html")}
    assert [] == list(nowhere(site.resolve(), pages))
    assert sum(len(seen.links) for seen in pages.values()) > 1000


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("gone.md", "there is no such file"),
        ("#gone", "there is no such heading"),
        ("../../etc", "there is no such file"),
    ],
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, link: str, problem: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / FIRST).write_text(f"# One\n\n[two]({link})\n", encoding="utf-8")
    with pytest.raises(BrokenLinksError) as error:
        build(tmp_path / "site", tmp_path)
    assert f"docs/index.md: {link}: {problem}" == str(error.value)
    assert not (tmp_path / "site").exists()


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError):
        build(tmp_path)
    assert ["mine.txt"] == [file.name for file in tmp_path.iterdir()]


def test_markup_in_a_page_stays_text(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / FIRST).write_text("# <script>1</script>\n\n<img src=x>\n\n```\n<b>\n```\n", encoding="utf-8")
    build(tmp_path / "site", tmp_path)
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert [] == [mark for mark in ("<script>1", "<img src=x", "<b>") if mark in text]


def test_every_page_of_the_manual_is_in_the_navigation_below_one_kind_of_people() -> None:
    groups = dict(navigation(Page(FIRST, ROOT)))
    listed = [path for entries in groups.values() for path, _ in entries]
    assert sorted(path for path in collect(ROOT)[0] if path.startswith("docs/") and path != FIRST) == sorted(
        path for path in listed if path.startswith("docs/")
    )
    assert [f"docs/{name}.md" for name in STARTS] == [entries[0][0] for entries in list(groups.values())[:4]]


def test_every_claim_of_the_officers_page_names_the_page_that_it_rests_on() -> None:
    lines = Page(OFFICER, ROOT).source.partition("\n## ")[2]
    rows = [line for line in lines.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    heads = [line for line in rows if line.rstrip(" |").endswith("see")]
    items = [item for item in lines.replace("\n  ", " ").splitlines() if re.match(r"- |\d+\. ", item)]
    assert [] == [claim for claim in {*rows, *items} - {*heads} if ".md" not in claim]
    assert 4 == len(heads)
    assert 20 == len(items)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_screen_and_load_nothing_from_elsewhere(site: Path, width: int, *, dark: bool) -> None:
    with Browser(chromium()) as browser:
        for name in ("index", "architecture", "data-protection", "settings", "threats", "lying", "README"):
            seen = browser.open(site / f"{name}.html", dark=dark, width=width)
            assert () == seen.complaints
            assert [] == [one for one in seen.requests if not one.startswith((site.as_uri(), "data:,"))]
            assert 0 == browser.evaluate("document.documentElement.scrollWidth - innerWidth"), name
            dark_paper = browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 23, 28)"
            assert dark == dark_paper


def test_the_search_works_from_a_disk_by_keyboard_alone(site: Path) -> None:
    with Browser(chromium()) as browser:
        browser.open(site / "studies" / "light" / "RESULTS.html")
        browser.press("/")
        browser.type("secure aggregation")
        browser.wait("document.querySelector('search a')")
        browser.press("ArrowDown")
        wanted = (site / "leaves.html").as_uri() + "#secure-aggregation"
        assert wanted == browser.evaluate("document.activeElement.href")
        browser.press("Escape")
        assert 0 == browser.evaluate("document.querySelectorAll('search a').length")
        browser.type("no page has thiswordinit")
        assert "Nothing has all of these words." == browser.evaluate(
            "document.querySelector('[role=status]').textContent"
        )
