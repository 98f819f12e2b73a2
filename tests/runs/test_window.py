"""A run whose rounds may start at night only: it waits, says until when, and gives the bits of one that does not."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from study_files import result_of
from wardround.cli.progress import Single
from wardround.core.doing import read_notice
from wardround.runs.files import JOURNAL, Round, read_journal
from wardround.runs.loop import run
from wardround.runs.stopping import Stopped, ask_to_stop
from wardround.runs.window import Clock
from wardround.study.load import Study, cells
from wardround.watch.run import WatchedRun
from wardround.watch.words import standing

TABLES: dict[str, Any] = {
    "name": "nightly",
    "rounds": 6,
    "method": {"name": "scaffold", "lr": 0.1},
    "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 3},
}
WORDS = "waiting for the window 22:00-06:00, which opens on"


def nightly(window: str = "22:00-06:00") -> Study:
    return cells({**TABLES, "schedule": {"window": window, "zone": "UTC"}})[0].study


@dataclass
class Days:
    """A clock that goes on by a quarter of an hour with each look, and by hours with each round."""

    time: datetime
    slept: Callable[[], None] = lambda: None
    naps: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time += timedelta(minutes=15)
        self.slept()

    def worked(self, _: Round) -> None:
        self.time += timedelta(hours=3)

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, self.sleep)


def test_rounds_start_within_the_window_only_and_give_the_same_bits(tmp_path: Path) -> None:
    run(cells(TABLES)[0].study, tmp_path / "whole")
    days, starts, shown = Days(datetime(2026, 11, 17, 15, tzinfo=UTC)), [], list[str]()

    def worked(line: Round) -> None:
        starts.append(days.time.hour)
        days.worked(line)

    run(nightly(), tmp_path / "run", progress=worked, clock=days.clock, show=shown.append)
    assert [22, 1, 4, 22, 1, 4] == starts  # the third ends at 7 o'clock: what has started is brought to its end
    assert [7 * 3600.0, 0, 0, 15 * 3600.0, 0, 0] == [line.waited for line in read_journal(tmp_path / "run")]
    assert [f"{WORDS} Tue 17 Nov at 22:00 UTC", f"{WORDS} Wed 18 Nov at 22:00 UTC"] == [
        words for words in shown if words.startswith("waiting")
    ]
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "run")


def test_one_that_is_killed_while_it_waits_goes_on_the_next_night_with_another_window(tmp_path: Path) -> None:
    run(cells(TABLES)[0].study, tmp_path / "whole")
    days = Days(datetime(2026, 11, 17, 22, tzinfo=UTC))

    def killed() -> None:
        raise KeyboardInterrupt

    days.slept = killed
    with pytest.raises(KeyboardInterrupt):
        run(nightly(), tmp_path / "run", progress=days.worked, clock=days.clock, checkpoint_seconds=3600.0)
    assert [1, 2, 3] == [line.round for line in read_journal(tmp_path / "run")]  # all that is done is kept by day
    days.slept = lambda: None
    run(nightly("12:00-13:00"), tmp_path / "run", resume=True, progress=days.worked, clock=days.clock)
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "run")


def test_whoever_watches_sees_that_it_waits_and_until_when_and_can_stop_it(tmp_path: Path) -> None:
    days, watched = Days(datetime(2026, 11, 18, 4, tzinfo=UTC)), WatchedRun(tmp_path / "run")

    def slept() -> None:
        watched.look()
        ask_to_stop(tmp_path / "run")

    days.slept = slept
    with pytest.raises(Stopped, match="stopped while it waited for its window, as was asked; nothing is lost"):
        run(nightly(), tmp_path / "run", progress=days.worked, clock=days.clock)
    assert "waiting" == watched.state
    assert f"1 of 6 rounds done; {WORDS} Wed 18 Nov at 22:00 UTC" == standing(watched)
    assert "" == read_notice(tmp_path / "run")


def test_the_terminal_says_that_a_run_waits_even_if_it_has_figures(capfd: pytest.CaptureFixture[str]) -> None:
    with Single(nightly(), quiet=False) as progress:
        progress.line(Round(round=1, metrics={"accuracy": 0.5}))
        progress.doing("reading the data")
        progress.doing(f"{WORDS} Wed 18 Nov at 22:00 UTC")
    printed = capfd.readouterr().err
    assert (f"nightly: {WORDS} Wed 18 Nov at 22:00 UTC\n", False) == (
        printed.splitlines(True)[-1],
        "reading" in printed,
    )


def test_a_run_that_is_taken_up_again_counts_what_it_had_sent_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = [Round(round=number, up=1_000_000).model_dump_json() for number in (1, 2, 3)]
    (tmp_path / JOURNAL).write_text("\n".join(before) + "\n", encoding="utf-8")
    with Single(nightly(), quiet=False, out=tmp_path) as progress:
        progress.line(Round(round=3, up=500_000, metrics={"accuracy": 0.5}))  # its last round is run again
        progress.line(Round(round=6, up=500_000, metrics={"accuracy": 0.5}))
    printed = capfd.readouterr().err.splitlines()
    assert [
        "nightly: round 3/6  accuracy 0.5000  2.50 MB up",
        "nightly: round 6/6  accuracy 0.5000  3.00 MB up",
    ] == printed
