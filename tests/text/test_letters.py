"""Runs of letters within words, and the first of another segmenter's tokens."""

from wardround.text.letters import First, Letters
from wardround.text.segment import Words


def test_a_word_gives_its_runs_of_three_to_five_characters_with_its_ends() -> None:
    expected = [" no", "no ", " no ", " fe", "fev", "eve", "ver", "er ", " fev", "feve", "ever", "ver "]
    assert [*expected, " feve", "fever", "ever "] == Letters(Words(), longest=10)("No fever!")


def test_a_single_letter_is_a_run_and_punctuation_is_none() -> None:
    assert [" x "] == Letters(Words(), longest=10)("x, _ - ?")


def test_no_more_words_are_read_than_may_be() -> None:
    assert Letters(Words(), longest=2)("no fever today") == Letters(Words(), longest=9)("no fever")
    assert ["no", "fever"] == First(Words(), longest=2)("no fever today")


def test_what_the_runs_depend_on_is_in_the_settings() -> None:
    assert 4 == len({make(Words(), longest).settings for make in (Letters, First) for longest in (2, 3)})
