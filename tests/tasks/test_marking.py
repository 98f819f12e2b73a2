"""Pairs as tokens: blinded, marked, and windowed without cutting through an entity."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoder_folders import WORDS, tiny_encoder
from wardround.models.pretrained import Pretrained, read_encoder
from wardround.tasks.marking import Marked, Marker, marker_rows, shared_out
from wardround.text.document import Document, Entity

MARKERS = ("<e1>", "</e1>", "<e2>", "</e2>")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Pretrained:
    return read_encoder(tiny_encoder(tmp_path_factory.mktemp("encoder")))


def document(text: str, first: str, second: str, kinds: tuple[str, str] = ("GENE", "DISEASE")) -> Document:
    """A pair document of a text that holds these words once each."""
    entities = (
        Entity(name, kind, text.index(words), text.index(words) + len(words))
        for name, kind, words in zip(("e1", "e2"), kinds, (first, second), strict=True)
    )
    return Document("note-7", text, ("causes",), tuple(entities))


def words(marked: Marked) -> str:
    return " ".join([*WORDS, *MARKERS][number] for number in marked.ids)


def inside(marked: Marked) -> tuple[list[str], list[str]]:
    """The words that count as the first and as the second entity."""
    found = words(marked).split()
    return found[slice(*marked.first)], found[slice(*marked.second)]


PLAIN = document("The ab causes a cc.", "ab", "cc")


@pytest.mark.parametrize(
    ("blind", "markers", "expected"),
    [
        (True, True, "[CLS] the <e1> gene </e1> causes a <e2> disease </e2> . [SEP]"),
        (False, True, "[CLS] the <e1> a ##b </e1> causes a <e2> c ##c </e2> . [SEP]"),
        (True, False, "[CLS] the gene causes a disease . [SEP]"),
        (False, False, "[CLS] the a ##b causes a c ##c . [SEP]"),
    ],
)
def test_blinding_and_markers_can_be_switched(encoder: Pretrained, blind: bool, markers: bool, expected: str) -> None:
    marked = Marker(encoder, blind, markers, 64)(PLAIN)
    assert expected == words(marked)
    assert (["gene"], ["disease"]) == inside(marked) if blind else (["a", "##b"], ["c", "##c"]) == inside(marked)
    assert not marked.windowed


def test_the_first_entity_keeps_its_markers_where_it_stands_second(encoder: Pretrained) -> None:
    marked = Marker(encoder, blind=True, markers=True, longest=64)(document("cc, not ab", "ab", "cc"))
    assert "[CLS] <e2> disease </e2> , not <e1> gene </e1> [SEP]" == words(marked)
    assert (["gene"], ["disease"]) == inside(marked)


def test_a_type_becomes_plain_words(encoder: Pretrained) -> None:
    made = document("b and d", "b", "d", ("CHEMICAL-OR-GENE", "DRUG_drug"))
    marked = Marker(encoder, blind=True, markers=True, longest=64)(made)
    assert (["chemical", "or", "gene"], ["drug", "drug"]) == inside(marked)


def test_an_entity_without_a_token_is_one_unknown(encoder: Pretrained) -> None:
    marked = Marker(encoder, blind=False, markers=True, longest=64)(document("a \u200b b", "\u200b", "b"))
    assert (["[UNK]"], ["b"]) == inside(marked)


def test_of_a_long_sentence_both_sides_keep_the_same(encoder: Pretrained) -> None:
    made = document("d " * 30 + "ab causes cc" + " e" * 30, "ab", "cc")
    marked = Marker(encoder, blind=True, markers=True, longest=13)(made)
    assert "[CLS] d d <e1> gene </e1> causes <e2> disease </e2> e e [SEP]" == words(marked)
    assert marked.windowed
    short = Marker(encoder, blind=True, markers=True, longest=13)(replace(made, text=made.text[:-56]))  # " e" twice
    assert "[CLS] d d <e1> gene </e1> causes <e2> disease </e2> e e [SEP]" == words(short)


def test_of_entities_far_apart_each_keeps_its_surroundings(encoder: Pretrained) -> None:
    made = document("d " * 30 + "ab a a a" + " the" * 40 + " b b b cc" + " e" * 30, "ab", "cc")
    marked = Marker(encoder, blind=True, markers=True, longest=16)(made)
    assert "[CLS] d d <e1> gene </e1> a a b b <e2> disease </e2> e e [SEP]" == words(marked)
    assert (["gene"], ["disease"]) == inside(marked)


def test_an_entity_longer_than_the_window_is_an_error(encoder: Pretrained) -> None:
    made = document("ab" + " ab" * 10 + " causes cc", "ab" + " ab" * 10, "cc")
    with pytest.raises(
        ValueError, match=r"document note-7: its entities take 28 tokens, longest = 16 leaves 14; raise"
    ):
        Marker(encoder, blind=False, markers=True, longest=16)(made)


@given(
    lengths=st.tuples(*[st.integers(0, 25)] * 3),
    sizes=st.tuples(*[st.integers(1, 3)] * 2),
    longest=st.integers(14, 40),
    turned=st.booleans(),
)
def test_no_window_is_too_long_or_cuts_an_entity(
    encoder: Pretrained, lengths: tuple[int, ...], sizes: tuple[int, ...], longest: int, *, turned: bool
) -> None:
    parts = [["the"] * lengths[0], ["a"] * sizes[0], ["of"] * lengths[1], ["b"] * sizes[1], ["in"] * lengths[2]]
    places, text = [], ""
    for part in parts:
        text += " " if text and part else ""
        places.append((len(text), len(text) + len(" ".join(part))))
        text += " ".join(part)
    one, other = Entity("e1", "GENE", *places[1]), Entity("e2", "DISEASE", *places[3])
    if turned:
        one, other = replace(other, id="e1"), replace(one, id="e2")
    marked = Marker(encoder, blind=False, markers=True, longest=longest)(Document("x", text, ("l",), (one, other)))
    a, b = (["b"] * sizes[1], ["a"] * sizes[0]) if turned else (["a"] * sizes[0], ["b"] * sizes[1])
    assert (a, b) == inside(marked)
    whole = 2 + sum(map(len, parts)) + 4
    assert (min(whole, longest), whole > longest) == (len(marked.ids), marked.windowed)


@pytest.mark.parametrize(
    ("entities", "said"),
    [
        ((), r"has 0 entities, and no e1 and no e2; the task relation takes pairs"),
        ((Entity("e1", "GENE", 0, 2),), r"has 1 entities, and no e2;"),
        ((Entity("T1", "GENE", 0, 2), Entity("e2", "GENE", 4, 6)), r"has 2 entities, and no e1;"),
        ((Entity("e1", "GENE", 0, 2), Entity("e2", "DRUG", 4, 99)), r"e2 goes from 4 to 99, the text has 19 char"),
        ((Entity("e1", "GENE", 5, 5), Entity("e2", "DRUG", 6, 8)), r"e1 goes from 5 to 5, the text has"),
        ((Entity("e1", "GENE", 0, 6), Entity("e2", "DRUG", 4, 9)), r"e1 \(0 to 6\) and e2 \(4 to 9\) overlap"),
        ((Entity("e1", "GENE", 0, 9), Entity("e2", "DRUG", 4, 6)), r"e1 \(0 to 9\) and e2 \(4 to 6\) overlap"),
    ],
)
def test_what_is_no_pair_is_refused_without_quoting_it(
    encoder: Pretrained, entities: tuple[Entity, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=rf"^document note-7:? .*{said}") as raised:
        Marker(encoder, blind=True, markers=True, longest=64)(replace(PLAIN, entities=entities))
    assert "causes" not in str(raised.value)


def test_room_is_shared_equally_and_none_is_wasted() -> None:
    assert [5, 5] == shared_out(10, [20, 20])
    assert [2, 8] == shared_out(10, [2, 20])
    assert [1, 3, 3, 3] == shared_out(10, [1, 9, 9, 9])
    assert [1, 2] == shared_out(10, [1, 2])


def test_markers_begin_as_brackets_or_without_these_as_the_same_vectors_everywhere(encoder: Pretrained) -> None:
    table = encoder.weights()["embeddings.tokens.weight"]
    assert torch.equal(table[[WORDS.index(word) for word in "<>[]"]], marker_rows(encoder, table))

    class Bare:
        def token_to_id(self, _: str) -> None: ...

    bare = replace(encoder, tokenizer=Bare())
    rows = marker_rows(bare, table)
    torch.manual_seed(5)
    assert torch.equal(rows, marker_rows(bare, table))
    assert 4 == len({tuple(row.tolist()) for row in rows})
