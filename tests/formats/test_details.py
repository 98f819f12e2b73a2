"""Attributes, concept ids and gaps go from format to format, and where one has no place for them it is counted."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data import DATA, needs_data
from wardround.formats.check import Findings, check
from wardround.formats.convert import Converted, convert
from wardround.formats.options import Options
from wardround.formats.register import FORMATS, TARGETS
from wardround.tasks import TASKS
from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import Problems

TEXT = "No aspirin allergy, pain in the left and right arm."
ENTITIES = (
    Entity("T1", "problem", 3, 18, concepts=("UMLS:C0004058",), attributes=(Attribute("assertion", "absent"),)),
    Entity("T2", "problem", 20, 50, parts=((20, 36), (47, 50)), attributes=(Attribute("negated"),)),
)
NOTE = Document(
    "17",
    TEXT,
    ("allergy",),
    ENTITIES,
    (Relation("with", "T1", "T2", attributes=(Attribute("certainty", "low"),)),),
    "ward b",
    "en",
)
OPTIONS = Options()


def written(folder: Path, form: str, *documents: Document) -> tuple[Path, Problems]:
    """A file of this format, and what had no place in it."""
    path, losses = folder / f"a.{form}", Problems()
    write = TARGETS[form].write
    assert write is not None
    with write(path, losses, OPTIONS) as sink:
        for number, document in enumerate(documents, 1):
            sink(Placed(document, Path("from.jsonl"), number))
    return path, losses


def read(path: Path, form: str) -> tuple[list[Document], list[str]]:
    findings = Findings()
    documents = [placed.document for placed in FORMATS[form].read(path, findings, OPTIONS)]
    return documents, [one.what for one in findings.listed if one.lost]


def saved(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


# lost in silence before


def test_label_studios_answers_about_a_region_are_no_labels_of_the_note(tmp_path: Path) -> None:
    span: dict[str, Any] = {"start": 3, "end": 18, "text": "aspirin allergy"}

    def result(kind: str, name: str, **value: object) -> dict[str, object]:
        return {"id": "a", "type": kind, "from_name": name, "to_name": "text", "value": {**span, **value}}

    results = [
        result("choices", "assertion", choices=["negated"]),  # before its region, as may be
        result("labels", "label", labels=["problem"]),
        result("taxonomy", "kind", taxonomy=[["allergy", "drug"], ["other"]]),
        result("textarea", "concept", text=["UMLS:C0004058"]),
        result("rating", "sure", rating=4),
        {"id": "b", "type": "choices", "from_name": "class", "to_name": "text", "value": {"choices": ["allergy"]}},
        {**result("choices", "assertion", choices=["negated"]), "id": "gone"},
    ]
    task = {"id": 1, "data": {"text": TEXT}, "annotations": [{"result": results}]}
    (document,), lost = read(saved(tmp_path, "export.json", [task]), "label-studio")
    assert ("allergy",) == document.labels
    (entity,) = document.entities
    expected = [("assertion", "negated"), ("kind", "allergy > drug"), ("kind", "other"), ("sure", "4")]
    assert expected == list(entity.attributes)
    assert ("UMLS:C0004058",) == entity.concepts
    assert ["answer about a region that is not there, left out"] == lost


def test_biocs_infons_are_attributes_and_concepts(tmp_path: Path) -> None:
    infons = {"type": "problem", "assertion": "negated", "identifier": "UMLS:C1;UMLS:C2", "MESH": "D001241"}
    said = "".join(f'<infon key="{key}">{value}</infon>' for key, value in infons.items())
    passage = (
        f'<passage><infon key="section">plan</infon><offset>0</offset><text>{TEXT}</text><annotation id="T1">{said}'
        '<location offset="3" length="15"/><text>aspirin allergy</text></annotation></passage>'
    )
    path = saved(tmp_path, "a.xml", f"<collection><document><id>1</id>{passage}</document></collection>")
    (document,), lost = read(path, "bioc")
    assert (("assertion", "negated"),) == document.entities[0].attributes
    assert ("UMLS:C1", "UMLS:C2", "MESH:D001241") == document.entities[0].concepts
    assert ["infon of a passage, ignored"] == lost


def test_every_label_of_a_region_has_its_relations_and_attributes(tmp_path: Path) -> None:
    def region(name: str, start: int, end: int, *labels: str) -> dict[str, object]:
        value = {"start": start, "end": end, "text": TEXT[start:end], "labels": list(labels)}
        return {"id": name, "type": "labels", "from_name": "label", "to_name": "text", "value": value}

    results = [
        region("a", 3, 10, "drug", "NSAID"),
        region("b", 20, 24, "problem"),
        {"id": "a", "type": "choices", "from_name": "given", "value": {"start": 3, "end": 10, "choices": ["no"]}},
        {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right", "labels": ["causes"]},
    ]
    task = {"id": 1, "data": {"text": TEXT}, "annotations": [{"result": results}]}
    (document,), lost = read(saved(tmp_path, "export.json", [task]), "label-studio")
    assert [("a", "b"), ("a#2", "b")] == [(one.head, one.tail) for one in document.relations]
    assert [(("given", "no"),)] * 2 == [one.attributes for one in document.entities[:2]]
    assert [] == lost


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_notes_without_a_label_come_back_from_our_tables(form: str, tmp_path: Path) -> None:
    notes = [Document("1", "a rash", ("allergy",)), Document("2", "fever"), Document("3", "pain", ("other",))]
    path, losses = written(tmp_path, form, *notes)
    assert (notes, []) == read(path, form)
    assert {} == losses.counts
    survey = check(path, OPTIONS, task=TASKS["classification"]())
    assert (3, ["document without a label, left out"]) == (
        survey.documents,
        [one.what for one in survey.findings.listed],
    )


def test_conll_gives_back_as_many_documents_as_it_got(tmp_path: Path) -> None:
    notes = [Document(str(n), f"Rash {n} .\nThe fever went .", entities=(Entity("T1", "x", 0, 4),)) for n in range(6)]
    path, losses = written(tmp_path, "conll", *notes)
    back, lost = read(path, "conll")
    assert [replace(one, source=f"a-{n}") for n, one in enumerate(notes, 1)] == back
    assert ({}, []) == (losses.counts, lost)
    survey = check(path, OPTIONS)
    assert 6 == survey.documents


def test_others_conll_is_read_sentence_by_sentence_as_before(tmp_path: Path) -> None:
    path = saved(tmp_path, "a.conll", "-DOCSTART-\t-X-\tO\n\nRash\tB-x\n\nFever\tO\n")
    assert ["Rash", "Fever"] == [document.text for document in read(path, "conll")[0]]


@pytest.mark.parametrize("form", ["bioc", "bioc-json", "doccano", "jsonl", "label-studio"])
def test_nothing_is_lost_where_there_is_a_place(form: str, tmp_path: Path) -> None:
    path, losses = written(tmp_path, form, NOTE)
    (back,), lost = read(path, form)
    assert ({}, []) == (losses.counts, lost)
    ids = {one.id: name.id for one, name in zip(back.entities, ENTITIES, strict=True)}
    entities = tuple(replace(one, id=ids[one.id]) for one in back.entities)
    relations = tuple(replace(one, head=ids[one.head], tail=ids[one.tail]) for one in back.relations)
    assert NOTE == replace(back, entities=entities, relations=relations)


def test_a_value_of_brats_may_have_blanks_within(tmp_path: Path) -> None:
    said = tuple(Attribute(f"a{n}", value) for n, value in enumerate((" left", "two  words", "a\nb", "")))
    path, losses = written(tmp_path, "brat", Document("1", TEXT, entities=(Entity("T1", "x", 0, 2, attributes=said),)))
    (back,), lost = read(path, "brat")
    assert ["left", "two  words", "a b", "_"] == [one.value for one in back.entities[0].attributes]
    assert ({"blanks around or line breaks in the value of an attribute": 3}, []) == (losses.counts, lost)


def test_brat_writes_attributes_normalisations_and_gaps(tmp_path: Path) -> None:
    path, losses = written(tmp_path, "brat", NOTE)
    expected = [
        "T1\tproblem 3 18\taspirin allergy",
        "A1\tassertion T1 absent",
        "N1\tReference T1 UMLS:C0004058\taspirin allergy",
        "T2\tproblem 20 36;47 50\tpain in the left arm",
        "A2\tnegated T2",
        "R1\twith Arg1:T1 Arg2:T2",
        "A3\tcertainty R1 low",
    ]
    assert expected == (path / "17.ann").read_text(encoding="utf-8").splitlines()
    (back,), lost = read(path, "brat")
    assert (replace(NOTE, labels=(), source="", language=""), []) == (back, lost)
    assert {"labels": 1, "language": 1, "source": 1} == losses.counts


GAPS = "gaps of discontinuous entities, written from first to last character"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("conll", {"attributes of entities": 2, "concept ids": 1, GAPS: 1, "relations": 1}),
        ("csv", {"entities": 2, "relations": 1}),
        ("pubtator", {"attributes of entities": 2, "attributes of relations": 1, GAPS: 1}),
    ],
)
def test_what_a_format_has_no_place_for_is_counted(form: str, expected: dict[str, int], tmp_path: Path) -> None:
    _, losses = written(tmp_path, form, NOTE)
    assert expected.items() <= losses.counts.items()


def test_convert_refuses_and_check_counts(tmp_path: Path) -> None:
    path, _ = written(tmp_path, "jsonl", NOTE)
    counts = check(path, OPTIONS).counts()
    assert (1, 1) == (counts["concepts"], counts["discontinuous"])
    assert 3 == sum(counts["attributes"].values())
    done: Converted = convert(path, tmp_path / "out", "conll", OPTIONS)
    assert (False, 2) == (done.written, done.losses.counts["attributes of entities"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("task", ["tagging", "relation"])
def test_each_task_says_that_it_takes_no_gaps(task: str, tmp_path: Path) -> None:
    note = replace(NOTE, entities=(Entity("T1", "drug", 3, 10), ENTITIES[1]))
    path, _ = written(tmp_path, "jsonl", note)
    findings = check(path, OPTIONS, task=TASKS[task]()).findings
    listed = [one.what for one in findings.listed if not one.what.startswith("one type of relation, and no pair")]
    assert ["discontinuous entity, taken from first to last character"] == listed
    assert 0 == check(path, OPTIONS).findings.lost


# on the way through an annotation tool


def test_what_an_annotator_moved_in_doccano_loses_its_details_and_it_is_told(tmp_path: Path) -> None:
    path, _ = written(tmp_path, "doccano", NOTE)
    row = json.loads(path.read_text(encoding="utf-8"))
    row["entities"][0] |= {"id": 900, "start_offset": 6}
    row["entities"][1] |= {"id": 901}
    row["relations"] = []
    (back,), lost = read(saved(tmp_path, "corrected.jsonl", row), "doccano")
    assert [((), ()), ((), ENTITIES[1].parts)] == [(one.concepts, one.parts) for one in back.entities]
    assert ["detail of what is no longer there, left out"] * 2 == lost


def test_of_two_entities_with_one_id_in_doccano_the_second_is_told_and_left_out(tmp_path: Path) -> None:
    twins = [{"id": 1, "label": kind, "start_offset": at, "end_offset": at + 5} for at, kind in enumerate("ab")]
    row = {"id": 3, "text": "aspirin", "entities": twins, "relations": []}
    (document,), lost = read(saved(tmp_path, "a.jsonl", json.dumps(row)), "doccano")
    assert (["a"], ['two entities have the id "1"']) == ([one.type for one in document.entities], lost)


@pytest.mark.parametrize("form", ["doccano", "label-studio"])
def test_half_a_character_in_names_can_be_written_again(form: str, tmp_path: Path) -> None:
    half = "w\ud83d"
    rows = {
        "doccano": json.dumps({"id": half, "text": "a", "source": half, "patient": half, "entities": []}),
        "label-studio": [{"data": {"id": half, "text": "a", "source": half, "patient": half}, "annotations": [{}]}],
    }
    (document,), _ = read(saved(tmp_path, "a.json", rows[form]), form)
    assert ("w\ufffd",) * 3 == (document.id, document.source, document.patient)
    for to in ("csv", "jsonl", "pubtator"):
        written(tmp_path, to, document)


def test_pubtator_keeps_concepts_composites_and_novelty(tmp_path: Path) -> None:
    text = (
        "17|t|Aspirin gave her a rash.\n17|a|It was aspirin.\n"
        "17\t0\t7\tAspirin\tdrug\tD1\n17\t19\t23\trash\teffect\tD9|D8\trash|hives\n17\t32\t39\taspirin\tdrug\tD1\n"
        "17\tcauses\tD1\tD9|D8\tNovel\n17\tcauses\tD1\tD8\n\n"
    )
    documents, lost = read(saved(tmp_path, "a.pubtator", text), "pubtator")
    path, losses = written(tmp_path, "pubtator", *documents)
    assert (text, {}, []) == (path.read_text(encoding="utf-8"), losses.counts, lost)


VARIANTS = """17|t|V158M, G158M and 3020insC in PAF1.
17|a|
17\t0\t5\tV158M\tvariant\tp|SUB|V|158|M
17\t7\t12\tG158M\tvariant\tp|SUB|G|158|M
17\t17\t25\t3020insC\tvariant\tc|DEL|3020|
17\t29\t33\tPAF1\tgene\t22083,54624
17\tin\tp|SUB|V|158|M\t54624\tNovel
17\tin\tc|DEL|3020|\t22083\tNo

