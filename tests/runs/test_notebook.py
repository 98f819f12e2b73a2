"""`wardround.run`: a study from Python, as a file or as tables; what it prints, and where a bar can be drawn."""

import importlib.util
import json
import sys
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

import wardround
from study_files import result_of, small_study
from wardround.cli.progress import Single
from wardround.study.load import load_study


def test_a_file_and_its_tables_give_the_same_run(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    one = wardround.run(path, tmp_path / "one")
    other = wardround.run(tomllib.loads(path.read_text(encoding="utf-8")), str(tmp_path / "other"), report=False)
    assert (3, 3) == (one.rounds, other.rounds)
    assert result_of(one.folder) == result_of(other.folder)
    assert (True, False) == ((one.folder / "report.html").exists(), (other.folder / "report.html").exists())


def test_without_a_folder_the_run_is_named_after_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Path("runs/small") == wardround.run(small_study(tmp_path), report=False, quiet=True).folder


def test_a_finished_run_is_not_overwritten_but_can_be_resumed(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    first = wardround.run(path, tmp_path / "run", report=False)
    with pytest.raises(wardround.RunError, match="resume"):
        wardround.run(path, tmp_path / "run", report=False)
    assert first == wardround.run(path, tmp_path / "run", resume=True, report=False)


def test_a_grid_gives_a_table_with_a_row_per_cell(tmp_path: Path) -> None:
    path = small_study(tmp_path, grid={"method.lr": [0.1, 0.2]}, seeds=[1, 2])
    table = wardround.run(path, tmp_path / "runs", workers=2, quiet=True)
    assert 4 == len(table)
    assert ([0.1, 0.1, 0.2, 0.2], [1, 2, 1, 2]) == (table["method.lr"], table["seed"])
    first = table[0]
    alone = json.loads((Path(first["folder"]) / "metrics.json").read_text(encoding="utf-8"))
    assert alone["final"]["accuracy"] == first["accuracy"] == table["accuracy"][0]
    assert ("lr=0.1", "fedavg", 3) == (first["cell"], first["method"], first["rounds"])
    assert (tmp_path / "runs" / "report.html").exists()
    assert str(table).splitlines()[0].split()[:2] == ["cell", "method.lr"]
    with pytest.raises(KeyError, match=r"the columns are cell, method\.lr"):
        table["accurcy"]
    assert [row["seed"] for row in table] == table["seed"]


def test_where_there_is_pandas_the_table_is_its(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class DataFrame:
        def __init__(self, rows: list[dict[str, object]]) -> None:
            self.rows = rows

    pandas = ModuleType("pandas")
    pandas.DataFrame = DataFrame  # type: ignore[attr-defined]
    pandas.__spec__ = ModuleSpec("pandas", None)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    table = wardround.run(small_study(tmp_path, seeds=[1, 2]), tmp_path / "runs", quiet=True, report=False)
    assert isinstance(table, DataFrame)
    assert [1, 2] == [row["seed"] for row in table.rows]


def test_a_cell_that_fails_is_told_of_after_the_others(tmp_path: Path) -> None:
    path = small_study(tmp_path, grid={"sites.quorum": [1, 99]})
    with pytest.raises(wardround.RunError, match=r"1 of 2 cells failed \(quorum=99: .*go on with resume=True"):
        wardround.run(path, tmp_path / "runs", quiet=True)
    assert (tmp_path / "runs" / "quorum=1" / "metrics.json").exists()


def test_before_the_first_figure_it_says_what_it_is_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wardround.run(small_study(tmp_path), tmp_path / "one", report=False)
    assert "small: reading the data" in capsys.readouterr().err


def test_mistakes_in_tables_are_told_all_at_once() -> None:
    with pytest.raises(wardround.StudyError) as error:
        wardround.run({"name": "x", "rounds": 0, "method": {"name": "fedavgg"}})
    assert len(error.value.problems) > 2
    assert any("did you mean 'fedavg'" in problem for problem in error.value.problems)


def test_where_no_bar_can_be_drawn_there_are_lines_or_with_quiet_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_study(tmp_path)
    wardround.run(path, tmp_path / "one", report=False)
    assert "small: round 3/3" in capsys.readouterr().err
    wardround.run(path, tmp_path / "other", quiet=True, report=False)
    assert ("", "") == capsys.readouterr()


@pytest.mark.parametrize("widgets", [True, False])
def test_in_a_notebook_there_is_a_bar_if_there_are_widgets(
    *, widgets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = importlib.util.find_spec
    spec = ModuleSpec("ipywidgets", None) if widgets else None
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: spec if name == "ipywidgets" else known(name, *rest)
    )
    assert Console().is_jupyter
    shown = Single(load_study(small_study(tmp_path))[0].study, quiet=False)
    assert (widgets, not widgets, not widgets) == (shown.rich, shown.plain, shown.display.disable)
