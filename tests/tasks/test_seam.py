"""A task owns its name: whoever needs to know something of a task asks it, one of ours or one of somebody's own."""

import ast
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import wardround
from encoder_folders import tiny_encoder
from serving import send, served
from study_files import cli
from wardround.cli.export import TARGETS
from wardround.exports import export
from wardround.formats.check import check
from wardround.formats.options import Options
from wardround.methods import METHODS
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal
from wardround.serve.desk import Desk
from wardround.study.load import cells
from wardround.tasks import TASKS
from wardround.trained.about import ModelError, read_about
from wardround.trained.model import Model, load_part

ROOT = Path(wardround.__file__).parent
NOTE = "Patient was given aspirin for chest pain."
GIVEN = wardround.Document(
    "n", NOTE, entities=(wardround.Entity("a", "treatment", 18, 25), wardround.Entity("b", "problem", 30, 40))
)

# Modules in which a task's name stands as a word of its own, and why.
NAMED = {
    "core/method.py": "the task that a method is rehearsed on, unless it says otherwise",
    "methods/lazy_mil.py": "the task that it needs, in its rehearsal and in an error",
    **dict.fromkeys(
        (f"methods/{name}.py" for name in ("fedcmc", "fedproto", "heads", "ridge", "sums")),
        "features are what its classifier sees",
    ),
    "metrics/facts.py": "bags are what it counts",
    "clinic/notes.py": "a hospital's taste in relations",
    "trained/outputs.py": "a relation is a kind of row in CSV",
    "trained/fhir_findings.py": "a relation is a kind of finding, of which a resource's id is made",
    "cli/align.py": "bags are a view of documents",
    "consortium/settings.py": "likewise",
}
ENCODED = ["bags by encoder", "classification by encoder", "tagging by encoder-crf"]
FORMS = ("clinic/", "corpora/", "formats/", "text/")
"""Readers and writers: a relation, bags and features are keys of files and views of documents there."""


def tables(name: str, folder: Path) -> dict[str, Any]:
    """A study of one round on what the task is rehearsed on."""
    name, _, model = name.partition(" by ")
    small: dict[str, Any] = rehearsal(name)
    if model:
        small["task"] = {"name": name, "model": model}
    if model or name == "relation":
        small["task"] |= {"encoder": str(tiny_encoder(folder / "encoder")), "freeze": 1, "longest": 60}
    return {"name": "walked", "rounds": 1, "method": {"name": "fedavg"}, **small}


@pytest.fixture(scope="module", params=[*sorted(TASKS), *ENCODED])
def walked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A task's name, and a run of it."""
    folder = tmp_path_factory.mktemp("walked")
    run(cells(tables(request.param, folder))[0].study, folder / "run")
    return request.param.partition(" by ")[0], folder / "run"


def test_its_card_and_folder_say_what_it_is(walked: tuple[str, Path]) -> None:
    name, folder = walked
    about, words = read_about(folder / "model"), (folder / "model" / "README.md").read_text(encoding="utf-8")
    assert f"- Task: `{name}`; it {TASKS[name].does}." in words
    assert about.labels or about.types
    for setting in TASKS[name]().files():
        assert (folder / "model" / about.task[setting]).exists()


def test_it_predicts_and_is_served_or_says_that_it_takes_no_text(walked: tuple[str, Path]) -> None:
    name, folder = walked
    if not TASKS[name].finds:
        with pytest.raises(ModelError, match=f"its task '{name}' does not take text"):
            wardround.load(folder)
        return
    model = wardround.load(folder)
    predictions = list(model.predict([GIVEN] * 3))
    assert 1 == len({str(one.plain()) for one in predictions})
    assert ["T1", "T2"] == [entity.id for entity in predictions[0].entities[:2]]
    with served(Desk(model)) as place:
        about = send(place, "/model")[2]["models"][0]
        assert (name, load_part(folder).task.summary()) == (about["task"], about["summary"])
        entities = [{"type": one.type, "start": one.start, "end": one.end} for one in GIVEN.entities]
        status, _, answer = send(place, "/predict", {"text": NOTE, "entities": entities})
    assert (200, predictions[0].plain()["relations"]) == (status, answer["relations"])


