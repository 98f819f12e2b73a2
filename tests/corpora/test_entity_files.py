"""Readers of entities: CoNLL columns, our JSONL, CADEC and SMM4H as published, and what each refuses or counts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data import DATA, needs_data
from wardround.corpora.ade import ADE
from wardround.corpora.cadec import CADEC
from wardround.corpora.halved import EntityCorpus
from wardround.corpora.smm4h import SMM4H
from wardround.corpora.tagged_corpora import BC2GM, BC5CDR, NCBIDisease, PsyTAR
from wardround.corpora.views import MarkedTexts
from wardround.federation.sites import opened
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems
from wardround.text.tokens import tokenised


def plain(documents: list[Document]) -> list[list[tuple[str, str]]]:
    """Type and words of every entity, document by document."""
    return [[(e.type, d.text[e.start : e.end]) for e in d.entities] for d in documents]


def conll(folder: Path, text: str | bytes, **settings: Any) -> tuple[list[Document], Problems]:
    """A CoNLL file's documents and what was odd."""
    path = folder / "a.conll"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    problems = Problems()
    return list(
        MarkedTexts(format="conll", train=str(path), test=str(path), **settings).documents("train", problems)
    ), problems


@pytest.mark.parametrize(
    "text",
    [
        "Aspirin\tB-drug\ngave\tO\n\na\tO\nbad\tB-side-effect\nrash\tI-side-effect\n",
        "Aspirin B-drug\ngave O\n\na   O\nbad  B-side-effect\nrash I-side-effect",
        "Aspirin\tNN\tx\tB-drug\r\ngave\tV\tx\tO\r\n\r\na\tD\tx\tO\r\nbad\tA\tx\tB-side-effect\r\nrash\tN\tx\tI-side-effect\r\n",
        "\ufeffAspirin\tS-drug\ngave\tO\n\na\tO\nbad\tB-side-effect\nrash\tE-side-effect\n",
    ],
    ids=["tabs", "blanks, no last newline", "four columns, CRLF", "BOM, BIOES"],
)
def test_columns_become_text_with_spans(text: str, tmp_path: Path) -> None:
    documents, problems = conll(tmp_path, text)
    assert ["Aspirin gave", "a bad rash"] == [document.text for document in documents]
    assert [[("drug", "Aspirin")], [("side-effect", "bad rash")]] == plain(documents)
    assert {} == problems.counts


def test_bare_tags_have_the_type_that_the_reader_names(tmp_path: Path) -> None:
    documents, _ = conll(tmp_path, "Mus\tB\nmusculus\tI\nran\tO\n", bare="Species")
    assert [[("Species", "Mus musculus")]] == plain(documents)


def test_token_and_tag_may_stand_in_any_column(tmp_path: Path) -> None:
    documents, _ = conll(tmp_path, "1\tB-drug\tAspirin\tNN\n2\tO\tgave\tV\n", token=3, tag=2)
    assert [[("drug", "Aspirin")]] == plain(documents)


