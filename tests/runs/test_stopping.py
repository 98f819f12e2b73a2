"""A run that is asked to end after its round does, loses nothing, and gives the same bits when it is taken up."""

from pathlib import Path
from typing import Any

import pytest

from study_files import cli, result_of, start, wait_for
from wardround.runs.files import METRICS, Round, read_journal
from wardround.runs.loop import run
from wardround.runs.stopping import STOP, Stopped, ask_to_stop
from wardround.study.load import cells

TABLES: dict[str, Any] = {
    "name": "stopped",
    "rounds": 6,
    "method": {"name": "scaffold", "lr": 0.1},
    "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 3},
}


def test_it_ends_after_the_round_under_way_and_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    study = cells(TABLES)[0].study
    run(study, tmp_path / "whole")

    def asking(line: Round) -> None:
        if line.round == 3:
            ask_to_stop(tmp_path / "run")

    with pytest.raises(Stopped, match="stopped after round 3, as was asked; nothing is lost"):
        run(study, tmp_path / "run", progress=asking)
    assert [1, 2, 3] == [line.round for line in read_journal(tmp_path / "run")]
    assert not METRICS.exists(tmp_path / "run")
    run(study, tmp_path / "run", resume=True)
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "run")


def test_what_was_asked_of_a_run_that_is_over_is_not_asked_of_the_next(tmp_path: Path) -> None:
    study = cells({**TABLES, "rounds": 2})[0].study
    (tmp_path / "run").mkdir()
    ask_to_stop(tmp_path / "run")
    assert 2 == run(study, tmp_path / "run").rounds
    assert not (tmp_path / "run" / STOP).exists()


def test_the_command_says_how_to_go_on(tmp_path: Path) -> None:
    """A module of the study's own asks for the end in round 2, as somebody would who watches."""
    (tmp_path / "asking.py").write_text(
        "from dataclasses import dataclass\n"
        "from pathlib import Path\n"
        "from wardround.extend import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Asking(FedAvg):\n"
        "    def round(self, state, cohort):\n"
        "        if cohort.round == 2:\n"
        "            Path('run/.stop.new').touch()\n"
        "        return super().round(state, cohort)\n"
    )
    study = tmp_path / "s.toml"
    study.write_text(
        'name = "s"\nrounds = 4\n[method]\nname = "asking:Asking"\n[task]\nname = "features"\n'
        '[corpus]\nname = "synthetic"\nsites = 2\n'
    )
    ended = cli("run", study, "--out", "run", "--workers", 1, "--quiet", cwd=tmp_path)
    assert 130 == ended.code
    assert (
        f"stopped after round 2, as was asked; nothing is lost, go on with: wardround run {study} --out run"
        in ended.err
    )
    assert 0 == cli("run", study, "--out", "run", "--workers", 1, "--quiet", "--resume", cwd=tmp_path).code


def test_a_grid_ends_its_cells_and_begins_no_other(tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(
        'name = "s"\nrounds = 3000\n[method]\nname = "fedavg"\n[task]\nname = "features"\n'
        '[corpus]\nname = "synthetic"\nsites = 2\n[grid]\nseed = [0, 1, 2]\n'
    )
    going = start("run", study, "--out", "grid", "--workers", 1, "--quiet", cwd=tmp_path)
    wait_for((tmp_path / "grid" / "seed=0" / "journal.jsonl").exists, going.pid)
    ask_to_stop(tmp_path / "grid")
    ended = going.wait()
    assert 130 == ended.code
    assert "stopped before all cells were done, as was asked; nothing is lost, go on with: " in ended.err
    assert ["grid.json", "seed=0"] == sorted(path.name for path in (tmp_path / "grid").iterdir())
