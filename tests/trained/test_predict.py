"""`wardround predict`: any input to any form; mistakes end with one message, code 2, and nothing half-written."""

import csv
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import trained_models
import wardround
from study_files import Ended, cli, start
from wardround.cli.drawn import drawn
from wardround.cli.progress import LINE_SECONDS, Counter
from wardround.clinic import Clinic
from wardround.core.device import DeviceError
from wardround.core.doing import noticed
from wardround.formats.jsonl import json_row
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.pairs import CROWD
from wardround.text.prediction import Label, Prediction
from wardround.trained.note_nlp import NOTE_NLP
from wardround.trained.outputs import CSV
from wardround.trained.pool import Worker, WorkerError, _loaded, predictions

NOTE = "Patient was given aspirin for chest pain. Troponin showed infarction; continue metoprolol."


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for make in (trained_models.tagger, trained_models.relater, trained_models.sorter):
        shutil.move(make(folder / "run") / "model", folder / make.__name__)
        shutil.rmtree(folder / "run")
    return folder


@pytest.fixture
def here(runs: Path, tmp_path: Path) -> Path:
    for model in ("tagger", "relater", "sorter"):
        (tmp_path / model).symlink_to(runs / model)
    return tmp_path


def notes(folder: Path, count: int = 3) -> Path:
    """A folder of plain notes."""
    (folder / "notes" / "ward").mkdir(parents=True)
    for number, note in enumerate(list(Clinic(hospitals=1, documents=count).stream("hospital-0", "train"))):
        name = "ward/b" if number == 1 else f"n{number}"
        (folder / "notes" / f"{name}.txt").write_bytes(note.text.encode())
    return folder / "notes"


def rows(ended: Ended) -> list[dict[str, object]]:
    assert (0, "") == (ended.code, ended.err)
    return [json.loads(line) for line in ended.out.splitlines()]


def left(folder: Path) -> list[str]:
    """What is there besides what was put there."""
    return sorted(path.name for path in folder.iterdir() if path.name not in ("tagger", "relater", "sorter", "notes"))


def test_one_text_is_shown_for_people(here: Path) -> None:
    ended = cli("predict", "tagger", "relater", "--text", NOTE, cwd=here)
    told = wardround.load(here / "tagger", here / "relater")(NOTE)
    assert (0, "") == (ended.code, ended.err)
    assert f"{drawn(told, colour=False, title=True)}\n" == ended.out
    assert "──▶" in ended.out


