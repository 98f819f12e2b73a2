"""BRAT folders become pairs; damaged ones are refused by file and line, and never quoted unless asked for."""

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.corpora.views import MarkedTexts, RelatedPairs
from wardround.text import bounded
from wardround.text.document import Attribute, Document, Entity, Relation
from wardround.text.reading import DataError, Problems
from wardround.text.shown import showing_text

TEXT = "Aspirin gave her a rash.\nIbuprofen helped the fever.\n"
ANN = (
    "T1\tdrug 0 7\tAspirin\nT2\tproblem 19 23\trash\nT3\tdrug 25 34\tIbuprofen\nT4\tproblem 46 51\tfever\n"
    "R1\tcauses Arg1:T1 Arg2:T2\nR2\ttreats Arg1:T3 Arg2:T4\n"
)


def folder(tmp_path: Path, text: str | bytes = TEXT, ann: str | bytes = ANN) -> Path:
    for split in ("train", "test"):
        (tmp_path / split).mkdir(exist_ok=True)
    for name, content in (("train/17.txt", text), ("train/17.ann", ann), ("test/1.txt", ""), ("test/1.ann", "")):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


def corpus(place: Path, **settings: Any) -> RelatedPairs:
    return RelatedPairs(format="brat", train="train", test="test", folder=str(place), **settings)


def read(place: Path, **settings: Any) -> tuple[list[Document], str]:
    problems = Problems()
    return list(corpus(place, **settings).documents("train", problems)), str(problems)


def words_of(documents: list[Document]) -> list[tuple[str, ...]]:
    return [(*d.labels, *(d.text[e.start : e.end] for e in d.entities)) for d in documents]


