"""Formats of annotation tools: recognised by what is in them, read with their traps, refused with a remedy."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bioc import pubtator as theirs
from hypothesis import given
from hypothesis import strategies as st

from data import DATA, needs_data
from wardround.formats import bioc
from wardround.formats.check import Findings
from wardround.formats.concept_relations import nearest_mentions
from wardround.formats.doccano import doccano_row
from wardround.formats.json_values import json_items
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.pubtator import read_pubtator
from wardround.formats.recognise import recognised
from wardround.formats.register import FORMATS
from wardround.text.concepts import ALL_MENTIONS
from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.reading import BLOCK, LONGEST_LINE, DataError, Problems

TEXT = "Aspirin gave her a rash."
DRUG, RASH = Entity("T1", "drug", 0, 7), Entity("T2", "effect", 19, 23)
CAUSES = Relation("causes", "T1", "T2")
NOTE = Document("17", TEXT, entities=(DRUG, RASH), relations=(CAUSES,))


def written(folder: Path, content: object, name: str = "export") -> Path:
    """A file with these bytes, this text, or this value as JSON."""
    path = folder / name
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path, **options: Any) -> tuple[list[Document], list[str]]:
    """The documents of a file, and everything that was found."""
    findings = Findings()
    ((_, form),) = recognised(path)
    documents = [placed.document for placed in form.read(path, findings, Options(**options))]
    assert options.get("show_text") or not any("spirin" in str(one) for one in findings.listed)
    return documents, [f"{one.line}: {one.what}" for one in findings.listed]


# our own


def test_the_documented_line_is_read_and_its_formats_are_ours(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    line = page.split("```json\n")[1].split("```")[0]
    expected = Document("17", TEXT, ("allergy",), (DRUG, RASH), (CAUSES,), "ward b", "en")
    assert ([expected], []) == read(written(tmp_path, line))
    rows = page.split("## What each format holds")[1].split("\n\n")[1].splitlines()[2:]
    assert set(FORMATS) == {row.split("`")[1] for row in rows}


def test_words_that_an_entity_repeats_are_checked(tmp_path: Path) -> None:
    entity = {"id": "T1", "type": "drug", "start": 1, "end": 8, "text": "Aspirin", "concept": "D1"}
    path = written(tmp_path, {**ROW, "entities": [entity]})
    assert ["1: T1 says 7 characters, text[1:8] differs"] == read(path)[1]
    assert (replace(DRUG, concepts=("D1",)),) == read(path, fix_offsets=True)[0][0].entities


# recognition

ROW = {"id": 1, "text": TEXT}
CONTENTS = {
    "bioc": '<?xml version="1.0"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection><source/></collection>',
    "bioc-json": '{"source": "x", "documents": [{"id": "1", "passages": []}]}',
    "conll": "Aspirin\tB-drug\ngave\tO\n\n",
    "csv": "id,text,label\n1,a rash,x\n",
    "doccano": json.dumps({**ROW, "entities": [{"id": 1, "label": "x", "start_offset": 0, "end_offset": 1}]}),
    "jsonl": json.dumps({**ROW, "entities": [{"type": "drug", "start": 0, "end": 7}]}),
    "label-studio": json.dumps([{"id": 1, "data": {"text": TEXT}, "annotations": []}]),
    "omop": "NOTE_ID,PERSON_ID,NOTE_TEXT\n1,7,a rash\n",
    "pubtator": "17|t|Aspirin\n17|a|A rash.\n",
    "tsv": "text\tlabel\na rash\tx\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", CONTENTS)
def test_a_format_is_recognised_by_content_whatever_the_name(form: str, packed: bool, tmp_path: Path) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        content = mark + CONTENTS[form].encode()
        path = written(tmp_path, gzip.compress(content) if packed else content)
        assert [(path, FORMATS[form])] == recognised(path)


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.conll", "a rash\nwithout\ttags\n", "conll"),
        ("a.csv", "words\nfew\n", "csv"),
        ("a.tsv", "gene\tB\nnote\tx\n", "tsv"),
        ("a.jsonl", '{"text": broken\n', "jsonl"),
        ("a.json", {**ROW, "label": ["x"]}, "doccano"),
        ("a.json", {**ROW, "label": "x"}, "jsonl"),
        ("a.json", {**ROW, "entities": [], "relations": []}, "doccano"),
        ("a.json", {**ROW, "entities": [], "relations": [], "labels": []}, "jsonl"),
    ],
)
def test_where_the_content_could_be_several_things_the_name_decides(
    name: str, content: object, form: str, tmp_path: Path
) -> None:
    assert form == recognised(written(tmp_path, content, name))[0][1].name


def test_a_folder_is_brats_if_it_has_ann_files_and_else_a_set_of_files(tmp_path: Path) -> None:
    for form in ("conll", "jsonl"):
        written(tmp_path, CONTENTS[form], form)
    written(tmp_path, "hidden", ".DS_Store")
    assert ["conll", "jsonl"] == [form.name for _, form in recognised(tmp_path)]
    written(tmp_path, "", "a.ann")
    assert [(tmp_path, FORMATS["brat"])] == recognised(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04zip", "a ZIP archive, as .docx and .xlsx are — unpack it"),
        (b"%PDF-1.7", "a PDF — export"),
        (bytes(range(256)) * 9, "a binary file, not text"),
        (b"\x80\x04\x95pickled", "a pickle, which is never opened"),
        ("a\tO\n".encode("utf-16-le"), 'NUL bytes as in utf-16-le — set encoding = "utf-16-le"'),
        ("text,label\nété,x\n".encode("latin-1"), "it looks like latin-1"),
        ("<html></html>", "XML, but no BioC collection"),
        ([1, 2], "a JSON array, but neither of Label Studio's tasks nor of texts or pairs"),
        ('{\n"text": 1\n}', "JSON over several lines — write one object per line"),
        ("Aspirin, then a rash.", "no format recognised — name it with --from"),
        ([{"id": 1, "text": TEXT, "drug": [], "annotator": 1}], "JSON-MIN, which drops relations — export again and"),
    ],
)  # fmt: skip
def test_what_is_no_annotated_text_is_refused_with_what_it_is(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        recognised(written(tmp_path, content))
    assert message in str(refused.value)
    assert "spirin" not in str(refused.value)


def test_a_value_that_reads_passages_makes_no_bioc(tmp_path: Path) -> None:
    lines = '{"id": "passages", "text": "a b"}\n{"id": "documents", "text": "c", "documents": "two"}\n'
    assert ["jsonl"] == [form.name for _, form in recognised(written(tmp_path, lines))]


# Label Studio


def region(name: str, start: int, end: int, words: str, *labels: str) -> dict[str, object]:
    value = {"start": start, "end": end, "text": words, "labels": list(labels)}
    return {"id": name, "type": "labels", "from_name": "l", "to_name": "t", "value": value}


def link(one: str, other: str, *labels: str, direction: str = "right") -> dict[str, object]:
    return {"type": "relation", "from_id": one, "to_id": other, "direction": direction, "labels": list(labels)}


REGIONS = [region("T1", 0, 7, "Aspirin", "drug"), region("T2", 19, 23, "rash", "effect")]


def task(*results: Mapping[str, object], text: str = TEXT, **more: object) -> dict[str, object]:
    return {"id": 17, "data": {"text": text}, "annotations": [{"result": list(results)}], **more}


def test_label_studio_tasks_become_documents(tmp_path: Path) -> None:
    choice = {"type": "choices", "value": {"choices": ["allergy"]}}
    path = written(tmp_path, [task(*REGIONS, link("T1", "T2", "causes"), choice)])
    assert ([Document("17", TEXT, ("allergy",), (DRUG, RASH), (CAUSES,))], []) == read(path)


def test_label_studios_directions_labels_and_other_results(tmp_path: Path) -> None:
    results = (
        region("T1", 0, 7, "Aspirin", "drug", "NSAID"),
        REGIONS[1],
        link("T2", "T1", "causes", direction="left"),
        link("T1", "T2", direction="bi"),
        {"type": "textarea", "value": {"text": ["x"]}},
    )
    (document,), actual = read(written(tmp_path, [task(*results)]))
    assert [("T1", "drug"), ("T1#2", "NSAID"), ("T2", "effect")] == [(e.id, e.type) for e in document.entities]
    related = [
        *(Relation("causes", name, "T2") for name in ("T1", "T1#2")),
        *(Relation("relation", name, "T2") for name in ("T1", "T1#2")),
        *(Relation("relation", "T2", name) for name in ("T1", "T1#2")),
    ]
    assert related == list(document.relations)
    assert ["1 (task 17): result of another kind than labels, choices and relations, ignored"] == actual


def test_of_several_annotations_the_ground_truth_counts(tmp_path: Path) -> None:
    actual = [
        {"result": REGIONS, "was_cancelled": True},
        {"result": REGIONS[:1]},
        {"result": REGIONS[1:], "ground_truth": True},
    ]
    documents, found = read(written(tmp_path, [task(annotations=actual), task(annotations=[])]))
    assert [(RASH,), ()] == [document.entities for document in documents]
    assert ["1 (task 17): second annotation of a task, left out", "1 (task 17): task without an annotation"] == found


@pytest.mark.parametrize("needs", ["labels", "entities"])
def test_a_task_that_nobody_has_annotated_is_no_example(tmp_path: Path, needs: str) -> None:
    tasks = [
        task(annotations=[]),
        task(annotations=[{"result": REGIONS, "was_cancelled": True}]),
        task(annotations=[], predictions=[{"result": REGIONS, "score": 0.9}]),
        task(annotations=[{"result": []}]),
    ]
    path = written(tmp_path, tasks)
    texts, _ = read(path)
    examples, warnings = read(path, needs=(needs,))
    assert (4, 1) == (len(texts), len(examples))
    assert 3 == sum("task without an annotation" in line for line in warnings)


def test_completions_are_what_annotations_were_called_before(tmp_path: Path) -> None:
    old = [{"result": REGIONS[:1]}, {"result": REGIONS[1:], "honeypot": True}]
    item = {"id": 17, "data": {"text": TEXT, "title": "n1"}, "completions": old, "predictions": []}
    (document,), actual = read(written(tmp_path, [item]))
    told = ["1 (task 17): second annotation of a task, left out", "1 (task 17): metadata, ignored"]  # its title
    assert ((RASH,), told) == (document.entities, actual)


@pytest.mark.parametrize("indent", [None, 2], ids=["on a line", "over lines"])
def test_label_studio_may_write_a_task_to_a_file_or_an_annotation_with_its_task(
    indent: int | None, tmp_path: Path
) -> None:
    annotation = {"id": 5, "result": REGIONS, "task": {"id": 17, "data": {"text": TEXT}}}
    for item in (task(*REGIONS), annotation):
        path = written(tmp_path, json.dumps(item, indent=indent))
        assert ([Document("17", TEXT, entities=(DRUG, RASH))], []) == read(path)


def test_regions_of_a_text_without_markup_count_from_its_start(tmp_path: Path) -> None:
    place = {"start": "/text()[1]", "end": "/text()[1]", "startOffset": 0, "endOffset": 7, "text": "Aspirin"}
    results = [
        {"id": "T1", "type": "hypertextlabels", "value": place | {key: ["drug"]}}
        for key in ("htmllabels", "hypertextlabels")
    ]
    for result in results:
        assert ([Document("17", TEXT, entities=(DRUG,))], []) == read(written(tmp_path, [task(result)]))


@pytest.mark.parametrize("start", [2, 3], ids=["characters", "UTF-16 units"])
def test_label_studio_may_count_an_emoji_as_two(start: int, tmp_path: Path) -> None:
    path = written(tmp_path, [task(region("a", start, start + 4, "rash", "effect"), text="😀 rash")])
    assert (2, 6) == (read(path)[0][0].entities[0].start, read(path)[0][0].entities[0].end)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"id": 1, "data": {"a": "x", "b": "y"}, "annotations": []}, 'no text "text" among the data'),
        (task(region("a", 120, 127, "Aspirin", "drug")), "a says 7 characters, text[120:127] differs"),
        (task(region("a", 0, 7, "Aspirin")), 'region "a" has no label'),
        (task({**REGIONS[0], "value": {"start": "/p[1]", "end": "/p[1]", "labels": ["x"]}}), "has no start and end"),
        (task(REGIONS[0], link("T1", "T9")), 'a relation names "T9", which is no region here'),
        ([], "not a task of Label Studio's"),
        ({**task(), "annotations": [{"result": "rash"}]}, '"result" is a str'),
        ({**task(), "annotations": [{"result": ["rash"]}]}, "result of another kind than labels, choices and"),
        (task(*REGIONS, region("T1", 19, 23, "rash", "effect")), 'two regions "T1"'),
        (task(region("T1", 0, 7, "Aspirin", *map(str, range(21)))), 'region "T1" has more than 20 labels'),
    ],
)
def test_what_is_wrong_in_a_task_is_said_and_the_rest_is_read(item: object, message: str, tmp_path: Path) -> None:
    documents, found = read(written(tmp_path, f"[\n{json.dumps(task(*REGIONS))},\n{json.dumps(item)}\n]"))
    assert (DRUG, RASH) == documents[0].entities
    assert any(one.startswith("3: ") and message in one for one in found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"a": 1}, {"a": ]', "1: not JSON"),
        ('[{"a": 1}\n{"a": 2}]', "2: not JSON: no comma"),
        ('[{"a": 1},\n', "2: not JSON"),
        ('[{"a": 1}', "1: the file ends within its array"),
        ('[{"a": 1}] x', "1: something follows"),
        ("[" * 100_000, "1: "),
        ('["' + "x" * 3 * BLOCK, "1: not JSON"),
        ('[{"a": 1},\n{"a": 1, "b": {"c": 2, "c": 3}}]', "2: a key occurs twice in a JSON object"),
    ],
)
def test_broken_arrays_are_told_by_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        list(json_items(written(tmp_path, content)))
    assert message in str(refused.value)


def test_items_may_be_cut_by_blocks_anywhere(tmp_path: Path) -> None:
    items = [{"text": 'é\\"😀' * size} for size in (1, 7, BLOCK // 3, 2, BLOCK, 5)]
    path = written(tmp_path, json.dumps(items, ensure_ascii=False, indent=1))
    assert items == [item for _, item in json_items(path)]
    assert [] == list(json_items(written(tmp_path, " [ ] ")))


@pytest.mark.parametrize("form", ["jsonl", "doccano", "opennre"])
def test_of_items_on_one_line_the_number_is_told_and_is_part_of_their_ids(form: str, tmp_path: Path) -> None:
    good, bad = {
        "jsonl": ({"text": TEXT}, {"text": TEXT, "entities": "rash"}),
        "doccano": ({"text": TEXT, "label": [[0, 7, "drug"]]}, {"text": TEXT, "label": "rash"}),
        "opennre": (
            {"text": TEXT, "h": {"pos": [0, 7]}, "t": {"pos": [19, 23]}, "relation": "causes"},
            {"text": TEXT, "h": {"pos": [0, 99]}, "t": {"pos": [19, 23]}, "relation": "causes"},
        ),
    }[form]
    path = written(tmp_path, json.dumps([good, good, bad]) + "\n", "a.json")
    documents, found = read(path)
    assert ["a.json:1", "a.json:1.2"] == [one.id for one in documents]
    assert [True] == [one.startswith("1 (item number 3): ") for one in found]
    over_lines = written(tmp_path, json.dumps([good, good, bad]).replace('}, {"text', '},\n{"text'), "b.json")
    assert [True] == [one.startswith("3: ") for one in read(over_lines)[1]]


def test_half_a_character_is_replaced_wherever_it_stands(tmp_path: Path) -> None:
    half, ends = "x\ud800", {"start": 0, "end": 7}
    mine = {"head": [0, 7], "tail": [19, 23], "text": TEXT, "id": half, "source": half, "patient": half,
            "language": half}  # fmt: skip
    pair = {"h": {"pos": [0, 7], "id": half}, "t": {"pos": [19, 23], "id": half, "name": half}}
    rows: dict[str, object] = {
        "jsonl": {"text": TEXT, "entities": [{"type": "drug", **ends, "attributes": {half: half}}]},
        "opennre": {**pair, "text": TEXT, "relation": "r", "id": half, "source": half, "patient": half},
        "bags": {"head": "a", "relation": "r", "tail": "b", "head_type": half, "sentences": [mine]},
        "bioc": "<collection><document><id>1</id><infon key='labels'>"
                f"{json.dumps([half])}</infon><passage><offset>0</offset>"
                f"<text>{TEXT}</text></passage></document></collection>",
    }  # fmt: skip
    for (form, content), concepts in product(rows.items(), (False, True)):
        path = written(tmp_path, content, f"notes.{form}")
        (placed,) = FORMATS[form].read(path, Problems(), Options(concepts=concepts))
        row = json.dumps(asdict(placed.document), ensure_ascii=False).encode()
        assert concepts or "\ufffd" in row.decode(), form


def test_a_key_that_stands_twice_is_an_error_of_its_line(tmp_path: Path) -> None:
    lines = [json.dumps({"text": TEXT}), '{"text": "Aspirin", "text": "rash"}', json.dumps({"text": "No pain."})]
    documents, found = read(written(tmp_path, "\n".join(lines), "a.jsonl"))
    assert [TEXT, "No pain."] == [one.text for one in documents]
    assert ["2: a key occurs twice in a JSON object"] == found


@pytest.mark.parametrize("named", ["", "jsonl"])
def test_a_pipe_is_refused_where_its_beginning_would_be_lost(named: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="a pipe, which can be read only once — write it to a file first"):
        recognised(tmp_path / "pipe", named)


# doccano


def spans(*told: tuple[int, int, str]) -> list[dict[str, object]]:
    return [{"id": n, "label": kind, "start_offset": a, "end_offset": b} for n, (a, b, kind) in enumerate(told, 5)]


def test_doccanos_exports(tmp_path: Path) -> None:
    related = [{"id": 1, "from_id": 5, "to_id": 6, "type": "causes"}]
    rows = [
        {**ROW, "entities": spans((0, 7, "drug"), (19, 23, "effect")), "relations": related, "Comments": []},
        {**ROW, "label": [[0, 7, "drug"]]},
        {"id": 2, "data": TEXT, "label": ["allergy"]},
        {**ROW, "cats": ["allergy"], "entities": [[0, 7, "drug"]]},
    ]
    documents, found = read(written(tmp_path, "\n".join(map(json.dumps, rows))))
    assert [] == found
    assert (Relation("causes", "5", "6"),) == documents[0].relations
    assert [("drug", 0, 7)] == [(e.type, e.start, e.end) for e in documents[1].entities]
    assert (TEXT, ("allergy",)) == (documents[2].text, documents[2].labels)
    assert (("allergy",), 1) == (documents[3].labels, len(documents[3].entities))


def test_doccanos_empty_exports_are_told(tmp_path: Path) -> None:
    empty = {**ROW, "entities": [], "relations": []}
    assert ["1: no entity in the whole file, so all may be left out"] == read(written(tmp_path, empty))[1]
    assert ["1: no relation in the whole file"] == read(written(tmp_path, {**empty, "entities": spans((0, 7, "a"))}))[1]


def _write_slowly(sink: int, rows: bytes) -> None:
    for at in range(0, len(rows), 1000):
        os.write(sink, rows[at : at + 1000])
    os.close(sink)


def test_lines_of_a_pipe_are_all_read_for_it_can_be_read_only_once() -> None:
    rows = "".join(json.dumps({"id": str(number), "text": TEXT * 100}) + "\n" for number in range(200)).encode()
    source, sink = os.pipe()
    with ThreadPoolExecutor() as pool, os.fdopen(source, "rb"):
        pool.submit(_write_slowly, sink, rows)
        placed = list(FORMATS["jsonl"].read(Path(f"/dev/fd/{source}"), Problems(), Options()))
    assert [str(number) for number in range(200)] == [one.document.id for one in placed]


def test_labels_without_entities_come_back_from_doccano_without_a_warning(tmp_path: Path) -> None:
    row = doccano_row(Document("1", TEXT, labels=("allergy",)))
    documents, warnings = read(written(tmp_path, row))
    assert ([("allergy",)], []) == ([one.labels for one in documents], warnings)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"entities": spans((0, 99, "drug"))}, "5 ends at 99, the note has 24 characters"),
        ({"entities": spans((7, 0, "drug"))}, "5 goes from 7 to 0"),
        ({"entities": [{"label": "x"}]}, "start or end of entity 1 is not a whole number"),
        ({"entities": "drug"}, '"entities" is a str'),
        ({"entities": [7]}, "entity 1 is not a span"),
        ({"label": [[0, 7, " "]]}, "entity 1 has an empty label"),
        ({"relations": [{"from_id": 5, "to_id": 9, "type": "x"}]}, 'a relation names "5", which is no entity here'),
        ({"ward": "b"}, "metadata, ignored"),
    ],
)
def test_doccanos_errors_are_told_by_line(row: dict[str, object], message: str, tmp_path: Path) -> None:
    good = {**ROW, "entities": spans((0, 7, "drug"))}
    path = written(tmp_path, f"{json.dumps(good)}\n{json.dumps({**ROW, **row})}\n")
    assert f"2: {message}" in read(path)[1]


# BioC, PubTator, OMOP

BIOC = f"""<?xml version='1.0' encoding='utf-8'?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>x</source>
<document><id>17</id>
<passage><offset>0</offset><text>{TEXT[:7]}</text>
<annotation id="T1"><infon key="type">drug</infon><location offset="0" length="7"/><text>Aspirin</text></annotation>
</passage><passage><offset>8</offset><text>{TEXT[8:]}</text>
<annotation id="T2"><infon key="type">effect</infon><location offset="19" length="4"/><text>rash</text></annotation>
<relation><infon key="type">causes</infon><node refid="T2" role="tail"/><node refid="T1" role="head"/></relation>
</passage></document>
</collection>"""


def test_bioc_passages_stand_at_their_offsets(tmp_path: Path) -> None:
    ((document,), actual) = read(written(tmp_path, BIOC))
    assert (TEXT.replace(" ", "\n", 1), (DRUG, RASH), (CAUSES,)) == (
        document.text,
        document.entities,
        document.relations,
    )
    assert [] == actual


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('offset="19"', 'offset="18"', "8: T2 says 4 characters, text[18:22] differs"),
        ('offset="19"', 'offset="x"', "8: offset is not a whole number"),
        ('length="4"', 'length="0"', "8: T2 goes from 19 to 19"),
        ('id="T2"', 'id="T1"', '8: "T1" is already in line 6'),
        ('<infon key="type">effect</infon>', "", '8: "T2" has no type'),
        ('refid="T2"', 'refid="T9"', '9: a relation names "T9", which is not in this document'),
        ('<node refid="T2" role="tail"/>', "", "9: a relation of 1 nodes, left out"),
        ("<offset>8<", "<offset>3<", "7: a passage at 3, but 7 characters stand before it"),
        ("<offset>8<", "<offset>999999999<", "7: a passage at 999999999"),
        ("<offset>8<", f"<offset>{LONGEST_LINE + 1}<", f"7: a passage at {LONGEST_LINE + 1}"),
        ("gave", "<b>gave</b>", "7: a passage with two texts, markup in its text"),
        ("rash.</text>", "rash.</text><text>Or not.</text>", "7: a passage with two texts"),
        ("rash.</text>", "rash.</text><passage/>", "7: a passage with two texts, markup in its text, or a passage"),
        ("<id>17</id>", f'<id>17</id><infon key="labels">{"[" * 10**5}</infon>', '4: infon "labels" is not a JSON'),
    ],
)
def test_bioc_errors_are_told_by_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert any(one.startswith(said) for one in read(written(tmp_path, BIOC.replace(old, new)))[1])


def test_a_bioc_document_within_another_ends_the_reading(tmp_path: Path) -> None:
    inner = "<document><id>18</id><passage><offset>0</offset><text>No pain.</text></passage></document>"
    with pytest.raises(DataError, match="a document within a document"):
        read(written(tmp_path, BIOC.replace("</passage></document>", f"</passage>{inner}</document>")))


def test_a_bioc_document_has_a_largest_size_and_a_collection_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bioc, "MOST", 100_000)
    head, tail = BIOC[: BIOC.index("<document")], "</collection>"
    several = BIOC[len(head) : -len(tail)] * 300
    assert 300 == len(read(written(tmp_path, head + several + tail))[0])
    for unending in ("<infon key='x'/>" * 20_000, "<document><id>1</id>" + "<annotation/>" * 20_000):
        with pytest.raises(DataError, match="more than 100,000 bytes without the end of a document"):
            read(written(tmp_path, gzip.compress((head + unending).encode())))


def test_a_text_that_no_xml_parser_takes_is_not_written_as_bioc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bioc, "LONGEST_TEXT", 10)
    with (
        pytest.raises(DataError, match="a text longer than 10 bytes") as refused,
        bioc.write_bioc(tmp_path / "a.xml", Problems(), Options()) as sink,
    ):
        sink(Placed(NOTE, tmp_path / "a.jsonl", 3))
    assert ([], False) == ([*tmp_path.iterdir()], "spirin" in str(refused.value))


def test_an_infon_may_stand_several_times(tmp_path: Path) -> None:
    twice = '<infon key="certainty">low</infon><infon key="certainty">high</infon>'
    path = written(tmp_path, BIOC.replace('<infon key="type">drug</infon>', '<infon key="type">drug</infon>' + twice))
    expected = (Attribute("certainty", "high"), Attribute("certainty", "low"))
    assert expected == read(path)[0][0].entities[0].attributes


CONCEPTS = (
    BIOC.replace('"type">drug</infon>', '"type">drug</infon><infon key="MESH">D1</infon>')
    .replace('"type">effect</infon>', '"type">effect</infon><infon key="identifier">MESH:D9|MESH:D8</infon>')
    .replace('<node refid="T2" role="tail"/><node refid="T1" role="head"/>', "{}")
)


@pytest.mark.parametrize(
    "names",
    [
        '<infon key="drug">D1</infon><infon key="effect">D8</infon>',
        '<infon key="entity1">D1</infon><infon key="entity2">D8</infon>',
        (
            '<infon key="role1">drug|MESH:D1</infon><infon key="role2">effect|MESH:D8</infon>'
            '<node refid="0" role="0,0"/><node refid="1" role="0,1"/>'
        ),
        (
            '<infon key="role1">drug|MESH:D1</infon><infon key="role2">effect|MESH:D8</infon>'
            '<node refid="T2" role="0,0"/><node refid="T2" role="0,1"/>'
        ),
    ],
    ids=["BC5CDR", "BioRED", "PubTator 3", "PubTator 3, numbers that mentions have too"],
)
def test_a_bioc_relation_of_concepts_goes_to_their_mentions(names: str, tmp_path: Path) -> None:
    (document,), actual = read(written(tmp_path, CONCEPTS.format(names)))
    expected = replace(CAUSES, attributes=(Attribute("tail_concept", "D8"),))
    assert ((expected,), []) == (document.relations, actual)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ('<infon key="drug">9606</infon><infon key="effect">9606</infon>', [("T1", "T2")]),
        ('<infon key="role1">effect|9606</infon><infon key="role2">drug|9606</infon>', [("T2", "T1")]),
        ('<infon key="entity1">NCBI Gene:9606</infon><infon key="entity2">Taxon:9606</infon>', [("T1", "T2")]),
        ('<infon key="entity1">9606</infon><infon key="entity2">9606</infon>', []),
    ],
    ids=["key", "before a bar", "vocabulary", "nothing says"],
)
def test_of_an_id_that_two_types_have_a_bioc_relation_says_which(
    names: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    alike = CONCEPTS.replace('key="MESH">D1<', 'key="identifier">NCBI Gene:9606<')
    alike = alike.replace("MESH:D9|MESH:D8", "Taxon:9606")
    (document,), actual = read(written(tmp_path, alike.format(names)))
    assert expected == [(one.head, one.tail) for one in document.relations]
    refusal = 'a relation names "9606", which mentions of 2 types have'
    assert [refusal] * (not expected) == [one.partition(": ")[2] for one in actual]


def test_nodes_count_where_they_have_the_concepts_that_a_relation_names(tmp_path: Path) -> None:
    nodes = '<infon key="entity1">D1</infon><infon key="entity2">D8</infon><node refid="T1"/><node refid="T2"/>'
    (document,), actual = read(written(tmp_path, CONCEPTS.format(nodes)))
    assert [("T1", "T2")] == [(one.head, one.tail) for one in document.relations]
    assert [] == actual


@pytest.mark.parametrize("cut", [200, 400, len(BIOC) - 5])
def test_a_cut_bioc_file_is_no_xml(cut: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not XML: error") as refused:
        read(written(tmp_path, BIOC[:cut]))
    assert "spirin" not in str(refused.value)


@pytest.mark.parametrize("entity", ['SYSTEM "file://{}"', '"{}"'])
def test_bioc_loads_nothing_from_outside_and_expands_nothing(entity: str, tmp_path: Path) -> None:
    secret = written(tmp_path, "secret", "secret.txt")
    evil = BIOC.replace('SYSTEM "BioC.dtd"', f"[<!ENTITY x {entity.format(secret)}>]").replace("gave", "&x;")
    assert ([], ["7: a reference to an XML entity"]) == read(written(tmp_path, evil))


def test_bioc_comments_are_no_text(tmp_path: Path) -> None:
    assert ([], TEXT) == (
        (found := read(written(tmp_path, BIOC.replace("gave", "ga<!-- x -->ve"))))[1],
        found[0][0].text.replace("\n", " "),
    )


def test_a_span_far_longer_than_its_words_is_not_read_to_be_refused() -> None:
    """Thousands of entities may each claim the whole of a long text."""

    class Text(str):
        __slots__ = ()

        def __getitem__(self, part: Any) -> str:
            cut = str.__getitem__(self, part)
            assert len(cut) < 10_000
            return cut

    findings = Findings()
    wrong = Annotation("T1", "drug", ((0, 900_000),), "vomited", 1)
    assert [] == [*Offsets(Text("a b " * 300_000), Path("a"), findings).entities([wrong])]
    assert ["T1 says 7 characters, text[0:900000] differs"] == [one.what for one in findings.listed]
    spread = Annotation("T1", "drug", ((0, 14),), "a rash", 1)
    assert [14] == [one.end for one in Offsets("a\n        rash", Path("a"), findings).entities([spread])]


@given(st.data())
def test_the_nearest_mentions_are_those_that_a_look_at_every_pair_gives(data: st.DataObject) -> None:
    spans = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=7)
    heads, tails = (
        [Entity(f"{name}{at}", "x", start, start + size) for at, (start, size) in enumerate(data.draw(spans))]
        for name in "ht"
    )
    expected = min(product(heads, tails), key=lambda two: max(two[0].start - two[1].end, two[1].start - two[0].end))
    assert tuple(one.id for one in expected) == nearest_mentions(heads, tails)


def test_ten_thousand_mentions_of_two_concepts_are_related_without_a_look_at_each_pair(tmp_path: Path) -> None:
    """All pairs would be a hundred million; nor are the nearest looked for once for each of a thousand relations."""
    text = "17|t|" + "Aspirin rash " * 10_000 + "\n17|a|\n"
    rows = [f"17\t{13 * at}\t{13 * at + 7}\tAspirin\tdrug\tD1" for at in range(10_000)]
    rows += [f"17\t{13 * at + 8}\t{13 * at + 12}\trash\teffect\tD2" for at in range(10_000)]
    (document,), _ = read(written(tmp_path, text + "\n".join([*rows, *["17\tcauses\tD1\tD2"] * 1000])))
    assert [Relation("causes", "D1", "D2", attributes=(ALL_MENTIONS,))] * 1000 == [*document.relations]


PUBTATOR = """17|t|Aspirin gave her a rash.
17|a|It was aspirin.
17\t0\t7\tAspirin\tdrug\tD1
17\t19\t23\trash\teffect\tD9|D8
17\t32\t39\taspirin\tdrug\tD1
17\tcauses\tD1\tD8
17\tcauses\tD1\tD9\tNovel
"""


def test_pubtators_concepts_become_mentions(tmp_path: Path) -> None:
    (document,), actual = read(written(tmp_path, PUBTATOR))
    assert ["D1", "D9|D8", "D1#2"] == [entity.id for entity in document.entities]
    assert [("D1",), ("D9", "D8"), ("D1",)] == [entity.concepts for entity in document.entities]
    which = Attribute("tail_concept", "D8"), Attribute("tail_concept", "D9")
    causes = [Relation("causes", "D1#2", "D9|D8", attributes=(ALL_MENTIONS, one)) for one in which]
    causes[1] = replace(causes[1], attributes=(ALL_MENTIONS, Attribute("novelty", "Novel"), which[1]))
    assert causes == list(document.relations)
    expected = [f"{line}: relation between concepts, taken to hold for each pair of their mentions" for line in (6, 7)]
    assert expected == actual


ALIKE = """17|t|Human HUM caused it in mice.
17|a|
17\t0\t5\tHuman\tSpecies\t9606
17\t6\t9\tHUM\tGene\t9606
17\t23\t27\tmice\tSpecies\t10090
"""


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("Gene|9606\t10090", [("9606#2", "10090")]),
        ("Species|9606\tSpecies|10090", [("9606", "10090")]),
        ("9606\t10090", ['6: a relation names "9606", which mentions of 2 types have']),
        ("Gene|10090\t10090", ['6: a relation names "10090", which no mention here has with that type']),
    ],
)
def test_of_an_id_that_two_types_have_pubtator_says_which(ends: str, expected: list[Any], tmp_path: Path) -> None:
    """Vocabularies number genes and species alike: a gene's relation is none of the species."""
    (document,), actual = read(written(tmp_path, f"{ALIKE}17\tin\t{ends}\n"))
    assert expected == [*((one.head, one.tail) for one in document.relations), *actual]
    with FORMATS["pubtator"].write(tmp_path / "again", losses := Problems(), Options()) as sink:
        sink(Placed(document, tmp_path / "export", 1))
    assert (document.relations, {}) == (read(tmp_path / "again")[0][0].relations, losses.counts)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("Gene|9606", [("9606|77", (Attribute("head_concept", "9606"),))]),
        ("Species|9606", [("9606", ())]),
        ("9606", ['6: a relation names "9606", which mentions of 2 types have']),
    ],
)
def test_a_mention_of_several_genes_is_not_hidden_by_a_species_of_the_same_id(
    end: str, expected: list[Any], tmp_path: Path
) -> None:
    """The gene's relation was refused as nobody's, and without a type it became the species'."""
    several = ALIKE.replace("Gene\t9606", "Gene\t9606|77")
    (document,), actual = read(written(tmp_path, f"{several}17\tin\t{end}\t10090\n"))
    assert expected == [*((one.head, one.attributes) for one in document.relations), *actual]
    with FORMATS["pubtator"].write(tmp_path / "again", losses := Problems(), Options()) as sink:
        sink(Placed(document, tmp_path / "export", 1))
    assert (document.relations, {}) == (read(tmp_path / "again")[0][0].relations, losses.counts)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("17\t1\t8\tAspirin\tdrug\tD1", "3: D1 says 7 characters, text[1:8] differs"),
        ("17\t0\tx\tAspirin\tdrug\tD1", "3: start or end of a mention is not a whole number"),
        ("18\t0\t7\tAspirin\tdrug\tD1", "3: a line of another document"),
        ("17\t0", "3: 2 cells"),
        ("17\tcauses\tD1\tD2", '3: a relation names "D1", which no mention here has'),
        ("17\t0\t7\tAspirin\t\tD1", "3: a mention or relation without a type"),
        ("17\t\tD1\tD1", "3: a mention or relation without a type"),
    ],
)
def test_pubtators_errors_are_told_by_line(row: str, message: str, tmp_path: Path) -> None:
    documents, found = read(written(tmp_path, f"17|t|Aspirin rash.\n17|a|\n{row}\n\n18|t|x\n18|a|y\n\n19|a|y\n"))
    assert ["Aspirin rash.", "x y"] == [document.text for document in documents]
    assert [message, "8: a document without a title"] == found


