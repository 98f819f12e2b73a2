"""What the README shows is what happens."""

import csv
import re
import tomllib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from wardround.cli.app import app
from wardround.clinic import Clinic
from wardround.models.linear import WeighedBag
from wardround.runs.loop import run
from wardround.study.load import cells, load_study
from wardround.study.settings import StudyError

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The README's first code block in this language."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's study and the files it names."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))
    clinic = Clinic(hospitals=2, documents=12, test_documents=6)
    for split in ("train", "test"):
        with (tmp_path / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["note", "department", "hospital"])
            for name in clinic.names():
                rows.writerows([document.text, document.labels[0], name] for document in clinic.stream(name, split))
    (tmp_path / "study.toml").write_text(block("toml"), encoding="utf-8")
    return tmp_path


def test_the_study_runs_as_printed(folder: Path) -> None:
    study = load_study(folder / "study.toml", ["rounds=1"])[0].study
    assert 1 == run(study, folder / "run").rounds


def test_the_mistakes_are_answered_as_printed(folder: Path) -> None:
    actual = re.search(r"```\n(study\.toml: .*?)\n```", README, re.DOTALL)
    assert actual
    text = block("toml").replace("mu = 0.01", "mue = 0.01") + "\n[sites]\nfraction = 2\n"
    with pytest.raises(StudyError) as error:
        cells(tomllib.loads(text), where="study.toml", folder=folder)
    assert sorted(actual[1].splitlines()) == sorted(str(error.value).splitlines())


def test_the_method_of_ones_own_goes_half_the_way(folder: Path) -> None:
    (folder / "my_module.py").write_text(block("python"), encoding="utf-8")
    tables = tomllib.loads(block("toml")) | {"rounds": 1}
    moved = {}
    for name in ("fedavg", "my_module:Halfway"):
        study = cells(tables | {"method": {"name": name}}, folder=folder)[0].study
        out = folder / name.replace(":", "-")
        run(study, out)
        moved[name] = load_file(out / "model" / "weights.safetensors")
    for tensor, whole in moved["fedavg"].items():  # what is learnt starts at zero, and what is measured is no step
        expected = whole if tensor in WeighedBag.measured else whole / 2
        torch.testing.assert_close(expected, moved["my_module:Halfway"][tensor])


def test_the_commands_exist() -> None:
    shown = set(re.findall(r"^wardround (\w+)", README, re.MULTILINE))
    listed = CliRunner().invoke(app, ["--help"]).output
    known = {"consortium", "coordinator", "submit", "status", "stop", "site", "ledger"}
    local = {"run", "methods", "protocol", "report", "clinic", "align", "data", "model", "predict", "serve", "export"}
    local |= {"audit", "evaluate", "new", "settings", "watch"}
    assert local | known == shown
    assert [] == [command for command in shown if command not in listed]
