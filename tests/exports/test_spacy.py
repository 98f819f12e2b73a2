"""Models as a pipe of spaCy: the same entities, relations and labels, from a folder that is whole."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from study_files import cli
from trained_models import SMALL, relater, sorter, tagger
from wardround import ModelError, load
from wardround.clinic import Clinic

spacy = pytest.importorskip("spacy", reason='spaCy is not installed: pip install "wardround[spacy]"')

from wardround.exports import export  # noqa: E402 -- after the check that spaCy is there
from wardround.exports.spacy_component import Component, make  # noqa: E402 -- likewise

NOTES = [note.text for note in Clinic(hospitals=1, test_documents=8).stream("hospital-0", "test")]
CHINESE = {"name": "clinic", "hospitals": 2, "documents": 30, "test_documents": 10, "language": "zh"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    return {"tagger": tagger(place / "t"), "relater": relater(place / "r"), "sorter": sorter(place / "s")}


def spans(doc: Any) -> list[tuple[str, int, int]]:
    return [(span.label_, span.start_char, span.end_char) for span in doc.ents]


def test_a_pipeline_finds_the_entities_that_the_model_finds(folders: dict[str, Path], tmp_path: Path) -> None:
    export([folders["tagger"]], "spacy", tmp_path / "out")
    nlp = spacy.load(tmp_path / "out")
    assert ("en", ["wardround"]) == (nlp.lang, nlp.pipe_names)
    prediction = list(load(folders["tagger"]).predict(NOTES))
    docs = list(nlp.pipe(NOTES))
    assert sum(len(one.entities) for one in prediction) > 20
    for doc, one in zip(docs, prediction, strict=True):
        spread = [doc.char_span(e.start, e.end, e.type, alignment_mode="expand") for e in one.entities]
        widened = sum((s.start_char, s.end_char) != (e.start, e.end) for s, e in zip(spread, one.entities, strict=True))
        assert widened == doc._.wardround["widened"]
        if not widened:
            assert [(entity.type, entity.start, entity.end) for entity in one.entities] == spans(doc)
            assert [entity.confidence for entity in one.entities] == [span._.confidence for span in doc.ents]
        assert len(one.entities) == len(doc.ents) + doc._.wardround["left_out"]
    assert any(not doc._.wardround["widened"] and doc.ents for doc in docs)


def test_a_pipeline_in_chinese_has_spacy_s_characters(tmp_path: Path) -> None:
    task = {"name": "tagging", "model": "cnn-crf", "tokens": "characters", "embedding": 16, "filters": 16}
    run = tagger(tmp_path / "run", CHINESE, task=task)
    export([run], "spacy", tmp_path / "out")
    nlp, model = spacy.load(tmp_path / "out"), load(run)
    assert "zh" == nlp.lang
    notes = [note.text for note in Clinic(hospitals=1, language="zh", test_documents=4).stream("hospital-0", "test")]
    told = [[(e.type, e.start, e.end) for e in model(text).entities] for text in notes]
    assert told == [spans(doc) for doc in nlp.pipe(notes)]
    assert any(told)


def test_two_models_chain_and_a_third_sorts(folders: dict[str, Path], tmp_path: Path) -> None:
    chosen = list(folders.values())
    export(chosen, "spacy", tmp_path / "out")
    nlp, model = spacy.load(tmp_path / "out"), load(*chosen)
    for text in NOTES[:3]:
        doc, prediction = nlp(text), model(text)
        assert {label.name: label.confidence for label in prediction.labels} == doc.cats
        assert [link.type for link in prediction.relations] == [link["type"] for link in doc._.relations]
        assert [link.confidence for link in prediction.relations] == pytest.approx(
            [link["confidence"] for link in doc._.relations]
        )
        if not doc._.wardround["widened"]:
            assert [prediction.words(link.head) for link in prediction.relations] == [
                r["head"].text for r in doc._.relations
            ]


def test_types_under_other_names_chain_once_they_are_renamed(folders: dict[str, Path], tmp_path: Path) -> None:
    names = {"treatment": "TREATMENTS", "problem": "DISEASE", "test": ""}
    task = {"name": "tagging", "model": "cnn-crf", **SMALL, "rename": names}
    chosen = [tagger(tmp_path / "run", task=task), folders["relater"]]
    with pytest.raises(ModelError, match=r"say which is which: .*--rename TREATMENTS=treatment"):
        export(chosen, "spacy", tmp_path / "out")
    back = ["--rename", "TREATMENTS=treatment", "--rename", "DISEASE=problem"]
    assert 0 == cli("export", *chosen, "--to", "spacy", "--out", "out", *back, cwd=tmp_path).code
    doc = spacy.load(tmp_path / "out")(NOTES[0])
    told = load(*chosen, rename={"TREATMENTS": "treatment", "DISEASE": "problem"})(NOTES[0])
    assert told.relations
    assert [link.type for link in told.relations] == [link["type"] for link in doc._.relations]


def test_entities_of_another_pipe_are_related_and_stay(folders: dict[str, Path]) -> None:
    nlp = spacy.blank("en")
    rules = nlp.add_pipe("entity_ruler")
    rules.add_patterns([{"label": "treatment", "pattern": "aspirin"}, {"label": "problem", "pattern": "rash"}])
    nlp.add_pipe("wardround", config={"models": [str(folders["relater"])]})
    doc = nlp("aspirin caused a rash.")
    assert [("treatment", 0, 7), ("problem", 17, 21)] == spans(doc)
    assert ("aspirin", "rash") in {(link["head"].text, link["tail"].text) for link in doc._.relations}
    many = list(nlp.pipe(["nothing to see."] * 70 + ["aspirin caused a rash."]))
    assert [False] * 70 + [True] == [bool(doc._.relations) for doc in many]
    assert [] == nlp("nothing to see.")._.relations


def test_what_does_not_fit_spacy_s_tokens_is_widened_and_what_overlaps_is_left_out_and_both_are_counted(
    folders: dict[str, Path],
) -> None:
    prediction = load(folders["tagger"])(NOTES[0])
    nlp = spacy.blank("en")
    pipe = Component([str(folders["tagger"])])
    whole = spacy.tokens.Doc(nlp.vocab, [NOTES[0]], spaces=[False])  # one token: every entity is widened to it
    doc = pipe(whole)
    assert len(prediction.entities) > 1
    assert {"widened": len(prediction.entities), "left_out": len(prediction.entities) - 1, "cut": 0} == doc._.wardround
    assert [(0, len(NOTES[0]))] == [(span.start_char, span.end_char) for span in doc.ents]


def test_a_pipeline_is_saved_with_its_models_and_never_as_bytes(folders: dict[str, Path], tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("wardround", config={"models": [str(folders["tagger"])]})
    nlp.to_disk(tmp_path / "saved")
    weights = folders["tagger"] / "model" / "weights.safetensors"
    assert weights.read_bytes() == (tmp_path / "saved" / "wardround" / "0" / "weights.safetensors").read_bytes()
    assert spans(nlp(NOTES[0])) == spans(spacy.load(tmp_path / "saved")(NOTES[0]))
    with pytest.raises(NotImplementedError, match="to_disk"):
        nlp.to_bytes()
    damaged = tmp_path / "saved" / "wardround" / "0" / "weights.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match="damaged"):
        spacy.load(tmp_path / "saved")  # before any text


def test_spacy_finds_the_pipe_by_the_entry_point(folders: dict[str, Path], tmp_path: Path) -> None:
    ours = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = ours["entry-points"]["spacy_factories"]["wardround"]
    assert f"{make.__module__}:{make.__name__}" == named
    if named not in [point.value for point in entry_points(group="spacy_factories")]:
        pytest.skip("installed before the entry point was there: make setup installs anew")
    export([folders["tagger"]], "spacy", tmp_path / "out")
    asked = f"import spacy; print(len(spacy.load({str(tmp_path / 'out')!r})({NOTES[0]!r}).ents))"
    done = subprocess.run([sys.executable, "-c", asked], env=os.environ, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0
