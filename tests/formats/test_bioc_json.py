"""BioC in JSON: the shapes that tools give it, and what is odd in a file, told without a word of it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from wardround.formats import bioc_json
from wardround.formats.check import Findings
from wardround.formats.json_values import json_nested
from wardround.formats.options import Options
from wardround.formats.recognise import recognised
from wardround.formats.register import TARGETS
from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import BLOCK, DataError, Problems

TEXT = "Aspirin gave her a rash."
DRUG = {"id": "T1", "infons": {"type": "drug"}, "text": "Aspirin", "locations": [{"offset": 0, "length": 7}]}
RASH = {"id": 2, "infons": {"type": "effect"}, "text": "rash", "locations": [{"offset": 19, "length": 4}]}
CAUSES = {"id": "R1", "infons": {"type": "causes"}, "nodes": [{"refid": "2", "role": "tail"}, {"refid": "T1"}]}
PASSAGE = {"offset": 0, "infons": {}, "text": TEXT, "annotations": [DRUG, RASH], "relations": [CAUSES]}
DOCUMENT = {"id": "17", "infons": {}, "passages": [PASSAGE], "relations": []}
NOTE = Document(
    "17",
    TEXT,
    entities=(Entity("T1", "drug", 0, 7), Entity("2", "effect", 19, 23)),
    relations=(Relation("causes", "T1", "2"),),
)


def read(folder: Path, content: object, name: str = "export") -> tuple[list[Document], list[str]]:
    """The documents of a file, and all that was told of it."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    ((_, form),) = recognised(path)
    assert "bioc-json" == form.name
    findings = Findings()
    documents = [placed.document for placed in form.read(path, findings, Options())]
    assert not any("spirin" in str(one) or "rash" in str(one) for one in findings.listed)
    return documents, [f"{one.line}: {one.what}" for one in findings.listed]


def changed(**passage: Any) -> dict[str, Any]:
    return {"documents": [{**DOCUMENT, "passages": [{**PASSAGE, **passage}]}]}


@pytest.mark.parametrize(
    "content",
    [
        {"source": "x", "date": "", "key": "", "infons": {}, "documents": [DOCUMENT]},
        [{"bioctype": "BioCCollection", "source": "PMC", "documents": [DOCUMENT]}],
        {"PubTator3": [DOCUMENT]},
        DOCUMENT,
        [DOCUMENT],
        json.dumps({"documents": [DOCUMENT]}, indent=2),
        json.dumps(DOCUMENT) + "\n",
        {"documents": [DOCUMENT], "infons": {"version": 12}, "score": 1.5e3},
    ],
    ids=["collection", "PMC", "PubTator 3", "one", "array", "indented", "line", "documents first"],
)
def test_every_shape_of_bioc_in_json_is_read(content: object, tmp_path: Path) -> None:
    assert ([NOTE], []) == read(tmp_path, content)


def test_documents_may_stand_in_lines_and_collections_one_behind_the_other(tmp_path: Path) -> None:
    lines = "".join(json.dumps({**DOCUMENT, "id": str(at)}) + "\n" for at in range(3))
    assert ["0", "1", "2"] == [one.id for one in read(tmp_path, lines)[0]]
    both = [{"documents": [DOCUMENT]}, {"documents": []}, {"documents": [DOCUMENT, DOCUMENT]}]
    assert [NOTE] * 3 == read(tmp_path, both)[0]


def test_a_collection_with_a_long_beginning_is_recognised(tmp_path: Path) -> None:
    content = {"infons": {"x": "y" * 10**6}, "source": "PMC", "documents": [DOCUMENT]}
    assert ([NOTE], []) == read(tmp_path, content)


