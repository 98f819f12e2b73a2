"""A run folder as it is now: what is read of it, and that no memory grows with it."""

import json
import shutil
import time
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from run_folders import make_run
from wardround.core.doing import ASKED
from wardround.core.lock import held, sole
from wardround.core.tail import Tail
from wardround.runs.errors import RunError
from wardround.runs.files import GRID, JOURNAL, SITES, GreetedSite, Planned
from wardround.watch.board import RunBoard
from wardround.watch.curve import POINTS, ThinnedCurve
from wardround.watch.events import MOST
from wardround.watch.gauges import exposition
from wardround.watch.run import WatchedRun
from wardround.watch.sites import sites_of
from wardround.watch.words import span
from watched import going

LATE = "fit: late: no reply within the deadline"


def events(run: WatchedRun) -> list[str]:
    return [event.text for event in run.log.lines]


def test_a_tail_gives_whole_lines_once_and_begins_again_where_the_file_is_another(tmp_path: Path) -> None:
    path, forgotten = tmp_path / "a.jsonl", []
    tail = Tail(path, lambda: forgotten.append(True))
    assert [] == list(tail)
    path.write_text("one\ntwo\nthr")
    assert ["one\n", "two\n"] == list(tail)
    with path.open("a") as file:
        file.write("ee\n")
    assert ["three\n"] == list(tail)
    (tmp_path / "new").write_text("other\n")
    (tmp_path / "new").replace(path)
    assert (["other\n"], 2) == (list(tail), len(forgotten))
    path.write_text("")
    assert ([], 3) == (list(tail), len(forgotten))


def test_of_a_long_file_only_the_end_may_be_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{number}\n" for number in range(10_000)))
    assert ["9998\n", "9999\n"] == list(Tail(path, last=12))


def test_what_happened_while_nobody_looked_is_told_with_the_time_of_its_round(tmp_path: Path) -> None:
    with going(tmp_path / "run", sites=("north", "south")) as live:
        SITES.write(live.folder, {name: GreetedSite(state="", left=9, version="") for name in ("north", "south")})
        run = WatchedRun(live.folder, now=lambda: time.time() + 3600)  # an hour later
        run.look()
        live.add(left_out={"south": LATE})
        began = time.time()
        live.add()
        run.look()
    assert ["south was left out (fit: late: no reply within the deadline)", "south is back"] == events(run)
    assert all(event.time is not None and abs(event.time - began) < 60 for event in run.log.lines)
    assert all(abs(run.heard[name] - began) < 60 for name in ("north", "south"))


def test_a_run_that_is_deleted_before_anybody_looks_is_told_of(tmp_path: Path) -> None:
    make_run(tmp_path / "one", values=[0.5])
    make_run(tmp_path / "two", values=[0.5])
    boards = [RunBoard([tmp_path / "two"]), RunBoard([tmp_path / "one", tmp_path / "two"])]
    shutil.rmtree(tmp_path / "two")
    for board in boards:
        board.look()
        view = board.view("")
        assert view
        assert "gone" in "".join(str(part.markup) for part in view.parts)


def test_a_grid_can_be_stopped_between_two_of_its_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    GRID.write(tmp_path, [Planned(label=name, folder=name, rounds=1) for name in ("seed=0", "seed=1")])
    with going(tmp_path / "seed=0", rounds=1) as live:
        live.add()
        board = RunBoard([tmp_path])

        def shown() -> list[bool]:
            board.look()
            view = board.view("")
            assert view
            markup = str(view.parts[0].markup)
            return [words in markup for words in ("1 run at work", "0 runs at work", 'data-stop="grid-0"')]

        assert [True, False, True] == shown()
    assert [False, True, True] == shown()
    monkeypatch.setattr("wardround.watch.board.GAP", 0.0)  # nothing came after it
    assert [False, False, False] == shown()