@pytest.mark.parametrize("row", ["17\t19\t23\teffect\trash\tD9", "17\t19\t23\tD9\teffect\trash"], ids=["type", "id"])
def test_words_in_another_column_of_pubtator_are_told_and_not_shown(row: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"17|t|{TEXT}\n17|a|\n{row}\n{row}\n")
    what = "what stands for the words of text[19:23] differs, and stands for its type or id"
    assert [f"3: {what}", f"4: {what}"] == read(path)[1]


def test_pubtator_with_concepts_as_ids_moves_mentions(tmp_path: Path) -> None:
    """For alignment with facts, where concepts matter and not which mention is which."""
    problems = Problems()
    path = written(tmp_path, "7|t|The aspirin.\n7\t3\t10\taspirin\tdrug\tD1\n")
    (placed,) = read_pubtator(path, problems, Options(concepts=True))
    assert (Entity("D1", "drug", 4, 11),) == placed.document.entities
    assert {"mention whose words are elsewhere, moved": 1} == problems.counts


@needs_data
def test_pubtator_reads_what_the_bioc_package_reads() -> None:
    path = DATA / "bc5cdr_re" / "CDR_TestSet.PubTator.txt.gz"
    ours = list(FORMATS["pubtator"].read(path, Problems(), Options()))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        reference = theirs.load(file)
    assert 500 == len(reference) == len(ours)
    for one, document in zip(reference, (placed.document for placed in ours), strict=True):
        assert [(a.start, a.end, a.type) for a in one.annotations] == [
            (e.start, e.end, e.type) for e in document.entities
        ]
        assert (one.pmid, len(one.relations)) == (document.id, len(document.relations))


