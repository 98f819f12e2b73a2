"""Old files and corrected ones become one: repetitions once, contradictions listed, never a text lost in silence."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from study_files import cli
from wardround.formats.check import check
from wardround.formats.convert import convert
from wardround.formats.doccano import METADATA
from wardround.formats.jsonl import write_jsonl
from wardround.formats.merge import FILLED, SEVERAL, USUAL, Keep, merge
from wardround.formats.options import Options
from wardround.formats.register import FORMATS, TARGETS
from wardround.formats.untouched import UNTOUCHED
from wardround.text.document import Document, Entity, Placed
from wardround.text.reading import DataError, Problems

NOTES = {name: f"Aspirin gave {name} a rash." for name in ("her", "him", "them")}


def row(name: str, kind: str = "drug", **more: object) -> dict[str, object]:
    return {"id": name, "text": NOTES[name], "entities": [{"id": "T1", "type": kind, "start": 0, "end": 7}], **more}


def saved(folder: Path, name: str, *rows: dict[str, object]) -> Path:
    (folder / name).write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return folder / name


def read(path: Path) -> list[Document]:
    return [placed.document for placed in FORMATS["jsonl"].read(path, Problems(), Options())]


def test_what_stands_twice_is_written_once_whatever_its_entities_are_called(tmp_path: Path) -> None:
    other = {**row("her"), "entities": [{"id": "other", "type": "drug", "start": 0, "end": 7}]}
    one, two = saved(tmp_path, "one.jsonl", row("her"), row("him")), saved(tmp_path, "two.jsonl", other, row("them"))
    done, counts = merge([one, two], tmp_path / "all.jsonl", Options())
    assert ({"duplicates": 1}, True, 3) == (counts, done.written, done.documents)
    assert ["her", "him", "them"] == [document.id for document in read(tmp_path / "all.jsonl")]
    expected = (str(two), 1, "same text with the same annotations, written once", False)
    assert [expected] == [(one.file, one.line, one.what, one.lost) for one in done.findings]


def test_two_pairs_of_one_sentence_are_no_contradiction_and_two_relations_of_one_pair_are(tmp_path: Path) -> None:
    def pair(tail: str, relation: str) -> dict[str, object]:
        return {"sentence": NOTES["her"], "head": {"word": "Aspirin"}, "tail": {"word": tail}, "relation": relation}

    both = saved(tmp_path, "pairs.jsonl", pair("rash", "causes"), pair("her", "NA"))
    done, counts = merge([both], tmp_path / "all.jsonl", Options())
    assert ({}, 2) == (counts, done.documents)
    survey = check(tmp_path / "all.jsonl", Options())
    assert 0 == survey.duplicates
    again = saved(tmp_path, "again.jsonl", pair("rash", "cures"), pair("her", "NA"))
    done, counts = merge([tmp_path / "all.jsonl", again], tmp_path / "more.jsonl", Options())
    assert ({"conflicts": 1, "duplicates": 1}, False) == (counts, done.written)


@pytest.mark.parametrize(("keep", "kind"), [("first", "drug"), ("last", "NSAID")])
def test_contradictions_are_told_with_both_places_and_settled_only_if_asked(
    keep: Keep, kind: str, tmp_path: Path
) -> None:
    one = saved(tmp_path, "one.jsonl", row("him"), row("her"))
    two = saved(tmp_path, "two.jsonl", row("her", "NSAID"))
    done, _ = merge([one, two], tmp_path / "all.jsonl", Options(), lossy=True)
    assert (False, [(str(two), 1, f"same text as {one}:2, other entities")]) == (
        done.written,
        [(one.file, one.line, one.what) for one in done.findings],
    )
    assert not (tmp_path / "all.jsonl").exists()
    done, counts = merge([one, two], tmp_path / "all.jsonl", Options(), keep=keep)
    assert (True, {"conflicts": 1}) == (done.written, counts)
    assert [kind] == [one.entities[0].type for one in read(tmp_path / "all.jsonl") if one.id == "her"]


def test_tasks_on_one_line_are_told_by_their_ids(tmp_path: Path) -> None:
    def tasks(name: str, *kinds: str, key: str = "id") -> None:
        made = [
            {
                key: 101 + at, "data": {"text": text}, "annotations": [{"result": [
                    {"id": "a", "type": "labels", "value": {"start": 0, "end": 7, "labels": [kind]}}
                ]}],
            }
            for at, (text, kind) in enumerate(zip(NOTES.values(), kinds, strict=True))
        ]  # fmt: skip
        (tmp_path / name).write_text(json.dumps(made), encoding="utf-8")

    tasks("one.json", "drug", "drug", "drug")
    tasks("two.json", "drug", "NSAID", "dose", key="pk")
    ended = cli("data", "merge", "one.json", "two.json", "--out", "all.jsonl", cwd=tmp_path)
    assert {
        "two.json:1 (task number 2): same text as one.json:1 (task 102), other entities",
        "two.json:1 (task number 3): same text as one.json:1 (task 103), other entities",
    } <= {*ended.err.splitlines()}


def test_attributes_that_differ_are_a_contradiction(tmp_path: Path) -> None:
    said = {**row("her"), "entities": [{"type": "drug", "start": 0, "end": 7, "attributes": {"negated": True}}]}
    done, _ = merge(
        [saved(tmp_path, "a.jsonl", row("her", id="n1"), {**said, "id": "n2"})], tmp_path / "all.jsonl", Options()
    )
    assert [f"same text as {tmp_path / 'a.jsonl'}:1 (n1), other attributes or concepts"] == [
        one.what for one in done.findings
    ]


def test_what_a_person_says_goes_before_what_a_model_found(tmp_path: Path) -> None:
    found = saved(tmp_path, "found.jsonl", row("her", "NSAID", model="tagger@1"), row("him", model="tagger@1"))
    done, counts = merge([found, saved(tmp_path, "mine.jsonl", row("her"))], tmp_path / "all.jsonl", Options())
    assert (True, {"superseded": 1}) == (done.written, counts)
    told = [(one.id, one.entities[0].type, one.model) for one in read(tmp_path / "all.jsonl")]
    assert [("him", "drug", "tagger@1"), ("her", "drug", "")] == told


def test_a_task_that_nobody_has_annotated_is_left_out_and_counted(tmp_path: Path) -> None:
    regions = [{"type": "labels", "value": {"start": 0, "end": 7, "text": "Aspirin", "labels": ["drug"]}}]
    tasks = [
        {"id": 1, "data": {"text": NOTES["her"]}, "annotations": [{"result": regions}]},
        {"id": 2, "data": {"text": NOTES["him"]}, "annotations": [], "predictions": [{"result": regions}]},
        {"id": 3, "data": {"text": NOTES["them"]}, "annotations": [{"result": []}]},
    ]
    (tmp_path / "corrected.json").write_text(json.dumps(tasks), encoding="utf-8")
    done, counts = merge([tmp_path / "corrected.json"], tmp_path / "all.jsonl", Options())
    assert (True, 1) == (done.written, counts["unannotated"])
    assert [NOTES["her"], NOTES["them"]] == [one.text for one in read(tmp_path / "all.jsonl")]


def test_one_id_of_two_texts_is_told_and_both_are_written(tmp_path: Path) -> None:
    done, _ = merge([saved(tmp_path, "a.jsonl", row("her"), row("him", id="her"))], tmp_path / "all.jsonl", Options())
    assert (2, ["repeated id", "id of another text, both written"]) == (
        done.documents,
        sorted((one.what for one in done.findings), reverse=True),
    )


def test_formats_may_differ_and_an_existing_file_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text(f"text,label\n{NOTES['them']},allergy\n")
    sources = [saved(tmp_path, "a.jsonl", row("her")), tmp_path / "notes.csv"]
    done, _ = merge(sources, tmp_path / "all.jsonl", Options())
    assert [(), ("allergy",)] == [document.labels for document in read(tmp_path / "all.jsonl")]
    assert 2 == done.documents
    with pytest.raises(DataError, match="exists already"):
        merge(sources, tmp_path / "all.jsonl", Options())


def test_the_command_lists_and_counts(tmp_path: Path) -> None:
    saved(tmp_path, "one.jsonl", row("her"), row("him"))
    saved(tmp_path, "two.jsonl", row("her", "NSAID"), row("him"))
    ended = cli("data", "merge", "one.jsonl", "two.jsonl", "--out", "all.jsonl", cwd=tmp_path)
    assert 1 == ended.code
    assert "two.jsonl:1: same text as one.jsonl:1, other entities" in ended.err.splitlines()
    assert "texts that are annotated in different ways: 1 — mend one of the two, or say which counts with" in ended.err
    assert "nothing was written (duplicates 1, conflicts 1)" in ended.err
    ended = cli("data", "merge", "one.jsonl", "two.jsonl", "--out", "all.jsonl", "--keep", "last", cwd=tmp_path)
    assert (0, "documents in all.jsonl: 2 (duplicates 1, conflicts 1)\n") == (ended.code, ended.out)
    assert "spirin" not in ended.out + ended.err
    ended = cli("data", "merge", "one.jsonl", "--out", "b.jsonl", "--keep", "lats", cwd=tmp_path)
    assert (2, "--keep lats: did you mean last? use one of first, last") == (ended.code, ended.err.strip())


@pytest.mark.parametrize("to", ["doccano", "brat"])
def test_what_a_model_found_and_nobody_changed_is_left_out_unless_it_is_confirmed(tmp_path: Path, to: str) -> None:
    link = {"type": "causes", "head": "T1", "tail": "T2", "confidence": 0.6}
    rows = [row(name, "a drug", model="tagger@1", relations=[link]) for name in NOTES]
    for one in rows:
        start = NOTES[str(one["id"])].index("rash")
        one["entities"] = [
            {"id": "T1", "type": "a drug", "start": 0, "end": 7, "confidence": 0.9},
            {"id": "T2", "type": "effect", "start": start, "end": start + 4, "confidence": 0.8},
        ]
    tool = tmp_path / ("tool" if to == "brat" else "tool.jsonl")
    convert(saved(tmp_path, "found.jsonl", *rows), tool, to, Options(), lossy=True)
    _corrected(tool, to)
    done, counts = merge([tool], tmp_path / "all.jsonl", Options())
    assert (True, {"untouched": 1}) == (done.written, counts)
    assert [UNTOUCHED] == [one.what for one in done.findings]
    assert [("her", 1, ""), ("them", 2, "")] == sorted(
        (one.id, len(one.entities) + len(one.relations), one.model) for one in read(tmp_path / "all.jsonl")
    )
    _, counts = merge([tool], tmp_path / "confirmed.jsonl", Options(), confirmed=True)
    assert {} == counts
    assert [("him", 3, "")] == [
        (one.id, len(one.entities) + len(one.relations), one.model)
        for one in read(tmp_path / "confirmed.jsonl")
        if one.id == "him"
    ]


def _corrected(tool: Path, to: str) -> None:
    """Of one text a relation and an entity are gone, of another the relation; of the third nothing is changed."""
    if to == "brat":
        for name, gone in {"her": r"\b(T2|R1)\b", "them": r"\bR1\b"}.items():
            lines = (tool / f"{name}.ann").read_text().splitlines(keepends=True)
            (tool / f"{name}.ann").write_text("".join(line for line in lines if not re.search(gone, line)))
        return
    rows = [json.loads(line) for line in tool.read_text().splitlines()]
    rows[0] |= {"entities": rows[0]["entities"][:1], "relations": []}
    rows[2]["relations"] = []
    saved(tool.parent, tool.name, *rows)


def test_a_task_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    tasks = [
        {"id": 1, "data": {"text": NOTES["her"], "details": 3}, "annotations": []},
        {"id": 2, "data": {"text": NOTES["him"]}, "annotations": [{"result": []}]},
    ]
    (tmp_path / "corrected.json").write_text(json.dumps(tasks), encoding="utf-8")
    merge([tmp_path / "corrected.json"], tmp_path / "all.jsonl", Options(), lossy=True)
    assert [NOTES["him"]] == [one.text for one in read(tmp_path / "all.jsonl")]


@pytest.mark.parametrize("keep", ["first", "last"])
def test_what_counts_is_written_whole_and_what_it_lacks_is_said(tmp_path: Path, keep: Keep) -> None:
    labelled = saved(tmp_path, "labelled.jsonl", row("her", labels=["allergy"]))
    plain = saved(tmp_path, "plain.jsonl", row("her", "NSAID"))
    for sources, lacks in (([labelled, plain], keep == "last"), ([plain, labelled], keep == "first")):
        target = tmp_path / f"{sources[0].stem}-all.jsonl"
        done, _ = merge(sources, target, Options(), keep=keep)
        (finding,) = done.findings
        assert lacks == finding.what.endswith(f"; the {keep} has no labels, and is written without")
        assert [() if lacks else ("allergy",)] == [one.labels for one in read(target)]


def test_own_files_with_names_of_their_own_go_with_a_correction_that_has_the_usual_ones(tmp_path: Path) -> None:
    own = {**row("her"), "nr": "7", "satz": NOTES["her"]}
    before = saved(tmp_path, "before.jsonl", {key: value for key, value in own.items() if key not in ("id", "text")})
    label = {"type": "labels", "from_name": "label", "to_name": "text", "id": "a"}
    result = [{**label, "value": {"start": 0, "end": 7, "text": "Aspirin", "labels": ["drug"]}}]
    task = {"id": 1, "data": {"id": "him", "text": NOTES["him"]}, "annotations": [{"id": 1, "result": result}]}
    corrected = tmp_path / "corrected.json"
    corrected.write_text(json.dumps([task]), encoding="utf-8")
    done, _ = merge([before, corrected], tmp_path / "all.jsonl", Options(text="satz", id="nr"))
    assert ["7", "him"] == [document.id for document in read(tmp_path / "all.jsonl")]
    assert [(str(corrected), False)] == [(one.file, one.lost) for one in done.findings if one.what == USUAL]
    done, _ = merge([before, corrected], tmp_path / "none.jsonl", Options(text="sats", id="nr"))
    assert (False, []) == (done.written, [one for one in done.findings if one.what == USUAL])
    (tmp_path / "brat").mkdir()  # which has no such names, so that it proves none
    (tmp_path / "brat" / "a.txt").write_text("No rash.")
    (tmp_path / "brat" / "a.ann").write_text("")
    done, _ = merge([tmp_path / "brat", corrected], tmp_path / "none.jsonl", Options(text="sats"))
    assert (False, []) == (done.written, [one for one in done.findings if one.what == USUAL])


FOUND = {
    "id": "T1", "type": "a drug", "start": 0, "end": 7, "confidence": 0.9, "concept": "1191",
    "attributes": {"dose ": " low ", "umls": "C0004057"},
}  # fmt: skip


@pytest.mark.parametrize("to", ["doccano", "brat"])
def test_details_that_came_with_the_texts_do_not_hide_that_nothing_was_changed(tmp_path: Path, to: str) -> None:
    tool = tmp_path / ("tool" if to == "brat" else "tool.jsonl")
    gap = {"id": "T2", "type": "effect", "start": 8, "end": 23, "parts": [[8, 12], [13, 16], [19, 23]]}
    rows = [row(name, "a drug", model="tagger@1", entities=[FOUND, gap]) for name in NOTES]
    convert(saved(tmp_path, "found.jsonl", *rows), tool, to, Options(), lossy=True)
    with pytest.raises(DataError, match="all 3 documents are as a model left them"):
        merge([tool], tmp_path / "all.jsonl", Options(), lossy=True)


@pytest.mark.parametrize(
    "line", ["A7\tNegated T1\n", "N7\tReference T1 UMLS:C0004057\taspirin\n", "R7\tsame Arg1:T1 Arg2:T1\n"]
)
def test_what_a_person_adds_in_brat_is_a_persons_word(tmp_path: Path, line: str) -> None:
    found = {"id": "T1", "type": "drug", "start": 0, "end": 7, "confidence": 0.9}
    rows = [row(name, "drug", model="tagger@1", entities=[found]) for name in NOTES]
    convert(saved(tmp_path, "found.jsonl", *rows), tmp_path / "tool", "brat", Options(), lossy=True)
    with (tmp_path / "tool" / "him.ann").open("a") as file:
        file.write(line)
    _, counts = merge([tmp_path / "tool"], tmp_path / "all.jsonl", Options())
    assert ({"untouched": 2}, ["him"]) == (counts, [one.id for one in read(tmp_path / "all.jsonl")])


def test_a_mark_that_was_copied_or_whose_text_was_changed_says_nothing(tmp_path: Path) -> None:
    rows = [row(name, model="sorter@1", entities=[], labels=["allergy"]) for name in NOTES]
    tool = tmp_path / "tool.jsonl"
    convert(saved(tmp_path, "found.jsonl", *rows), tool, "doccano", Options(), lossy=True)
    kept, edited, other = (json.loads(line) for line in tool.read_text().splitlines())
    saved(tmp_path, tool.name, kept, edited | {"text": "He said so."}, other | {"found": kept["found"]})
    _, counts = merge([tool], tmp_path / "all.jsonl", Options())
    assert {"untouched": 1} == counts
    assert [edited["id"], other["id"]] == [one.id for one in read(tmp_path / "all.jsonl")]


FROM: dict[str, Any] = {"source": "ward b", "patient": "p7", "language": "en"}


@pytest.mark.parametrize("tool", ["label-studio", "doccano", "brat", "jsonl", "bioc-json"])
def test_where_a_text_is_from_comes_back_from_every_tool(tool: str, tmp_path: Path) -> None:
    """BRAT has no place for it, which is counted: the predictions say it again."""
    found = Document("n1", "Aspirin gave her a rash.", model="m", **FROM)
    corrected = replace(found, model="", entities=(Entity("T1", "drug", 0, 7),))
    losses, target, write = Problems(), tmp_path / "corrected", TARGETS[tool].write
    assert write is not None
    with write(target, losses, Options()) as sink:
        sink(Placed(corrected, tmp_path / "x", 1))
    with write_jsonl(tmp_path / "found.jsonl", losses, Options()) as sink:
        sink(Placed(found, tmp_path / "x", 1))
    assert (dict.fromkeys(FROM, 1) if tool == "brat" else {}) == losses.counts
    done, _ = merge([tmp_path / "found.jsonl", target], tmp_path / "all.jsonl", Options())
    (row,) = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    assert (FROM, 1) == ({key: row[key] for key in FROM}, len(row["entities"]))
    assert (tool == "brat") == (FILLED in {one.what for one in done.findings})


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_nobodys_source_or_patient_goes_to_a_text_that_several_have(order: tuple[int, ...], tmp_path: Path) -> None:
    """A short finding stands in the notes of many: which of them a copy without a name is, nobody knows."""
    about: tuple[dict[str, str], ...] = ({"patient": "p1"}, {"patient": "p2", "source": "ward b"}, {})
    files = [saved(tmp_path, f"{at}.jsonl", row("her", **about[at])) for at in order]
    done, _ = merge(files, tmp_path / "all.jsonl", Options())
    (written,) = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    assert about[order[0]] == {key: written[key] for key in ("patient", "source") if key in written}
    assert SEVERAL in {one.what for one in done.findings}


@pytest.mark.parametrize("tool", ["label-studio", "doccano", "jsonl"])
def test_a_column_that_only_the_old_file_has_hides_no_source_of_the_new_one(tool: str, tmp_path: Path) -> None:
    old = {"text": "No pain.", "labels": ["x"], "hospital": "ward a", "who": "p1"}
    (tmp_path / "old.jsonl").write_text(json.dumps(old) + "\n")
    write = TARGETS[tool].write
    assert write is not None
    with write(tmp_path / "new", Problems(), Options()) as sink:
        sink(Placed(Document("n1", "Aspirin gave her a rash.", ("y",), **FROM), tmp_path / "x", 1))
    options = Options(source="hospital", patient="who")
    merge([tmp_path / "old.jsonl", tmp_path / "new"], tmp_path / "all.jsonl", options)
    rows = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    assert [("ward a", "p1"), ("ward b", "p7")] == [(row["source"], row["patient"]) for row in rows]


def test_label_studios_data_may_be_named_and_is_counted_if_not(tmp_path: Path) -> None:
    task = {"id": 1, "data": {"text": "No pain.", "hospital": "ward a", "who": 7}, "annotations": [{"result": []}]}
    (tmp_path / "a.json").write_text(json.dumps([task]))
    read = FORMATS["label-studio"].read
    problems = Problems()
    (placed,) = read(tmp_path / "a.json", problems, Options(source="hospital", patient="who"))
    assert ("ward a", "7", {}) == (placed.document.source, placed.document.patient, problems.counts)
    (placed,) = read(tmp_path / "a.json", problems, Options())
    assert ("", {METADATA: 2}) == (placed.document.source, problems.counts)
