"""From a corpus to sites."""

import json
from pathlib import Path

import numpy as np
import pytest

from wardround.corpora.views import LabelledTexts, RelatedPairs
from wardround.federation.describe import describe
from wardround.federation.partition import ByDirichlet, ByLabel, BySource, Evenly, Partition, WithinSource
from wardround.federation.sites import federate, opened, pooled, thinned
from wardround.formats.check import check
from wardround.formats.options import Options
from wardround.text.document import Document
from wardround.text.texts import Texts


class Wards:
    """Three wards whose test documents come in another order than their training documents."""

    def names(self) -> list[str]:
        return ["a", "b", "c"]

    def open(self, name: str) -> tuple[Texts, Texts]:
        def some(split: str, count: int) -> Texts:
            labels = "xyx"
            return Texts(tuple(Document(f"{name}{split}{i}", "t", (labels[i % 3],), source=name) for i in range(count)))

        return some("train", 4), some("test", 2)


class Backwards(Wards):
    """The same wards, pooled from the last to the first."""

    def names(self) -> list[str]:
        return ["c", "b", "a"]


def ids(corpus: Wards, partition: Partition | None) -> dict[str, tuple[set[str], set[str]]]:
    sites = federate(opened(corpus), partition, seed=3)
    results = {}
    for name in sites.names:
        train, test = sites.raw(name)
        assert isinstance(train, Texts)
        assert isinstance(test, Texts)
        results[name] = ({d.id for d in train.documents}, {d.id for d in test.documents})
    return results


def test_a_source_keeps_its_own_test_documents_whatever_the_order() -> None:
    expected = ids(Wards(), None)
    assert expected == ids(Wards(), BySource()) == ids(Backwards(), BySource())


class Together(Wards):
    """The same wards, whose tests do not say where they come from."""

    def open(self, name: str) -> tuple[Texts, Texts]:
        train, test = super().open(name)
        return train, Texts(tuple(Document(one.id, one.text, one.labels) for one in test.documents))


def test_test_documents_of_no_source_are_dealt_evenly_to_the_sources_of_training() -> None:
    """They were refused with a word about training examples."""
    own, dealt = ids(Wards(), BySource()), ids(Together(), BySource())
    assert {name: train for name, (train, _) in own.items()} == {name: train for name, (train, _) in dealt.items()}
    assert [2, 2, 2] == [len(test) for _, test in dealt.values()]
    assert {one for _, test in own.values() for one in test} == {one for _, test in dealt.values() for one in test}


def test_a_label_makes_a_site_with_that_label_in_both_splits() -> None:
    sites = federate(opened(Wards()), ByLabel(), seed=0)
    assert ("x", "y") == sites.names
    assert {"x": {"x"}, "y": {"y"}} == {
        name: {*sites.raw(name)[0].classes, *sites.raw(name)[1].classes} for name in sites.names
    }


def test_every_document_is_at_one_site_in_every_partition() -> None:
    whole = ids(Wards(), None)
    for partition in (Evenly(sites=5), ByDirichlet(sites=4, alpha=0.5), BySource(sites=2), ByLabel()):
        for split in (0, 1):
            cut = sorted(i for parts in ids(Wards(), partition).values() for i in parts[split])
            assert sorted(i for parts in whole.values() for i in parts[split]) == cut


def test_a_drawn_source_is_tested_on_a_share_of_its_own_training_examples() -> None:
    """The corpus's test split is nobody's, each training example of a drawn source has one place, a seed draws."""
    whole = ids(Wards(), None)
    drawn = ids(Wards(), WithinSource(sites=2, test=0.25))
    assert (2, [(3, 1), (3, 1)]) == (len(drawn), [(len(train), len(test)) for train, test in drawn.values()])
    assert {name: whole[name][0] for name in drawn} == {name: train | test for name, (train, test) in drawn.items()}
    cuts = {str(federate(opened(Wards()), WithinSource(sites=1), seed).names) for seed in range(20)}
    assert {"('a',)", "('b',)", "('c',)"} == cuts


def test_no_more_sources_are_drawn_than_there_are() -> None:
    with pytest.raises(ValueError, match="sites is 4, but 3 sources have two examples or more"):
        federate(opened(Wards()), WithinSource(sites=4), seed=0)


