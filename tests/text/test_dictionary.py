"""Looking entities up: the longest run of words wins, and of two types the commoner."""

from wardround.text.dictionary import Dictionary
from wardround.text.tokens import Sentence


def test_the_longest_entry_wins_and_nothing_overlaps() -> None:
    train = [
        Sentence(("heart", "failure"), (("Disease", 0, 2),)),
        Sentence(("heart",), (("Organ", 0, 1),)),
        Sentence(("failure", "to", "thrive"), (("Sign", 0, 3),)),
    ]
    known = Dictionary.of(train)
    assert [("Disease", 1, 3), ("Organ", 5, 6)] == known.spans(["of", "heart", "failure", "to", "thrive", "heart"])


def test_an_entry_has_its_commonest_type_and_of_two_the_first_by_name() -> None:
    train = [Sentence(("lead",), ((kind, 0, 1),)) for kind in ("Drug", "Device", "Device")]
    assert [("Device", 0, 1)] == Dictionary.of(train).spans(["lead"])
    assert [("Device", 0, 1)] == Dictionary.of(train[:2]).spans(["lead"])


def test_words_are_taken_as_they_are_written() -> None:
    known = Dictionary.of([Sentence(("Aspirin",), (("Drug", 0, 1),))])
    assert [] == known.spans(["aspirin", "gave"])
    assert [] == Dictionary.of([]).spans(["aspirin"])
