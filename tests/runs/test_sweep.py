"""A grid: its cells side by side, their summary, failures that stay where they are, and going on."""

import json
import os
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest

from study_files import PAUSING, cli, listing, paused, result_of, small_study, start, wait_for, write_module
from wardround.runs.sweep import CellState, summary
from wardround.study.load import load_study

QUIET = ("--workers", 2, "--quiet")

FRAGILE = """
import sys
from dataclasses import dataclass
from pathlib import Path
from wardround.extend import FedAvg

@dataclass(frozen=True, kw_only=True)
class Fragile(FedAvg):
    "FedAvg that fails while a file `harm` lies beside it, and says a lot."
    breaks: bool = False

    def round(self, state, cohort):
        print("." * 100_000, file=sys.stderr)
        if self.breaks and (Path(__file__).parent / "harm").exists():
            raise RuntimeError("harm [bold] is there")
        return super().round(state, cohort)
"""


def grid_study(folder: Path, **changes: Any) -> Path:
    grid = {"method": [{"name": "fedavg"}, {"name": "scaffold"}]}
    return small_study(folder, seeds=[1, 2], grid=grid, **changes)


def cell_states(path: Path, out: Path, *changes: str) -> list[CellState]:
    return [CellState(cell, out / cell.label) for cell in load_study(path, changes)]


