"""A classifier that was exported to ONNX says the same, by its README's lines, without torch and wardround."""

import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from encoder_folders import tiny_encoder
from trained_models import relater, sorter, tagger
from wardround import ModelError, load
from wardround.clinic import Clinic
from wardround.exports import export
from wardround.exports.onnx_folder import NEEDED, PATTERNS

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in (*NEEDED, "onnxruntime")),  # to import them takes every worker seconds
    reason='ONNX is not installed: pip install "wardround[onnx]"',
)

NOTES = [note.text for note in Clinic(hospitals=1, test_documents=8).stream("hospital-0", "test")]
ODD = ["", "   ", "x", "e\u0301t\u00e9 \u200bDOSE 2.5 mg", "患者头痛 CT 2.5 cm", "\ud800 lone", " ".join(NOTES) * 20]
VARIANTS: dict[str, dict[str, Any]] = {
    "logistic": {"model": "logistic", "tokens": "words"},
    "stems beside words": {"model": "logistic", "tokens": "words", "beside": "stems"},
    "words beside characters": {"model": "logistic", "tokens": "characters", "beside": "words"},
    "single words": {"model": "logistic", "tokens": "words", "ngrams": 1},
    "lstm, several": {"model": "lstm", "tokens": "characters", "several": True, "embedding": 8, "hidden": 8},
}


def lines(folder: Path) -> str:
    """The README's lines."""
    found = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_readme_s_lines_give_the_same_labels(variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = {"name": "classification", "buckets": 512, "longest": 40, **VARIANTS[variant]}
    run = sorter(tmp_path / "run", task=task)
    export([run], "onnx", tmp_path / "out")
    (tmp_path / "lines.py").write_text(lines(tmp_path / "out"), encoding="utf-8")
    monkeypatch.chdir(tmp_path / "out")
    labels, model = runpy.run_path(str(tmp_path / "lines.py"))["labels"], load(run)
    for text in [*NOTES, *ODD]:
        assert {label.name: pytest.approx(label.confidence, abs=1e-5) for label in model(text).labels} == labels(text)
    asked = "import lines, sys; assert not {'torch', 'wardround'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", asked], env={"PYTHONPATH": str(tmp_path)}, check=True)


def test_the_patterns_are_those_that_words_are_cut_by() -> None:
    source = Path(sys.modules["wardround.text.segment"].__file__ or "").read_text(encoding="utf-8")
    assert [] == [pattern for pattern in PATTERNS.values() if pattern not in source]


def test_a_relation_model_that_transformers_cannot_hold_either_is_not_sent_there(tmp_path: Path) -> None:
    task = {"name": "relation", "encoder": str(tiny_encoder(tmp_path / "here")), "longest": 60, "last": 2}
    run = relater(tmp_path / "run", task=task)
    for to in ("onnx", "transformers"):
        with pytest.raises(ModelError, match="use --to spacy"):
            export([run], to, tmp_path / "out")


@pytest.mark.parametrize(
    ("made", "tables", "message"),
    [
        (tagger, {}, "a CRF's best path is a search"),
        (relater, {}, "what marks the entities is not in the network; use --to transformers"),
        (sorter, {"task": {"name": "classification", "tokens": "jieba"}}, "its tokens come from jieba"),
    ],
)
def test_what_onnx_cannot_hold_is_refused_with_the_reason(
    made: Any, tables: dict[str, Any], message: str, tmp_path: Path
) -> None:
    run = made(tmp_path / "run", **tables)
    with pytest.raises(ModelError, match=message):
        export([run], "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()
