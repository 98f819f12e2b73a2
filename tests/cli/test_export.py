"""`wardround export`: what it says, and that nothing half-written is left."""

from pathlib import Path

import pytest

from study_files import cli
from trained_models import relater, sorter, tagger
from wardround import ModelError
from wardround.exports import export
from wardround.trained.model import load_part


def test_export_writes_a_new_folder_and_says_where(tmp_path: Path) -> None:
    relater(tmp_path / "run")
    ended = cli("export", "run", "--to", "transformers", "--out", "made/here", cwd=tmp_path)
    assert (0, "for transformers: made/here\n", "") == (ended.code, ended.out, ended.err)
    again = cli("export", "run", "--to", "transformers", "--out", "made/here", cwd=tmp_path)
    assert (2, "made/here: is there already; name a new folder\n") == (again.code, again.err)


def test_mistakes_are_answered_with_the_reason_and_leave_nothing(tmp_path: Path) -> None:
    tagger(tmp_path / "run")
    sorter(tmp_path / "other")
    for arguments, message in {
        ("run", "--to", "spacyy"): "--to spacyy: did you mean spacy? use one of onnx, spacy, transformers\n",
        ("run", "--to", "pytorch"): "--to pytorch: use one of onnx, spacy, transformers\n",
        ("run", "--to", "onnx", "--rename", "a=b"): (
            "run: onnx takes one model, so no other has names for its types; leave --rename out\n"
        ),
        ("run", "--to", ""): "--to is empty: use one of onnx, spacy, transformers\n",
        ("nowhere", "--to", "spacy"): "nowhere: there is no such folder; name the model/ folder of a run\n",
        (
            "run",
            "other",
            "--to",
            "onnx",
        ): "other: onnx takes one model at a time; export each by itself, or use --to spacy\n",
        ("run", "--to", "transformers"): (
            "run/model: it is a tagger with a CRF, which transformers has no model for; use --to spacy\n"
        ),
    }.items():
        ended = cli("export", *arguments, "--out", "out", cwd=tmp_path)
        assert (2, message) == (ended.code, ended.err)
        assert ["other", "run"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    relater(tmp_path / "run")
    ended = cli("export", "run", "--to", "transformers", "--out", "out", cwd=tmp_path, file_limit=4096)
    assert (1, "no room left to write out; nothing was written: make room and try again\n") == (ended.code, ended.err)
    assert {"run"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(("to", "package"), [("spacy", "spacy"), ("onnx", "onnx")])
def test_a_package_that_is_not_there_is_named(
    to: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sorter(tmp_path / "run")
    monkeypatch.setattr(f"wardround.exports.{to}_folder.find_spec", lambda name: None if name == package else name)
    with pytest.raises(ModelError, match=rf'pip install "wardround\[{to}\]"'):
        export([run], to, tmp_path / "out")
    assert ["run"] == [path.name for path in tmp_path.iterdir()]


def test_a_model_of_bags_can_be_loaded_and_is_refused_with_the_reason(tmp_path: Path) -> None:
    bags = {"corpus": {"name": "clinic-bags", "hospitals": 2}, "task": {"name": "bags", "filters": 8, "embedding": 8}}
    run = sorter(tmp_path / "run", **bags)
    assert "bags" == load_part(run).about.task["name"]
    for to, said in {"transformers": "scores bags of sentences", "onnx": "not in the network"}.items():
        with pytest.raises(ModelError, match=said):
            export([run], to, tmp_path / "out")
