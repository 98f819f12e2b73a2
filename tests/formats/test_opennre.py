"""OpenNRE's lines, with positions in characters or tokens; what is wrong is named by line, never quoted."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.corpora.views import RelatedPairs
from wardround.formats.check import check
from wardround.formats.options import Options
from wardround.formats.recognise import recognised
from wardround.text.document import Document, Entity, Relation
from wardround.text.reading import DataError, Problems

TEXT = "Aspirin gave her a rash ."
IN_TEXT: dict[str, Any] = {
    "text": TEXT,
    "h": {"pos": [0, 7], "name": "aspirin", "id": "Q18216"},
    "t": {"pos": [19, 23], "name": "rash", "id": "Q653197"},
    "relation": "causes",
}
IN_TOKENS: dict[str, Any] = {
    **{key: value for key, value in IN_TEXT.items() if key != "text"},
    "token": TEXT.split(),
    "h": {"pos": [0, 1], "name": "aspirin"},
    "t": {"pos": [3, 5], "name": "a rash"},
}


def corpus(tmp_path: Path, *rows: Any, **settings: Any) -> RelatedPairs:
    (tmp_path / "train.txt").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "test.txt").write_text("")
    return RelatedPairs(format="opennre", train="train.txt", test="test.txt", folder=str(tmp_path), **settings)


def read(tmp_path: Path, *rows: Any, **settings: Any) -> tuple[list[Document], str]:
    problems = Problems()
    return list(corpus(tmp_path, *rows, **settings).documents("train", problems)), str(problems)


def refused(tmp_path: Path, *rows: Any, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(tmp_path, *rows, **settings)
    message = str(caught.value)
    assert "spirin" not in message
    return message.removeprefix(f"{tmp_path}/")


def test_characters(tmp_path: Path) -> None:
    assert read(tmp_path, IN_TEXT, language="en") == (
        [
            Document(
                id="train.txt:1",
                text=TEXT,
                labels=("causes",),
                entities=(
                    Entity("e1", "ENTITY", 0, 7, concepts=(IN_TEXT["h"]["id"],)),
                    Entity("e2", "ENTITY", 19, 23, concepts=(IN_TEXT["t"]["id"],)),
                ),
                relations=(Relation("causes", "e1", "e2"),),
                language="en",
            )
        ],
        "",
    )


def test_tokens(tmp_path: Path) -> None:
    [document], problems = read(tmp_path, IN_TOKENS)
    assert document.text == TEXT
    assert [document.text[e.start : e.end] for e in document.entities] == ["Aspirin", "a rash"]
    assert problems == ""


def test_types_ids_and_sources_are_taken_if_there(tmp_path: Path) -> None:
    row = {**IN_TEXT, "h": {"pos": [0, 7], "type": "drug"}, "id": "x7", "source": "ward b", "patient": "p7"}
    [document], _ = read(tmp_path, row)
    assert (document.id, document.source, document.entities[0].type) == ("x7", "ward b", "drug")
    assert "p7" == document.patient


def test_text_goes_before_tokens(tmp_path: Path) -> None:
    [document], _ = read(tmp_path, {**IN_TEXT, "token": ["another", "text"]})
    assert document.text == TEXT


@pytest.mark.parametrize("shift", [-2, -1, 1, 3])
def test_shifted_offsets_are_an_error_that_can_be_repaired(tmp_path: Path, shift: int) -> None:
    row = {**IN_TEXT, "t": {"pos": [19 + shift, 23 + shift - (shift == 3)], "name": "Rash"}}
    assert "t.name stands at 19, not at t.pos" in refused(tmp_path, row)
    [document], problems = read(tmp_path, row, fix_offsets=True)
    assert document.entities[1] == Entity("e2", "ENTITY", 19, 23)
    assert problems == "offsets repaired: 1 (train.txt:1)"


@pytest.mark.parametrize("row", [IN_TEXT, IN_TOKENS])
def test_a_name_from_the_knowledge_base_is_counted(tmp_path: Path, row: dict[str, Any]) -> None:
    named = {**row, "h": {**row["h"], "name": "acetylsalicylic acid"}}
    documents, problems = read(tmp_path, named)
    assert (len(documents), problems) == (1, "name differs from the words at pos: 1 (train.txt:1)")
    (finding,) = check(tmp_path / "train.txt", Options(), form="opennre").findings.listed
    assert (1, "nothing, if a knowledge base calls it so; else correct pos, which counts") == (
        finding.line,
        finding.remedy,
    )


BEFORE: dict[str, Any] = {
    "sentence": "a rash : Aspirin10 and Aspirin1 , then Aspirin1",
    "head": {"word": "Aspirin1", "id": "D1"},
    "tail": {"word": "rash", "id": "D2"},
    "relation": "NA",
}


def test_names_without_a_place_are_looked_for_as_whole_words(tmp_path: Path) -> None:
    (document,), problems = read(tmp_path, BEFORE)
    assert [(23, 31), (2, 6)] == [(entity.start, entity.end) for entity in document.entities]
    assert "name occurs several times, the first taken" in problems
    missing = {**BEFORE, "tail": {"word": "fever"}}
    assert refused(tmp_path, missing).startswith("train.txt:1: t.name is not a word of the text")


def test_an_array_on_one_line_is_read_and_its_rows_are_counted(tmp_path: Path) -> None:
    reader = corpus(tmp_path, BEFORE)
    (tmp_path / "train.txt").write_text(json.dumps([BEFORE, IN_TEXT, IN_TOKENS]))
    assert ["opennre"] == [form.name for _, form in recognised(tmp_path / "train.txt")]
    assert ["train.txt:1", "train.txt:1.2", "train.txt:1.3"] == [one.id for one in reader.documents("train")]


def test_other_pairs_of_a_sentence_are_no_contradiction(tmp_path: Path) -> None:
    other = {**BEFORE, "head": {"word": "Aspirin10"}, "relation": "causes"}
    corpus(tmp_path, BEFORE, other)
    assert 0 == check(tmp_path / "train.txt", Options()).duplicates
    corpus(tmp_path, BEFORE, {**BEFORE, "relation": "causes"})
    findings = check(tmp_path / "train.txt", Options()).findings
    assert ["same text with other annotations"] == [one.what for one in findings.listed if "same text" in one.what]


def test_overlapping_pairs_are_skipped_and_counted(tmp_path: Path) -> None:
    row = {**IN_TEXT, "h": {"pos": [17, 20]}}
    assert read(tmp_path, row) == ([], "entities overlap, pair skipped: 1 (train.txt:1)")


def without(row: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (without(IN_TEXT, "h", "t"), 'neither "h" nor "t"'),
        (without(IN_TEXT, "h"), 'no "h"'),
        (without(IN_TEXT, "t"), 'no "t"'),
        (without(IN_TEXT, "text"), 'no "text"'),
        ({**IN_TEXT, "t": {"pos": [18, 19]}}, "t.pos covers blanks only"),
        (without(IN_TEXT, "relation"), 'no "relation"'),
        ({**IN_TEXT, "text": " "}, "no text"),
        ({**IN_TEXT, "relation": 3}, '"relation" is a int'),
        ({**IN_TEXT, "relation": ""}, "empty label"),
        ({**IN_TEXT, "t": {}}, "t.pos is not two whole numbers"),
        ({**IN_TEXT, "t": {"pos": [19]}}, "t.pos is not two whole numbers"),
        ({**IN_TEXT, "t": {"pos": [19.0, 23.0]}}, "t.pos is not two whole numbers"),
        ({**IN_TEXT, "t": {"pos": [19, 19]}}, "t.pos [19, 19] is not a span"),
        ({**IN_TEXT, "t": {"pos": [-4, 2]}}, "t.pos [-4, 2] is not a span"),
        ({**IN_TEXT, "t": {"pos": [19, 26]}}, "t.pos ends at 26, but there are 25 characters"),
        ({**IN_TOKENS, "t": {"pos": [5, 7]}}, "t.pos ends at 7, but there are 6 tokens"),
        ({**IN_TOKENS, "token": ["a", "b", "c", "", ""]}, "t.pos covers blanks only"),
        ({**IN_TOKENS, "token": []}, '"token" is not a list of strings'),
        ({**IN_TOKENS, "token": [1]}, '"token" is a int'),
        ([IN_TEXT], "a JSON list — write one object per line"),
    ],
)
def test_damage_is_refused_by_line(tmp_path: Path, row: Any, expected: str) -> None:
    assert refused(tmp_path, IN_TEXT, row).startswith(f"train.txt:2: {expected}")


def test_labels_outside_the_study(tmp_path: Path) -> None:
    message = refused(tmp_path, IN_TEXT, labels=("cause", "NA"))
    assert message == (
        "train.txt:1: label (a value of 6 characters) is not in the study — "
        'map it with rename, or repair it; the nearest is "cause"'
    )


def test_texts_in_both_splits_are_counted(tmp_path: Path) -> None:
    problems = Problems()
    near, other = {**IN_TEXT, "text": TEXT + " "}, {**IN_TEXT, "text": TEXT + " Today."}
    reader = corpus(tmp_path, IN_TEXT, near, other, dedupe=True)
    (tmp_path / "test.txt").write_text(json.dumps(IN_TOKENS))
    assert len(list(reader.documents("train", problems))) == 1
    assert str(problems) == "text also in test, dropped: 2 (train.txt:1, train.txt:2)"


@given(st.lists(st.text(st.sampled_from("aé😀 \n"), max_size=4).map("b{}".format), min_size=2, max_size=8), st.data())
def test_spans_are_true(tmp_path_factory: pytest.TempPathFactory, tokens: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(tokens) - 1))
    row = {"token": tokens, "h": {"pos": [0, cut]}, "t": {"pos": [cut, len(tokens)]}, "relation": "r"}
    documents, _ = read(tmp_path_factory.mktemp("opennre"), row)
    for document in documents:
        words = [document.text[e.start : e.end] for e in document.entities]
        assert words == [" ".join(tokens[:cut]), " ".join(tokens[cut:])]
        assert all(0 <= e.start < e.end <= len(document.text) for e in document.entities)
