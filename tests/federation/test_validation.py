"""Validation examples: given, or drawn by document, source, patient or within each source."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wardround.clinic import Clinic
from wardround.clinic.bags import ClinicBags
from wardround.clinic.pairs import ClinicPairs
from wardround.corpora.synthetic import Synthetic
from wardround.corpora.views import LabelledTexts
from wardround.federation.describe import describe
from wardround.federation.partition import BySource, Evenly
from wardround.federation.sites import Sites, federate, opened, pooled, thinned
from wardround.federation.validation import By, drawn, validated
from wardround.text.document import Document
from wardround.text.shown import note_of
from wardround.text.texts import Texts


def texts(*rows: tuple[str, str, str]) -> Texts:
    """Documents of an id, a text and a source; the patient is the first letter of the id."""
    return Texts(tuple(Document(id_, text, ("a",), source=source, patient=id_[0]) for id_, text, source in rows))


def spread(count: int, sources: int) -> Texts:
    return texts(*((f"{'pqrs'[at % 4]}{at}", f"text {at}", f"source {at % sources}") for at in range(count)))


def sides(examples: Texts, share: float, by: By = "document", seed: int = 0) -> tuple[list[Document], list[Document]]:
    aside = drawn(examples, share, by, seed)
    both: tuple[list[Document], list[Document]] = ([], [])
    for document, valid in zip(examples.documents, aside, strict=True):
        both[int(valid)].append(document)
    return both


def test_a_share_of_the_documents_is_drawn_by_the_seed_whatever_their_order() -> None:
    examples = spread(40, 3)
    _, valid = sides(examples, 0.1)
    assert 4 == len(valid)
    assert {d.id for d in valid} == {d.id for d in sides(Texts(examples.documents[::-1]), 0.1)[1]}
    assert {d.id for d in valid} != {d.id for d in sides(examples, 0.1, seed=1)[1]}


def test_drawn_each_by_itself_one_more_document_moves_no_other() -> None:
    """Under differential privacy: by a quota, one patient more is seen in who else is trained on."""
    moved = {"quota": 0, "each": 0}
    for count in range(20, 60):
        fewer, more = spread(count, 3), spread(count + 1, 3)
        for way in moved:
            before, after = (drawn(examples, 0.2, "document", 0, each=way == "each") for examples in (fewer, more))
            moved[way] += int((before != after[:count]).sum())
    assert (True, 0) == (moved["quota"] > 0, moved["each"])
    assert 8 == pytest.approx(drawn(spread(40, 3), 0.2, "document", 0, each=True).sum(), abs=5)


def test_equal_texts_and_the_pairs_of_a_note_stay_together() -> None:
    examples = texts(*((f"n{at}", f"text {at // 2}", "x") for at in range(40)))
    train, valid = sides(examples, 0.25)
    assert (10, set()) == (len(valid), {d.text for d in train} & {d.text for d in valid})
    pairs: Any = opened(ClinicPairs(hospitals=1, notes=20, test_notes=1)).raw("hospital-0")[0]
    train, valid = sides(pairs, 0.2)
    assert set() == {note_of(d.id) for d in train} & {note_of(d.id) for d in valid}
    assert len(valid)


@pytest.mark.parametrize("name", ["notes:{}", "2024-05-01T10:{}", "p1:visit{}", "p1:visit-{}"])
def test_a_colon_in_an_id_of_ones_own_does_not_make_one_document_of_many(name: str) -> None:
    """A file without an extension gives such, and so do times: only pairs that were made of a note are of one."""
    assert 10 == len(sides(texts(*((name.format(at), f"text {at}", "x") for at in range(100))), 0.1)[1])


@pytest.mark.parametrize("by", ["source", "patient"])
def test_a_source_or_a_patient_is_on_one_side(by: By) -> None:
    train, valid = sides(spread(60, 10), 0.3, by)
    kept, held = ({getattr(d, by) for d in side} for side in (train, valid))
    assert (set(), 3 if by == "source" else 1) == (kept & held, len(held))


def test_within_takes_the_share_of_every_source() -> None:
    _, valid = sides(spread(60, 3), 0.1, "within")
    assert {"source 0": 2, "source 1": 2, "source 2": 2} == {
        name: sum(d.source == name for d in valid) for name in {d.source for d in valid}
    }


@pytest.mark.parametrize("by", ["source", "within", "patient"])
def test_what_nobody_names_cannot_be_drawn_by(by: By) -> None:
    nameless = Texts(tuple(replace(d, source="", patient="") for d in spread(10, 2).documents))
    with pytest.raises(ValueError, match=r"validation.by: there is an example without a (source|patient); name its"):
        drawn(nameless, 0.1, by, 0)


def test_pairs_of_bags_are_whole_and_the_same_ones_at_all_sites() -> None:
    sites = validated(opened(ClinicBags(hospitals=4, sentences=80)), 0.2, "document", 3)
    assert sites.valid
    both: Any = [[sites.raw(name)[0] for name in sites.names], [sites.valid(name) for name in sites.names]]
    trained, held = ({pair for part in parts for pair in part.wholes or ()} for parts in both)
    assert set() == trained & held
    assert held
    with pytest.raises(ValueError, match="of bags whole pairs are drawn"):
        drawn(both[0][0], 0.2, "source", 0)


def sizes(sites: Sites) -> dict[str, list[int]]:
    assert sites.valid
    return {name: [*map(len, sites.raw(name)), len(sites.valid(name))] for name in sites.names}


def test_each_site_draws_from_what_it_has_and_all_add_up() -> None:
    plain = opened(Synthetic(sites=4, features=2, classes=2, largest=60))
    sites = validated(plain, 0.1, "document", 0)
    for name, (train, test, valid) in sizes(sites).items():
        whole, tests = map(len, plain.raw(name))
        assert (whole, tests, int(whole * 0.1 + 0.5)) == (train + valid, test, valid)
    together = [sum(column) for column in zip(*sizes(sites).values(), strict=True)]
    assert [together] == [*sizes(pooled(sites)).values()]
    half = sizes(thinned(sites, 0.5, 0))
    assert all(half[name][1:] == mine[1:] for name, mine in sizes(sites).items())


def test_a_site_that_is_too_small_trains_on_all() -> None:
    sites = validated(Sites(["a"], lambda _: (spread(4, 1), spread(2, 1))), 0.1, "document", 0)
    assert {"a": [4, 2, 0]} == sizes(sites)
    assert {"a": [4, 2, 0]} == sizes(validated(Sites(["a"], lambda _: (spread(4, 1), spread(2, 1))), None, "source", 0))


def test_what_a_corpus_has_for_validation_is_taken_and_nothing_drawn() -> None:
    clinic = Clinic(hospitals=2, documents=20, valid_documents=7, test_documents=5)
    sites = validated(opened(clinic, valid=True), 0.5, "document", 0)
    assert {"hospital-0": [20, 5, 7], "hospital-1": [20, 5, 7]} == sizes(sites)
    assert opened(clinic).valid is None
    cut = sizes(federate(sites, Evenly(sites=3), 0))
    assert [40, 10, 14] == [sum(column) for column in zip(*cut.values(), strict=True)]


def test_a_partition_deals_training_and_test_as_if_there_were_no_validation() -> None:
    clinic = Clinic(hospitals=3, documents=20, valid_documents=7, test_documents=5)
    for partition in (Evenly(sites=4), BySource(sites=2)):
        known, held = (federate(opened(clinic, valid=wish), partition, 1) for wish in (False, True))
        assert [[p.digest() for p in known.raw(n)] for n in known.names] == [
            [p.digest() for p in held.raw(n)] for n in held.names
        ]


@dataclass(frozen=True)
class _Rows:
    path: Path

    def write(self, split: str, *rows: str) -> str:
        (self.path / f"{split}.csv").write_text("\n".join(["text,label,patient", *rows, ""]), encoding="utf-8")
        return f"{split}.csv"


def files(folder: Path, **options: Any) -> LabelledTexts:
    rows = _Rows(folder)
    named: dict[str, Any] = {
        "train": rows.write("train", "one,x,p", "two,y,p", "three,x,q", "four,y,r"),
        "valid": rows.write("valid", "one,x,s", "five,y,s", "six,x,s"),
        "test": rows.write("test", "two,y,t", "six,x,t", "seven,y,t"),
    }
    return LabelledTexts(format="csv", folder=str(folder), **named, **options)


def test_texts_in_two_of_the_three_splits_are_counted_with_both_places(tmp_path: Path) -> None:
    data = describe(opened(files(tmp_path), valid=True))
    assert (1, 1, 1) == (data["leaked"], data["leaked_valid"], data["test_in_valid"])
    assert [
        "test text that is also in training: 1 of 3 (test.csv:2 = train.csv:3)",
        "validation text that is also in training: 1 of 3 (valid.csv:2 = train.csv:2)",
        "test text that is also in validation: 1 of 3 (test.csv:3 = valid.csv:4)",
    ] == data["problems"]
    assert {"train": {"x": 2, "y": 2}, "test": {"x": 1, "y": 2}, "valid": {"x": 2, "y": 1}} == data["sites"]["all"]
    assert "leaked_valid" not in describe(opened(files(tmp_path)))


def test_dedupe_drops_them_from_training_and_then_from_validation(tmp_path: Path) -> None:
    sites = opened(files(tmp_path, dedupe=True), valid=True)
    data = describe(sites)
    assert ({"all": [2, 3, 2]}, 0, 0) == (sizes(sites), data["leaked"], data["leaked_valid"])
    assert ["text also in test, dropped: 2", "text also in valid, dropped: 1"] == [
        line.partition(" (")[0] for line in data["problems"]
    ]
    assert {"all": [3, 3]} == {name: [*map(len, opened(files(tmp_path, dedupe=True)).raw(name))] for name in ["all"]}


def test_a_column_of_patients_keeps_theirs_together(tmp_path: Path) -> None:
    sites = validated(opened(replace(files(tmp_path), valid=None)), 0.34, "patient", 0)
    train, valid = sites.raw("all")[0], sites.valid and sites.valid("all")
    assert isinstance(train, Texts)
    assert isinstance(valid, Texts)
    assert ({"p", "q", "r"}, 2) == (
        {d.patient for d in (*train.documents, *valid.documents)},
        len({d.patient for d in train.documents}),
    )
    assert 1 == len({d.patient for d in valid.documents})


def test_the_drawn_rows_are_those_of_before_a_split() -> None:
    rows = Synthetic(sites=1, features=2, classes=2, largest=60).open("site-00")[0]
    aside = drawn(rows, 0.25, "document", 5)
    assert round(len(rows) / 4) == int(np.sum(aside))


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_label_that_training_lacks_is_told_before_anything_runs(tmp_path: Path, split: str) -> None:
    corpus = files(tmp_path)
    with (tmp_path / f"{split}.csv").open("a") as file:
        file.write("eight,z,u\n")
    with pytest.raises(
        ValueError, match=rf"1 {split} texts have a label that no training text has, the first with the id {split}"
    ):
        _ = opened(corpus, valid=True).labels
    assert ("x", "y", "z") == opened(replace(corpus, labels=("x", "y", "z")), valid=True).labels