def test_a_grid_gives_what_its_cells_give_alone(tmp_path: Path) -> None:
    path = grid_study(tmp_path)
    ended = cli("run", path, "--out", "grid", *QUIET, cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    cells = load_study(path)
    labels = {cell.label for cell in cells}
    assert labels | {"grid.json"} == {path.name for path in (tmp_path / "grid").iterdir()}
    for cell in cells:
        alone = tmp_path / f"{cell.label}.toml"
        alone.write_text(cell.study.toml())
        cli("run", alone, "--out", f"alone/{cell.label}", "--workers", 1, "--quiet", cwd=tmp_path)
        assert result_of(tmp_path / "alone" / cell.label) == result_of(tmp_path / "grid" / cell.label)

    rows = summary(cell_states(path, tmp_path / "grid"))
    assert ["fedavg", "scaffold"] == [row["label"] for row in rows]
    assert [[1, 2], [1, 2]] == [row["seeds"] for row in rows]
    for row in rows:
        actual = [
            json.loads((tmp_path / "grid" / f"{row['label']},seed={seed}" / "metrics.json").read_text())
            for seed in (1, 2)
        ]
        for metric in ("accuracy", "macro_f1", "loss"):
            final, best = ([t["final"][metric] for t in actual], [t["best"][metric]["value"] for t in actual])
            assert {"mean": statistics.mean(final), "sd": statistics.stdev(final)} == row["final"][metric]
            assert {"mean": statistics.mean(best), "sd": statistics.stdev(best)} == row["best"][metric]
        accuracy = row["final"]["accuracy"]
        shown = f"{accuracy['mean']:.4f} ± {accuracy['sd']:.4f}"
        assert any(row["label"] in line and "accuracy" in line and shown in line for line in ended.out.splitlines())


def test_seeds_alone_are_summed_up_under_the_studys_name(tmp_path: Path) -> None:
    path = small_study(tmp_path, seeds=[3, 4])
    cli("run", path, "--out", "grid", *QUIET, cwd=tmp_path)
    rows = summary(cell_states(path, tmp_path / "grid"))
    assert [("small", [3, 4])] == [(row["label"], row["seeds"]) for row in rows]


def test_one_seed_has_no_spread_and_what_is_not_done_is_not_counted(tmp_path: Path) -> None:
    path = small_study(tmp_path, seeds=[3, 4])
    cli("run", path, "--out", "grid", *QUIET, cwd=tmp_path)
    (tmp_path / "grid" / "seed=4" / "metrics.json").unlink()
    (row,) = summary(cell_states(path, tmp_path / "grid"))
    assert ([3], 0.0) == (row["seeds"], row["final"]["accuracy"]["sd"])


def test_cells_of_unequal_rounds_are_never_averaged(tmp_path: Path) -> None:
    path = small_study(tmp_path, seeds=[3, 4, 5])
    cli("run", path, "--out", "grid", *QUIET, cwd=tmp_path)
    metrics = tmp_path / "grid" / "seed=4" / "metrics.json"
    ended = json.loads(metrics.read_text())
    metrics.write_text(json.dumps({**ended, "rounds": 2}))
    rows = summary(cell_states(path, tmp_path / "grid"))
    assert [([2], [4]), ([3], [3, 5])] == [(row["rounds"], row["seeds"]) for row in rows]
    assert ended["final"]["accuracy"] == rows[0]["final"]["accuracy"]["mean"]


def test_a_grid_of_which_every_cell_fails_is_not_called_complete(tmp_path: Path) -> None:
    write_module(tmp_path, FRAGILE)
    (tmp_path / "harm").touch()
    small_study(tmp_path, seeds=[3, 4], method={"name": "mine:Fragile", "breaks": True})
    ended = cli("run", "study.toml", "--out", "grid", "--quiet", cwd=tmp_path)
    last = "2 of 2 cells failed; mend it, then go on with: wardround run study.toml --out grid --resume"
    assert (1, last) == (ended.code, ended.err.splitlines()[-1])
    assert "complete" not in ended.err
    assert "cell" not in ended.out, "a table of nothing"


def test_a_cell_that_fails_does_not_stop_the_others_and_going_on_does_only_what_is_missing(tmp_path: Path) -> None:
    write_module(tmp_path, FRAGILE)
    (tmp_path / "harm").touch()
    methods = [{"name": "fedavg"}, {"name": "mine:Fragile", "breaks": True}, {"name": "mine:Fragile", "breaks": False}]
    path = small_study(tmp_path, grid={"method": methods})
    arguments = ("run", "study.toml", "--out", "grid", *QUIET)
    ended = cli(*arguments, cwd=tmp_path)
    names = ["fedavg", "mine-Fragile,breaks=True", "mine-Fragile,breaks=False"]
    assert 1 == ended.code
    assert [True, False, True] == [(tmp_path / "grid" / name / "metrics.json").exists() for name in names]
    assert "mine-Fragile,breaks=True: " in ended.err
    assert "RuntimeError: harm [bold] is there" in ended.err
    last = "1 of 3 cells failed; the others are kept, go on with: wardround run study.toml --out grid --resume"
    assert last == ended.err.splitlines()[-1]
    assert ["fedavg", "mine-Fragile,breaks=False"] == [
        row["label"] for row in summary(cell_states(path, tmp_path / "grid")) if row["seeds"]
    ]

    done = {name: listing(tmp_path / "grid" / name) for name in (names[0], names[2])}
    refused = cli(*arguments, cwd=tmp_path)
    assert (2, "grid holds runs already; go on with --resume, or choose another --out\n") == (
        refused.code,
        refused.err,
    )
    (tmp_path / "harm").unlink()
    resumed = cli(*arguments, "--resume", cwd=tmp_path)
    assert (0, "") == (resumed.code, resumed.err)
    assert done == {name: listing(tmp_path / "grid" / name) for name in done}
    assert 3 == sum(bool(row["seeds"]) for row in summary(cell_states(path, tmp_path / "grid")))


def test_a_cell_that_stopped_at_its_target_is_finished(tmp_path: Path) -> None:
    path = small_study(tmp_path, seeds=[1, 2], stop={"target": 0.0, "on_test_figures": True})
    cli("run", path, "--out", "grid", *QUIET, cwd=tmp_path)
    before = listing(tmp_path / "grid")
    again = cli("run", path, "--out", "grid", *QUIET, "--resume", cwd=tmp_path)
    assert (0, before) == (again.code, listing(tmp_path / "grid"))
    assert [[1, 1]] == [row["rounds_to_target"] for row in summary(cell_states(path, tmp_path / "grid"))]


def test_raising_the_rounds_raises_them_in_every_cell(tmp_path: Path) -> None:
    path = small_study(tmp_path, seeds=[1, 2])
    cli("run", path, "--out", "grid", *QUIET, "--set", "rounds=2", cwd=tmp_path)
    assert 0 == cli("run", path, "--out", "grid", *QUIET, "--set", "rounds=4", "--resume", cwd=tmp_path).code
    cli("run", path, "--out", "whole", *QUIET, "--set", "rounds=4", cwd=tmp_path)
    for seed in (1, 2):
        assert result_of(tmp_path / "whole" / f"seed={seed}") == result_of(tmp_path / "grid" / f"seed={seed}")


def test_going_on_with_other_settings_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = small_study(tmp_path, seeds=[1, 2])
    cli("run", path, "--out", "grid", *QUIET, cwd=tmp_path)
    before = listing(tmp_path / "grid")
    ended = cli("run", path, "--out", "grid", *QUIET, "--resume", "--set", "method.lr=0.2", cwd=tmp_path)
    expected = "grid/seed=1/study.toml: the run there has other settings than this study; choose another --out\n"
    assert (2, expected) == (ended.code, ended.err)
    assert before == listing(tmp_path / "grid")


@pytest.mark.parametrize(("first", "then"), [("seeds=[1]", "seeds=[1,2]"), ("seeds=[1,2]", "seeds=[1]")])
def test_a_grid_and_a_single_run_do_not_share_a_folder(tmp_path: Path, first: str, then: str) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "out", "--set", first, *QUIET, cwd=tmp_path)
    before = listing(tmp_path / "out")
    ended = cli("run", path, "--out", "out", "--set", then, *QUIET, "--resume", cwd=tmp_path)
    assert (2, True) == (ended.code, ended.err.endswith("; choose another --out\n"))
    assert before == listing(tmp_path / "out")


