"""What is a name and may be shown, and what is not."""

import copy
import json
import pickle
from collections import Counter
from pathlib import Path

import pytest

from wardround.corpora.views import LabelledTexts
from wardround.federation.sites import opened
from wardround.formats.kinds import Kinds
from wardround.text.reading import DataError
from wardround.text.shown import (
    called,
    code,
    line_of,
    named_sources,
    names_of,
    occurring,
    showing_text,
    shown,
    unlike_names,
)

LABELS = Counter({"DRUG": 9, "Therapy or Surgery": 4, "肝病科": 7, "ICD-10/J45": 2, "rash": 1})


def test_a_value_is_shown_by_its_length_alone() -> None:
    assert "(a value of 9 characters)" == shown("Mrs Smith")
    with showing_text():
        assert '"Mrs Smith"' == shown("Mrs Smith")
    assert "(a value of 9 characters)" == shown("Mrs Smith")


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [(1, "17", "1 (task 17)"), (1, "Mrs Smith", "1 (task number 3)"), (5, "17", "5 (task 17)"), (6, "17", "6")],
)
def test_where_documents_share_a_line_it_says_which(line: int, name: str, expected: str) -> None:
    place = line_of(line, "task", name, 3, before=5)
    assert line == place
    back = pickle.loads(pickle.dumps(DataError("a.json", place, "odd")))  # noqa: S301 -- as from a worker process
    assert f"a.json:{expected}: odd" == str(back)
    assert str(line) == json.dumps(copy.deepcopy(place))


def test_a_number_that_a_reader_put_behind_a_word_makes_no_id_of_it() -> None:
    assert ("D1#2", "(an id of 8 characters)") == (called("D1#2"), called("ulcers#2"))
    assert ("D1#2#3", "(an id of 10 characters)") == (called("D1#2#3"), called("ulcers#2#3"))  # written, and read again


def test_names_are_what_repeats_and_is_short() -> None:
    assert LABELS.keys() - {"rash"} == names_of(LABELS)
    assert {*LABELS} == names_of(LABELS, ["rash"])
    assert '"DRUG"' == shown("DRUG", names_of(LABELS))
    for note in ("患者咳嗽三天，有痰，两天前开始发热", "Aspirin gave her a rash and a fever", "two\nlines"):
        assert frozenset() == names_of({note: 5})


def test_a_long_name_of_one_piece_is_a_name_if_it_repeats_often() -> None:
    """A class of IMCS-21 was taken for a note for its 43 characters, though it stood there 59 times."""
    name = "Request-Existing_Examination_and_Treatment"
    assert (frozenset(), frozenset({name})) == (names_of({name: 9}), names_of({name: 10}))
    assert (name,) == occurring("labels", "labels", rows_of(*[name] * 10))
    for note in (
        "患者咳嗽三天有痰两天前开始发热",
        "Aspirin gave her a rash and a fever",
        "x" * 81,
        f"{'seen_' * 9}on_2019-03-04",
    ):
        assert frozenset() == names_of({note: 50})


def test_of_a_column_of_which_most_values_occur_once_nothing_is_a_name() -> None:
    words = Counter(["the", "the", *(f"word {n}" for n in range(998))])
    assert "998 of 1,000 values occur once" == unlike_names(words)
    assert frozenset() == names_of(words)
    assert "" == unlike_names(LABELS)
    assert "" == unlike_names(Counter("abc"))  # too few to tell


@pytest.mark.parametrize("name", ["T1", "n17", "MESH:D009270", "D1|D2#3", "my notes.csv:17", "train.jsonl:3:2"])
def test_ids_that_look_like_ids_are_shown(name: str) -> None:
    assert name == called(name)


@pytest.mark.parametrize("name", [
    "Smith", "Mrs Smith 17", "rash", "x" * 90 + "1", "服药3", "she came on May.4 at.10:30",
])  # fmt: skip
def test_others_are_not(name: str) -> None:
    assert f"(an id of {len(name)} characters)" == called(name)


def test_a_language_is_a_code() -> None:
    assert ["en", "zh-Hans", "", "(not shown)"] == [code(one) for one in ("en", "zh-Hans", "", "She has a rash")]


def rows_of(*labels: str) -> list[tuple[tuple[str, ...], str]]:
    return [((label,), f"n{at}") for at, label in enumerate(labels)]


USUAL = ("flu", "cold") * 6


@pytest.mark.parametrize("label", ["rash", "Therapy or Surgery", "ICD-10/J45.0", "肝病科", "type 1 diabetes mellitus"])
def test_a_rare_label_among_labels_is_one_of_them(label: str) -> None:
    assert {"cold", "flu", label} == {*occurring("labels", "labels", rows_of(*USUAL, label))}
    assert label not in names_of([*USUAL, label])  # but no message shows it


