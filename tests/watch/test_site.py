"""A hospital's page: what is asked, what left, what was refused, and what an officer can print."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from loopback import Exchange, ask, put
from serving import hosted, send
from study_files import cli
from wardround import __version__
from wardround.consortium.private_site import JOURNAL
from wardround.consortium.submit import submit
from wardround.core.doing import NOTICE
from wardround.core.lock import sole
from wardround.core.method import Global
from wardround.core.private_steps import Look
from wardround.core.weights import Weights
from wardround.layers.ledger import Chain
from wardround.privacy.journal import BudgetJournal, Entry
from wardround.runs.errors import RunError
from wardround.runs.files import SITES, GreetedSite
from wardround.study.load import Study, cells
from wardround.watch.app import BoardDesk, application
from wardround.watch.house import House
from wardround.watch.officer import SiteBoard, officers_page

NAMES = ("site-0", "site-1", "site-2")


def study_of(**changes: Any) -> Study:
    tables = {
        "name": "north", "rounds": 3, "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 400}, "partition": {"name": "iid", "sites": 3},
        **changes,
    }  # fmt: skip
    return cells(tables)[0].study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that took part in a run, and refused a message and a study."""
    place = tmp_path_factory.mktemp("x")
    study = study_of()
    with Exchange(place, study, NAMES) as exchange:
        submit(study, place / "run", exchange.over)
        other = study_of(seed=7)
        for of, times in ((other, 2), (study, 1)):
            for _ in range(times):
                put(exchange.sites["site-0"], *ask(of, Global(Weights({}))))
    return place / "site-0"


@pytest.fixture
def house(folder: Path) -> House:
    seen = House(folder)
    seen.look()
    return seen


def test_how_sites_were_at_the_start_is_in_the_run_folder(folder: Path, house: House) -> None:
    (agreed,) = house.agreed
    assert agreed.approval
    member = GreetedSite(left=agreed.approval.exchanges, version=__version__)
    assert dict.fromkeys(NAMES, member) == SITES.read(folder.parent / "run")


def test_what_left_is_what_the_ledger_has(house: House, folder: Path) -> None:
    lines = [json.loads(raw) for raw in (folder / "ledger" / "site.jsonl").read_text(encoding="utf-8").splitlines()]
    sent = [line["sent"] for line in lines if "sent" in line]
    (run,) = house.account.runs.values()
    assert (len(sent), sum(one["bytes"] for one in sent), 3, "ended") == (run.times, run.bytes, run.rounds, run.state)
    assert len(sent) == sum(day.times for day in house.account.days.values())
    assert "" == house.account.broken
    assert len(lines) == house.account.lines
    assert {"study", "message"} <= {why for _, _, why in house.account.refused}
    (agreed,) = house.agreed
    assert agreed.approval
    assert agreed.approval.exchanges - len(sent) == agreed.left
    assert agreed.name.startswith("north (")


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ([], "open"),
        ([{"ended": True, "whole": False}], "stopped"),
        ([{"ended": True, "whole": True}], "ended"),
        ([{"ended": True}], "ended"),  # of a ledger that says less
        ([{"ended": True, "whole": False}, {"model": {"bytes": 5}}], "ended"),
        ([{"ended": True, "whole": False}, {"sent": {"kind": "Update", "bytes": 5}, "round": 2}], "open"),
    ],
)
def test_a_run_that_may_be_taken_up_again_has_stopped_and_not_ended(
    tmp_path: Path, said: list[dict[str, Any]], state: str
) -> None:
    (tmp_path / "site.toml").write_text('name = "charite"\n', encoding="utf-8")
    run = {"study": "5" * 16, "run": "a" * 16}
    chain = Chain(tmp_path / "ledger" / "site.jsonl")
    for line in [{"sent": {"kind": "Update", "bytes": 5}, "round": 1}, *said]:
        chain.append({"time": "2026-11-18T13:00:00+00:00", **run, **line})
    chain.flush()
    seen = House(tmp_path)
    seen.look()
    assert [state] == [one.state for one in seen.account.runs.values()]
    assert f">{state}<" in officers_page(seen)


