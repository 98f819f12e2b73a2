"""Who was left out of rounds, and what that did to the labels that were trained on."""

from wardround.runs.absent import UNKNOWN, absences, uncovered
from wardround.runs.files import Data, Round

MISSING = "of the training examples were missing in a round, on average"
LATE = "fit: late: no reply within the deadline"
DATA = Data(
    count=3,
    sites={
        "a": {"train": {"DRUG": 30, "DISEASE": 10}},
        "b": {"train": {"DRUG": 10, "DISEASE": 30}, "test": {"DRUG": 5}},
        "c": {"train": {"ALLERGY": 4}},
    },
)
LINES = (
    Round(round=1, left_out={"a": LATE, "c": LATE}),
    Round(round=2, left_out={"c": LATE}),
    Round(round=3, left_out={"b": "evaluate: late: no reply within the deadline"}),
    Round(round=4),
)


def test_it_says_who_was_left_out_how_often_and_which_labels_were_missing() -> None:
    assert [
        f"a was left out of 1 round, first of round 1: {LATE}",
        "b was left out of 1 round, first of round 3: evaluate: late: no reply within the deadline",
        f"c was left out of 2 rounds, first of round 1: {LATE}",
    ] == absences(LINES)
    assert [
        f"of ALLERGY, 50% {MISSING}; in 2 of 4 rounds there were none",
        f"of DRUG, 19% {MISSING}",
        f"of DISEASE, 6% {MISSING}",
    ] == uncovered(LINES, DATA)


def test_where_nobody_was_left_out_there_is_nothing_to_say_and_of_real_sites_it_is_not_known() -> None:
    assert [] == uncovered(LINES[2:], DATA)
    assert [UNKNOWN] == uncovered(LINES, Data(count=3, sites={}))


def test_of_many_labels_the_worst_are_named() -> None:
    def told(count: int) -> list[str]:
        return uncovered(LINES[:1], Data(count=1, sites={"a": {"train": {f"L{n}": 1 for n in range(count)}}}))

    assert 6 == len(told(8))
    assert "so were some of 3 other labels" == told(8)[-1]
    assert "so were some of 1 other label" == told(6)[-1]
