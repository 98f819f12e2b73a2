"""Character spans to tokens: what is widened, left out or cut is counted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.text.document import Document, Entity
from wardround.text.reading import Problems
from wardround.text.tokens import Sentence, tokenised


def cut(text: str, *entities: tuple[str, int, int], **settings: Any) -> tuple[list[Sentence], dict[str, int]]:
    """A document's sentences and its oddities."""
    problems = Problems()
    marked = tuple(Entity(f"T{number}", *entity) for number, entity in enumerate(entities))
    found = list(tokenised(Document("n1", text, entities=marked), problems, **settings))
    assert all("n1" in places for places in problems.places.values())
    return found, dict(problems.counts)


def test_words_and_marks_are_tokens_and_spans_count_them() -> None:
    found, odd = cut("Pain (mild) at 2.5 mg", ("symptom", 0, 4), ("dose", 15, 21))
    words = ("Pain", "(", "mild", ")", "at", "2", ".", "5", "mg")
    assert [Sentence(words, (("symptom", 0, 1), ("dose", 5, 9)))] == found
    assert {} == odd


def test_chinese_is_cut_into_characters() -> None:
    found, _ = cut("服CT后头痛", ("s", 4, 6), unit="characters")
    assert [Sentence(("服", "CT", "后", "头", "痛"), (("s", 3, 5),))] == found


def test_a_span_that_cuts_a_token_is_widened() -> None:
    found, odd = cut("antidepressants help", ("drug", 4, 14))
    assert (("drug", 0, 1),) == found[0].spans
    assert {"span cuts a token, widened to it": 1} == odd


def test_blanks_around_an_entity_widen_nothing() -> None:
    found, odd = cut("a rash here", ("effect", 1, 7))
    assert ((("effect", 1, 2),), {}) == (found[0].spans, odd)


def test_of_overlapping_entities_the_longest_stays() -> None:
    found, odd = cut("severe chest pain now", ("a", 0, 17), ("b", 13, 17), ("a", 0, 17), ("c", 18, 21))
    assert (("a", 0, 3), ("c", 3, 4)) == found[0].spans
    assert {"overlapping entity, left out for a longer one": 1, "entity occurs twice, the first taken": 1} == odd


def test_invisible_characters_are_no_part_of_a_word() -> None:
    found, odd = cut("as\u200bpirin \u200b now", ("drug", 0, 8), ("none", 9, 10))
    assert [Sentence(("aspirin", "now"), (("drug", 0, 1),))] == found
    assert {"invisible characters, left out of the word": 2, "entity without a token, left out": 1} == odd


@pytest.mark.parametrize("text", ["", "  \n ", "\u200b"])
def test_a_text_without_a_token_is_counted(text: str) -> None:
    found, odd = cut(text)
    assert [] == found
    assert 1 == odd["empty sentence, left out"]


def test_notes_become_sentences_but_a_line_stays_one() -> None:
    """Two sentences in one short line are left as they came: a corpus has cut them already."""
    assert [2] == [len(cut("He slept.\nShe woke.")[0])]
    assert [1] == [len(cut("He slept. She woke.")[0])]
    assert [2] == [len(cut("He slept. She woke.", longest=4)[0])]


def test_long_sentences_are_cut_before_an_entity() -> None:
    found, odd = cut("a b c d e f g", ("x", 4, 9), longest=4)
    assert [("a", "b"), ("c", "d", "e", "f"), ("g",)] == [sentence.words for sentence in found]
    assert [(), (("x", 0, 3),), ()] == [sentence.spans for sentence in found]
    assert {"sentence too long, cut": 2} == odd


def test_an_entity_longer_than_a_sentence_is_cut_and_counted() -> None:
    found, odd = cut("a b c d e", ("x", 0, 9), longest=3)
    assert [(("x", 0, 3),), ()] == [sentence.spans for sentence in found]
    assert {"entity longer than a sentence may be, cut": 1, "sentence too long, cut": 1} == odd


def test_a_token_of_a_megabyte_is_one_token_and_is_told() -> None:
    found, odd = cut("x" * 2**20 + " y", ("drug", 0, 2**20))
    assert (2, (("drug", 0, 1),)) == (len(found[0].words), found[0].spans)
    assert {"word of more than 30 characters, spelt only so far": 1} == odd


@given(st.text(alphabet="ab.\n \u200b！", max_size=40), st.data())
def test_every_entity_is_there_or_counted(text: str, data: st.DataObject) -> None:
    """Whatever the text: spans lie inside their sentence, do not overlap, and none is lost in silence."""
    ends = st.integers(0, len(text))
    marked = data.draw(st.lists(st.tuples(st.sampled_from("xy"), ends, ends), max_size=5))
    entities = [(kind, min(a, b), max(a, b)) for kind, a, b in marked if a != b]
    actual, odd = cut(text, *entities, longest=4)
    kept = 0
    for sentence in actual:
        assert 0 < len(sentence.words) <= 4
        places = [place for _, start, end in sentence.spans for place in range(start, end)]
        assert sorted(set(places)) == places
        assert all(0 <= place < len(sentence.words) for place in places)
        kept += len(sentence.spans)
    left_out = sum(n for kind, n in odd.items() if "entity" in kind and ("left out" in kind or "twice" in kind))
    if actual:
        assert len(entities) == kept + left_out