def test_an_omop_note_table(tmp_path: Path) -> None:
    table = "NOTE_ID,PERSON_ID,NOTE_TEXT,WARD\n7,1,a rash,b\n8,1,,b\n"
    documents, found = read(written(tmp_path, table), source="WARD")
    assert ([Document("7", "a rash", source="b", patient="1")], ["3: row without text, skipped"]) == (documents, found)
    with pytest.raises(DataError, match='no column "note_text" — did you mean "NOTE_TXT"'):
        list(FORMATS["omop"].read(written(tmp_path, "NOTE_ID,NOTE_TXT\n"), Problems(), Options()))


# streaming

LONG = TEXT + "x" * 7000
UNITS: dict[str, tuple[str, Callable[[int], str], str]] = {
    "bioc": (
        "<collection>",
        lambda _: BIOC[BIOC.index("<document>") : -13].replace(TEXT[8:], LONG[8:]),
        "</collection>",
    ),
    "bioc-json": (
        '{"source": "x", "documents": [',
        lambda n: ("," if n else "") + json.dumps({"id": str(n), "passages": [{"offset": 0, "text": LONG}]}),
        "]}",
    ),
    "conll": ("", lambda _: f"{'x' * 7000}\tB-drug\n\n", ""),
    "csv": ("text,label\n", lambda n: f'"{n} {LONG}",x\n', ""),
    "doccano": ("", lambda n: json.dumps({"id": n, "text": LONG, "label": [[0, 7, "drug"]]}) + "\n", ""),
    "jsonl": ("", lambda n: json.dumps({"id": str(n), "text": LONG, "labels": ["x"]}) + "\n", ""),
    "label-studio": ("[", lambda n: ("," if n else "") + json.dumps(task(*REGIONS, text=LONG)), "]"),
    "pubtator": ("", lambda n: f"{n}|t|{LONG}\n{n}|a|\n{n}\t0\t7\tAspirin\tdrug\tD1\n\n", ""),
}
MEASURE = """
import resource, sys
from pathlib import Path
from wardround.formats.check import Findings
from wardround.formats.recognise import recognised
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
def read(path):
    ((_, form),) = recognised(path)
    return sum(1 for _ in form.read(path, Findings(), Options()))
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
for form in sys.argv[2:]:
    small, large = (Path(sys.argv[1]) / f"{form}-{count}" for count in (20, 2000))
    read(small)
    before = peak()
    print(form, read(large), large.stat().st_size, peak() - before)
"""


def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    """The most that the process ever had, before and after: the XML parser's memory is not Python's."""
    for form, (head, unit, tail) in UNITS.items():
        for count in (20, 2000):
            with (tmp_path / f"{form}-{count}").open("w", encoding="utf-8") as file:
                file.write(head)
                file.writelines(map(unit, range(count)))
                file.write(tail)
    command = [sys.executable, "-c", MEASURE, str(tmp_path), *UNITS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "" == done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    assert [[form, "2000"] for form in UNITS] == [row[:2] for row in told]
    for form, _, size, grown in told:
        assert int(size) > 12e6, form
        assert int(grown) < 4e6, form


def test_a_long_first_line_is_recognised_by_all_of_it(tmp_path: Path) -> None:
    mention = {"id": 5, "label": "drug", "start_offset": 0, "end_offset": 7}
    text = "Aspirin gave her a rash. " * 20_000
    row = {"id": 1, "text": text, "entities": [mention], "relations": []}
    (tmp_path / "export.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    ((_, form),) = recognised(tmp_path / "export.jsonl")
    assert "doccano" == form.name