def test_a_lock_is_seen_without_being_taken(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    assert held(path) is False
    with sole(path):
        assert held(path) is True
    assert held(path) is False


def test_a_run_tells_how_far_it_is_and_how_long_it_will_take(tmp_path: Path) -> None:
    with going(tmp_path / "run", rounds=50) as live:
        run = WatchedRun(live.folder)
        live.add(accuracy=0.5, times=10)
        run.look()
        assert ("running", 10, 50) == (run.state, run.round, run.rounds)
        assert 80.0 == run.left
        assert "accuracy" == run.main
        live.add(accuracy=0.75)
        run.look()
        assert ((11, 0.75), (11, 0.75)) == (run.seen.curves["accuracy"].last, run.seen.curves["accuracy"].best)
        assert {"up": 11000, "down": 9900, "evaluation_up": 550, "evaluation_down": 8800} == run.seen.bytes
    run.look()
    assert "stopped" == run.state
    assert "it has stopped before its last round; go on with --resume" == events(run)[-1]


def test_a_site_that_drops_out_and_comes_back_is_told_once_each(tmp_path: Path) -> None:
    with going(tmp_path / "run") as live:
        run = WatchedRun(live.folder)
        live.add()
        run.look()
        live.add(left_out={"south": LATE}, times=3)
        run.look()
        assert ("south", "bad", f"left out: {LATE}") == next((s.name, s.mood, s.state) for s in sites_of(run))
        live.add(times=2)
        run.look()
        assert [f"south was left out ({LATE})", "south is back"] == events(run)
        state = next(site for site in sites_of(run) if site.name == "south")
        assert ("good", "taking part") == (state.mood, state.state)
        assert (3, f"round 4: {LATE}") == (state.absent, state.why)
        assert {LATE: 3} == run.seen.refusals
    run.look()
    assert {"took part"} == {site.state for site in sites_of(run)}


def test_whom_a_round_waits_for_is_working_and_then_late(tmp_path: Path) -> None:
    with going(tmp_path / "run") as live:
        live.add()
        now = time.time()
        state = {"round": 2, "step": "fit", "since": now - 5, "asked": ["north", "south"], "answered": {"north": now}}
        (live.folder / ASKED).write_text(json.dumps(state))
        SITES.write(live.folder, {"south": GreetedSite(left=7, version="0.2.0")})
        for waits, mood in ((0.0, "busy"), (60.0, "late")):
            run = WatchedRun(live.folder, now=partial(float, now + waits))
            run.look()
            sites = {site.name: site for site in sites_of(run)}
            assert ("good", mood) == (sites["north"].mood, sites["south"].mood)
            assert ("7 answers at the start", "0.2.0") == (sites["south"].left, sites["south"].version)


def test_a_folder_that_is_deleted_or_broken_is_told_and_not_an_error(tmp_path: Path) -> None:
    with going(tmp_path / "run") as live:
        run = WatchedRun(live.folder)
        live.add()
        run.look()
        with (live.folder / JOURNAL).open("a") as file:
            file.write("{broken\n")
        run.look()
        assert "a line cannot be read" in run.problem
        live.add()
        run.look()
        assert 2 == run.round
        (live.folder / "study.toml").write_text("= 1")
        run.look()
        assert "is not valid TOML" in run.problem
        live.delete()
        run.look()
    assert "gone" == run.state
    assert "not there any more" in run.problem
    make_run(live.folder, values=[0.5, 0.6])
    run.look()
    assert ("finished", 2) == (run.state, run.round)


def test_that_a_folder_is_gone_is_said_once(tmp_path: Path) -> None:
    with going(tmp_path / "run") as run:
        board = RunBoard([run.folder])
        board.look()
        run.delete()
        board.look()
        view = board.view("0")
    assert view
    assert 1 == str(view.parts[0].markup).count("it was moved or deleted")


def test_thousands_of_rounds_take_no_more_memory_than_hundreds(tmp_path: Path) -> None:
    with going(tmp_path / "run", rounds=100_000) as live:
        run = WatchedRun(live.folder)

        def longer(times: int) -> int:
            for _ in range(times):
                live.add(times=90)
                live.add(left_out={"south": LATE}, times=10)
                run.look()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            few = longer(6)
            many = longer(20)
        finally:
            tracemalloc.stop()
        assert 2_600 == run.round
        assert many - few < 200_000  # bytes: what is bounded fills up, and nothing else grows
        assert len(run.log.lines) <= MOST
        assert len(run.seen.curves["accuracy"].points) <= POINTS


def test_a_thinned_curve_keeps_its_course_its_best_and_its_end() -> None:
    curve = ThinnedCurve()
    for round_ in range(1, 5001):
        curve.add(round_, float(round_ % 1000), lower=False)
    assert (999, 999.0) == curve.best
    assert (5000, 0.0) == curve.drawn[-1]
    assert 1 == curve.drawn[0][0]
    assert [point[0] for point in curve.drawn] == sorted(point[0] for point in curve.drawn)


def test_a_grid_has_all_its_cells_before_they_begin(tmp_path: Path) -> None:
    grid = tmp_path / "grid"
    grid.mkdir()
    GRID.write(
        grid, [Planned(label=f"fedavg,seed={seed}", folder=f"fedavg,seed={seed}", rounds=2) for seed in range(5)]
    )
    board = RunBoard([grid])
    board.look()
    assert ["waiting"] * 5 == [run.state for run in board.runs.values()]
    make_run(grid / "fedavg,seed=3", seed=3, values=[0.5, 0.6])
    board.look()
    states = {run.label: run.state for run in board.runs.values()}
    assert 1 == list(states.values()).count("finished")
    assert "finished" == states["fedavg,seed=3"]


def test_what_holds_no_run_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such folder"):
        RunBoard([tmp_path / "none"])
    with pytest.raises(RunError, match="holds no run"):
        RunBoard([tmp_path])


def test_numbers_for_other_programs_are_in_their_format(tmp_path: Path) -> None:
    make_run(tmp_path / 'a"b', values=[0.5, 0.75])
    board = RunBoard([tmp_path / 'a"b'])
    board.look()
    lines = exposition(board.samples()).splitlines()
    assert 'wardround_run_figure{run="a\\"b",figure="accuracy"} 0.75' in lines
    assert 'wardround_run_finished{run="a\\"b"} 1' in lines
    assert "# TYPE wardround_run_bytes_total counter" in lines
    named = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (3720, "1 h 2 min"), (90000, "1 day 1 h"),
     (20 * 86400 + 3600, "20 days")],
)  # fmt: skip
def test_spans_of_time_are_short(seconds: float, words: str) -> None:
    assert words == span(seconds)
