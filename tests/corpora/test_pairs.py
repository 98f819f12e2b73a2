"""Notes become pairs by stated rules; what the rules leave out is counted, and no offset ever lies."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import DATA, needs_data
from wardround.corpora.pairs import dedupe, resplit
from wardround.corpora.views import RelatedPairs
from wardround.formats.offsets import nearest_place
from wardround.formats.options import Options
from wardround.formats.pubtator import read_pubtator
from wardround.text.concepts import ALL_MENTIONS
from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.pairs import CROWD, pair, pairs
from wardround.text.reading import DataError, Problems, open_text
from wardround.text.sentences import Scope, sentences

HERE = Path("notes.jsonl")
NOTE = "Aspirin gave her a rash. Ibuprofen helped the fever."
DRUGS = (
    Entity("T1", "drug", 0, 7),
    Entity("T2", "problem", 19, 23),
    Entity("T3", "drug", 25, 34),
    Entity("T4", "problem", 46, 51),
)
BOTH = {("drug", "problem")}


def cut(text: str, scope: Scope = "sentence", whole: Sequence[Entity] = ()) -> list[str]:
    return [text[start:end] for start, end in sentences(text, scope, whole)]


def made(document: Document, allowed: Iterable[tuple[str, str]] = BOTH, **settings: Any) -> tuple[list[Document], str]:
    problems = Problems()
    rows = list(pairs(Placed(document, HERE, 0), set(allowed), problems=problems, **settings))
    return [row.document for row in rows], str(problems)


def plain(documents: Iterable[Document]) -> list[tuple[str, str, str]]:
    return [
        (d.labels[0], *(d.text[e.start : e.end] for e in d.entities))  # type: ignore[misc]
        for d in documents
    ]


def is_pair(document: Document) -> bool:
    [relation], [label] = document.relations, document.labels
    return (
        [e.id for e in document.entities] == ["e1", "e2"]
        and all(0 <= e.start < e.end <= len(document.text) for e in document.entities)
        and relation == Relation(label, "e1", "e2")
    )


CONCEPTS = (
    Entity("a", "drug", 0, 7, concepts=("D1",)),
    Entity("b", "problem", 19, 23, concepts=("D8", "D9")),
    Entity("c", "problem", 29, 33, concepts=("D9",)),
    Entity("d", "drug", 37, 44, concepts=("D1",)),
    Entity("e", "problem", 62, 66, concepts=("D9",)),
    Entity("f", "problem", 68, 73, concepts=("D7",)),
)
TOLD = "Aspirin gave her a rash, and rash of aspirin is bad. A drug's rash, fever came of the drug."


@pytest.mark.parametrize(("scope", "related"), [("sentence", 4), ("note", 6)])
def test_a_relation_of_concepts_holds_of_all_their_mentions(scope: Scope, related: int) -> None:
    """And so none of them is learnt as unrelated, in a sentence or, where these are candidates, across."""
    of_all = Relation("causes", "d", "c", attributes=(ALL_MENTIONS,))
    rows, problems = made(Document("1", TOLD, (), CONCEPTS, (of_all,)), scope=scope)
    assert related == sum(one.labels == ("causes",) for one in rows)
    assert {"D7"} >= {c for one in rows if one.labels == ("none",) for c in one.entities[1].concepts}
    assert "" == problems
    rows, _ = made(Document("1", TOLD, (), CONCEPTS, (replace(of_all, attributes=()),)), scope=scope)
    assert 1 == sum(one.labels == ("causes",) for one in rows)


def test_a_relation_of_concepts_holds_of_mentions_of_their_types_alone() -> None:
    """A gene and a species may have one number."""
    others = (Entity("g", "problem", 78, 82, concepts=("D1",)), Entity("h", "drug", 86, 90, concepts=("D9",)))
    of_all = Relation("causes", "d", "c", attributes=(ALL_MENTIONS,))
    rows, _ = made(Document("1", TOLD, (), CONCEPTS + others, (of_all,)), scope="note")
    related = [tuple(one.concepts[-1] for one in row.entities) for row in rows if row.labels == ("causes",)]
    assert {("D1", "D9")} == set(related)
    both = {("drug", "problem"), ("problem", "drug")}
    rows, _ = made(Document("1", TOLD, (), CONCEPTS + others, (of_all,)), both, scope="note")
    assert ["drug"] * 6 == [row.entities[0].type for row in rows if row.labels == ("causes",)]


def test_which_of_a_mentions_concepts_is_related_is_seen() -> None:
    which = (ALL_MENTIONS, Attribute("tail_concept", "D8"))
    rows, _ = made(Document("1", TOLD, (), CONCEPTS, (Relation("causes", "a", "b", attributes=which),)))
    assert {("D8", "D9")} == {one.entities[1].concepts for one in rows if one.labels == ("causes",)}
    together = Relation("causes", "a", "b", attributes=(ALL_MENTIONS,))
    rows, _ = made(Document("1", TOLD, (), CONCEPTS, (together,)))
    assert {("D8", "D9")} == {one.entities[1].concepts for one in rows if one.labels == ("causes",)}


def test_a_relation_of_concepts_is_left_out_only_if_no_pair_shows_it() -> None:
    across = Relation("causes", "d", "e", attributes=(ALL_MENTIONS,))
    assert "" == made(Document("1", TOLD, (), CONCEPTS, (across,)))[1]
    far = Relation("causes", "d", "f", attributes=(ALL_MENTIONS,))
    assert (
        "relation across sentences, left out: 1 (notes.jsonl:1)" == made(Document("1", TOLD, (), CONCEPTS, (far,)))[1]
    )


def test_two_concepts_of_one_type_are_related_in_the_order_of_the_text() -> None:
    genes = tuple(Entity(f"g{n}", "gene", 3 * n, 3 * n + 2, concepts=(f"G{n % 2}",)) for n in range(3))
    document = Document("1", "AB CD AB", (), genes, (Relation("binds", "g1", "g0", attributes=(ALL_MENTIONS,)),))
    rows, _ = made(document, [("gene", "gene")], both_ways=False)
    assert [("binds", "AB", "CD"), ("none", "AB", "AB"), ("binds", "CD", "AB")] == plain(rows)


@needs_data
def test_no_pair_of_related_concepts_of_bc5cdr_is_called_unrelated() -> None:
    """Its lines relate concepts, and a pair of mentions is related if a line of its text relates theirs."""
    path = DATA / "bc5cdr_re" / "CDR_DevelopmentSet.PubTator.txt.gz"
    lines = [line.split("\t") for line in open_text(path)]
    facts = {(cells[0], *cells[2:]) for cells in lines if cells[1:2] == ["CID"]}
    kept = Counter[str]()
    for note in read_pubtator(path, Problems(), Options()):
        for row in pairs(note, {("Chemical", "Disease")}):
            ends = product(*(one.concepts for one in row.document.entities))
            related = any((note.document.id, *both) in facts for both in ends)
            assert ("CID" if related else "none",) == row.document.labels
            kept.update(row.document.labels)
        links = tuple(replace(link, attributes=()) for link in note.document.relations)
        nearest = pairs(note._replace(document=replace(note.document, relations=links)), {("Chemical", "Disease")}, "")
        kept["nearest"] += sum(1 for _ in nearest)
    assert {"none": 3129, "CID": 1938, "nearest": 648} == dict(kept)  # each pair once, however many concepts it shares


def test_a_sentence_of_more_entities_than_a_note_has_is_counted_and_the_others_are_read() -> None:
    many = CROWD + 1
    crowd = [Entity(f"C{at}", "drug", len(NOTE) + 1 + 2 * at, len(NOTE) + 2 + 2 * at) for at in range(many)]
    links = (Relation("causes", "T1", "T2"), Relation("causes", "C0", "C1"))
    note = Document("n", f"{NOTE}\n{'x ' * many}", (), (*DRUGS, *crowd), links)
    documents, problems = made(note, [*BOTH, ("drug", "drug")])
    assert [("causes", "Aspirin", "rash"), ("none", "Ibuprofen", "fever")] == plain(documents)
    assert "sentence of more than 1,000 entities, none of its pairs is read: 1 (notes.jsonl:2)" == problems


def test_the_pairs_of_a_long_sentence_share_its_text() -> None:
    note = Document("n", f"Before.\n{NOTE}", (), tuple(one.moved(8) for one in DRUGS))
    documents, _ = made(note, scope="line")
    assert [4, 1] == [len(documents), len({id(one.text) for one in documents})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t\n ", []),
        ("No pain. No fever", ["No pain.", "No fever"]),
        ("Seen by Dr. Smith vs. Miss J. Doe.", ["Seen by Dr. Smith vs. Miss J. Doe."]),
        ("Lactate 2.5 mmol/l. and rising", ["Lactate 2.5 mmol/l. and rising"]),
        ("Worse?! (Much worse.) Yes", ["Worse?!", "(Much worse.)", "Yes"]),
        ("头痛。无发热！“好转。”出院", ["头痛。", "无发热！", "“好转。”", "出院"]),
        ("aspirin\nmetoprolol\r\nstatin", ["aspirin", "metoprolol", "statin"]),
        ("x" * 60 + "\nwrapped on", ["x" * 60 + "\nwrapped on"]),
        ("x" * 60 + "\nNew", ["x" * 60, "New"]),
        ("x" * 60 + "\n\nnew", ["x" * 60, "new"]),
        ("x" * 60 + ".\nwrapped on", ["x" * 60 + ".\nwrapped on"]),
        ("one\rtwo", ["one", "two"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert expected == cut(text)


def test_lines_and_notes() -> None:
    text = "No pain. No fever\nfine \n"
    assert cut(text, "line") == ["No pain. No fever", "fine"]
    assert cut(text, "note") == ["No pain. No fever\nfine"]


def test_no_entity_is_cut() -> None:
    text = "Took St. Johns wort\nextract today. Better"
    assert cut(text, whole=[Entity("T1", "drug", 5, 27)]) == ["Took St. Johns wort\nextract today.", "Better"]
    assert cut(" a ", whole=[Entity("T1", "odd", 0, 3)]) == [" a "]


@pytest.mark.parametrize("unit", [".", "? ", "\n", " \n", "。", "(", "a. ", ".)"])
def test_many_marks_are_no_trouble(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    assert "".join("".join(cut(text)).split()) == "".join(text.split())


def test_candidates_are_the_allowed_pairs_of_a_sentence() -> None:
    note = Document("7", NOTE, entities=DRUGS, relations=(Relation("causes", "T1", "T2"),), language="en")
    documents, problems = made(note)
    assert plain(documents) == [("causes", "Aspirin", "rash"), ("none", "Ibuprofen", "fever")]
    assert [(d.id, d.text, d.source, d.language) for d in documents] == [
        ("7:T1-T2", "Aspirin gave her a rash.", "7", "en"),
        ("7:T3-T4", "Ibuprofen helped the fever.", "7", "en"),
    ]
    assert all(map(is_pair, documents))
    assert problems == ""


def test_a_note_without_entities_gives_no_pair_and_is_counted() -> None:
    documents, problems = made(Document("7", NOTE))
    assert ([], True) == (documents, problems.startswith("no entity, so no pair: 1 ("))


def test_without_a_name_for_none_only_relations_come() -> None:
    note = Document("7", NOTE, entities=DRUGS, relations=(Relation("causes", "T1", "T2"),))
    assert plain(made(note, none="")[0]) == [("causes", "Aspirin", "rash")]


def test_scope_note_pairs_across_sentences() -> None:
    note = Document("7", NOTE, entities=DRUGS, relations=(Relation("treats", "T3", "T2"),))
    documents, problems = made(note, scope="note")
    assert Counter(d.labels[0] for d in documents) == {"none": 3, "treats": 1}
    assert problems == ""
    assert made(note)[1] == "relation across sentences, left out: 1 (notes.jsonl:1)"


def test_two_of_one_type_in_both_orders_or_in_that_of_the_text() -> None:
    note = Document(
        "7",
        "cough and fever",
        entities=(Entity("T1", "problem", 0, 5), Entity("T2", "problem", 10, 15)),
        relations=(Relation("PIP", "T2", "T1"),),
    )
    allowed = [("problem", "problem")]
    assert plain(made(note, allowed)[0]) == [("none", "cough", "fever"), ("PIP", "fever", "cough")]
    documents, problems = made(note, allowed, both_ways=False)
    assert plain(documents) == [("PIP", "cough", "fever")]
    assert problems == "relation against the order of the text, turned: 1 (notes.jsonl:1)"


@pytest.mark.parametrize(
    ("relations", "labels", "problem"),
    [
        (["T1 causes T2", "T1 worsens T2"], ["causes", "worsens"], "pair with several relations, a document for each"),
        (["T1 causes T2", "T1 causes T2"], ["causes"], "repeated relation"),
        (["T2 treated T1"], ["none"], "relation between types that are not in pairs, left out"),
        (["T1 causes T1"], ["none"], "relation of an entity with itself, left out"),
    ],
)
def test_odd_relations_are_counted(relations: list[str], labels: list[str], problem: str) -> None:
    split = [relation.split() for relation in relations]
    note = Document(
        "7", "\n" + NOTE[:24], entities=tuple(replace(e, start=e.start + 1, end=e.end + 1) for e in DRUGS[:2]),
        relations=tuple(Relation(kind, head, tail) for head, kind, tail in split),
    )  # fmt: skip
    documents, problems = made(note)
    assert [d.labels[0] for d in documents] == labels
    assert len({d.id for d in documents}) == len(documents)
    assert problems == f"{problem}: 1 (notes.jsonl:2)"


def test_mentions_that_have_two_related_concepts_in_common_are_one_pair() -> None:
    """Each of the concepts made a pair of its own, with the same relation."""
    ends = (Entity("T1", "drug", 0, 7, concepts=("D1",)), Entity("T2", "problem", 14, 18, concepts=("D8", "D9")))
    whole = (replace(Relation("causes", "T1", "T2"), attributes=(ALL_MENTIONS, Attribute("tail_concept", one)))
             for one in ("D8", "D9"))  # fmt: skip
    documents, problems = made(Document("7", "aspirin caused rash", entities=ends, relations=tuple(whole)))
    assert (["causes"], "") == ([one.labels[0] for one in documents], problems)


def test_overlapping_entities_give_no_pair() -> None:
    note = Document("7", "aspirin rash", entities=(Entity("T1", "drug", 0, 7), Entity("T2", "problem", 0, 12)))
    assert made(note) == ([], "entities overlap, pair skipped: 1 (notes.jsonl:1)")


@st.composite
def notes(draw: st.DrawFn) -> Document:
    text = draw(st.text(st.sampled_from("aB.。 \n\r😀é"), min_size=1, max_size=60))
    spans = draw(st.lists(st.tuples(st.integers(0, len(text) - 1), st.integers(1, 8)), max_size=6))
    entities = tuple(
        Entity(f"T{n}", "xy"[n % 2], start, min(start + size, len(text))) for n, (start, size) in enumerate(spans)
    )
    ids = st.sampled_from([e.id for e in entities]) if entities else st.nothing()
    relations = draw(st.lists(st.builds(Relation, st.sampled_from("rs"), ids, ids), max_size=4)) if entities else []
    return Document("n", text, entities=entities, relations=tuple(relations))


@given(notes(), st.sampled_from(get_args(Scope)), st.booleans())
def test_every_pair_holds_the_words_of_its_entities(note: Document, scope: Scope, both_ways: bool) -> None:
    words = Counter((e.type, note.text[e.start : e.end]) for e in note.entities)
    allowed = {("x", "y"), ("y", "x"), ("x", "x")}
    documents, _ = made(note, allowed, scope=scope, both_ways=both_ways)
    assert len({d.id for d in documents}) == len(documents)
    for document in documents:
        assert is_pair(document)
        assert document.text in note.text
        assert all((e.type, document.text[e.start : e.end]) in words for e in document.entities)


@given(notes(), st.sampled_from(get_args(Scope)))
def test_every_relation_is_used_or_counted(note: Document, scope: Scope) -> None:
    problems = Problems()
    rows = list(pairs(Placed(note, HERE, 3), {("x", "y")}, "", scope=scope, problems=problems))
    others = sum(n for kind, n in problems.counts.items() if "left out" in kind or kind == "repeated relation")
    overlapping = problems.counts["entities overlap, pair skipped"]
    assert len(rows) + others <= len(note.relations) <= len(rows) + others + 2 * overlapping
    assert {row.line for row in rows} <= {3}


@given(notes())
def test_sentences_cover_all_but_blanks(note: Document) -> None:
    spans = sentences(note.text, whole=note.entities)
    assert all(start < end for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    covered = "".join(note.text[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(note.text.split())


def rows_of(texts: Iterable[str], label: str = "r") -> list[Placed]:
    return [
        Placed(pair(f"{n}", text, Entity("", "a", 0, 1), Entity("", "b", 1, 2), label), HERE, n)
        for n, text in enumerate(texts, 1)
    ]


@pytest.mark.parametrize(
    ("drop", "left", "kind"), [(False, 3, "text also in test"), (True, 1, "text also in test, dropped")]
)
def test_dedupe_counts_shared_texts_and_drops_them_if_wished(drop: bool, left: int, kind: str) -> None:
    problems = Problems()
    kept = list(dedupe(rows_of(["one", "two", "one"]), rows_of(["one", "three"]), problems, drop=drop))
    assert (len(kept), str(problems)) == (left, f"{kind}: 2 (notes.jsonl:1, notes.jsonl:3)")


def test_resplit_is_stratified_and_knows_no_order() -> None:
    rows = [*rows_of(f"x{n}" for n in range(50)), *rows_of((f"y{n}" for n in range(15)), "s")]
    parts = {part: list(resplit(rows, part, 0)) for part in ("train", "valid", "test")}
    assert {part: Counter(r.document.labels[0] for r in results) for part, results in parts.items()} == {
        "train": {"r": 36, "s": 11},
        "valid": {"r": 4, "s": 1},
        "test": {"r": 10, "s": 3},
    }
    assert {r.document.text for results in parts.values() for r in results} == {r.document.text for r in rows}
    again = {r.document.text for r in resplit(rows[::-1], "test", 0)}
    assert again == {r.document.text for r in parts["test"]}
    assert again != {r.document.text for r in resplit(rows, "test", 1)}


def test_resplit_keeps_repeats_apart_and_all() -> None:
    rows = rows_of(["xx"] * 10)
    assert [len(list(resplit(rows, part, 0))) for part in ("train", "valid", "test")] == [8, 0, 2]


@pytest.mark.parametrize(("start", "place"), [(0, 0), (2, 0), (3, 5), (4, 5), (9, 10), (-7, 0), (99, 10)])
def test_nearest_place(start: int, place: int) -> None:
    assert nearest_place("rash rash rash", "rash", start) == place
    assert nearest_place("rash rash rash", "fever", start) is None
    assert nearest_place("rash rash rash", "", start) is None


# Our own JSONL.


def line(**changes: Any) -> str:
    row = {
        "id": "7",
        "text": NOTE,
        "entities": Document("", "", entities=DRUGS).plain()["entities"],
        "relations": [{"type": "causes", "head": "T1", "tail": "T2"}],
    }
    return json.dumps({key: value for key, value in {**row, **changes}.items() if value is not ...})


def corpus(tmp_path: Path, train: str | bytes, test: str = "", **settings: Any) -> RelatedPairs:
    (tmp_path / "train.jsonl").write_bytes(train if isinstance(train, bytes) else train.encode())
    (tmp_path / "test.jsonl").write_text(test)
    return RelatedPairs(format="jsonl", train="train.jsonl", test="test.jsonl", folder=str(tmp_path), **settings)


def refused(reader: RelatedPairs, split: str = "train") -> str:
    with pytest.raises(DataError) as caught:
        list(reader.documents(split))
    message = str(caught.value)
    assert "rash" not in message
    return message.removeprefix(f"{reader.folder}/")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_jsonl(tmp_path: Path, mark: bytes, end: str) -> None:
    reader = corpus(tmp_path, mark + f"{line()}{end}{end}{line(id='8', source='ward b', language='en')}".encode())
    documents = list(reader.documents("train"))
    assert plain(documents) == [("causes", "Aspirin", "rash"), ("none", "Ibuprofen", "fever")] * 2
    assert [(d.id, d.source, d.language) for d in documents[1:3]] == [("7:T3-T4", "7", ""), ("8:T1-T2", "ward b", "en")]
    assert reader.splits == ("train", "test")
    assert [row.document.entities for row in reader.placed("train", Problems())] == [DRUGS, DRUGS]


def test_jsonl_of_pair_documents_comes_back(tmp_path: Path) -> None:
    first = made(Document("7", NOTE, entities=DRUGS, relations=(Relation("causes", "T1", "T2"),)))[0]
    reader = corpus(tmp_path, "\n".join(json.dumps(d.plain()) for d in first), scope="note")
    again = [replace(d, id=d.id.removesuffix(":e1-e2")) for d in reader.documents("train")]
    assert first == again


def test_jsonl_texts_in_both_splits(tmp_path: Path) -> None:
    problems = Problems()
    reader = corpus(tmp_path, line(), line(relations=[]), dedupe=True)
    assert [len(list(reader.documents(split, problems))) for split in reader.splits] == [0, 2]
    assert str(problems) == "text also in test, dropped: 2 (train.jsonl:1)"


def test_jsonl_labels_can_be_renamed_and_are_checked(tmp_path: Path) -> None:
    reader = corpus(tmp_path, line(), labels=("CAUSES", "none"), rename={"causes": "CAUSES"})
    assert [d.labels for d in reader.documents("train")] == [("CAUSES",), ("none",)]
    hidden = "train.jsonl:1: label (a value of 6 characters) is not in the study"
    assert refused(corpus(tmp_path, line(), labels=("CAUSES", "none"))).startswith(hidden)  # it occurs once
    message = refused(corpus(tmp_path, line() + "\n" + line(), labels=("CAUSES", "none")))
    expected = 'train.jsonl:1: label "causes" is not in the study — map it: rename = { "causes" = "CAUSES" }'
    assert expected == message
    with pytest.raises(ValueError, match="labels lacks 'none'"):
        corpus(tmp_path, line(), labels=("CAUSES",))


def test_jsonl_without_any_relation_needs_pairs(tmp_path: Path) -> None:
    assert "no relation in any note" in refused(corpus(tmp_path, line(relations=[])))
    reader = corpus(tmp_path, line(relations=[]), pairs=(("drug", "problem"),))
    assert [d.labels[0] for d in reader.documents("train")] == ["none", "none"]


def test_a_type_in_other_capitals_is_an_error_not_an_empty_corpus(tmp_path: Path) -> None:
    message = refused(corpus(tmp_path, line(), pairs=(("Drug", "problem"),)))
    assert 'train.jsonl: no entity of type "Drug" — in pairs, write "drug"' == message


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"text": ...}, 'no "text"'),
        ({"text": 7}, '"text" is a int'),
        ({"entities": ...}, 'no "entities"'),
        ({"entities": "T1"}, '"entities" is a str'),
        ({"entities": ["T1"]}, '"entities" holds a str'),
        ({"entities": [{"id": "T1", "type": "drug", "start": 0}]}, 'start or end of entity "T1" is not a whole number'),
        ({"entities": [{"id": "T1", "type": "drug", "start": True, "end": 2}]}, "is not a whole number"),
        ({"entities": [{"id": "T1", "type": "drug", "start": 5, "end": 5}]}, 'entity "T1" goes from 5 to 5'),
        ({"entities": [{"id": "T1", "type": "drug", "start": -1, "end": 5}]}, 'entity "T1" goes from -1 to 5'),
        ({"entities": [{"id": "T1", "type": "drug", "start": 0, "end": 99}]}, "ends at 99, the text has 52 characters"),
        ({"entities": [{"id": 1, "type": "drug", "start": 0, "end": 9}]}, '"entities.id" is a int'),
        ({"entities": Document("", "", entities=(DRUGS[0],) * 2).plain()["entities"]}, 'two entities "T1"'),
        ({"relations": [{"type": "causes", "head": "T1", "tail": "T9"}]}, 'names "T9", which is no entity here'),
        ({"relations": [{"type": "causes", "head": "T1"}]}, 'no "relations.tail"'),
        ({"relations": [{"type": " ", "head": "T1", "tail": "T2"}]}, "empty label"),
        ({"relations": {"T1": "T2"}}, '"relations" is a dict'),
        ({"labels": "drug"}, '"labels" is a str'),
    ],
)
def test_bad_jsonl_is_refused_by_line(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    message = refused(corpus(tmp_path, f"{line()}\n{line(**changes)}\n"))
    assert message.startswith("train.jsonl:2: ")
    assert expected in message


@pytest.mark.parametrize("content", ["[]", "7", "{", "\x00", '{"text": "a rash"', "[" * 100_000])
def test_what_is_no_object_is_refused(tmp_path: Path, content: str) -> None:
    assert refused(corpus(tmp_path, content)).startswith("train.jsonl:1: ")


def test_half_a_character_keeps_offsets(tmp_path: Path) -> None:
    problems = Problems()
    reader = corpus(tmp_path, line(text="\ud83d" + NOTE[1:]))
    documents = list(reader.documents("train", problems))
    assert documents[0].text.startswith("\ufffdspirin gave")
    assert problems.counts["half a character, replaced by U+FFFD"] == 1


def test_repeated_ids_are_counted(tmp_path: Path) -> None:
    problems = Problems()
    assert len(list(corpus(tmp_path, f"{line()}\n{line()}").documents("train", problems))) == 4
    assert str(problems) == "repeated id: 1 (train.jsonl:2)"


def test_an_unknown_split_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='no split "dev": use one of train, test'):
        corpus(tmp_path, line()).documents("dev")
