"""The layout of the 2010 i2b2/VA challenge, on generated notes: the real ones need an agreement."""

from pathlib import Path
from typing import Any

import pytest

from wardround.corpora.views import RelatedPairs
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems

TEXT = 'Admission Date :\nAspirin  gave her a rash , fever .\nA chest X-ray showed "pneumonia" || cough\n'
CON = (
    'c="aspirin" 2:0 2:0||t="treatment"\nc="a rash" 2:3 2:4||t="problem"\nc="fever" 2:6 2:6||t="problem"\n'
    'c="a chest x-ray" 3:0 3:2||t="test"\nc=""pneumonia" || cough" 3:4 3:6||t="problem"\n'
)
REL = (
    'c="aspirin" 2:0 2:0||r="TrCP"||c="a rash" 2:3 2:4\n'
    'c="a chest x-ray" 3:0 3:2||r="TeRP"||c=""pneumonia" || cough" 3:4 3:6\n'
)
EXPECTED = [
    ("TrCP", "Aspirin", "a rash"),
    ("none", "Aspirin", "fever"),
    ("none", "a rash", "fever"),
    ("TeRP", "A chest X-ray", '"pneumonia" || cough'),
]


def folder(tmp_path: Path, text: str = TEXT, con: str = CON, rel: str = REL, *, flat: bool = False) -> Path:
    for split, files in (("train", {"txt": text, "con": con, "rel": rel}), ("test", {"txt": "", "con": "", "rel": ""})):
        for kind, content in files.items():
            place = tmp_path / split / ("" if flat else {"con": "concept"}.get(kind, kind))
            place.mkdir(parents=True, exist_ok=True)
            (place / f"record-17.{kind}").write_bytes(content.encode())
    return tmp_path


def read(place: Path, **settings: Any) -> tuple[list[Document], str]:
    problems = Problems()
    reader = RelatedPairs(format="i2b2", train="train", test="test", folder=str(place), **settings)
    return list(reader.documents("train", problems)), str(problems)


def words(documents: list[Document]) -> list[tuple[str, ...]]:
    return [(*d.labels, *(d.text[e.start : e.end] for e in d.entities)) for d in documents]


