"""Old files and corrected ones become one: repetitions once, contradictions listed, never a text lost in silence."""

import json
from pathlib import Path

import pytest

from study_files import cli
from wardround.formats.merge import Keep, merge
from wardround.formats.options import Options
from wardround.formats.register import FORMATS
from wardround.text.document import Document
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
    expected = (str(two), 1, "same text and the same said of it, written once", False)
    assert [expected] == [(one.file, one.line, one.what, one.lost) for one in done.findings]


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
    assert (2, "--keep lats: did you mean last?") == (ended.code, ended.err.strip())
