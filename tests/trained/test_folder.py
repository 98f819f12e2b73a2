"""A model's folder is whole and as it was written, or it is not used; `wardround model show` says which."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import trained_models
import wardround
from study_files import cli, small_study
from wardround.runs.loop import run
from wardround.study.load import load_study
from wardround.trained.about import SUMS, ModelError, model_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_models.relater(tmp_path_factory.mktemp("made") / "run") / "model"


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "model")


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_folder_moves_as_a_whole(model: Path) -> None:
    assert {"README.md", "SHA256SUMS", "model.json", "study.toml", "weights.safetensors"} < set(files(model))
    assert "encoder/model.safetensors" in files(model)
    assert wardround.load(model).about[0].pairs is not None
    done = subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=model, check=False, capture_output=True)  # noqa: S607 -- as a user would
    assert 0 == done.returncode


@pytest.mark.parametrize("number", range(8))
def test_a_flipped_byte_or_a_missing_file_is_told_by_name(model: Path, number: int) -> None:
    names = [name for name in files(model) if name != SUMS]
    name = names[number % len(names)]
    data = bytearray((model / name).read_bytes())
    data[len(data) // 2] ^= 1
    (model / name).write_bytes(data)
    ended = cli("model", "show", model, cwd=model.parent)
    said = f"{model / name}: damaged: its checksum is not the one written; copy the model's folder again\n"
    assert (2, "", said) == (ended.code, ended.out, ended.err)
    (model / name).unlink()
    with pytest.raises(ModelError, match="copy the model's folder again"):
        wardround.load(model)


def test_show_prints_the_card_and_json(model: Path) -> None:
    ended = cli("model", "show", model, cwd=model.parent)
    assert (0, "") == (ended.code, ended.err)
    for words in (
        "# small",
        "Not for clinical decisions",
        "## Training data",
        "What left the sites",
        "files, all as they",
    ):
        assert words in ended.out
    told = json.loads(cli("model", "show", model, "--json", cwd=model.parent).out)
    assert ("small", "relation", ["en"]) == (told["study"], told["task"]["name"], told["languages"])


def test_what_is_no_model_of_texts_is_told(tmp_path: Path) -> None:
    run(load_study(small_study(tmp_path))[0].study, tmp_path / "run")
    ended = cli("predict", "run", "--text", "x", cwd=tmp_path)
    said = "run/model: its task 'features' does not take text; use a model of a text task\n"
    assert (2, "", said) == (ended.code, ended.out, ended.err)
    ended = cli("model", "show", "runn", cwd=tmp_path)
    assert (2, "runn: there is no such folder; did you mean run?\n") == (ended.code, ended.err)


def test_a_grid_names_its_runs_and_a_run_without_a_model_says_why(tmp_path: Path) -> None:
    alone = {"method": {"name": "local", "lr": 2.0}, "rounds": 1}
    for name, tables in (("fedavg", {"rounds": 1}), ("local", alone)):
        trained_models.sorter(tmp_path / "grid" / name, **tables)
    listed = "grid: it holds runs, such as the cells of a grid; name one: grid/fedavg, grid/local\n"
    keep = "each site keeps its own model; put one together: wardround model assemble grid/local SITE --out FOLDER"
    for command in (["predict", "grid", "--text", "x"], ["model", "show", "grid"],
                    ["model", "assemble", "grid", "hospital-0", "--out", "new"]):  # fmt: skip
        ended = cli(*command, cwd=tmp_path)
        assert (2, "", listed) == (ended.code, ended.out, ended.err)
    assert f"grid/local: {keep}\n" == cli("model", "show", "grid/local", cwd=tmp_path).err
    (tmp_path / "grid/local/metrics.json").unlink()
    said = "grid/local: the run is not finished; go on with wardround run … --resume\n"
    assert said == cli("model", "show", "grid/local", cwd=tmp_path).err


def test_a_mistyped_run_is_answered_with_the_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(ModelError, match=r"no such folder; did you mean .*notes\?"):
        model_folder(tmp_path / "note")