def refused(place: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(place, **settings)
    message = str(caught.value)
    assert not {"spirin", "rash", "pneumonia"} & set(message.replace('"', " ").split())
    return message.rpartition("record-17")[2]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_pairs_of_a_line(tmp_path: Path, flat: bool, end: str) -> None:
    content = [part.replace("\n", end) for part in (TEXT, CON, REL)]
    documents, problems = read(folder(tmp_path, *content, flat=flat), language="en")
    assert (words(documents), problems) == (EXPECTED, "")
    assert (documents[0].text, documents[0].source) == ("Aspirin  gave her a rash , fever .", "record-17")
    assert [tuple(e.type for e in d.entities) for d in documents] == [
        ("treatment", "problem"),
        ("treatment", "problem"),
        ("problem", "problem"),
        ("test", "problem"),
    ]
    assert all([e.id for e in d.entities] == ["e1", "e2"] for d in documents)
    assert {label for d in documents for label in d.labels} <= set(
        RelatedPairs(format="i2b2", train="", test="").labels
    )


def test_problems_are_paired_in_the_order_of_the_line(tmp_path: Path) -> None:
    rel = 'c="fever" 2:6 2:6||r="PIP"||c="a rash" 2:3 2:4\n'
    documents, problems = read(folder(tmp_path, rel=rel))
    assert words(documents)[2] == ("PIP", "a rash", "fever")
    assert problems == "relation against the order of the text, turned: 1 (record-17.txt:2)"


def test_a_problem_named_first_is_turned(tmp_path: Path) -> None:
    rel = 'c="a rash" 2:3 2:4||r="TrCP"||c="aspirin" 2:0 2:0\n'
    documents, problems = read(folder(tmp_path, rel=rel))
    assert words(documents)[0] == EXPECTED[0]
    assert problems == "problem named first, turned: 1 (record-17.rel:1)"


def test_labels_can_be_merged(tmp_path: Path) -> None:
    labels = ("TrP", "TeP", "PIP", "none")
    documents, _ = read(folder(tmp_path), labels=labels, rename={"TrCP": "TrP", "TeRP": "TeP"})
    assert [d.labels[0] for d in documents] == ["TrP", "none", "none", "TeP"]


def test_relations_across_lines_and_concepts_over_lines_are_counted(tmp_path: Path) -> None:
    con = CON + 'c="fever . a" 2:6 3:0||t="problem"\n'
    rel = (
        'c="aspirin" 2:0 2:0||r="TrAP"||c=""pneumonia" || cough" 3:4 3:6\n'
        'c="aspirin" 2:0 2:0||r="TrAP"||c="fever . a" 2:6 3:0\n'
    )
    documents, problems = read(folder(tmp_path, con=con, rel=rel))
    assert [d.labels[0] for d in documents] == ["none"] * 4
    assert problems.splitlines() == [
        "concept over a line's end, left out: 1 (record-17.con:6)",
        "relation of a concept over a line's end, left out: 1 (record-17.rel:2)",
        "relation across lines, left out: 1 (record-17.txt:2)",
    ]


def test_a_concept_named_twice_is_counted(tmp_path: Path) -> None:
    documents, problems = read(folder(tmp_path, con=CON + CON.splitlines()[0]))
    assert (words(documents), problems) == (EXPECTED, "concept occurs twice, the first taken: 1 (record-17.con:6)")


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("con", "2:0 2:0", "9:0 9:0", ".con:1: lines 9 to 9, but the note has 3"),
        ("con", "2:0 2:0", "0:0 0:0", ".con:1: lines 0 to 0, but the note has 3"),
        ("con", "2:0 2:0", "3:0 2:0", ".con:1: lines 3 to 2"),
        ("con", "2:6 2:6", "2:6 2:8", ".con:3: tokens 6 to 8, but line 2 has 8"),
        ("con", "2:3 2:4", "2:4 2:3", ".con:2: tokens 4 to 3, but line 2 has 8"),
        ("con", "2:3 2:4", "2:4 2:5", ".con:2: its words are not tokens 4 to 5 of line 2"),
        ("con", '||t="treatment"', "", '.con:1: not a line of a .con file — write c="…"'),
        ("con", "2:0 2:0", "-2:0 2:0", ".con:1: not a line of a .con file"),
        ("rel", "2:3 2:4", "2:3 2:5", ".rel:1: no concept at 2:3 2:5 in the .con"),
        ("rel", '||r="TrCP"', "", ".rel:1: not a line of a .rel file"),
        ("rel", "TrCP", "TrXP", ".rel:1: label (a value of 4 characters) is not in the study — map it"),
        ("rel", "TrCP", "", ".rel:1: empty label"),
    ],
)
def test_damage_is_refused_by_line(tmp_path: Path, kind: str, old: str, new: str, expected: str) -> None:
    content = {"con": CON, "rel": REL}
    assert old in content[kind]
    content[kind] = content[kind].replace(old, new, 1)
    assert refused(folder(tmp_path, con=content["con"], rel=content["rel"])).startswith(expected)


@pytest.mark.parametrize(("kind", "place"), [("con", "concept"), ("rel", "rel")])
def test_notes_without_annotations_are_counted(tmp_path: Path, kind: str, place: str) -> None:
    root = folder(tmp_path)
    (root / "train" / place / f"record-17.{kind}").unlink()
    assert read(root) == ([], f"note without .{kind}, skipped: 1 (record-17.txt:1)")


def test_two_hospitals_may_use_the_same_names(tmp_path: Path) -> None:
    root = folder(tmp_path)
    (root / "all").mkdir()
    (root / "train").rename(root / "all" / "beth")
    folder(tmp_path)
    (root / "train").rename(root / "all" / "partners")
    (root / "all").rename(root / "train")
    assert words(read(root)[0]) == EXPECTED * 2


def test_two_files_for_one_note_are_refused(tmp_path: Path) -> None:
    root = folder(tmp_path)
    (root / "train/old").mkdir()
    (root / "train/old/record-17.con").write_text(CON)
    with pytest.raises(DataError, match=r"a second record-17\.con"):
        read(root)


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not a folder — name the folder that holds the \.txt and \.con files"):
        read(tmp_path)
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
    with pytest.raises(DataError, match=r"no \.txt file in this folder"):
        read(tmp_path)
