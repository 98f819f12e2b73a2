"""How words begin, and the first of another segmenter's tokens."""

from wardround.text.segment import Words
from wardround.text.stems import First, Stems


def test_a_word_gives_its_first_five_letters_and_a_short_one_all_of_them() -> None:
    assert ["no", "migra", "migra"] == Stems(Words())("No migraine, migraines!")


def test_a_word_gives_one_stem_so_that_none_can_be_put_together_from_several() -> None:
    text = "intermittent claudication of both legs"
    assert len(Words()(text)) == len(Stems(Words())(text))


def test_punctuation_has_no_stem() -> None:
    assert ["x"] == Stems(Words())("x, _ - ?")


def test_no_more_words_are_read_than_may_be() -> None:
    first = First(Words(), longest=2)
    assert ["no", "fever"] == first("no fever today") == Stems(first)("no fever today")


def test_what_the_stems_depend_on_is_in_the_settings() -> None:
    firsts = [First(Words(), longest) for longest in (2, 3)]
    assert 4 == len({*(one.settings for one in firsts), *(Stems(one).settings for one in firsts)})
