"""Corpora as platforms: how they are halved, thinned and blotted out."""

import numpy as np
import pytest

from data import DATA, needs_data
from wardround.corpora.platforms import Platforms, _blotted
from wardround.federation.partition import held_out
from wardround.text.document import Document, Entity


def test_all_examples_of_a_key_are_on_one_side() -> None:
    keys = [str(number % 10) for number in range(100)]
    aside = held_out(keys, 0.2, np.random.default_rng(0))
    assert 20 == aside.sum()
    assert 2 == len({key for key, test in zip(keys, aside, strict=True) if test})


def test_blotting_changes_the_words_keeps_the_marks_and_moves_what_follows() -> None:
    document = Document(
        "1", "Sodium salts and rash.", entities=(Entity("T1", "Drug", 0, 12), Entity("T2", "ADE", 17, 21))
    )
    actual = _blotted(document, frozenset({"sodium salts"}))
    assert "entity entity and rash." == actual.text
    assert [("Drug", "entity entity"), ("ADE", "rash")] == [
        (e.type, actual.text[e.start : e.end]) for e in actual.entities
    ]


def test_a_platform_is_named_once() -> None:
    with pytest.raises(ValueError, match="name each corpus once"):
        Platforms(sites=("ade", "ade"))


@needs_data
def test_platforms_keep_their_types_and_their_test_sentences_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with training sentences blotted out: the test sentences stay the same."""
    monkeypatch.setenv("WARDROUND_DATA", str(DATA))
    whole = Platforms(sites=("psytar", "ade"), most=800, by="source", seed=3)
    blotted = Platforms(sites=("psytar", "ade"), most=800, by="source", seed=3, masked=1.0)
    assert (["ade", "psytar"], ("ADE", "ADR", "DI", "Dosage", "Drug", "SSI", "WD")) == (whole.names(), whole.types)
    for name in whole.names():
        train, test = whole.open(name)
        assert 800 == len(train) + len(test)
        assert set() == {d.text for d in train.documents} & {d.text for d in test.documents}
        assert test.documents == blotted.open(name)[1].documents
        changed = sum(a != b for a, b in zip(train.documents, blotted.open(name)[0].documents, strict=True))
        assert 0 < changed < len(train)
    articles = [{d.id.partition("-")[0] for d in half.documents} for half in whole.open("ade")]
    assert set() == articles[0] & articles[1]
