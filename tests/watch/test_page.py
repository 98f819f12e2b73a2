"""The live page in a real browser, on a real server, of run folders that grow meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from run_folders import make_run
from serving import hosted
from wardround.runs.files import GRID, Planned
from wardround.runs.stopping import STOP
from wardround.watch.app import BoardDesk, application
from wardround.watch.board import RunBoard
from watched import going

LATE = "fit: late: no reply within the deadline"
WIDER = """[...document.querySelectorAll('body *')].filter(e =>
    !e.closest('.scroll, svg, dialog, .unseen, .skip') && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.outerHTML.slice(0, 80))"""
CONTRAST = """[...document.querySelectorAll('.badge, .mood, .soft, .wrong')].every(e =>
    getComputedStyle(e).color !== getComputedStyle(document.body).backgroundColor)"""


@contextmanager
def watching(*folders: Path, **options: Any) -> Iterator[str]:
    """A page about these folders, which looks ten times a second."""
    with hosted(application(BoardDesk(RunBoard(folders, **options), seconds=0.1))) as place:
        yield place


def part(name: str) -> str:
    return f"document.querySelector('[data-part=\"{name}\"]').innerText"


def opened(browser: Browser, place: str, **options: Any) -> None:
    browser.open(place, **options)
    browser.wait("document.getElementById('line').textContent.startsWith('live')")


def test_a_run_that_goes_on_is_seen_without_a_reload(browser: Browser, tmp_path: Path) -> None:
    with going(tmp_path / "run", rounds=50) as run, watching(run.folder) as place:
        run.add(accuracy=0.25, times=3)
        opened(browser, place)
        browser.evaluate("window.mark = document.querySelector('svg.chart'), window.mark.focus()")
        before = browser.evaluate("document.querySelector('svg.chart .curve').getAttribute('d').length")
        assert "3 of 50 rounds done" in browser.evaluate(part("state"))
        run.doing("round 4, fit: 1 of 3 sites have answered")
        run.add(accuracy=0.875, times=5)
        browser.wait(f"{part('state')}.includes('8 of 50 rounds done; now round 4, fit: 1 of 3')")
        browser.wait(f"{part('figures')}.includes('0.8750')")
        assert before < browser.evaluate("document.querySelector('svg.chart .curve').getAttribute('d').length")
        assert browser.evaluate("window.mark === document.querySelector('svg.chart')")  # the page was not replaced
        assert "1 min 24 s left" in browser.evaluate(part("state"))
        assert "8.00 kB" in browser.evaluate(part("bytes"))
        seen = browser.seen()
        assert () == seen.complaints
        assert {place} == {request[: len(place)] for request in seen.requests}


def test_a_site_drops_out_and_comes_back_and_it_is_read_out(browser: Browser, tmp_path: Path) -> None:
    with going(tmp_path / "run") as run, watching(run.folder) as place:
        run.add()
        opened(browser, place)
        run.add(left_out={"<b>south</b>": LATE})
        browser.wait(f"{part('sites')}.includes('left out: {LATE}')")
        assert "<b>south</b>" in browser.evaluate(part("sites"))
        assert 0 == browser.evaluate("document.querySelectorAll('[data-part] b').length")
        browser.wait("document.getElementById('news').textContent.includes('was left out')")
        assert LATE in browser.evaluate(part("refused"))
        run.add()
        browser.wait("document.getElementById('news').textContent.endsWith('is back')")
        browser.wait(f"!{part('sites')}.includes('left out: {LATE}')")


def test_a_grid_of_a_hundred_cells_is_a_table_that_fills(browser: Browser, tmp_path: Path) -> None:
    grid = tmp_path / "grid"
    labels = [f"fedprox,mu={mu},seed={seed}" for mu in (0, 0.01, 0.1, 1) for seed in range(25)]
    grid.mkdir()
    GRID.write(grid, [Planned(label=label, folder=label, rounds=2) for label in labels])
    for seed, label in enumerate(labels[:60]):
        make_run(grid / label, "fedprox", seed, [0.5, 0.6])
    with watching(grid) as place:
        opened(browser, place)
        rows = "document.querySelectorAll('[data-part=cells] tbody tr').length"
        finished = "document.querySelectorAll('[data-part=cells] .badge.finished').length"
        assert (100, 60) == (browser.evaluate(rows), browser.evaluate(finished))
        for seed, label in enumerate(labels[60:], 60):
            make_run(grid / label, "fedprox", seed, [0.5, 0.9])
        browser.wait(f"{finished} === 100")
        assert "100 of 100 runs finished" in browser.evaluate(part("state"))
        assert "0.9000" in browser.evaluate(part("figures"))
        browser.point("[data-part=cells] tbody tr:nth-child(61) a", click=True)
        browser.wait("document.querySelector('h1') && location.pathname === '/run/60'")
        browser.wait("document.querySelector('[data-part=figures] svg')")
        assert () == browser.seen().complaints


def test_hours_of_events_do_not_make_the_page_grow(browser: Browser, tmp_path: Path) -> None:
    with going(tmp_path / "run", rounds=100_000) as run, watching(run.folder) as place:
        nodes = "document.querySelectorAll('*').length"
        turns = 200
        for _ in range(turns):
            run.add()
            run.add(left_out={"south": LATE})
        opened(browser, place)
        browser.wait(f"{part('state')}.includes('400 of')")
        before = browser.evaluate(nodes)
        for _ in range(3):
            for _ in range(turns):
                run.add(times=9)
                run.add(left_out={"south": LATE})
            browser.wait(f"{part('state')}.includes('{run.round:,} of')")
        browser.wait(f"{part('log')}.includes('earlier events not shown')")
        assert browser.evaluate(nodes) <= before + 50


def test_a_folder_that_is_deleted_is_told_and_the_page_stays(browser: Browser, tmp_path: Path) -> None:
    with going(tmp_path / "run") as run, watching(run.folder) as place:
        run.add()
        opened(browser, place)
        run.delete()
        browser.wait(f"{part('state')}.includes('is not there any more')")
        assert "live" in browser.evaluate("document.getElementById('line').textContent")
        assert () == browser.seen().complaints


def test_a_server_that_is_gone_is_told(browser: Browser, tmp_path: Path) -> None:
    with going(tmp_path / "run") as run:
        run.add()
        with watching(run.folder) as place:
            opened(browser, place)
        browser.wait("document.getElementById('line').textContent.startsWith('No connection since')")


def test_a_run_is_stopped_only_after_a_second_thought(browser: Browser, tmp_path: Path) -> None:
    """By the keyboard alone."""
    with going(tmp_path / "run") as run, watching(run.folder) as place:
        run.add()
        opened(browser, place)
        browser.evaluate("document.querySelector('[data-stop]').focus()")
        for answer in ("stop-no", "stop-yes"):
            assert not (run.folder / STOP).exists()
            press_enter(browser)
            browser.wait("document.getElementById('stop').open")
            assert "stop-no" == browser.evaluate("document.activeElement.id")
            browser.evaluate(f"document.getElementById('{answer}').focus()")
            press_enter(browser)
            browser.wait("!document.getElementById('stop').open")
        browser.wait(f"{part('state')}.includes('It will stop after this round')")
        assert (run.folder / STOP).exists()
        assert () == browser.seen().complaints


def press_enter(browser: Browser) -> None:
    for kind in ("rawKeyDown", "char", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r", windowsVirtualKeyCode=13)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_told(browser: Browser, tmp_path: Path) -> None:
    with going(tmp_path / "run") as run, watching(run.folder) as place:
        run.folder.chmod(0o500)
        opened(browser, place)
        browser.evaluate("document.querySelector('[data-stop]').click()")
        browser.evaluate("document.getElementById('stop-yes').click()")
        browser.wait("document.getElementById('stop-error').textContent.includes('cannot be written to')")
        run.folder.chmod(0o700)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(browser: Browser, tmp_path: Path, width: int, *, dark: bool) -> None:
    sites = [f"university-hospital-of-{'x' * 30}-{number}" for number in range(4)]
    with going(tmp_path / ("long name " * 8), sites=sites) as run, watching(run.folder) as place:
        run.add(times=5)
        run.add(left_out={sites[0]: LATE + " " + "y" * 60})
        opened(browser, place, width=width, dark=dark)
        assert [] == browser.evaluate(WIDER)
        assert width == browser.evaluate("document.documentElement.scrollWidth")
        assert browser.evaluate(CONTRAST)
        assert () == browser.seen().complaints