def test_a_line_more_is_seen_and_a_changed_one_is_told(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "site"
    copy.mkdir()
    (copy / "site.toml").write_bytes((folder / "site.toml").read_bytes())
    (copy / "ledger").mkdir()
    raw = (folder / "ledger" / "site.jsonl").read_bytes().splitlines(keepends=True)
    path = copy / "ledger" / "site.jsonl"
    path.write_bytes(b"".join(raw[:-1]))
    seen = House(copy)
    seen.look()
    assert (len(raw) - 1, "") == (seen.account.lines, seen.account.broken)
    with path.open("ab") as file:
        file.write(raw[-1].replace(b'"refused"', b'"refusee"', 1))
    seen.look()
    assert f"{path}:{len(raw)}: the chain is broken here" in seen.account.broken
    assert f"{path}:{len(raw)}" in officers_page(seen)


def test_the_officers_page_says_what_was_approved_left_and_refused(folder: Path, tmp_path: Path) -> None:
    ended = cli("ledger", "page", folder, "--out", "page.html", cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for words in ("site-0: what was approved, and what left", "its chain is intact", "<h3>Update</h3>", "in all",
                  "Left in north (", "this site has not approved this study"):  # fmt: skip
        assert words in text
    assert "<script" not in text
    ended = cli("ledger", "page", tmp_path, "--out", "other.html", cwd=tmp_path)
    assert 2 == ended.code
    assert "is not a site's folder" in ended.err


def test_the_officer_reads_once_what_a_message_tells_however_many_studies_have_it(folder: Path) -> None:
    seen = House(folder)
    seen.look()
    (first,) = {study for _, study, _ in seen.account.days}
    for other, about in (("e" * 16, None), ("f" * 16, "As of `another` version.")):
        for (day, study, kind), one in list(seen.account.days.items()):
            if study == first and kind == "Update":
                seen.account.days[day, other, kind] = one
                known = seen.account.kinds[first, kind]
                seen.account.kinds[other, kind] = replace(known, about=about) if about else known
    blocks = [block.split("</div>")[0] for block in officers_page(seen).split("<h3>Update</h3>")[1:]]
    assert [(False, True), (True, False)] == sorted(("eeeeeeee" in block, "ffffffff" in block) for block in blocks)
    assert "As of <code>another</code> version." in officers_page(seen)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no site\.toml"):
        SiteBoard(tmp_path)


def test_a_site_has_numbers_for_other_programs_and_nothing_to_stop(folder: Path) -> None:
    with hosted(application(BoardDesk(SiteBoard(folder)))) as place:
        lines = send(place, "/metrics")[2].decode().splitlines()
        assert any(line.startswith('wardround_site_refusals_total{reason="study"} ') for line in lines)
        assert any(line.startswith('wardround_site_answers_left{study="north (') for line in lines)
        assert 404 == send(place, "/stop/0", {})[0]


def test_what_is_asked_now_is_seen_as_it_comes(browser: Browser, folder: Path) -> None:
    now = "document.querySelector('[data-part=now]').innerText"
    with sole(folder / ".lock"), hosted(application(BoardDesk(SiteBoard(folder), seconds=0.1))) as place:
        browser.open(place)
        browser.wait(f"{now}.includes('nothing is asked now')")
        (folder / NOTICE).write_text("north, round 2: fit")
        browser.wait(f"{now}.includes('north, round 2: fit')")
        (folder / NOTICE).unlink()
        browser.wait(f"{now}.includes('nothing is asked now')")
        assert () == browser.seen().complaints


@pytest.mark.parametrize("width", [360, 1280])
def test_the_officers_page_opens_alone_and_prints(
    browser: Browser, folder: Path, house: House, tmp_path: Path, width: int
) -> None:
    page = tmp_path / "page.html"
    page.write_text(officers_page(house), encoding="utf-8")
    seen = browser.open(page, width=width)
    assert ((page.as_uri(),), ()) == (seen.requests, seen.complaints)
    assert width == browser.evaluate("document.documentElement.scrollWidth")
    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert folder.is_dir()


def test_what_studies_cost_in_differential_privacy_is_told_and_what_is_left(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    (tmp_path / "site.toml").write_text('name = "a"\n[data]\nformat = "csv"\n[budget]\nepsilon = 8.0\ndelta = 1e-4\n')
    seen = House(tmp_path)
    seen.look()
    assert [] == seen.costs
    journal = BudgetJournal(tmp_path / JOURNAL)
    look = Look("train", 1.0, 0.1, 10)
    journal.spend(Entry("ab" * 8, "north", "run", "key", look, 3, 3.0, 1e-5, 0.1, "patient"))
    seen.look()
    (cost,) = seen.costs
    assert (journal.spent[0], 3.0, "patient") == (cost.spent, cost.planned, cost.unit)
    text = officers_page(seen)
    assert f"Left: ε = {8 - cost.spent:.3f}, δ = 9e-05." in text
    assert "one patient" in text