@pytest.mark.parametrize("label", [
    "She has a rash again", "rash, fever", "rash.", "Rash: arms", "咳嗽，有痰", "x" * 41, "two\nlines",
    "患者咳嗽三天有痰两天前开始发热",
])  # fmt: skip
def test_a_rare_label_worded_like_a_note_must_be_declared(label: str) -> None:
    rows = rows_of(*USUAL, label)
    wanted = (
        rf"1 of 3 labels is long, or rare .* has {len(label)} characters and stands in n12; .*labels = .*--show-text"
    )
    with pytest.raises(ValueError, match=wanted):
        occurring("labels", "labels", rows)
    with showing_text():
        assert label in occurring("labels", "labels", rows)
    with pytest.raises(
        ValueError, match=rf"1 of 3 sources is long, or rare .* {len(label)} characters and stands in n12"
    ):
        named_sources([(names[0], place) for names, place in rows])
    named_sources([(names[0], place) for names, place in rows], declared=[label])


def test_a_column_of_which_most_values_occur_once_has_no_labels_however_short() -> None:
    rows = rows_of("flu", "cold", "flu", *(f"rash {n}" for n in range(12)))
    with pytest.raises(ValueError, match=r"does not look like labels: 13 of 15 values occur once; are columns swapped"):
        occurring("labels", "labels", rows)
    with pytest.raises(ValueError, match=r"do not look like names of sites: 13 of 15 .*are columns swapped\?"):
        named_sources([(names[0], place) for names, place in rows])


@pytest.mark.parametrize("times", [2, 3])
def test_short_texts_that_repeat_are_no_labels(times: int) -> None:
    """Swapped columns of questions that come again were shown as forty labels, and trained on."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    texts = [f"fever {letter}" for letter in letters] * times
    why = f"26 of 26 are of several words or long, and occur {times}.0 times"
    assert why == unlike_names(Counter(texts))
    assert frozenset() == names_of(texts)
    with pytest.raises(ValueError, match=rf"does not look like labels: {why}; are columns swapped"):
        occurring("labels", "labels", [((one,), f"n{at}") for at, one in enumerate(texts)])
    assert 12 == len(names_of(texts[:12] * times)), "a dozen classes may be that small"
    assert 26 == len(names_of(texts * 2)), "and many may be that long"
    assert 26 == len(names_of([f"class-{letter}" for letter in letters] * times))


def test_the_line_and_the_column_are_given(tmp_path: Path) -> None:
    rows = [f"a{n},text {n},{label}" for n, label in enumerate((*USUAL, "She has a rash again"))]
    (tmp_path / "train.csv").write_text("\n".join(["id,note,ward", *rows]), encoding="utf-8")
    (tmp_path / "test.csv").write_text("\n".join(["id,note,ward", *rows[:4]]), encoding="utf-8")
    files = LabelledTexts(
        format="csv", train="train.csv", test="test.csv", text="note", label="ward", folder=str(tmp_path)
    )
    with pytest.raises(ValueError, match=r'20 characters and stands in train.csv:14, column "ward"; mend it'):
        _ = opened(files).labels


def test_sources_name_sites_only_if_they_are_names() -> None:
    named_sources([(source, "n1") for source in ("north", "north", "south", "n17", "")])
    with pytest.raises(ValueError, match=r"1 of 2 sources is long, .*the first has 26"):
        named_sources([("north", "n1"), ("north", "n2"), ("Mrs Smith came with a rash", "n3")])


def test_look_alikes_are_listed() -> None:
    kinds = Kinds(labels=Counter({"cell": 5, "Cell": 2, "type 1": 2, "type１": 2, "other": 9}))
    assert [
        'labels that look alike: "Cell" 2 times, "cell" 5 times',
        'labels that look alike: "type 1" 2 times, "type１" 2 times',
    ] == [what for what, _ in kinds.alike()]


@pytest.mark.parametrize("name", [
    "17:aspirin-rash", "17:T1-rash", "17_aspirin", "17.aspirin", "17头痛", "17:头痛-T2",
    "T3word", "3word", "17.rash", "n17:rash.txt", "T3word#2", "T3word:n4",
])  # fmt: skip
def test_an_id_with_a_word_behind_its_number_is_not_quoted(name: str) -> None:
    assert f"(an id of {len(name)} characters)" == called(name)


@pytest.mark.parametrize("name", [
    "17:T1-T2", "MESH:D001241", "note-17", "note17.txt", "2024 notes.csv:12", "D1#2", "note17.jsonl", "17ab-3",
    "3fa85f64-5717-4562-b3fc-2c963f66afa6", "9b74c9897bac770ffc029102a200c5de",
])  # fmt: skip
def test_an_id_that_only_counts_is_quoted(name: str) -> None:
    assert name == called(name)