def test_oddities_are_repaired_or_left_out_and_counted(tmp_path: Path) -> None:
    text = "rash\tI-effect\n\n\n\nit\tO\textra\n\tO\n-DOCSTART-\tO\n\nAspirin\tB-drug\npain\tI-effect\n"
    documents, problems = conll(tmp_path, text, tag=2)
    assert [[("effect", "rash")], [], [("drug", "Aspirin"), ("effect", "pain")]] == plain(documents)
    assert ["", "", "a-1"] == [document.source for document in documents]
    assert {
        "tags break their scheme, repaired": 2,
        "empty sentence, left out": 2,
        "line with a different number of columns": 1,
        "empty token, left out": 1,
    } == problems.counts
    assert "a.conll:1" in str(problems)


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("a\tO\nsecret\n", {}, "a.conll:2: one column, so a token without a tag"),
        ("a\tO\nb\tX-drug\n", {}, "a.conll:2: column 2: (a value of 6 characters) is not a tag — write O"),
        ("a B-Drg\n" * 2, {"types": ("Drug",)}, 'type "Drg" is not in the study — map it: rename = { "Drg" = "Drug" }'),
        ("a\tO\n", {"tag": 5}, "a.conll:1: 2 columns, but token = 1 and tag = 5"),
        (b"a\tO\n\xe9t\xe9\tO\n", {}, "a.conll:2: byte 4 is not utf-8; it looks like latin-1"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_line(
    text: str | bytes, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as refused:
        conll(tmp_path, text, **settings)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_token_of_a_megabyte_is_read(tmp_path: Path) -> None:
    documents, _ = conll(tmp_path, f"{'x' * 2**20}\tB-drug\nb\tO\n")
    assert 2**20 + 2 == len(documents[0].text)


def test_each_hospital_can_have_a_file_of_its_own(tmp_path: Path) -> None:
    for name, kind in (("north", "drug"), ("south", "effect")):
        (tmp_path / f"{name}.conll").write_text(f"it\tB-{kind}\n", encoding="utf-8")
    files = {name: f"{name}.conll" for name in ("north", "south")}
    corpus: Any = opened(MarkedTexts(format="conll", train=files, test=files, folder=str(tmp_path)))
    assert (("north", "south"), ("drug", "effect")) == (corpus.names, corpus.types)
    assert [[("effect", "it")]] == plain(list(corpus.raw("south")[0].documents))


def jsonl(folder: Path, *rows: object, **settings: Any) -> tuple[list[Document], Problems]:
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    problems = Problems()
    return list(
        MarkedTexts(format="jsonl", train=str(path), test=str(path), **settings).documents("train", problems)
    ), problems


def test_jsonl_takes_spans_or_tags(tmp_path: Path) -> None:
    documents, problems = jsonl(
        tmp_path,
        {"id": "1", "text": "Aspirin: rash", "source": "b", "entities": [{"type": "effect", "start": 9, "end": 13}]},
        {"tokens": ["Aspirin", "gave", "rash"], "tags": ["B-drug", "O", "I-effect"]},
        {"text": " ", "entities": []},
    )
    assert [[("effect", "rash")], [("drug", "Aspirin"), ("effect", "rash")]] == plain(documents)
    assert ("1", "b") == (documents[0].id, documents[0].source)
    assert {"tags break their scheme, repaired": 1, "empty sentence, left out": 1} == problems.counts


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "2 tokens, but 1 tags"),
        ({"tokens": ["a"], "tags": ["B"]}, "(a value of 1 characters) is not a tag"),
        ({"tokens": ["a"]}, 'no "tags"'),
        ({"text": "rash", "entities": [{"type": "e", "start": 2, "end": 9}]}, 'entity "T1" ends at 9, the text has 4'),
        ({"text": "rash", "entities": [{"type": "", "start": 0, "end": 1}]}, "an entity without a type"),
        ({"text": "rash"}, 'no "entities"'),
        ([], "a JSON list"),
    ],
)  # fmt: skip
def test_jsonl_says_what_is_wrong_in_which_line(row: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        jsonl(tmp_path, {"text": "x", "entities": []}, row)
    assert f"a.jsonl:2: {message}" in str(refused.value)


def test_cadec_as_published(tmp_path: Path) -> None:
    """Reviews and annotations in two folders; discontinuous entities from first to last character."""
    (tmp_path / "text").mkdir()
    (tmp_path / "original").mkdir()
    for number in range(10):
        (tmp_path / "text" / f"LIPITOR.{number}.txt").write_text(f"{number} Lipitor gave me pain in legs and arms.\n")
    for number in range(9):
        (tmp_path / "original" / f"LIPITOR.{number}.ann").write_text(
            "T1\tDrug 2 9\tLipitor\nT2\tADR 18 25;35 39\tpain in arms\n#1\tAnnotatorNotes T2\tnone\n"
        )
    reader, problems = CADEC(path=str(tmp_path), by="source"), Problems()
    documents = list(reader.documents("train", problems))
    assert [("Drug", "Lipitor"), ("ADR", "pain in legs and arms")] == plain(documents)[0]
    assert {"comment, ignored": 9, "note without .ann, skipped": 1} == problems.counts
    assert {((18, 25), (35, 39))} == {document.entities[1].parts for document in documents}
    cut = Problems()
    for document in documents:
        list(tokenised(document, cut))
    assert {"discontinuous entity, taken from first to last character": 7} == cut.counts
    assert (7, 2) == (len(documents), len(list(reader.documents("test"))))


def test_smm4h_as_published(tmp_path: Path) -> None:
    """A row per reaction, one for a tweet without any; the drug is found by its name."""
    path = tmp_path / "task2.tsv"
    path.write_text(
        "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term\n"
        "1\t14\t19\tADR\tdizzy\tvioxx\tVioxx made me dizzy and sick\t10\tdizziness\n"
        "1\t25\t29\tADR\tsick\tvioxx\tVioxx made me dizzy and sick\t11\tnausea\n"
        "2\t-\t-\t-\t-\tprozac\tI love my #Prozac\t-\t-\n"
        "3\t-\t-\t-\t-\tprozac\tmy happy pills\t-\t-\n",
        encoding="utf-8",
    )
    problems = Problems()
    documents = list(SMM4H(path=str(path)).whole(problems))
    assert [
        [("Drug", "Vioxx"), ("ADE", "dizzy"), ("ADE", "sick")],
        [("Drug", "Prozac")],
        [],
    ] == plain(documents)
    assert {"offsets repaired": 1, "drug not in its tweet by this name": 1} == problems.counts


def test_brat_notes_come_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Aspirin. A rash.", encoding="utf-8")
    (tmp_path / "a.ann").write_text("T1\tdrug 0 7\tAspirin\nT2\teffect 11 15\trash\n", encoding="utf-8")
    documents = list(MarkedTexts(format="brat", train=str(tmp_path), test=str(tmp_path)).documents("train"))
    assert [[("drug", "Aspirin"), ("effect", "rash")]] == plain(documents)


@needs_data
@pytest.mark.parametrize(
    ("reader", "sentences", "entities"),
    [
        (BC5CDR(), 13938, {"Chemical": 15935, "Disease": 12852}),
        (NCBIDisease(), 7287, {"Disease": 6881}),
        (BC2GM(), 20131, {"GENE": 24583}),
        (PsyTAR(), 5591, {"ADR": 3543, "DI": 716, "WD": 444, "SSI": 340}),
        (ADE(), 4272, {"ADE": 5774, "Drug": 5061, "Dosage": 230}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_public_corpora_hold_what_their_publishers_say(
    reader: EntityCorpus, sentences: int, entities: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARDROUND_DATA", str(DATA))
    documents = list(reader.whole(Problems()))
    assert sentences == len(documents)
    assert entities == Counter(entity.type for document in documents for entity in document.entities)
    assert set(entities) == set(reader.types)
    assert all(d.text[e.start : e.end].strip() for d in documents for e in d.entities)


def ade(folder: Path, *rows: str) -> list[Document]:
    place = folder / "ade_corpus_v2"
    place.mkdir()
    (place / "DRUG-AE.rel").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    (place / "DRUG-DOSE.rel").write_text("", encoding="utf-8")
    return list(ADE().whole(Problems()))


def test_ade_offsets_count_from_the_start_of_the_article(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of two equal words is meant follows from the distance of the two spans."""
    monkeypatch.setenv("WARDROUND_DATA", str(tmp_path))
    text = "Rash, then rash after aspirin."
    found = ade(tmp_path, f"7|{text}|rash|111|115|aspirin|122|129", f"7|{text}|Rash|100|104|aspirin|122|129")
    assert [[("ADE", "Rash"), ("ADE", "rash"), ("Drug", "aspirin")]] == plain(found)
    assert [("ADE", 0, 4), ("ADE", 11, 15), ("Drug", 22, 29)] == [(e.type, e.start, e.end) for e in found[0].entities]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("7|Rash.|Rash|0|4", "5 columns, not 8"),
        ("7|Rash by x.|Rash|0|4|x|9|10", "its spans are not in its sentence at their distance"),
        ("7|Rash by x.|Rash|0|5|x|8|9", "offsets 5 apart for 4 characters"),
    ],
)
def test_ade_refuses_damaged_rows(row: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARDROUND_DATA", str(tmp_path))
    with pytest.raises(DataError, match=f"DRUG-AE.rel:1: {said}"):
        ade(tmp_path, row)
