"""`wardround evaluate`: on a run's test files the run's own figures, each class apart, and no text in any message."""

import csv
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import trained_models
import wardround
from encoder_folders import tiny_encoder
from study_files import Ended, cli, small_study
from wardround.cli.app import main
from wardround.clinic import Clinic
from wardround.clinic.write import write
from wardround.formats.options import Options
from wardround.runs.files import METRICS
from wardround.trained.evaluate import Evaluation

SITES = ("hospital-0", "hospital-1")
TASKS: dict[str, dict[str, Any]] = {
    "classification": {"name": "classification", "tokens": "words"},
    "several": {"name": "classification", "tokens": "words", "several": True},
    "tagging": {"name": "tagging", "model": "cnn-crf", **trained_models.SMALL},
    "relation": {"name": "relation", "freeze": 1, "longest": 60},
    "bags": {"name": "bags", "buckets": 256, "embedding": 8, "filters": 12},
}
METHODS: dict[str, dict[str, Any]] = {
    "tagging": {"name": "fedavg", "optimizer": "adam", "lr": 0.02, "batch": 8, "epochs": 5},
    "relation": {"name": "fedavg", "optimizer": "adam", "lr": 0.01, "batch": 8},
    "bags": {"name": "fedavg", "lr": 0.3, "batch": 16},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes of two hospitals, sentences with facts to align, and a run of each task on them."""
    folder = tmp_path_factory.mktemp("data")
    write(Clinic(hospitals=2, documents=40, test_documents=15), folder / "notes", ["jsonl"])
    write(Clinic(hospitals=2, documents=40, test_documents=20, kind="distant"), folder / "distant", ["jsonl"])
    encoder = tiny_encoder(folder / "encoder")
    for name, task in TASKS.items():
        places = {split: {site: str(path) for site, path in zip(SITES, files(folder, name, split), strict=True)}
                  for split in ("train", "test")}  # fmt: skip
        more: Mapping[str, Any] = {"kb": str(folder / "distant" / "facts.tsv")} if name == "bags" else {}
        trained_models.trained(
            folder / name,
            corpus={"format": "jsonl", "language": "en", **places, **more},
            task={**task, **({"encoder": str(encoder)} if name == "relation" else {})},
            method=METHODS.get(name, {"name": "fedavg"}),
        )
    return folder


def files(folder: Path, task: str, split: str = "test") -> list[Path]:
    kind = "distant" if task == "bags" else "notes"
    return [folder / kind / site / split / "documents.jsonl" for site in SITES]


def tried(folder: Path, task: str) -> Evaluation:
    kb = folder / "distant" / "facts.tsv" if task == "bags" else None
    return wardround.evaluate(folder / task, *files(folder, task), kb=kb)


@pytest.mark.parametrize("task", TASKS)
def test_on_the_test_files_of_a_run_the_figures_are_the_runs(data: Path, task: str) -> None:
    metrics = METRICS.read(data / task)
    assert metrics is not None
    result = tried(data, task)
    assert {name: value for name, value in metrics.final.items() if name in result.figures} == result.figures
    assert {name for name in metrics.final if not name.startswith("train_")} == {*result.figures}
    assert (0, {}, 0) == (result.left_out, result.unknown, result.unnamed)


@pytest.mark.parametrize("task", TASKS)
def test_counts_of_the_classes_add_up(data: Path, task: str) -> None:
    result = tried(data, task)
    examples = sum(one.support for one in result.classes)
    assert examples > 0
    if task in ("several", "bags"):
        assert result.confusion is None
        return
    assert result.confusion is not None
    for at, one in enumerate(result.classes):
        assert one.support == sum(result.confusion[at])
        assert one.answered == sum(row[at] for row in result.confusion)
        assert one.f1 == pytest.approx(result.figures.get(f"f1[{one.name}]", one.f1))
    if task == "tagging":
        assert len(result.classes) + 1 == len(result.confusion)
        assert 0 == result.confusion[-1][-1]
    else:
        right = sum(result.confusion[at][at] for at in range(len(result.classes)))
        assert result.figures["accuracy"] == right / examples


@pytest.mark.parametrize(
    ("task", "figure"),
    [("classification", "accuracy"), ("several", "micro_f1"), ("tagging", "f1"), ("relation", "accuracy"),
     ("bags", "pr_auc")],
)  # fmt: skip
def test_the_base_rate_is_what_a_constant_answer_gives(data: Path, task: str, figure: str) -> None:
    result = tried(data, task)
    if figure == "accuracy":
        supports = [one.support for one in result.classes]
        assert max(supports) / sum(supports) == result.base["accuracy"]
    assert 0 <= result.base[figure] < 1
    assert ("loss" in result.base) == (task not in ("tagging", "bags"))


def test_the_command_prints_tables_and_writes_numbers(data: Path, tmp_path: Path) -> None:
    paths = files(data, "classification")
    ended = cli("evaluate", data / "classification", *paths, "--json", "found.json", cwd=tmp_path)
    assert 0 == ended.code, ended
    for words in ("accuracy", "macro_f1", "always the commonest answer", "precision", "true, then as answered"):
        assert words in ended.out
    written = json.loads((tmp_path / "found.json").read_text())
    result = tried(data, "classification")
    assert result.figures == written["figures"]
    assert [list(row) for row in result.confusion or ()] == written["confusion"]


def test_a_model_that_finds_nothing_gets_one_line_and_no_tables_of_zeros(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tried(data, "tagging")
    there = sum(one.support for one in result.classes)
    silent = tuple(replace(one, answered=0) for one in result.classes)
    monkeypatch.setattr("wardround.trained.evaluate.evaluate", lambda *_, **__: replace(result, classes=silent))
    with pytest.raises(SystemExit):
        main(["evaluate", str(data / "tagging"), str(tmp_path)])
    words = f"the model found nothing: none of the {there:,} that there are; --json FILE has the figures\n"
    assert words == capsys.readouterr().out


def labelled(path: Path, source: Path, label: Any) -> Path:
    """The first rows of a file, every one of which has this label."""
    rows = [json.loads(line) for line in source.read_text().splitlines()[:6]]
    for at, row in enumerate(rows):
        row["labels"] = label(at, row["labels"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_labels_that_the_model_does_not_know_are_left_out_and_counted(data: Path, tmp_path: Path) -> None:
    source = files(data, "classification")[0]
    known = ["odd-ward", "odd-ward", "Zanzibarine was seen by Mrs Smith, who wept.", "x"]
    path = labelled(tmp_path / "odd.jsonl", source, lambda at, own: [known[at]] if at < 3 else own)
    ended = cli("evaluate", data / "classification", path, cwd=tmp_path)
    assert 0 == ended.code, ended
    assert "warning: the model does not know: odd-ward 2, others 1; " in ended.err
    assert "--rename odd-ward=ITS, first the files' name, then the model's" in ended.err  # which, nobody can tell
    assert "warning: examples without a label that the model knows, left out: 3" in ended.err
    assert "Zanzibarine" not in ended.err + ended.out
    own = json.loads(source.read_text().splitlines()[0])["labels"][0]
    ended = cli("evaluate", data / "classification", path, "--rename", f"odd-ward={own}", cwd=tmp_path)
    assert "left out: 1" in ended.err
    last = wardround.evaluate(data / "classification", source).classes[-1].name
    labelled(path, source, lambda at, own: [f"{last}x"] if at < 2 else own)
    ended = cli("evaluate", data / "classification", path, cwd=tmp_path)
    assert f"--rename {last}x={last}," in ended.err  # not the first of the model's


def test_entities_of_unknown_types_are_counted_and_their_texts_stay(data: Path, tmp_path: Path) -> None:
    source = files(data, "tagging")[0]
    odd = [json.loads(line) for line in source.read_text().splitlines()]
    for row in odd:
        for entity in row["entities"]:
            entity["type"] = "examination" if entity["type"] == "test" else entity["type"]
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    result = wardround.evaluate(data / "tagging", tmp_path / "odd.jsonl")
    assert {"examination"} == {*result.unknown}
    assert 0 == result.left_out
    renamed = wardround.evaluate(data / "tagging", tmp_path / "odd.jsonl", rename={"examination": "test"})
    assert wardround.evaluate(data / "tagging", source).figures == renamed.figures


def test_what_the_study_renames_or_leaves_out_is_so_here_too(data: Path, tmp_path: Path) -> None:
    places = {split: {"hospital-0": str(files(data, "tagging", split)[0])} for split in ("train", "test")}
    run = trained_models.trained(
        tmp_path / "run",
        corpus={"format": "jsonl", **places, "rename": {"treatment": "drug"}},
        task={**TASKS["tagging"], "rename": {"problem": "DISEASE", "test": ""}},
        method=METHODS["tagging"],
    )
    metrics, result = METRICS.read(run), wardround.evaluate(run, files(data, "tagging")[0])
    assert metrics is not None
    assert metrics.final == result.figures
    assert ["DISEASE", "drug"] == [one.name for one in result.classes]


def test_a_table_without_a_header_is_read_by_the_numbers_of_its_columns(data: Path, tmp_path: Path) -> None:
    source = files(data, "classification")[0]
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows((row["labels"][0], row["text"]) for row in rows)
    options = Options(text="2", label="1")
    result = wardround.evaluate(data / "classification", tmp_path / "rows.csv", options=options)
    assert wardround.evaluate(data / "classification", source).figures == result.figures


def test_a_table_needs_no_column_that_only_training_names(data: Path, tmp_path: Path) -> None:
    """A study's columns for ids and patients were asked of every file, with the option for texts."""
    rows = [json.loads(line) for line in files(data, "classification")[0].read_text().splitlines()]
    for name, head in (("all.csv", ["text", "label", "number", "whom"]), ("bare.csv", ["text", "label"])):
        with (tmp_path / name).open("w", newline="") as file:
            cells = [[row["text"], row["labels"][0], f"n{at}", f"p{at // 2}"] for at, row in enumerate(rows)]
            csv.writer(file).writerows([head, *(one[: len(head)] for one in cells)])
    places = {split: {"hospital-0": str(tmp_path / "all.csv")} for split in ("train", "test")}
    corpus = {"format": "csv", **places, "id": "number", "patient": "whom"}
    run = trained_models.trained(
        tmp_path / "run", corpus=corpus, task=TASKS["classification"], method={"name": "fedavg"}
    )
    result = wardround.evaluate(run, tmp_path / "bare.csv")
    assert wardround.evaluate(run, tmp_path / "all.csv").figures == result.figures


def test_types_of_entities_that_have_another_name_are_mapped_for_relations_too(data: Path, tmp_path: Path) -> None:
    source = files(data, "relation")[0]
    odd = [json.loads(line) for line in source.read_text().splitlines()]
    kinds = {"treatment": "DRUG", "problem": "ADE", "test": "EXAM"}
    for row in odd:
        for entity in row["entities"]:
            entity["type"] = kinds[entity["type"]]
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    back = {theirs: mine for mine, theirs in kinds.items()}
    renamed = wardround.evaluate(data / "relation", tmp_path / "odd.jsonl", rename=back)
    assert wardround.evaluate(data / "relation", source).figures == renamed.figures
    ended = cli("evaluate", data / "relation", tmp_path / "odd.jsonl", cwd=tmp_path)
    words = "no pair of entities of the types that the model relates (problem, test, treatment)"
    assert (2, True) == (ended.code, words in ended.err), ended
    assert "--rename THEIRS=problem, first the files' name" in ended.err


def test_files_in_the_encoding_of_the_training_files_are_read_in_it_and_utf_8_as_such(tmp_path: Path) -> None:
    """The test file of the very run was refused: its study says `encoding`, and nobody had looked there."""
    rows = "".join(f"患者咳嗽{n}天来院就诊,{('呼吸科', '消化科')[n % 2]}\n" for n in range(30))
    for name, codec in (("rows", "gb18030"), ("plain", "utf-8")):
        (tmp_path / f"{name}.csv").write_bytes(f"text,label\n{rows}".encode(codec))
    place = str(tmp_path / "rows.csv")
    corpus = {"format": "csv", "train": place, "test": place, "encoding": "gb18030"}
    trained_models.trained(tmp_path / "run", corpus=corpus, task={"name": "classification"}, method={"name": "fedavg"})
    figures = [wardround.evaluate(tmp_path / "run", tmp_path / f"{name}.csv").figures for name in ("rows", "plain")]
    assert figures[0] == figures[1]
    ended = cli("predict", "run", "rows.csv", cwd=tmp_path)
    assert (0, True) == (ended.code, "read as gb18030, as the texts of the model's training were" in ended.err)


def mistaken(data: Path, folder: Path) -> dict[str, tuple[list[object], str]]:
    labels = labelled(folder / "none.jsonl", files(data, "classification")[0], lambda *_: ["Zanzibarine"])
    (folder / "note.txt").write_text("Zanzibarine")
    (folder / "rows.csv").write_text("text,label\nZanzibarine,x\n")
    shutil.copytree(data / "tagging" / "model", folder / "copy")
    (folder / "copy" / "weights.safetensors").write_bytes(b"")
    return {
        "no label": ([data / "classification", labels], "and map it: --rename THEIRS="),
        "plain": ([data / "tagging", "note.txt", "--from", "text"], "it holds no annotation at all"),
        "table": ([data / "tagging", "rows.csv"], "'csv' has no place for texts with entities, which the task takes"),
        "facts": ([data / "bags", files(data, "bags")[0]], "aligned with public facts — name their file: --kb FACTS"),
        "rename": ([data / "tagging", files(data, "tagging")[0], "--rename", "drug=tset"], "did you mean test?"),
        "rename far": (
            [data / "tagging", "gone.jsonl", "--rename", "drug=qq"],
            "does not know; it knows: problem, test",
        ),
        "missing": ([data / "tagging", "gone.jsonl"], "gone.jsonl: no such file"),
        "damaged": (["copy", files(data, "tagging")[0]], "damaged: its checksum is not the one written"),
        "no model": (["note.txt", "rows.csv"], "it is a file, not a model's folder"),
    }


@pytest.mark.parametrize(
    "case", ["no label", "plain", "table", "facts", "rename", "rename far", "missing", "damaged", "no model"]
)
def test_mistakes_are_one_message_without_text(data: Path, tmp_path: Path, case: str) -> None:
    arguments, words = mistaken(data, tmp_path)[case]
    ended: Ended = cli("evaluate", *arguments, "--json", "new.json", cwd=tmp_path)
    assert 2 == ended.code, ended
    assert words in ended.err
    assert "Zanzibarine" not in ended.err + ended.out
    assert "Traceback" not in ended.err
    assert not (tmp_path / "new.json").exists()


def test_a_model_of_numbers_says_why_it_cannot_be_tried(tmp_path: Path) -> None:
    assert 0 == cli("run", small_study(tmp_path), "--out", "run", cwd=tmp_path).code
    (tmp_path / "rows.csv").write_text("text,label\nx,1\n")
    ended = cli("evaluate", "run", "rows.csv", cwd=tmp_path)
    assert (2, True) == (ended.code, "its task 'features' does not take text" in ended.err)
