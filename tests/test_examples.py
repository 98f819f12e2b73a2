"""The examples run as printed, in a process of their own, and write nothing but into their folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from study_files import script

EXAMPLES = Path(__file__).parents[1] / "examples"
SAID = {
    "compare": "the comparison is in {folder}/report.html",
    "new_method": "after 10 rounds",
    "new_reader": "after 5 rounds",
    "new_task": "Label(name='",
    "own_layer": "after 10 rounds, behind noise",
    "own_corpus": "report: {folder}/run/report.html",
    "predict": "treatment (",
    "resume": "12 rounds; the same bits: True",
}


def test_each_example_is_run_here_and_is_short() -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert sorted(SAID) == [file.stem for file in files]
    lines = {file.stem: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {} == {
        name: count for name, count in lines.items() if not 15 <= count <= (90 if name == "own_layer" else 60)
    }


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_and_keeps_to_its_folder(name: str, tmp_path: Path) -> None:
    before = sorted(EXAMPLES.rglob("*"))
    folder = tmp_path / "given"
    folder.mkdir()
    env = {"TMPDIR": str(tmp_path), "WARDROUND_CACHE": str(tmp_path / "kept")}
    ended = script(EXAMPLES / f"{name}.py", folder, cwd=tmp_path, env=env)
    assert 0 == ended.code, ended.err
    assert SAID[name].format(folder=folder) in ended.out
    assert {"given"} == {path.name for path in tmp_path.iterdir()} - {"kept"}
    assert before == sorted(EXAMPLES.rglob("*"))


def test_an_example_without_a_folder_makes_one_of_its_own(tmp_path: Path) -> None:
    """In an interpreter that has imported nothing."""
    env = {"TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "WARDROUND_CACHE": str(tmp_path / "kept")}
    command = [sys.executable, str(EXAMPLES / "new_method.py")]
    subprocess.run(command, cwd=tmp_path, env=os.environ | env, capture_output=True, timeout=300, check=True)
    (made,) = (path for path in tmp_path.iterdir() if path.name != "kept")
    assert (made / "run" / "model" / "weights.safetensors").is_file()
