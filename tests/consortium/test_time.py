"""A study that goes on for nights and weeks, over real sites: it waits, says so, and gives the same bits."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from loopback import Exchange
from study_files import result_of
from wardround.cli.status import _standing
from wardround.consortium.submit import submit
from wardround.consortium.submitted import FILE, MOST, note_run, submitted
from wardround.layers.ledger import lines
from wardround.runs.files import Round
from wardround.runs.stopping import Stopped, ask_to_stop
from wardround.runs.window import Clock
from wardround.study.load import Study, cells

SITES = ("site-0", "site-1")
TABLES: dict[str, Any] = {
    "name": "nightly", "rounds": 3, "method": {"name": "scaffold"}, "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 2, "largest": 400}, "partition": {"name": "iid", "sites": 2},
}  # fmt: skip


def study_of(**more: Any) -> Study:
    return cells({**TABLES, **more})[0].study


def test_over_real_sites_rounds_start_at_night_and_the_sites_are_free_by_day(tmp_path: Path) -> None:
    night = study_of(schedule={"window": "22:00-06:00", "zone": "UTC"})
    now = datetime(2026, 11, 17, 15, tzinfo=UTC)
    out, starts, printed = tmp_path / "run", list[int](), list[str]()
    waits: list[tuple[str, bool]] = []

    def sleep(_: float) -> None:
        nonlocal now
        if now.minute == 0 and now.hour == 15:
            ended = "ended" in list(lines(tmp_path / "site-0" / "ledger" / "site.jsonl"))[-1]
            waits.append((_standing(out), ended))
        now += timedelta(minutes=15)

    def worked(line: Round) -> None:
        nonlocal now
        starts.append(now.hour)
        now += timedelta(hours=17)
        if line.round == 2:
            ask_to_stop(out)

    with Exchange(tmp_path, night, SITES) as exchange:
        submit(study_of(), tmp_path / "whole", exchange.over)
        with pytest.raises(Stopped):
            submit(night, out, exchange.over, progress=worked, say=printed.append, clock=Clock(lambda: now, sleep))
        submit(night, out, exchange.over, progress=worked, resume=True, clock=Clock(lambda: now, sleep))
        words = "waiting for the window 22:00-06:00, which opens on"
        first, second, third = waits
        assert (f"run in {out}: {words} Tue 17 Nov at 22:00 UTC") == first[0]
        assert (f"nightly in {out}: 1 of 3 rounds done; {words} Wed 18 Nov at 22:00 UTC", True) == second
        assert f"nightly in {out}: 2 of 3 rounds done; {words} Thu 19 Nov at 22:00 UTC" == third[0]
        assert [22, 22, 22] == starts
        assert ["site-0: ready", "site-1: ready"] == printed[:2]  # by day, when what is wrong can be mended
        assert result_of(tmp_path / "whole") == result_of(out)
        assert [tmp_path / "whole", out] == [Path(place) for place in submitted(exchange.over.folder)]


def test_a_consortium_remembers_its_newest_runs_over_restarts(tmp_path: Path) -> None:
    for number in [*range(MOST + 2), MOST]:
        note_run(tmp_path, tmp_path / str(number), f"study {number}")
    kept = [Path(place).name for place in submitted(tmp_path)]
    assert [*map(str, range(2, MOST)), str(MOST + 1), str(MOST)] == kept
    (tmp_path / FILE).write_text("{")
    assert {} == submitted(tmp_path)