def test_pubtators_infons_and_roles_are_attributes_concepts_and_relations(tmp_path: Path) -> None:
    infons = {"type": "drug", "identifier": "MESH:D1", "valid": True, "normalized": ["D1", 7], "score": 0.5, "no": None}
    roles = {f"role{at}": {"identifier": f"MESH:D{at}", "type": "x", "name": "rash"} for at in (1, 2)}
    link = {
        "id": "R1",
        "infons": {"type": "causes", **roles, "score": "0.99"},
        "nodes": [{"refid": "0", "role": "0,1"}],
    }
    rash = {**RASH, "infons": {"type": "effect", "identifier": "MESH:D2"}}
    content = changed(annotations=[{**DRUG, "infons": infons}, rash], relations=[])
    content["documents"][0] |= {"relations": [link], "journal": "x", "meta": {}, "_id": "1|None"}
    (document,), said = read(tmp_path, content)
    expected = [("normalized", "7"), ("normalized", "D1"), ("score", "0.5"), ("valid", "true")]
    assert expected == [*map(tuple, document.entities[0].attributes)]
    assert [("MESH:D1",), ("MESH:D2",)] == [one.concepts for one in document.entities]
    assert (Relation("causes", "T1", "2", attributes=(Attribute("score", "0.99"),)),) == document.relations
    place = "1 (document 17): "
    assert [place + bioc_json.UNKNOWN, place + bioc_json.ROLE, place + bioc_json.ROLE] == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (changed(offset="x"), "offset is not a whole number"),
        (changed(offset=0.5), "offset is not a whole number"),
        (changed(offset=10**11), "a passage at 100000000000"),
        (changed(text=["rash"]), '"text" is a list'),
        (changed(annotations={"a": DRUG}), '"annotations" is a dict'),
        (changed(annotations=["rash"]), "a JSON str among annotations"),
        (changed(annotations=[{**DRUG, "infons": ["rash"]}]), '"infons" is a list'),
        (changed(annotations=[{**DRUG, "infons": {}}]), '"T1" has no type'),
        (changed(annotations=[{**DRUG, "locations": []}]), '"T1" has no location'),
        (changed(annotations=[DRUG, {**RASH, "id": "T1"}]), '"T1" is already in line 1'),
        (changed(annotations=[{**DRUG, "locations": [{"offset": 1, "length": 7}]}]), "T1 says 7 characters"),
        (changed(relations=[{**CAUSES, "nodes": [{"refid": "T1"}]}]), "a relation of 1 nodes, left out"),
        (changed(relations=[{**CAUSES, "nodes": [{"refid": "T1"}, {"refid": "T9"}]}]), 'a relation names "T9"'),
        (changed(passages=[PASSAGE]), "a passage within a passage"),
        ({"documents": [DOCUMENT, "rash"]}, "not a document of BioC's"),
        ({"documents": [DOCUMENT, {"id": "18", "text": TEXT}]}, "not a document of BioC's"),
        ({"documents": [{**DOCUMENT, "infons": {"labels": "rash"}}]}, 'infon "labels" is not a JSON list'),
    ],
)
def test_what_is_odd_is_told_by_document_and_never_quoted(content: object, said: str, tmp_path: Path) -> None:
    told = read(tmp_path, content)[1]
    assert any(said in one and one.startswith("1 (document ") for one in told), told


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ('{"documents": [], "source": 1, "source": 2}', "a key occurs twice"),
        ('{"documents": [%s], "documents": []}' % json.dumps(DOCUMENT), "a key occurs twice"),  # noqa: UP031 -- braces
        (json.dumps(changed()).replace('"length"', '"offset"'), "a key occurs twice"),
        (json.dumps(changed())[:-1], "the file ends within an object"),
        (json.dumps(changed())[:-2], "the file ends within its array"),
        (json.dumps(changed())[:300], "not JSON"),
        ('{"documents": [] "x": 1}', "no comma between two members"),
        ('{"documents": [], }', "no key where one should stand"),
        ('{"documents" []}', "no colon behind a key"),
        ('[{"documents": []}] rash', "something follows the JSON array"),
    ],
)
def test_broken_json_ends_the_reading(broken: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(broken, encoding="utf-8")
    with pytest.raises(DataError, match=said) as refused:
        list(bioc_json.read_bioc_json(path, Problems(), Options()))
    assert "spirin" not in str(refused.value)


@pytest.mark.parametrize("depth", [100, 900, 10_000])
def test_infons_however_deep_are_kept_or_refused(depth: int, tmp_path: Path) -> None:
    path, deep = tmp_path / "export.json", "[" * depth + "]" * depth
    text = json.dumps(changed()).replace('{"type": "drug"}', f'{{"type": "drug", "deep": {deep}}}')
    path.write_text(text, encoding="utf-8")
    findings, documents = Findings(), []
    try:
        documents = list(bioc_json.read_bioc_json(path, findings, Options()))
    except DataError as error:
        assert "too deep" in str(error)  # noqa: PT017 -- either is right
    assert documents or depth > 100


def test_numbers_that_a_block_cuts_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    for before in range(BLOCK - 40, BLOCK):
        path.write_text(
            '{"x": 123456.5e2' + " " * 3 + ', "y": "' + "z" * (before - 30) + '", "n": 987654321, "list": [5]}'
        )
        assert [5] == [item for _, item in json_nested(path, None, ("list",))]
        assert [987654321] == [item["n"] for _, item in json_nested(path, None, ("none",)) if isinstance(item, dict)]


def test_a_document_has_a_largest_size_and_a_collection_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.formats.json_values.LONGEST_LINE", 10**6)
    several = {"documents": [DOCUMENT] * 5000}
    assert 5000 == len(read(tmp_path, several)[0])
    keys = {f"{at}{'y' * 10**5}": 1 for at in range(30)}
    for content in (
        {"documents": [{**DOCUMENT, "x": "y" * 3 * 10**6}]},
        {**DOCUMENT, "x": ["y"] * 10**6},
        DOCUMENT | keys,
    ):
        with pytest.raises(DataError, match="an item longer than"):
            read(tmp_path, content)


def test_a_document_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bioc_json, "LONGEST_LINE", 100)
    with (
        pytest.raises(DataError, match="a document longer than 100 characters"),
        bioc_json.write_bioc_json(tmp_path / "a.json", Problems(), Options()) as sink,
    ):
        sink(Placed(NOTE, tmp_path / "a.jsonl", 3))
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize("form", ["bioc", "bioc-json", "brat", "label-studio", "pubtator"])
def test_many_entities_that_span_a_long_text_do_not_fill_the_memory(form: str, tmp_path: Path) -> None:
    """Two megabytes of annotations on a text of one were four gigabytes of repeated words."""
    text, write = "ab " * 10**5, TARGETS[form].write
    assert write is not None
    spans = tuple(Entity(f"T{at}", "drug", 0, len(text) - at) for at in range(100))
    with (
        pytest.raises(DataError, match="entities of more than 16,777,216 characters together"),
        write(tmp_path / "out", Problems(), Options()) as sink,
    ):
        sink(Placed(Document("n1", text, entities=spans), tmp_path / "a.jsonl", 3))
    assert [] == [*tmp_path.iterdir()]


def test_a_mention_of_many_concepts_in_many_relations_takes_no_time_of_its_own_for_each(tmp_path: Path) -> None:
    """Twenty thousand concepts in thousands of relations: looked at anew for each, they took minutes."""
    ids = "|".join(f"M{number}" for number in range(20_000))
    annotations = [
        {
            "id": name,
            "infons": {"type": "drug", "identifier": ids},
            "locations": [{"offset": at, "length": 2}],
        }
        for name, at in (("T1", 0), ("T2", 3))
    ]
    link = {"infons": {"type": "with", "a": "M1", "b": "M2"}, "nodes": [{"refid": "T1"}, {"refid": "T2"}]}
    passage = {"offset": 0, "text": "ab cd", "annotations": annotations, "relations": [link] * 5000}
    began = time.process_time()
    (document,), _ = read(tmp_path, {"documents": [{"id": "n1", "passages": [passage]}]})
    assert 5000 == len(document.relations)
    assert 20 > time.process_time() - began