@pytest.mark.parametrize("to", TARGETS)
def test_it_is_exported_or_says_why_not(walked: tuple[str, Path], to: str, tmp_path: Path) -> None:
    name, folder = walked
    if not TASKS[name].finds:
        return
    task = load_part(folder).task
    if to in task.not_exported:
        with pytest.raises(ModelError, match=re.escape(task.why_not(to)[0])):
            export([folder], to, tmp_path / "out")
    else:
        export([folder], to, tmp_path / "out")
        assert any((tmp_path / "out").iterdir())


@pytest.mark.parametrize("name", sorted(TASKS))
def test_it_says_what_documents_lack_for_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text(
        '{"id": "1", "text": "Nothing is marked here.", "entities": []}\n', encoding="utf-8"
    )
    survey = check(tmp_path / "notes.jsonl", Options(), task=TASKS[name]())
    assert bool(TASKS[name].finds) == bool(survey.findings.lost)
    ended = cli("data", "check", "notes.jsonl", "--task", name, cwd=tmp_path)
    assert (1 if TASKS[name].finds else 2) == ended.code


@pytest.mark.parametrize("name", sorted(TASKS))
def test_it_can_be_rehearsed_on_what_it_names(name: str) -> None:
    study = cells({"name": "x", "rounds": 1, "method": {"name": "fedavg"}, **rehearsal(name)})[0].study
    assert TASKS[name].generated["name"] == study.resolved["corpus"]["name"]
    assert {kind.kind.rehearsal for kind in METHODS.values()} <= set(TASKS)


def literals(path: Path) -> set[str]:
    """The texts in a file's code that are a task's name; docstrings and longer texts do not count."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)} & set(TASKS)


def test_no_module_beyond_tasks_has_the_name_of_a_task_in_it() -> None:
    found = {path.relative_to(ROOT).as_posix(): literals(path) for path in sorted(ROOT.rglob("*.py"))}
    named = {name for name, words in found.items() if words and not name.startswith(("tasks/", *FORMS))}
    assert named <= set(NAMED), sorted(named - set(NAMED))
    page = (ROOT / "serve" / "page" / "page.js").read_text(encoding="utf-8")
    assert not re.search(r"\.task\b", page)


# a task of somebody's own


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The run of the example's task."""
    example = Path(__file__).parents[2] / "examples" / "new_task.py"
    shutil.copy(example, tmp_path / "new_task.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    corpus = {"name": "clinic", "hospitals": 2, "documents": 20, "test_documents": 5}
    study: Mapping[str, Any] = {"name": "own", "rounds": 1, "corpus": corpus, "task": {"name": "new_task:Letters"}}
    run(cells({**study, "method": {"name": "fedavg"}})[0].study, tmp_path / "run")
    yield tmp_path / "run"
    sys.modules.pop("new_task", None)


def test_a_task_of_ones_own_gets_a_card_predicts_and_is_served(own: Path) -> None:
    words = (own / "model" / "README.md").read_text(encoding="utf-8")
    assert "- Task: `new_task:Letters`; it sorts texts by how often each letter stands in them." in words
    model = wardround.load(own)
    (label,) = model(NOTE).labels
    assert label.name in read_about(own / "model").labels
    with served(Desk(model)) as place:
        assert send(place, "/model")[2]["models"][0]["summary"].startswith("Answers: ")
        assert [label.name] == [one["name"] for one in send(place, "/predict", {"text": NOTE})[2]["labels"]]


def test_a_task_of_ones_own_is_not_exported_where_nobody_says_how(own: Path, tmp_path: Path) -> None:
    for to in ("onnx", "transformers"):
        with pytest.raises(ModelError, match="use --to spacy"):
            export([own], to, tmp_path / to)


def test_no_code_comes_with_a_model(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own.parent / "new_task.py").rename(own / "model" / "new_task.py")
    sys.modules.pop("new_task", None)
    with pytest.raises(ModelError, match=r"cannot be imported.*put its module on PYTHONPATH"):
        wardround.load(own)
    monkeypatch.syspath_prepend(str(own / "model"))
    with pytest.raises(ModelError, match="the module 'new_task' of its task lies inside; do not use this model"):
        wardround.load(own)
    assert "new_task" not in sys.modules


def test_models_answer_in_the_order_of_what_they_find() -> None:
    kinds = [TASKS[name].finds for name in sorted(TASKS)]
    assert {"", "entities", "labels", "relations"} == set(kinds)
    assert Model([]).finds_entities
