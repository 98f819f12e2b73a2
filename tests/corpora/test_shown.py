"""What is a name and may be shown, and what is not."""

from collections import Counter

import pytest

from wardround.corpora.kinds import Kinds
from wardround.corpora.shown import called, code, named_sources, names_of, occurring, showing_text, shown, unlike_names

LABELS = Counter({"DRUG": 9, "Therapy or Surgery": 4, "肝病科": 7, "ICD-10/J45": 2, "rash": 1})


def test_a_value_is_shown_by_its_length_alone() -> None:
    assert "(a value of 9 characters)" == shown("Mrs Smith")
    with showing_text():
        assert '"Mrs Smith"' == shown("Mrs Smith")
    assert "(a value of 9 characters)" == shown("Mrs Smith")


def test_names_are_what_repeats_and_is_short() -> None:
    assert LABELS.keys() - {"rash"} == names_of(LABELS)
    assert {*LABELS} == names_of(LABELS, ["rash"])
    assert '"DRUG"' == shown("DRUG", names_of(LABELS))
    for note in ("患者咳嗽三天，有痰，两天前开始发热", "Aspirin gave her a rash and a fever", "two\nlines"):
        assert frozenset() == names_of({note: 5})


def test_of_a_column_of_which_most_values_occur_once_nothing_is_a_name() -> None:
    words = Counter(["the", "the", *(f"word {n}" for n in range(998))])
    assert "998 of 1,000 values occur once" == unlike_names(words)
    assert frozenset() == names_of(words)
    assert "" == unlike_names(LABELS)
    assert "" == unlike_names(Counter("abc"))  # too few to tell


@pytest.mark.parametrize("name", ["T1", "n17", "MESH:D009270", "D1|D2#3", "my notes.csv:17", "train.jsonl:3:2"])
def test_ids_that_look_like_ids_are_shown(name: str) -> None:
    assert name == called(name)


@pytest.mark.parametrize("name", ["Smith", "Mrs Smith 17", "rash", "x" * 90 + "1"])
def test_others_are_not(name: str) -> None:
    assert f"(an id of {len(name)} characters)" == called(name)


def test_a_language_is_a_code() -> None:
    assert ["en", "zh-Hans", "", "(not shown)"] == [code(one) for one in ("en", "zh-Hans", "", "She has a rash")]


def test_labels_of_training_must_be_names_or_declared() -> None:
    rows = [((label,), f"n{at}") for at, label in enumerate(["flu", "cold", "flu", "cold", "rash"])]
    with pytest.raises(ValueError, match=r"1 of 3 labels occur once .*, the first in n4 \(4 characters\); .*labels = "):
        occurring("labels", "labels", rows)
    assert ("cold", "flu", "rash") == occurring("labels", "labels", rows, more=["rash"])
    with showing_text():
        assert ("cold", "flu", "rash") == occurring("labels", "labels", rows)
    with pytest.raises(ValueError, match=r"does not look like labels: 13 of 15 values occur once; are columns swapped"):
        occurring("labels", "labels", [*rows[:2], *rows[:2], *(((f"note {n}",), "") for n in range(12))][1:])


def test_sources_name_sites_only_if_they_are_names() -> None:
    named_sources(["north", "north", "n17", ""])
    with pytest.raises(ValueError, match="1 of 2 sources occur once or are too long to name sites, the first has 9"):
        named_sources(["north", "north", "Mrs Smith"])


def test_look_alikes_are_listed() -> None:
    kinds = Kinds(labels=Counter({"cell": 5, "Cell": 2, "type 1": 2, "type１": 2, "other": 9}))
    assert [
        'labels that look alike: "Cell" 2 times, "cell" 5 times',
        'labels that look alike: "type 1" 2 times, "type１" 2 times',
    ] == [what for what, _ in kinds.alike()]