def test_a_precision_is_one_that_there_is_and_that_the_processor_has(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = cli("predict", "tagger", "--text", NOTE, "--precision", "bf32", cwd=here)
    assert (2, True, True) == (ended.code, "--precision bf32" in ended.err, "fp32" in ended.err)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    with pytest.raises(DeviceError, match="bf16': this processor has no instructions for it"):
        wardround.load(here / "tagger", precision="bf16")


def test_workers_compute_in_the_precision_that_was_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    model = wardround.load(here / "tagger", precision="bf16")
    spec: list[dict[str, Any]] = []
    monkeypatch.setattr(Worker, "_send", lambda _, what: spec.append(what))
    with Worker(model):
        pass
    assert "bf16" == _loaded(json.loads(json.dumps(spec[0]))).device.precision


def test_every_kind_of_input_gives_the_same_findings(here: Path) -> None:
    folder = notes(here)
    texts = {path.relative_to(folder).with_suffix("").as_posix(): path.read_bytes().decode()
             for path in sorted(folder.rglob("*.txt"))}  # fmt: skip
    table = [{"note_id": name, "note_text": text} for name, text in texts.items()]
    for name, delimiter in (("plain.csv", ","), ("NOTE.csv", ",")):
        with (here / name).open("w", newline="") as file:
            names = ("note_id", "note_text") if name == "NOTE.csv" else ("key", "body")
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerow(names)
            writer.writerows(row.values() for row in table)
    lines = "".join(json.dumps({"id": row["note_id"], "text": row["note_text"]}) + "\n" for row in table)
    (here / "notes.jsonl").write_text(lines)
    expected = rows(cli("predict", "tagger", "notes", cwd=here))
    assert list(texts) == [row["id"] for row in expected]
    assert any(row.get("entities") for row in expected)
    for arguments in (["NOTE.csv"], ["notes.jsonl"], ["plain.csv", "--text-column", "body", "--id-column", "key"]):
        assert expected == rows(cli("predict", "tagger", *arguments, cwd=here))
    alone = rows(cli("predict", "tagger", "notes/n0.txt", cwd=here))
    assert [row for row in expected if row["id"] == "n0"] == alone


def test_notes_named_in_capitals_are_notes_too(here: Path) -> None:
    (notes(here, 1) / "WARD7.TXT").write_text(NOTE)
    told = rows(cli("predict", "tagger", "notes", cwd=here))
    assert ["WARD7", "n0"] == [row["id"] for row in told]
    assert told[:1] == rows(cli("predict", "tagger", "notes/WARD7.TXT", cwd=here))


def test_what_stands_in_the_column_of_labels_does_not_matter(here: Path) -> None:
    (here / "rows.csv").write_text(f"text,label\n{NOTE},\n")
    (here / "rows.jsonl").write_text(json.dumps({"text": NOTE, "label": None}) + "\n")
    for name in ("rows.csv", "rows.jsonl"):
        assert 1 == len(rows(cli("predict", "tagger", name, cwd=here)))


def test_what_comes_over_a_pipe_is_a_text_or_jsonl(here: Path) -> None:
    def piped(text: str, *arguments: str) -> Ended:
        os.mkfifo(here / "pipe")
        running = start("predict", "tagger", "pipe", *arguments, cwd=here)
        (here / "pipe").write_text(text)  # waits for its reader
        (here / "pipe").unlink()
        return running.wait()

    first, second = rows(piped(NOTE))[0], rows(piped(json.dumps({"text": NOTE}), "--from", "jsonl"))[0]
    assert ("pipe", "pipe:1") == (first.pop("id"), second.pop("id"))
    assert first == second
    os.mkfifo(here / "pipe")
    ended = cli("predict", "tagger", "pipe", "--from", "csv", cwd=here)
    assert (2, "pipe: csv cannot be read from a pipe") == (ended.code, ended.err.split(" — ")[0])


def test_jsonl_can_be_read_again_and_its_entities_related(here: Path) -> None:
    notes(here)
    assert 0 == cli("predict", "tagger", "notes", "--out", "found.jsonl", "--quiet", cwd=here).code
    assert "nothing would be lost" in cli("data", "check", "found.jsonl", cwd=here).out
    chained = rows(cli("predict", "tagger", "relater", "notes", cwd=here))
    again = rows(cli("predict", "relater", "found.jsonl", cwd=here))
    for one, other in zip(chained, again, strict=True):
        assert [(r["type"], r["head"], r["tail"]) for r in one.get("relations", [])] == [  # type: ignore[attr-defined]
            (r["type"], r["head"], r["tail"])
            for r in other.get("relations", [])  # type: ignore[attr-defined]
        ]


def marked(path: Path, types: tuple[str, str] = ("treatment", "problem")) -> Path:
    """A note with two entities that annotators gave it, one of them where no tagger would see any."""
    at = NOTE.index("aspirin"), NOTE.index("Patient")
    entities = [{"id": f"a{n}", "type": kind, "start": at[n], "end": at[n] + 7} for n, kind in enumerate(types)]
    path.write_text(json.dumps({"id": "1", "text": NOTE, "entities": entities}) + "\n")
    return path


def spans(ended: Ended) -> set[tuple[object, ...]]:
    assert 0 == ended.code, ended
    row = json.loads(ended.out)
    return {(one["type"], one["start"], one["end"]) for one in row.get("entities", [])}


def test_given_entities_are_mixed_with_found_ones_only_if_asked(here: Path) -> None:
    marked(here / "marked.jsonl")
    (here / "bare.jsonl").write_text(json.dumps({"id": "1", "text": NOTE}) + "\n")
    own = spans(cli("predict", "tagger", "bare.jsonl", cwd=here))
    given = {("treatment", NOTE.index("aspirin"), NOTE.index("aspirin") + 7), ("problem", 0, 7)}
    assert own
    assert not given <= own
    for chain, remedy in ((["tagger"], "both keeps them"), (["tagger", "relater"], "given uses them")):
        ended = cli("predict", *chain, "marked.jsonl", cwd=here)
        assert own == spans(ended)
        assert "entities that came with 1 text, 2: they are left out, and the tagging model's own are used" in ended.err
        assert f"; --entities {remedy}\n" in ended.err
    ended = cli("predict", "tagger", "relater", "marked.jsonl", "--entities", "given", cwd=here)
    assert given == spans(ended)
    assert "entities that came with 1 text, 2: they are used, and the tagging model is not asked" in ended.err
    for workers in (1, 2):
        both = cli("predict", "tagger", "relater", "marked.jsonl", "--entities", "both", "--workers", workers, cwd=here)
        assert given | own == spans(both)
        assert "they stand beside the tagging model's own" in both.err
    alone = cli("predict", "relater", "marked.jsonl", cwd=here)
    assert (given, "") == (spans(alone), alone.err)
    assert "" == cli("predict", "tagger", "relater", "bare.jsonl", cwd=here).err


def test_types_that_the_model_does_not_relate_are_told_with_those_that_it_does(here: Path) -> None:
    marked(here / "odd.jsonl", ("Zanzibarine", "DRUG"))
    ended = cli("predict", "relater", "odd.jsonl", cwd=here)
    assert 0 == ended.code
    assert (
        "warning: none of the 2 entities has a type that relater relates, so there is no relation; it relates problem, "
        "test, treatment: say which is which with --rename TYPE=problem\n"
    ) == ended.err
    assert "" == cli("predict", "relater", "odd.jsonl", "--quiet", cwd=here).err
    assert "" == cli("predict", "relater", "odd.jsonl", "--rename", "DRUG=treatment", cwd=here).err
    assert "" == cli("predict", "relater", marked(here / "marked.jsonl"), cwd=here).err


def test_entities_that_crowd_one_place_are_told_and_not_paired(here: Path) -> None:
    crowd = [{"id": f"a{n}", "type": "treatment", "start": 0, "end": 7} for n in range(CROWD + 2)]
    (here / "crowd.jsonl").write_text(json.dumps({"id": "1", "text": NOTE, "entities": crowd}) + "\n")
    ended = cli("predict", "relater", "crowd.jsonl", cwd=here)
    assert 0 == ended.code
    assert (
        "warning: 1 entity with more than 1,000 others within 1,000 characters behind: these pairs are not looked at; "
        "are the entities those of this text?\n"
    ) == ended.err


def test_a_text_with_too_many_pairs_is_told_and_the_others_are_looked_at(here: Path) -> None:
    many = [{"type": ("treatment", "problem")[n % 2], "start": 2 * n, "end": 2 * n + 1} for n in range(6000)]
    lines = [{"id": "2", "text": "x " * 6000, "entities": many}, json.loads(marked(here / "a.jsonl").read_text())]
    (here / "many.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ended = cli("predict", "relater", "many.jsonl", cwd=here)
    first, second = map(json.loads, ended.out.splitlines())
    assert (6000, False, True) == (len(first["entities"]), "relations" in first, "relations" in second)
    assert (
        "warning: 1 text with more than 1,000,000 pairs of entities: none of them is looked at; cut such a text into "
        "notes, or leave out entities of types that need not be related\n"
    ) == ended.err


@pytest.mark.parametrize("workers", [1, 2])
def test_how_many_pairs_are_done_is_told_whoever_works(workers: int, here: Path) -> None:
    row = json.loads(marked(here / "marked.jsonl").read_text())
    document = Document("1", row["text"], entities=tuple(Entity(**one) for one in row["entities"]))
    words = list[str]()
    with noticed(None, words.append):
        list(predictions(wardround.load(here / "relater"), [Placed(document, here, 1)] * 70, workers))
    assert {"pairs 0 of 64 in 64 texts", "pairs 0 of 6 in 6 texts"} >= {*words} >= {"pairs 0 of 64 in 64 texts"}


def test_where_there_is_no_terminal_long_work_is_told_by_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Counter("predicting", None, quiet=False) as counter:
        counter.doing("pairs 1 of 9 in 1 text")
        counter.last -= LINE_SECONDS
        counter.doing("pairs 2 of 9 in 1 text")
    assert "predicting: 0 texts, 0 texts/s, pairs 2 of 9 in 1 text\n" == capsys.readouterr().err


def test_csv_has_a_row_for_each_finding(here: Path) -> None:
    ended = cli("predict", "tagger", "relater", "sorter", "--text", NOTE, "--to", "csv", "--quiet", cwd=here)
    table = list(csv.DictReader(io.StringIO(ended.out)))
    assert list(CSV) == list(table[0])
    assert {"label", "entity", "relation"} == {row["kind"] for row in table}
    for row in table:
        for first, last, text in (("start", "end", "text"), ("tail_start", "tail_end", "tail_text")):
            if row[first]:
                assert NOTE[int(row[first]) : int(row[last])] == row[text]


def test_a_failed_output_has_no_header(here: Path) -> None:
    (here / "bad.jsonl").write_text("{broken\n")
    for to in ("csv", "omop"):
        ended = cli("predict", "tagger", "bad.jsonl", "--to", to, cwd=here)
        assert (2, "") == (ended.code, ended.out)


def test_omop_has_the_columns_of_note_nlp(here: Path) -> None:
    ended = cli("predict", "tagger", "--text", NOTE, "--to", "omop", cwd=here)
    table = list(csv.DictReader(io.StringIO(ended.out)))
    assert list(NOTE_NLP) == list(table[0])
    for row in table:
        at = int(row["offset"])
        assert NOTE[at : at + len(row["lexical_variant"])] == row["lexical_variant"]
        assert row["lexical_variant"] in row["snippet"]
        assert "0" == row["note_nlp_concept_id"]
        assert row["term_modifiers"].startswith("type=")


def test_brat_keeps_texts_and_says_what_it_has_no_place_for(here: Path) -> None:
    folder = notes(here)
    ended = cli("predict", "tagger", "sorter", "notes", "--to", "brat", "--out", "brat", cwd=here)
    assert 0 == ended.code
    assert "brat has no place for: labels: 3" in ended.err
    assert "brat has no place for: confidence" not in ended.err
    for path in folder.rglob("*.txt"):
        assert path.read_bytes() == (here / "brat" / path.relative_to(folder)).read_bytes()
    assert 0 == cli("data", "check", "brat", cwd=here).code


def given(here: Path) -> Path:
    """A note whose entities have attributes and concept ids."""
    path = marked(here / "given.jsonl")
    note = json.loads(path.read_text())
    note["entities"][0] |= {"concept": "RxNorm:1191", "attributes": {"negated": True, "temporality": "historical"}}
    path.write_text(json.dumps(note) + "\n")
    return path


def test_given_and_found_entities_are_told_apart_by_a_field(here: Path) -> None:
    given(here)
    row = json.loads(cli("predict", "tagger", "given.jsonl", "--entities", "both", "--quiet", cwd=here).out)
    kinds = {(one.get("given", False), "confidence" in one) for one in row["entities"]}
    assert {(True, False), (False, True)} == kinds
    (known,) = [one for one in row["entities"] if one.get("concept")]
    assert {"negated": "true", "temporality": "historical"} == known["attributes"]
    for workers in (1, 2):
        ended = cli(
            "predict", "tagger", "given.jsonl", "--entities", "both", "--to", "csv", "--quiet", "--workers", workers,
            cwd=here,
        )  # fmt: skip
        assert (0, "") == (ended.code, ended.err)
        table = list(csv.DictReader(io.StringIO(ended.out)))
        assert {("yes", ""), ("", "found")} == {
            (one["given"], "found" if one["confidence"] else "") for one in table if one["kind"] == "entity"
        }
        assert [("RxNorm:1191", "negated=true; temporality=historical")] == [
            (one["concepts"], one["attributes"]) for one in table if one["concepts"]
        ]


def test_what_a_model_is_less_sure_of_is_left_out(here: Path) -> None:
    notes(here)
    arguments = ("predict", "tagger", "relater", "sorter", "notes")
    every, sure = (
        list(csv.DictReader(io.StringIO(cli(*arguments, "--to", "csv", "--quiet", *more, cwd=here).out)))
        for more in ([], ["--at-least", "0.8"])
    )
    ends = {(row["id"], row["start"], row["end"]) for row in sure if row["kind"] == "entity"}
    expected = [
        row
        for row in every
        if float(row["confidence"]) >= 0.8
        and (row["kind"] != "relation" or {(row["id"], row[a], row[b]) for a, b in ENDS} <= ends)
    ]
    assert 0 < len(sure) < len(every)
    assert expected == sure
    assert 2 == cli(*arguments, "--at-least", "1.2", cwd=here).code


ENDS = (("start", "end"), ("tail_start", "tail_end"))


def test_the_least_sure_texts_come_first_as_tasks_for_an_annotation_tool(here: Path) -> None:
    notes(here, 12)
    rows_ = rows(cli("predict", "tagger", "notes", "--quiet", cwd=here))
    least = {
        str(row["id"]): min((one["confidence"] for one in row.get("entities", [])), default=1.0)  # type: ignore[attr-defined]
        for row in rows_
    }
    ended = cli("predict", "tagger", "notes", "--uncertain", 4, "--out", "tasks.json", "--quiet", cwd=here)
    assert (0, "") == (ended.code, ended.err)
    tasks = json.loads((here / "tasks.json").read_text())
    chosen = [task["data"]["id"] for task in tasks]
    assert sorted(least.values())[:4] == [least[name] for name in chosen]
    (prediction,) = tasks[0]["predictions"]
    assert "annotations" not in tasks[0]
    assert least[chosen[0]] == prediction["score"]
    assert "small@" in prediction["model_version"]
    assert all(0 < one["score"] <= 1 for one in prediction["result"] if one["type"] == "labels")


def test_for_classes_the_margin_counts(here: Path) -> None:
    notes(here, 12)
    model = wardround.load(here / "sorter")
    texts = {path.stem: path.read_text() for path in sorted((here / "notes").glob("*.txt"))}
    margins = {name: model(text).margin or 0 for name, text in texts.items()}
    assert all(0 <= margin <= 1 for margin in margins.values())
    told = rows(cli("predict", "sorter", "notes", "--uncertain", 3, "--quiet", cwd=here))
    order = [str(row["id"]) for row in told if row["id"] in margins]
    assert order == sorted(order, key=margins.__getitem__)


@pytest.mark.parametrize("to", ["label-studio", "doccano", "brat"])
def test_pre_annotations_come_back_and_tell_whether_a_person_has_said_anything(here: Path, to: str) -> None:
    notes(here)
    expected = {row["id"]: row.get("entities", []) for row in rows(cli("predict", "tagger", "notes", cwd=here))}
    out = "out" if to == "brat" else "out.json"
    ended = cli("predict", "tagger", "notes", "--to", to, "--out", out, "--quiet", cwd=here)
    assert (0, "") == (ended.code, ended.err)
    if to == "label-studio":
        check = cli("data", "check", out, cwd=here).out
        assert "but with predictions, which nobody has confirmed" in check
        assert "training and `data merge` leave it out; annotate it" in " ".join(check.split())
        tasks = json.loads((here / out).read_text())
        for task in tasks:
            task["annotations"] = [{"result": task["predictions"][0]["result"]}]  # as after a click on Submit
        (here / out).write_text(json.dumps(tasks))
    if to == "brat":
        assert "AnnotatorNotes T1\tconfidence 0." in (here / "out" / "n0.ann").read_text()
    ended = cli("data", "convert", out, "back.jsonl", "--to", "jsonl", cwd=here)
    assert (0, "documents in back.jsonl: 3\n") == (ended.code, ended.out), ended.err
    back = [json.loads(line) for line in (here / "back.jsonl").read_text().splitlines()]
    for row in back:
        told = [(one["type"], one["start"], one["end"]) for one in row["entities"]]
        assert [(one["type"], one["start"], one["end"]) for one in expected[row["id"]]] == told  # type: ignore[attr-defined]
        assert (to != "label-studio") == ("small@" in row.get("model", ""))  # nobody has changed it since
        assert not any("confidence" in one for one in row["entities"])


@pytest.mark.parametrize(
    "models", [("tagger", "relater"), ("relater",)], ids=["a chain", "relations of given entities"]
)
@pytest.mark.parametrize("to", ["label-studio", "doccano", "brat"])
def test_relations_go_to_annotation_tools_and_come_back_between_the_same_words(
    here: Path, to: str, models: tuple[str, ...]
) -> None:
    clinic = Clinic(hospitals=1, documents=2)
    lines = [
        json.dumps({**json_row(note), "patient": f"p-{at}"})
        for at, note in enumerate(clinic.stream("hospital-0", "train"))
    ]
    (here / "pool.jsonl").write_text("\n".join(lines))
    arguments = ("predict", *models, "pool.jsonl", "--quiet")
    actual = rows(cli(*arguments, cwd=here))
    expected = sorted(map(links, actual))
    assert all(expected)
    assert ["p-0", "p-1"] == [row["patient"] for row in actual]
    out = "out" if to == "brat" else "out.json"
    ended = cli(*arguments, "--to", to, "--out", out, cwd=here)
    assert (0, "") == (ended.code, ended.err)
    scores = sorted(one["confidence"] for row in actual for one in row["relations"])  # type: ignore[attr-defined]
    if to == "label-studio":
        tasks = json.loads((here / out).read_text())
        results = [task["predictions"][0]["result"] for task in tasks]
        relations = [one for result in results for one in result if one["type"] == "relation"]
        assert {("right", 1)} == {(one["direction"], len(one["labels"])) for one in relations}
        assert ["p-0", "p-1"] == [task["data"]["patient"] for task in tasks]
        for task, result in zip(tasks, results, strict=True):
            task["annotations"] = [{"result": result}]
        (here / out).write_text(json.dumps(tasks))
    elif to == "doccano":
        exported = [json.loads(line) for line in (here / out).read_text().splitlines()]
        relations = [one for row in exported for one in row["scores"] if "type" in one]
        spans = {(row["id"], *one["from"], *one["to"]) for row in exported for one in row["scores"] if "type" in one}
        assert {(row["id"], *place[1:]) for row in actual for place in links(row)} == spans
    else:
        notes = "".join(path.read_text() for path in (here / out).glob("*.ann"))
        relations = [
            {"score": float(one)} for one in re.findall(r"AnnotatorNotes R\d+\tconfidence ([\d.]+), wardround", notes)
        ]
    assert scores == sorted(one["score"] for one in relations)
    confirmed = () if to == "label-studio" else ("--confirmed",)
    assert 0 == cli("data", "merge", out, "--out", "back.jsonl", *confirmed, cwd=here).code
    assert expected == sorted(links(json.loads(line)) for line in (here / "back.jsonl").read_text().splitlines())


def links(row: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The relations of a document by type and the places of their ends."""
    places = {one["id"]: (one["start"], one["end"]) for one in row["entities"]}
    return sorted((one["type"], *places[one["head"]], *places[one["tail"]]) for one in row["relations"])


def test_predictions_converted_later_are_predictions_too(here: Path) -> None:
    notes(here)
    assert 0 == cli("predict", "tagger", "sorter", "notes", "--out", "found.jsonl", "--quiet", cwd=here).code
    assert 0 == cli("data", "convert", "found.jsonl", "late.json", "--to", "label-studio", cwd=here).code
    assert 0 == cli("predict", "tagger", "sorter", "notes", "--out", "now.json", "--quiet", cwd=here).code
    assert (here / "now.json").read_bytes() == (here / "late.json").read_bytes()


def test_omop_tells_what_is_negated_and_past_and_maps_concepts(here: Path) -> None:
    given(here)
    (here / "map.csv").write_text("concept,type,words,concept_id\nRxNorm:1191,,,1112807\n,problem,PATIENT,42\n")
    arguments = ("predict", "tagger", "relater", "given.jsonl", "--entities", "given", "--to", "omop")
    table = list(csv.DictReader(io.StringIO(cli(*arguments, "--concepts", "map.csv", "--quiet", cwd=here).out)))
    actual = {one["lexical_variant"]: one for one in table}
    columns = ("note_nlp_concept_id", "term_exists", "term_temporal")
    assert ("1112807", "N", "Past") == tuple(actual["aspirin"][name] for name in columns)
    assert ("42", "", "") == tuple(actual["Patient"][name] for name in columns)
    assert (
        "type=treatment; given; negated=true; temporality=historical; concept=RxNorm:1191"
        in (actual["aspirin"]["term_modifiers"])
    )
    (here / "map.csv").write_text("type,concept_id\nproblem,42\n")
    ended = cli(*arguments, "--concepts", "map.csv", cwd=here)
    assert "omop has no place for: entities that the mapping lacks, written as 0: 1" in ended.err


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,2\n", "map.csv:1: no mapping to concepts — write a column concept_id"),
        ("type,concept_id\nproblem,x\n", "map.csv:2: its concept_id is not a whole number"),
        ("type,concept_id\n,7\n", "map.csv:2: it maps nothing"),
        ("type,concept_id\ncafé noir,7\n", "it looks like latin-1 — save it as UTF-8"),
        ("type,concept_id\nx,7\nx,8\n", "map.csv:3: the same is mapped to another id above"),
    ],
)
def test_a_mapping_that_is_none_is_refused(here: Path, content: str, expected: str) -> None:
    (here / "map.csv").write_text(content, encoding="latin-1")
    ended = cli("predict", "tagger", "--text", NOTE, "--to", "omop", "--concepts", "map.csv", cwd=here)
    assert (2, "") == (ended.code, ended.out)  # and no header before the message
    assert expected in ended.err
    ended = cli("predict", "tagger", "--text", NOTE, "--to", "csv", "--concepts", "map.csv", cwd=here)
    assert (2, "--concepts goes with --to omop, not csv") == (ended.code, ended.err.split(";")[0])


def test_the_output_is_the_same_whatever_the_number_of_workers(here: Path) -> None:
    with (here / "many.jsonl").open("w") as file:
        for number in range(150):
            file.write(json.dumps({"id": str(number), "text": f"{NOTE} {'CT scan. ' * (number % 5)}"}) + "\n")
    one, three = (
        cli("predict", "tagger", "relater", "many.jsonl", "--workers", n, "--quiet", cwd=here) for n in (1, 3)
    )
    assert (0, "", 150) == (one.code, one.err, len(one.out.splitlines()))
    assert one == three


def test_another_language_and_what_is_cut_are_told_once_with_the_share(here: Path) -> None:
    chinese = "患者因胸痛入院,给予阿司匹林治疗,心电图示心肌梗死。"
    english = "The patient was given aspirin for the chest pain and is now well."
    texts = [chinese] * 9 + [english]
    (here / "mixed.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    ended = cli("predict", "tagger", "sorter", "mixed.jsonl", cwd=here)
    warned = [line for line in ended.err.splitlines() if line.startswith("warning")]
    assert "warning: this model was trained on English; 90 % of this file looks Chinese" == warned[0]
    assert "warning: longer than the model reads: 1 of 10 texts; 6 tokens unread" == warned[1]
    assert 2 == len(warned)
    assert "" == cli("predict", "tagger", "--text", english, cwd=here).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tagger", "--text", ""], "--text is empty"),
        (["tagger", "--text", " \n"], "--text is empty"),
        (["tagger"], "no texts: name a file, a folder or - after tagger"),
        (["tagger", "relater"], "no texts: name a file, a folder or - after relater"),
        (["note.jsonl"], "note.jsonl: it is a file, not a model's folder; models come first, and one file or folder"),
        (["note.jsonl", "tagger"], "note.jsonl: it is a file, not a model's folder; models come first, and one file"),
        (["taggr", "--text", "x"], "taggr: there is no such folder; did you mean tagger?"),
        (
            ["relater", "--text", NOTE],
            "it relates entities and finds none by itself, and the first text comes without any",
        ),
        (["relater", "many.jsonl"], "and the first 64 texts come without any; name a tagging model before it, or give"),
        (["tagger", "none.jsonl"], "none.jsonl: no such file — did you mean note.jsonl?"),
        (["tagger", "empty"], "empty: an empty folder"),
        (["tagger", "picture.txt"], "picture.txt: a binary file, not text"),
        (["tagger", "report.txt"], "report.txt: a PDF — export the notes as text"),
        (["tagger", "rows.csv", "--text-column", "note_text"], 'no column "note_text" — did you mean "NOTE_TEXT"?'),
        (["tagger", "bad.jsonl"], "bad.jsonl:2: not JSON at character"),
        (["tagger", "note.jsonl", "--to", "josnl"], "--to josnl: did you mean jsonl?"),
        (["tagger", "note.jsonl", "--to", "brat"], "--to brat makes a folder; name it with --out"),
        (["tagger", "note.jsonl", "--out", "found"], "--out found: say in which form with --to"),
        (["tagger", "note.jsonl", "--out", "note.jsonl"], "note.jsonl: exists already"),
        (["tagger", "note.jsonl", "--out", "note.jsonl/x.csv"], "nothing was written"),
        (["tagger", "relater", "note.jsonl", "--rename", "x"], "--rename x: write the tagger's type, =, the next"),
        (["tagger", "relater", "note.jsonl", "--rename", "Tests=test"], "'Tests' is not a type that it finds; did you"),
        (["tagger", "relater", "note.jsonl", "--rename", "test=exam"], "'exam' is not a type that it relates"),
        (["tagger", "note.jsonl", "--entities", "gven"], "--entities gven: did you mean given?"),
        (["tagger", "note.jsonl", "--entities", "given"], "with given entities there is nothing for it to find; use"),
        (["relater", "note.jsonl", "--entities", "found"], "it finds no entities by itself; name a tagging model"),
        (["tagger", "relater", "note.jsonl", "--entities", "given"], "the first text comes without any"),
        (["tagger", "latin.txt"], "it looks like latin-1 — give --encoding latin-1"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(here: Path, arguments: list[str], message: str) -> None:
    (here / "empty").mkdir()
    (here / "picture.txt").write_bytes(bytes(range(1, 9)) * 50)
    (here / "report.txt").write_bytes(b"%PDF-1.7 Zanzibarine")
    (here / "latin.txt").write_bytes("Zanzibarine and fi\u00e8vre".encode("latin-1"))
    (here / "rows.csv").write_text("ID,NOTE_TEXT\n1,Zanzibarine\n")
    (here / "note.jsonl").write_text(json.dumps({"text": NOTE}) + "\n")
    (here / "bad.jsonl").write_text(json.dumps({"text": NOTE}) + '\n{"text": "Zanzibarine"\n')
    (here / "many.jsonl").write_text((json.dumps({"text": "Zanzibarine"}) + "\n") * 70)
    before = left(here)
    more = [] if "--out" in arguments or "--text" in arguments else ["--out", "new.jsonl"]
    if "--to" in arguments:
        more = []
    ended = cli("predict", *arguments, *more, cwd=here)
    assert 2 == ended.code, ended
    assert message in ended.err
    assert "Zanzibarine" not in ended.err + ended.out
    assert "Traceback" not in ended.err
    assert before == left(here)


def test_types_that_do_not_meet_are_told_with_the_nearest_names(here: Path, tmp_path: Path) -> None:
    other = trained_models.tagger(
        tmp_path / "run", task={"name": "tagging", "model": "cnn-crf", **trained_models.SMALL, "rename": {
            "treatment": "TREATMENTS", "problem": "DISEASE", "test": ""}}, rounds=1,
    )  # fmt: skip
    ended = cli("predict", other, "relater", "--text", NOTE, cwd=here)
    assert 2 == ended.code
    assert "it relates 'problem', 'test', 'treatment', and " in ended.err
    assert "--rename TREATMENTS=treatment" in ended.err
    renamed = ["--rename", "TREATMENTS=treatment", "--rename", "DISEASE=problem"]
    assert 0 == cli("predict", other, "relater", "--text", NOTE, *renamed, cwd=here).code


def test_no_room_on_standard_output_is_told(here: Path) -> None:
    (here / "note.jsonl").write_text("".join(json.dumps({"text": NOTE * 5}) + "\n" for _ in range(30)))
    ended = cli("predict", "tagger", "note.jsonl", cwd=here, file_limit=400)
    said = "standard output: File too large; not everything was written\n"
    assert (1, said) == (ended.code, ended.err)


def test_a_worker_that_dies_is_told_without_a_word_of_the_text(here: Path) -> None:
    model = wardround.load(here / "tagger")
    with Worker(model) as worker:
        assert 1 == len(worker.ask([Document("", NOTE)]))
        worker.process.kill()
        with pytest.raises(WorkerError, match=r"^a worker ended \(code -9\), perhaps for want of memory; try fewer"):
            worker.ask([Document("", NOTE)])


@pytest.mark.parametrize(("to", "out"), [("jsonl", "found.jsonl"), ("csv", "found.csv"), ("brat", "found")])
def test_no_room_for_the_output_leaves_nothing(here: Path, to: str, out: str) -> None:
    (here / "big.jsonl").write_text("".join(json.dumps({"text": NOTE * 5, "id": str(n)}) + "\n" for n in range(30)))
    before = left(here)
    ended = cli("predict", "tagger", "big.jsonl", "--to", to, "--out", out, cwd=here, file_limit=400)
    said = f"no room left to write {out}; nothing was written: make room and try again\n"
    assert (1, "", said) == (ended.code, ended.out, ended.err)
    assert before == left(here)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(here: Path) -> None:
    (here / "note.txt").write_text(NOTE)
    (here / "note.txt").chmod(0)
    ended = cli("predict", "tagger", "note.txt", cwd=here)
    assert (2, "note.txt: Permission denied\n") == (ended.code, ended.err)


def test_what_could_command_a_terminal_is_shown_as_a_sign() -> None:
    prediction = Prediction(
        "a\x1b[2Jb\u202e c",
        (Label("x", 0.5),),
        (Entity("T1", "A", 0, 6, 0.9), Entity("T2", "B", 5, 7, 0.8)),
        (Relation("r", "T1", "T2", 0.7),),
        "id\x07",
    )
    shown = drawn(prediction, colour=True, title=True)
    assert not set(shown.plain) & {"\x1b", "\u202e", "\x07"}
    plain = drawn(prediction, colour=False, title=True).plain
    assert "id␇\nx 0.50\n[a␛[2J[b A 0.90]� B 0.80] c" == plain.rpartition("\n")[0]


def test_what_cannot_be_read_is_skipped_with_its_reason_and_the_rest_goes_on(here: Path) -> None:
    folder = notes(here)
    whole = cli("predict", "tagger", "notes", "--quiet", cwd=here)
    (folder / "a.txt").write_bytes(bytes(range(1, 9)) * 50)
    (folder / "n1.txt").write_bytes("Zanzibarine\nand fi\u00e8vre".encode("latin-1"))
    ended = cli("predict", "tagger", "notes", cwd=here)
    assert (2, "") == (ended.code, ended.out)
    ended = cli("predict", "tagger", "notes", "--skip", cwd=here)
    assert (3, whole.out) == (ended.code, ended.out)
    first, second, count = ended.err.splitlines()
    assert "skipped notes/a.txt: a binary file, not text — export the notes as text" == first
    assert second.startswith("skipped notes/n1.txt:2: byte 18 is not utf-8; it looks like latin-1 — give --encoding")
    assert "skipped because they could not be read: 2" == count
    quiet = cli("predict", "tagger", "notes", "--skip", "--quiet", "--out", "out.jsonl", cwd=here)
    assert (3, f"{count}\n") == (quiet.code, quiet.err)
    assert whole.out == (here / "out.jsonl").read_text()
    (here / "bad").mkdir()
    (folder / "a.txt").rename(here / "bad" / "a.txt")
    none = cli("predict", "tagger", "bad", "--skip", cwd=here)
    assert (2, "") == (none.code, none.out)
    assert first.replace("notes/", "bad/") == none.err.splitlines()[0]
    assert "bad: no text" in none.err


def test_a_line_that_cannot_be_read_is_skipped_and_those_behind_it_are_not(here: Path) -> None:
    good = [json.dumps({"id": str(number), "text": f"{NOTE} {number}"}).encode() for number in range(3)]
    (here / "good.jsonl").write_bytes(b"\n".join(good))
    lines = [good[0], b'{"text": "Zanzibarine"', good[1], b'{"text": "Zanzibarine \xe8"}', b"[1]", good[2]]
    (here / "bad.jsonl").write_bytes(b"\n".join(lines))
    ended = cli("predict", "tagger", "bad.jsonl", "--skip", cwd=here)
    assert (3, cli("predict", "tagger", "good.jsonl", cwd=here).out) == (ended.code, ended.out)
    assert ["bad.jsonl:2", "bad.jsonl:4", "bad.jsonl:5"] == [
        line.split(": ")[0].removeprefix("skipped ") for line in ended.err.splitlines()[:-1]
    ]
    assert "Zanzibarine" not in ended.err
    made = [cli("data", "convert", f"{name}.jsonl", f"{name}.csv", "--to", "csv", *more, cwd=here)
            for name, more in (("good", ()), ("bad", ["--skip"]))]  # fmt: skip
    assert [(0, ""), (3, ended.err)] == [(one.code, one.err) for one in made]
    assert (here / "good.csv").read_bytes() == (here / "bad.csv").read_bytes()
    table = b"id,text\n1,ECG.\n2,CT.\n3,fi\xe8vre\n4,CT.\n"
    (here / "rows.csv").write_bytes(table)
    rest = cli("predict", "tagger", "rows.csv", "--skip", cwd=here)
    assert (3, 2) == (rest.code, len(rest.out.splitlines()))
    assert "skipped rows.csv:4: " in rest.err
    assert ", which ends the file after 2 documents" in rest.err
    ended = cli("data", "convert", "bad.jsonl", "worse.csv", "--to", "csv", cwd=here)
    assert (2, False) == (ended.code, (here / "worse.csv").exists())


def test_a_format_that_predictions_are_converted_to_is_answered_with_how(here: Path) -> None:
    ended = cli("predict", "tagger", "notes", "--to", "conll", "--out", "found.conll", cwd=here)
    way = "wardround data convert found.jsonl found.conll --to conll"
    assert (2, True) == (ended.code, way in ended.err.replace("\n", " ")), ended
    assert 0 == cli("predict", "tagger", "--text", NOTE, "--to", "jsonl", "--out", "asked.jsonl", cwd=here).code
    ended = cli("data", "convert", "asked.jsonl", "found.conll", "--to", "conll", "--lossy", cwd=here)
    assert (0, True) == (ended.code, "B-" in (here / "found.conll").read_text()), ended
