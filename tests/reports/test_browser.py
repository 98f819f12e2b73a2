"""The page in a real browser: no complaint, no request but its own, nothing wider than the window."""

from pathlib import Path

import pytest

from browser import Browser
from run_folders import make_run, make_sweep
from wardround.reports.page import write_report

WIDER = """[...document.querySelectorAll('body *')].filter(e =>
    !e.closest('.scroll, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.outerHTML.slice(0, 80))"""
CUT = """[...document.querySelectorAll('svg text')].filter(e => {
    const t = e.getBoundingClientRect(), s = e.closest('svg').getBoundingClientRect();
    return t.width && (t.left < s.left - 1 || t.right > s.right + 1 || t.top < s.top - 1 || t.bottom > s.bottom + 1)
}).map(e => e.textContent)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    sites = [f"hospital-{number:02}" for number in range(30)]
    each = {site: (index * 37 % 30) / 30 for index, site in enumerate(sites)}
    stop = {"metric": "accuracy", "target": 0.7, "early": False}
    finals = {"fedavg": [0.7, 0.72, 0.74], "fedprox": [0.75, 0.76, 0.8], "local": [0.6, 0.61, 0.7]}
    labels = ["adverse drug reaction", "dose", "药物", "<script>document.title = 'x'</script>"]
    make_sweep(folder, finals, sites=sites, each=each, labels=labels, stop=stop)
    make_run(folder / "going", "a-method-with-quite-a-long-name:Method", 0, [0.5], rounds=9, finished=False, stop=stop)
    return write_report([folder], folder / "report.html")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_opens_without_a_complaint_and_asks_for_nothing(
    browser: Browser, report: Path, width: int, *, dark: bool
) -> None:
    seen = browser.open(report, dark=dark, width=width)
    assert (report.as_uri(),) == seen.requests
    assert () == seen.complaints
    assert browser.evaluate("document.title").endswith(": report")


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_nothing_is_wider_than_the_window_but_what_scrolls_by_itself(
    browser: Browser, report: Path, width: int
) -> None:
    browser.open(report, width=width)
    assert [] == browser.evaluate(WIDER)
    assert width == browser.evaluate("document.documentElement.scrollWidth")


def test_no_words_are_cut_off_in_a_picture(browser: Browser, report: Path) -> None:
    browser.open(report)
    assert [] == browser.evaluate(CUT)


def test_light_and_dark_have_their_own_colours(browser: Browser, report: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    colours = []
    for dark in (False, True):
        browser.open(report, dark=dark)
        colours.append(browser.evaluate(paper))
    assert ["rgb(255, 255, 255)", "rgb(19, 23, 28)"] == colours


def test_a_page_that_does_ask_or_complain_is_found_out(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://elsewhere.invalid/x.png'><script>console.error('oh')</script>")
    seen = browser.open(bad)
    assert "http://elsewhere.invalid/x.png" in seen.requests
    assert any("oh" in told for told in seen.complaints)


def test_it_prints(browser: Browser, report: Path, tmp_path: Path) -> None:
    browser.open(report, dark=True)
    browser.print(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
