"""The pairs that a trained model looks at: counted before, some at a time, told as it goes, and never too many."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from wardround.core import doing
from wardround.core.doing import noticed
from wardround.tasks import candidates
from wardround.tasks.candidates import Candidates, Pair, related
from wardround.text import pairs
from wardround.text.document import Entity
from wardround.text.prediction import Prediction, numbered
from wardround.text.sentences import Scope

KINDS = ("drug", "effect", "test")


def crowd(count: int, apart: int = 2) -> Prediction:
    """A text without a full stop, in which a drug, an effect, a drug, … stand so many characters apart."""
    entities = (Entity("", KINDS[at % 2], at * apart, at * apart + 1) for at in range(count))
    return Prediction("x".ljust(apart) * count, entities=numbered(entities))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits within the reach of small texts."""
    monkeypatch.setattr(candidates, "FAR", 30)
    for module in (pairs, candidates):
        monkeypatch.setattr(module, "CROWD", 6)


@pytest.mark.usefixtures("few")
@given(
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40), st.sampled_from(KINDS)), max_size=14),
    related_kinds=st.none() | st.sets(st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS))).map(tuple),
    scope=st.sampled_from(["sentence", "line", "note"]),
    both_ways=st.booleans(),
)
def test_as_many_are_counted_as_there_are(
    spans: list[tuple[int, int, str]],
    related_kinds: tuple[tuple[str, str], ...] | None,
    scope: Scope,
    both_ways: bool,
) -> None:
    text = "It was so.\nThen it was not. And now\nit is, or may be, or not yet. That is all."
    note = Prediction(text, entities=numbered(Entity("", kind, at, at + size) for at, size, kind in spans))
    looked_at = Candidates(related_kinds, scope, both_ways)
    assert len(list(looked_at.within(0, note))) == looked_at.count(note.text, note.entities)


def none_related(some: Sequence[Pair]) -> tuple[Sequence[Pair], Tensor]:
    return some, torch.tensor([[1.0, 0.0]]).repeat(len(some), 1)


def test_pairs_are_in_memory_some_at_a_time_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doing, "PAUSE", 0.0)
    words, sizes = list[str](), list[int]()

    def scores(some: Sequence[Pair]) -> tuple[Sequence[Pair], Tensor]:
        sizes.append(len(some))
        return none_related(some)

    with noticed(None, words.append):
        related(Candidates(), [crowd(30), crowd(20)], ["none", "causes"], "none", scores)
    total = 30 * 29 + 20 * 19
    assert (total, candidates.IN_MEMORY) == (sum(sizes), max(sizes))
    expected = [f"pairs {done:,} of {total:,} in 2 texts" for done in range(0, total, candidates.IN_MEMORY)]
    assert expected == [line.partition(", about")[0] for line in words]


def test_none_is_looked_at_in_a_text_with_too_many_and_all_in_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MOST", 20 * 19)
    texts = list[int]()

    def scores(some: Sequence[Pair]) -> tuple[Sequence[Pair], Tensor]:
        texts.extend(one.text for one in some)
        return none_related(some)

    found = related(Candidates(), [crowd(21), crowd(20)], ["none", "causes"], "none", scores)
    assert ([1] * 20 * 19, 2) == (texts, len(found))


@pytest.mark.parametrize("both_ways", [True, False])
def test_entities_of_a_hundred_thousand_types_are_counted_at_once(both_ways: bool) -> None:
    entities = numbered(Entity("", f"kind {at}", at * 11, at * 11 + 1) for at in range(100_000))
    expected = 2 * sum(100_000 - apart for apart in range(1, 91))
    assert expected == Candidates(None, "note", both_ways).count("x".ljust(11) * 100_000, entities)


def test_nine_million_pairs_are_counted_and_not_made() -> None:
    """Each of 100,000 entities, 11 characters apart, is near 90 before and 90 behind it."""
    note = crowd(100_000, apart=11)
    looked_at = Candidates((("drug", "effect"), ("effect", "drug")), "note")
    expected = 2 * sum(100_000 - apart for apart in range(1, 91, 2))  # an effect is 1, 3, 5, … entities from a drug
    assert expected == looked_at.count(note.text, note.entities)
    assert [] == list(looked_at.within(0, note))