"""


@pytest.mark.parametrize("over", ["bioc", "bioc-json", "brat", "doccano", "jsonl", "label-studio", "pubtator"])
def test_the_bars_of_a_variant_are_its_own_and_each_of_a_mentions_genes_can_be_related(
    over: str, tmp_path: Path
) -> None:
    (document,), lost = read(saved(tmp_path, "a.pubtator", VARIANTS), "pubtator")
    expected = [("p|SUB|V|158|M",), ("p|SUB|G|158|M",), ("c|DEL|3020|",), ("22083", "54624")]
    assert (expected, []) == ([one.concepts for one in document.entities], lost)
    related = [
        [document.entities[at].id for at in (0, 3)]
        + [(Attribute("novelty", "Novel"), Attribute("tail_concept", "54624"))],
        [document.entities[at].id for at in (2, 3)]
        + [(Attribute("novelty", "No"), Attribute("tail_concept", "22083"))],
    ]
    assert related == [[one.head, one.tail, one.attributes] for one in document.relations]
    path, losses = written(tmp_path, over, document)
    (back,), lost = read(path, over)
    assert (expected, {}, []) == ([one.concepts for one in back.entities], losses.counts, lost)


def test_a_bioc_relation_of_a_variant_goes_to_just_this_one(tmp_path: Path) -> None:
    names = ("tmVar:p|SUB|G|158|M;HGVS:p.G158M", "p|SUB|V|158|M", "22083,54624")
    entities = "".join(
        f'<annotation id="{at}"><infon key="identifier">{name}</infon><infon key="type">x</infon>'
        f'<location offset="{6 * at}" length="5"/></annotation>'
        for at, name in enumerate(names)
    )
    links = "".join(
        f'<relation id="R"><infon key="entity1">{name}</infon><infon key="entity2">54624</infon>'
        '<infon key="type">in</infon></relation>'
        for name in ("p|SUB|V|158|M", "p|SUB|G|158|M")
    )
    text = f"<passage><offset>0</offset><text>G158M V158M PAF1.</text>{entities}{links}</passage>"
    path = saved(tmp_path, "a.xml", f"<collection><document><id>17</id>{text}</document></collection>")
    (document,), lost = read(path, "bioc")
    assert ([("1", "2"), ("0", "2")], []) == ([(one.head, one.tail) for one in document.relations], lost)


def test_genes_and_species_as_gnormplus_calls_them_are_concepts_and_ids_may_lack(tmp_path: Path) -> None:
    infons = (
        '<infon key="type">Gene</infon><infon key="NCBI Gene">4221;4300</infon><infon key="NCBI Taxonomy">9606</infon>'
    )
    mention = f'<annotation id="">{infons}<location offset="0" length="4"/><text>MEN1</text></annotation>'
    text = f"<document><id>17</id><passage><offset>0</offset><text>MEN1</text>{mention}</passage></document>"
    (document,), lost = read(saved(tmp_path, "a.xml", f"<collection>{text}</collection>"), "bioc")
    expected = Entity("T1", "Gene", 0, 4, concepts=("NCBI Gene:4221", "NCBI Gene:4300", "NCBI Taxonomy:9606"))
    assert ((expected,), []) == (document.entities, lost)


def test_in_pubtator_an_id_that_is_no_concept_does_not_become_one(tmp_path: Path) -> None:
    bare = replace(NOTE, entities=tuple(replace(one, concepts=()) for one in ENTITIES))
    path, _ = written(tmp_path, "pubtator", bare, replace(bare, id="18", relations=()))
    told = [row.split("\t")[5] for row in path.read_text(encoding="utf-8").splitlines() if row.count("\t") == 5]
    assert ["local:T1", "local:T2", "-", "-"] == told
    assert {()} == {one.concepts for document in read(path, "pubtator")[0] for one in document.entities}


def test_i2b2s_assertions(tmp_path: Path) -> None:
    saved(tmp_path, "1.txt", "No rash .\n")
    saved(tmp_path, "1.con", 'c="rash" 1:1 1:1||t="problem"\n')
    saved(tmp_path, "1.rel", "")
    saved(tmp_path, "1.ast", 'c="rash" 1:1 1:1||t="problem"||a="absent"\n')
    (document,), lost = read(tmp_path, "i2b2")
    assert ((("assertion", "absent"),), []) == (document.entities[0].attributes, lost)
    saved(tmp_path, "1.ast", 'c="rash" 1:2 1:2||t="problem"||a="absent"\n')
    assert ["no concept at 1:2 1:2 in the .con"] == read(tmp_path, "i2b2")[1]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"attributes": ["negated"]}, '"attributes" is a list'),
        ({"attributes": {"negated": {}}}, '"attributes" is a dict'),
        ({"parts": [[0, 1, 2]]}, '"parts" is not a list of starts and ends'),
        ({"parts": 7}, '"parts" is not a list of starts and ends'),
        ({"parts": [[3, 5], [7, 9]]}, 'the parts of entity "T1" are not from 3 to 18'),
        ({"parts": [[3, 5], [18, 18]]}, "T1 goes from 18 to 18"),
        ({"concept": {"id": 1}}, '"concept" is a dict'),
        ({"negated": True}, "key of an entity that is not ours, ignored"),
    ],
)
def test_odd_details_in_jsonl_are_told(change: dict[str, object], what: str, tmp_path: Path) -> None:
    entity = {"id": "T1", "type": "problem", "start": 3, "end": 18, **change}
    assert [what] == read(saved(tmp_path, "a.jsonl", {"text": TEXT, "entities": [entity]}), "jsonl")[1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, ["true"]),
        (False, ["false"]),
        (2, ["2"]),
        (0.5, ["0.5"]),
        ("x", ["x"]),
        (["b", "a"], ["a", "b"]),
        (None, []),
    ],
)
def test_values_in_jsonl_may_be_switches_numbers_and_lists(value: object, expected: list[str], tmp_path: Path) -> None:
    entity = {"type": "problem", "start": 3, "end": 18, "attributes": {"name": value}, "concept": 672}
    ((document,), _) = read(saved(tmp_path, "a.jsonl", {"text": TEXT, "entities": [entity]}), "jsonl")
    assert expected == [said.value for said in document.entities[0].attributes]
    assert ("672",) == document.entities[0].concepts


# real files


def concepts_of(documents: list[Document]) -> list[object]:
    return [
        (one.id, [(entity.start, entity.end, entity.type, entity.concepts) for entity in one.entities])
        for one in sorted(documents, key=lambda one: one.id)
    ]


@needs_data
@pytest.mark.parametrize("over", ["bioc", "bioc-json", "brat", "doccano", "jsonl", "label-studio", "pubtator"])
def test_the_concepts_of_a_real_corpus_survive_each_format(over: str, tmp_path: Path) -> None:
    source = DATA / "bc5cdr_re" / "CDR_DevelopmentSet.PubTator.txt.gz"
    there = [placed.document for placed in FORMATS["pubtator"].read(source, Problems(), OPTIONS)][:60]
    assert sum(len(entity.concepts) for one in there for entity in one.entities) > 1000
    path, losses = written(tmp_path, over, *there)
    assert concepts_of(there) == concepts_of(read(path, over)[0])
    assert set(losses.counts) <= ({"which mentions of two concepts are related"} if over == "pubtator" else set())