def refused(place: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(place, **settings)
    message = str(caught.value)
    assert settings.get("show_text") or "spirin" not in message
    return message.removeprefix(f"{place}/")


EXPECTED = [("causes", "Aspirin", "rash"), ("treats", "Ibuprofen", "fever")]


def test_a_folder(tmp_path: Path) -> None:
    documents, problems = read(folder(tmp_path), language="en")
    assert words_of(documents) == EXPECTED
    assert documents[1] == Document(
        id="17:T3-T4",
        text="Ibuprofen helped the fever.",
        labels=("treats",),
        entities=(Entity("e1", "drug", 0, 9), Entity("e2", "problem", 21, 26)),
        relations=(Relation("treats", "e1", "e2"),),
        source="17",
        language="en",
    )
    assert problems == ""


def test_whole_notes(tmp_path: Path) -> None:
    [note] = MarkedTexts(format="brat", train="train", test="test", folder=str(folder(tmp_path))).documents("train")
    assert (note.id, note.text, len(note.entities), len(note.relations)) == ("17", TEXT, 4, 2)


def test_unrelated_pairs_are_none_and_pairs_can_be_set(tmp_path: Path) -> None:
    place = folder(tmp_path, ann=ANN.replace("R1", "#1").replace("R2", "#2"))
    documents, problems = read(place, pairs=(("problem", "drug"),))
    assert words_of(documents) == [("none", "rash", "Aspirin"), ("none", "fever", "Ibuprofen")]
    assert problems == "comment, ignored: 2 (17.ann:5, 17.ann:6)"


def test_sub_folders_and_relations_before_their_entities(tmp_path: Path) -> None:
    place = folder(tmp_path, ann="".join(reversed(ANN.splitlines(keepends=True))))
    (place / "train/ward.b").mkdir()
    for end in (".txt", ".ann"):
        (place / f"train/17{end}").rename(place / f"train/ward.b/17.x{end}")
    documents, _ = read(place)
    assert sorted(words_of(documents)) == EXPECTED
    assert {d.source for d in documents} == {"ward.b/17.x"}


def test_attributes_and_concepts_are_kept(tmp_path: Path) -> None:
    more = (
        "A1\tNegated T2\nM1\tCertainty T2 Low\nA2\tHedged R1\nN1\tReference T1 RxNorm:1191\tAspirin\n"
        "N2\tReference T1 id:D1\tacetylsalicylic acid\n"
    )
    problems = Problems()
    [note] = MarkedTexts(
        format="brat", train="train", test="test", folder=str(folder(tmp_path, ann=ANN + more))
    ).documents("train", problems)
    assert [("RxNorm:1191", "D1"), ()] == [one.concepts for one in note.entities[:2]]
    assert (("Certainty", "Low"), ("Negated", "true")) == note.entities[1].attributes
    assert [(("Hedged", "true"),), ()] == [one.attributes for one in note.relations]
    assert "name of a concept beside its id, not kept: 1 (17.ann:11)" == str(problems)


def test_other_lines_are_ignored_and_counted(tmp_path: Path) -> None:
    more = (
        "E1\tGiving:T1 Theme:T2\nA1\tNegated E1\nM1\tNegated E1\n#2\tAnnotatorNotes T1\tconfidence 0.9, tagger 1.0\n"
        "#1\tAnnotatorNotes T1\tsure?\n*\tEquiv T1 T3\nR3\tcauses Arg1:T1 Arg2:E1\n\n"
    )
    documents, problems = read(folder(tmp_path, ann=ANN + more))
    assert words_of(documents) == EXPECTED
    assert problems.splitlines() == [
        "event, ignored: 1 (17.ann:7)",
        "comment, ignored: 1 (17.ann:11)",
        "equivalence, ignored: 1 (17.ann:12)",
        "attribute of an event, ignored: 2 (17.ann:8, 17.ann:9)",
        "relation of an event, left out: 1 (17.ann:13)",
    ]


def test_discontinuous_entities_reach_from_first_to_last(tmp_path: Path) -> None:
    ann = "T1\tdrug 0 7\tAspirin\nT2\tproblem 8 12;19 23\tgave rash\nR1\tcauses Arg1:T1 Arg2:T2\n"
    documents, problems = read(folder(tmp_path, ann=ann))
    assert words_of(documents) == [("causes", "Aspirin", "gave her a rash")]
    assert problems == "discontinuous entity, taken from first to last character: 1 (17.txt:1)"


def test_an_entity_over_a_line_end_is_written_with_a_blank(tmp_path: Path) -> None:
    ann = "T1\tdrug 0 7\tAspirin\nT2\tproblem 19 34\trash. Ibuprofen\nR1\tcauses Arg1:T1 Arg2:T2\n"
    assert words_of(read(folder(tmp_path, ann=ann))[0]) == [("causes", "Aspirin", "rash.\nIbuprofen")]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_carriage_returns_count_if_the_offsets_count_them(tmp_path: Path, mark: bytes) -> None:
    text = TEXT.replace("\n", "\r\n")
    ann = ANN.replace("25 34", "26 35").replace("46 51", "47 52").replace("\n", "\r\n")
    documents, problems = read(folder(tmp_path, mark + text.encode(), ann))
    assert (words_of(documents), problems) == (EXPECTED, "")


@pytest.mark.parametrize(
    ("gap", "how", "size"),
    [
        ("\r\n", "no carriage returns", lambda text: len(text.replace("\r", ""))),
        ("é\n", "UTF-8 bytes", lambda text: len(text.encode())),
        ("😀\n", "UTF-16 units", lambda text: len(text.encode("utf-16-le")) // 2),
    ],
)
def test_other_ways_of_counting_are_told_and_converted(
    tmp_path: Path, gap: str, how: str, size: Callable[[str], int]
) -> None:
    text, ann = 4 * gap + TEXT.replace("\n", gap), ANN
    for words in ("Aspirin", "rash", "Ibuprofen", "fever"):
        start = text.index(words)
        offsets = f"{size(text[:start])} {size(text[:start] + words)}"
        ann = re.sub(rf"\d+ \d+\t{words}", f"{offsets}\t{words}", ann)
    place = folder(tmp_path, text, ann)
    assert refused(place).endswith(f"offsets look as if they count {how}; try fix_offsets = true")
    assert read(place, fix_offsets=True)[1] == f"offsets count {how}, converted: 1 (17.ann:1)"
    assert words_of(read(place, fix_offsets=True)[0]) == EXPECTED


def test_shifted_offsets(tmp_path: Path) -> None:
    place = folder(tmp_path, ann=ANN.replace("0 7", "1 8").replace("46 51", "40 45"))
    expected = "T1 says 7 characters, text[1:8] differs — offsets look shifted by one; try fix_offsets = true"
    assert refused(place) == f"train/17.ann:1: {expected}"
    assert 'T1 says "Aspirin", text[1:8] is "spirin "' in refused(place, show_text=True)
    documents, problems = read(place, fix_offsets=True)
    assert (words_of(documents), problems) == (EXPECTED, "offsets repaired: 2 (17.ann:1, 17.ann:4)")


def test_a_wrong_end(tmp_path: Path) -> None:
    place = folder(tmp_path, ann=ANN.replace("0 7", "0 6"))
    assert refused(place).endswith("text[0:6] differs — its words end at 7; try fix_offsets = true")
    assert read(place, fix_offsets=True)[1] == "offsets repaired: 1 (17.ann:1)"


@pytest.mark.parametrize("fix_offsets", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("0 7\tAspirin", "0 7\tNaproxen", "17.ann:1: T1 says 8 characters, text[0:7] differs — its words are nowhere"),
        ("46 51\tfever", "4600 5100", "17.ann:4: T4 ends at 5100, the note has 53 characters"),
        ("19 23", "-3 1", "17.ann:2: T2 goes from -3 to 1"),
        ("19 23", "23 19", "17.ann:2: T2 goes from 23 to 19"),
        ("19 23", "19 19", "17.ann:2: T2 goes from 19 to 19"),
        ("19 23", "19", "17.ann:2: not a line of BRAT's T kind — write T1, tab"),
        ("19 23", "19 " + "9" * 5000, "17.ann:2: not a line of BRAT's T kind"),
        ("Arg1:T3 Arg2:T4", "Arg1:T3", "17.ann:6: not a line of BRAT's R kind"),
        ("Arg1:T3 Arg2:T4", "T3 T4", "17.ann:6: not a line of BRAT's R kind"),
        ("Arg2:T4", "Arg2:T9", '17.ann:6: "R2" names "T9", which is not in this file'),
        ("T3\tdrug", "T1\tdrug", '17.ann:3: "T1" is already in line 1'),
        ("R2\ttreats", "R1\ttreats", '17.ann:6: "R1" is already in line 5'),
        ("T1\tdrug", "Aspirin gave", "17.ann:1: not a line of BRAT's — each begins with"),
        ("T1\tdrug", "Tspirin\tdrug", "17.ann:1: not a line of BRAT's T kind"),
        ("T1\tdrug", " T1\tdrug", "17.ann:1: not a line of BRAT's"),
        ("R1\t", "A1\tsure T1\nA2\tnot A1\nR1\t", '17.ann:6: "A2" names "A1", which is not an entity or a relation'),
        ("R1\t", "A1\tsure T1\nN1\tReference A1 UMLS:C1\nR1\t", '17.ann:6: "N1" names "A1", which is not an entity'),
    ],
)
def test_damage_is_refused_by_line(tmp_path: Path, old: str, new: str, expected: str, fix_offsets: bool) -> None:
    assert old in ANN
    assert refused(folder(tmp_path, ann=ANN.replace(old, new)), fix_offsets=fix_offsets).startswith(f"train/{expected}")


def test_an_entity_without_its_words_is_counted(tmp_path: Path) -> None:
    documents, problems = read(folder(tmp_path, ann=ANN.replace("\trash", "")))
    assert (words_of(documents), problems) == (EXPECTED, "entity without its words, offsets unchecked: 1 (17.ann:2)")


def test_blanks_behind_an_attribute_are_passed_at_once(tmp_path: Path) -> None:
    """A hundred thousand would take minutes, were each place among them tried."""
    documents, _ = read(folder(tmp_path, ann=ANN + "A1\tsure T1" + " " * 100_000 + "\nA2\tdose T1 2  mg \n"))
    assert EXPECTED == words_of(documents)
    assert {Attribute("sure"), Attribute("dose", "2  mg")} == {*documents[0].entities[0].attributes}


def test_a_pipe_and_links_that_lead_nowhere_are_no_notes(tmp_path: Path) -> None:
    place = folder(tmp_path)
    os.mkfifo(place / "train/18.txt")
    os.mkfifo(place / "train/17b.ann")
    (place / "train/19.txt").symlink_to("19.txt")
    assert EXPECTED == words_of(read(place)[0])


@pytest.mark.parametrize(("what", "ending"), [("text", "txt"), ("ann", "ann")])
def test_a_note_has_a_largest_size(tmp_path: Path, what: str, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LONGEST_LINE", 1000)
    long = gzip.compress(b"#1\tAnnotatorNotes T1\tAspirin\n" * 99)
    assert f"17.{ending}: the text is longer than 1,000 characters" in refused(folder(tmp_path, **{what: long}))


def test_missing_files(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "train/18.txt").write_text("No pain.")
    (place / "train/._17.txt").write_bytes(b"\x00\xff hidden")
    assert read(place)[1] == "note without .ann, skipped: 1 (18.txt:1)"
    (place / "train/19.ann").write_text("")
    assert refused(place) == "train/19.ann: its note is missing — copy 19.txt beside it"
    assert "train: not a folder — name the folder that holds the .txt and .ann files" in refused(tmp_path / "nowhere")
    (tmp_path / "nowhere" / "train").mkdir(parents=True)
    assert "no .txt file in this folder" in refused(tmp_path / "nowhere")


def test_labels_outside_the_study(tmp_path: Path) -> None:
    message = refused(folder(tmp_path), labels=("Causes", "none"))
    assert message == (
        "train/17.ann:5: label (a value of 6 characters) is not in the study — "
        'map it with rename, or repair it; the nearest is "Causes"'
    )
    with showing_text():
        message = refused(tmp_path, labels=("Causes", "none"))
    assert message == 'train/17.ann:5: label "causes" is not in the study — map it: rename = { "causes" = "Causes" }'


def test_undecodable_notes_name_the_remedy(tmp_path: Path) -> None:
    place = folder(tmp_path, "Fièvre".encode("latin-1"), "")
    assert 'set encoding = "latin-1"' in refused(place)


@given(st.lists(st.tuples(st.sampled_from(["rash", "😀 pain", "fièvre"]), st.sampled_from([" ", "\n", ". ", "\r\n"]))))
def test_spans_are_true(tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str]]) -> None:
    text, ann = "", ""
    for number, (name, gap) in enumerate(parts):
        ann += f"T{number}\tproblem {len(text)} {len(text) + len(name)}\t{name}\n"
        text += name + gap
    place = folder(tmp_path_factory.mktemp("brat"), text, ann)
    documents, problems = read(place, pairs=(("problem", "problem"),))
    assert all({d.text[e.start : e.end] for e in d.entities} <= {name for name, _ in parts} for d in documents)
    assert all(0 <= e.start < e.end <= len(d.text) for d in documents for e in d.entities)
    assert problems == ("" if parts else "no entity, so no pair: 1 (17.txt:1)")