def test_pooling_puts_everything_into_one_place() -> None:
    sites = pooled(federate(opened(Wards()), None, seed=0))
    train, test = sites.raw("pooled")
    assert (("pooled",), 12, 6) == (sites.names, len(train), len(test))


def test_another_seed_cuts_otherwise_and_the_same_seed_alike() -> None:
    def cut(seed: int) -> list[list[str]]:
        sites = federate(opened(Wards()), Evenly(sites=3), seed)
        return [[str(d.id) for d in sites.raw(name)[0].documents] for name in sites.names]  # type: ignore[attr-defined]

    assert cut(1) == cut(1)
    assert not np.array_equal(cut(1), cut(2))


def test_a_share_of_the_training_documents_is_the_same_for_the_same_seed_and_leaves_the_tests() -> None:
    sites = federate(opened(Wards()), None, seed=0)
    half, again, least = thinned(sites, 0.5, 1), thinned(sites, 0.5, 1), thinned(sites, 0.01, 1)
    for name in sites.names:
        train, test = sites.raw(name)
        kept, tests = half.raw(name)
        assert 2 == len(kept)
        assert kept.digest() == again.raw(name)[0].digest()
        assert test.digest() == tests.digest()
        assert 1 == len(least.raw(name)[0])
        assert 4 == len(train)


@pytest.mark.parametrize("dedupe", [False, True])
@pytest.mark.parametrize("again", ["rash 4", "Rash  4 ", "ｒａｓｈ ４"])
def test_test_texts_that_are_in_training_are_counted_with_both_places(
    again: str, tmp_path: Path, *, dedupe: bool
) -> None:
    rows = [f"rash {n},{('flu', 'cold')[n % 2]}\n" for n in range(6)]
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(rows[:5]), encoding="utf-8")
    (tmp_path / "test.csv").write_text(f"text,label\n{again},flu\n{rows[5]}", encoding="utf-8")
    corpus = opened(
        LabelledTexts(format="csv", train="train.csv", test="test.csv", folder=str(tmp_path), dedupe=dedupe)
    )
    data = describe(federate(corpus, None, 0))
    if dedupe:
        assert (0, ["text also in test, dropped: 1 (train.csv:6)"]) == (data["leaked"], data["problems"])
    else:
        line = "test text that is also in training: 1 of 2 (test.csv:2 = train.csv:6)"
        assert (1, [line]) == (data["leaked"], data["problems"])


def test_other_pairs_of_a_sentence_in_training_are_counted_alike_by_the_check_and_the_run(tmp_path: Path) -> None:
    """The check counted those of the same two entities alone."""
    for name, places in (("train", (((0, 4), (5, 9)),)), ("test", (((0, 4), (5, 9)), ((0, 4), (10, 14))))):
        rows = (
            {"text": "rash pill dose", "h": {"name": "", "pos": head}, "t": {"name": "", "pos": tail}, "relation": "NA"}
            for head, tail in places
        )
        (tmp_path / f"{name}.txt").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    corpus = RelatedPairs(format="opennre", train="train.txt", test="test.txt", folder=str(tmp_path))
    assert 2 == describe(federate(opened(corpus), None, 0))["leaked"]
    (line,) = [one.what for one in check(tmp_path, Options()).findings.listed if "also in" in one.what]
    assert line.startswith("test texts that are also in training: 2 (")


def test_pairs_that_are_in_training_are_counted_with_both_places(tmp_path: Path) -> None:
    ends = [{"type": "drug", "start": 0, "end": 4}, {"type": "drug", "start": 5, "end": 9}]
    rows = [
        json.dumps({"text": f"{word} rash", "entities": ends, "source": "north"}) for word in ("here", "dose", "pill")
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(rows[:2]), encoding="utf-8")
    (tmp_path / "test.jsonl").write_text("\n".join(rows[1:]), encoding="utf-8")
    corpus = RelatedPairs(
        format="jsonl", train="train.jsonl", test="test.jsonl", folder=str(tmp_path), pairs=(("drug", "drug"),),
        both_ways=False,
    )  # fmt: skip
    data = describe(federate(opened(corpus), None, 0))
    line = "test text that is also in training: 1 of 2 (test.jsonl:1:T1-T2 = train.jsonl:2:T1-T2)"
    assert (1, [line]) == (data["leaked"], data["problems"])
