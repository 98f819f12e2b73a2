"""`wardround.run`: a study from Python, as a file or as tables; what it prints, and where a bar can be drawn."""

import importlib.util
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path

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


def test_a_grid_is_sent_to_the_command_line(tmp_path: Path) -> None:
    path = small_study(tmp_path, grid={"method.lr": [0.1, 0.2]})
    with pytest.raises(wardround.StudyError, match="2 cells in its grid; run it with the command line"):
        wardround.run(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


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
    assert (widgets, not widgets, not widgets) == (shown.rich, shown.plain, shown.bar.disable)