def test_a_grid_that_is_killed_with_its_cells_goes_on(tmp_path: Path) -> None:
    write_module(tmp_path, PAUSING)
    path = small_study(tmp_path, seeds=[1, 2, 3], method={"name": "mine:PausingScaffold"})
    cli("run", path, "--out", "whole", *QUIET, cwd=tmp_path)
    reached = paused(tmp_path, 2, "site-01")
    running = start("run", path, "--out", "grid", *QUIET, "--checkpoint-seconds", 0, cwd=tmp_path)
    wait_for(reached.exists, running.pid)
    os.killpg(running.pid, signal.SIGKILL)
    assert -signal.SIGKILL == running.wait().code
    assert 0 == cli("run", path, "--out", "grid", *QUIET, "--resume", cwd=tmp_path).code
    for seed in (1, 2, 3):
        assert result_of(tmp_path / "whole" / f"seed={seed}") == result_of(tmp_path / "grid" / f"seed={seed}")


def test_interrupting_a_grid_stops_its_cells(tmp_path: Path) -> None:
    write_module(tmp_path, PAUSING)
    path = small_study(tmp_path, seeds=[1, 2], method={"name": "mine:PausingScaffold"})
    reached = paused(tmp_path, 2, "site-01")
    running = start("run", "study.toml", "--out", "grid", *QUIET, cwd=tmp_path)
    wait_for(reached.exists, running.pid)
    os.kill(running.pid, signal.SIGINT)  # not to the cells: the grid itself must see to them
    ended = running.wait()
    again = "wardround run study.toml --out grid --resume"
    assert (130, f"stopped; nothing is lost, go on with: {again}\n") == (ended.code, ended.err)
    assert 0 == cli("run", path, "--out", "grid", *QUIET, "--resume", cwd=tmp_path).code
