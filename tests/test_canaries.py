"""No word of a note in any output, log, run folder or report, however a file has gone wrong."""

import contextlib
import json
import logging
import re
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import typer

import trained_models
from canaries import BY_ROW, FORMS, SPOILT, documents, escaped, spoilt, written
from encoder_folders import tiny_encoder
from loopback import site_folder
from serving import send, served
from wardround.cli.app import app, main
from wardround.core.refusal import Refusal
from wardround.federation.describe import describe
from wardround.formats.register import FORMATS
from wardround.runs.build import build
from wardround.serve.desk import Desk
from wardround.study.load import load_study
from wardround.tasks import TASKS
from wardround.trained.folder import about_of
from wardround.trained.model import load

FEW = {"buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4}
TOLD = Refusal
"""What the command line shows by its text alone."""
TEXT_TASKS = [name for name, kind in TASKS.items() if kind.finds]
CORPORA = [
    (form, task)
    for task in TEXT_TASKS
    for form, known in FORMATS.items()
    if TASKS[task].takes in known.holds and form not in ("mirgene", "omop")
]
"""Each format that a study can have, with a task for it."""
TASK: dict[str, dict[str, Any]] = {
    "classification": {"name": "classification", "model": "logistic"},
    "tagging": {"name": "tagging", "model": "cnn-crf", **FEW},
    "relation": {"name": "relation", "freeze": 1, "encoder": "encoder"},
    "bags": {"name": "bags", "buckets": 50, "embedding": 4, "filters": 4},
}
DECLARED = {
    "classification": ("corpus", "labels", ["flu", "cold"]),
    "tagging": ("task", "types", ["drug", "effect", "treatment", "problem"]),
    "relation": ("corpus", "labels", ["none", "causes", "cures"]),
    "bags": ("corpus", "relations", ["causes", "cures"]),
}

Say = Callable[..., str]


@cache
def command() -> Any:
    return typer.main.get_command(app)


def heard(work: Callable[[], object]) -> str:
    """The text of an error that the command line shows as a text, the traceback of any other."""
    try:
        with contextlib.suppress(SystemExit):
            work()
    except TOLD as error:
        return str(error)
    except Exception:  # noqa: BLE001 -- whatever it is, a user would see it
        return traceback.format_exc()
    return ""


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Say:
    """All that a command says and logs, were it by a traceback."""
    caplog.set_level(logging.DEBUG)

    def output_of(*arguments: object) -> str:
        caplog.clear()
        capsys.readouterr()
        error = heard(lambda: command().main([str(one) for one in arguments], standalone_mode=False))
        shown = capsys.readouterr()
        return f"{shown.out}\n{shown.err}\n{error}\n{caplog.text}"

    return output_of


def leaks(output: str, *folders: Path) -> list[str]:
    """Canaries and tracebacks in an output, canaries in the files under a folder and in their names."""
    leaked = escaped(output) + re.findall(r"Traceback[\s\S]*", output)
    for folder in folders:
        for path in folder.rglob("*"):
            text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
            leaked += [f"{path.name}: {one}" for one in (*escaped(path.name), *escaped(text))]
    return leaked


@pytest.mark.parametrize("form", FORMS)
def test_files_are_checked_and_rewritten_without_a_word(form: str, tmp_path: Path, say: Say) -> None:
    results = {}
    for number, (name, spoil) in enumerate(SPOILT.items()):
        place = tmp_path / str(number)
        path = written(place, form, documents(12, words=(8, 3)[number % 2]))
        spoilt(path, spoil)
        named = ("--from", form) if number % 4 > 1 else ()
        task, to = TEXT_TASKS[number % 4], ("jsonl", "conll", "csv")[number % 3]
        output = say("data", "check", path, *named, "--task", task, *(("--json",) if number % 3 else ()))
        output += say("data", "convert", path, place / "out", "--from", form, "--to", to)
        output += say("data", "split", path, place / "halves", "--from", form) if number % 3 == 0 else ""
        results[name] = leaks(output)
    assert {} == {name: leaked for name, leaked in results.items() if leaked}


def study(folder: Path, corpus: tuple[str, str], *, declared: bool) -> Path:
    """A study of the files in a folder."""
    form, kind = corpus
    paths = {split: next(folder.glob(f"{split}*")).name for split in ("train", "test")}
    tables: dict[str, dict[str, Any]] = {"corpus": {"format": form, **paths}, "task": dict(TASK[kind])}
    if corpus == ("jsonl", "bags"):
        tables["corpus"] |= {"kb": "facts.tsv"}
        (folder / "facts.tsv").write_text("T1\tcauses\tT2\nT1\tcures\tT3\n", encoding="utf-8")
    if declared and corpus != ("i2b2", "relation"):
        table, key, names = DECLARED[kind]
        tables[table][key] = names
        tables["task"] |= {"tokens": "words"} if kind == "classification" else {}
    if kind == "bags" and form in ("jsonl", "pubtator"):
        tables["corpus"]["pairs"] = [["drug", "effect"]]
    whole = {"name": "canaries", "rounds": 1, "method": {"name": "fedavg"}, **tables}
    (folder / "study.toml").write_text(tomli_w.dumps(whole), encoding="utf-8")
    return folder / "study.toml"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder")


def spoilt_study(place: Path, corpus: tuple[str, str], encoder: Path, number: int, *, declared: bool) -> Path:
    """A study whose files have gone wrong in the way of this number, no word alike in train and test."""
    form, name = corpus[0], [*SPOILT][number]
    spoil, short = BY_ROW.get(name, SPOILT[name]), 5 if name in BY_ROW else 3
    for split, size in (("train", 12), ("test", 4)):
        notes = documents(size, len(split), words=8 if number % 2 else short)
        spoilt(written(place, form, notes, split), spoil, len(split))
    (place / "encoder").symlink_to(encoder)
    return study(place, corpus, declared=declared)


@pytest.mark.parametrize("corpus", CORPORA, ids=str)
def test_what_a_run_knows_of_its_data_has_no_word(corpus: tuple[str, str], encoder: Path, tmp_path: Path) -> None:
    results = {}
    for number, name in enumerate(SPOILT):
        place = tmp_path / str(number)
        toml = spoilt_study(place, corpus, encoder, number, declared=number % 3 == 1)
        known: list[str] = []

        def look(toml: Path = toml, place: Path = place, known: list[str] = known) -> None:
            built = build(load_study(toml)[0].study, place / "run")
            assert built.raw is not None
            known.append(json.dumps(describe(built.raw, built.task)))
            known.append(repr((about_of(built, 1), built.sites.names)))

        output = heard(look) + "".join(known)
        assert number or known, output
        results[name] = leaks(output)
    assert {} == {name: leaked for name, leaked in results.items() if leaked}


@pytest.mark.parametrize(("corpus", "spoil"), [
    (("csv", "classification"), "as it is"), (("csv", "classification"), "one mislabelled"),
    (("csv", "classification"), "text and language"), (("jsonl", "tagging"), "ids are words"),
    (("jsonl", "relation"), "one mislabelled"), (("bags", "bags"), "ids are words"),
])  # fmt: skip
def test_a_run_and_its_report_have_no_word(
    corpus: tuple[str, str], spoil: str, encoder: Path, tmp_path: Path, say: Say
) -> None:
    toml = spoilt_study(tmp_path, corpus, encoder, [*SPOILT].index(spoil), declared=False)
    output = say("run", toml, "--out", tmp_path / "run", "--workers", 1)
    assert [] == leaks(output, tmp_path / "run")
    assert spoil != "as it is" or (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    "corpus", [("csv", "classification"), ("conll", "tagging"), ("jsonl", "relation"), ("bags", "bags")], ids=str
)
def test_a_site_is_checked_without_a_word(corpus: tuple[str, str], encoder: Path, tmp_path: Path, say: Say) -> None:
    """The site of a study is set up while its files are in order; then they go wrong."""
    (tmp_path / "north").mkdir()
    toml = spoilt_study(tmp_path / "north", corpus, encoder, 0, declared=True)
    study = load_study(toml)[0].study
    data = [f"{key} = {json.dumps(value)}" for key, value in study.resolved["corpus"].items()
            if key in ("format", "train", "test", "kb", "label")]  # fmt: skip
    site = site_folder(tmp_path, "north", study, data=data)
    results = {}
    for number, name in enumerate(SPOILT):
        if number and number % 2 == (corpus[0] in ("conll", "bags")):
            continue  # half of the ways for each
        place = tmp_path / str(number)
        spoilt_study(place, corpus, encoder, number, declared=True)
        for split in ("train", "test"):
            (file,) = place.glob(f"{split}*")
            file.replace(site / file.name)
        output = [say("site", "check", site, "--study", toml, "--offline")] if number % 4 < 2 else []
        output += [say("site", "approve", site, toml, "--yes")] if number % 4 > 1 or not number else []
        assert number or "training and" in output[0], output
        results[name] = leaks("".join(output), site / "approved", site / "ledger")
    assert {} == {name: leaked for name, leaked in results.items() if leaked}


@pytest.mark.parametrize("form", FORMS)
def test_a_study_is_written_for_files_without_a_word(form: str, tmp_path: Path, say: Say) -> None:
    results = {}
    for number, (name, spoil) in enumerate(SPOILT.items()):
        place = tmp_path / str(number)
        for split in ("train", "test"):
            spoilt(written(place / "notes", form, documents(12, words=(8, 3)[number % 2]), split), spoil)
        named = ("--from", form) if number % 4 > 1 else ()
        task = ("--task", TEXT_TASKS[number % 4]) if number % 3 else ()
        lossy = ("--lossy",) if number % 5 else ()
        output = say("new", place / "notes", *named, *task, *lossy, "--out", place / "out" / "study.toml")
        results[name] = leaks(output, place / "out")
    assert {} == {name: leaked for name, leaked in results.items() if leaked}


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_models.sorter(tmp_path_factory.mktemp("sorter") / "run") / "model"


@pytest.mark.parametrize("form", FORMS)
def test_predictions_are_made_without_a_word_beside_them(form: str, sorter: Path, tmp_path: Path, say: Say) -> None:
    results = {}
    for number, (name, spoil) in enumerate(SPOILT.items()):
        path = written(tmp_path / str(number), form, documents(6))
        spoilt(path, spoil)
        output = say("predict", sorter, path, "--from", form, "--out", tmp_path / str(number) / "out.jsonl")
        results[name] = leaks(output)
    assert {} == {name: leaked for name, leaked in results.items() if leaked}


@pytest.mark.parametrize(
    "corpus",
    [("csv", "classification"), ("conll", "tagging"), ("jsonl", "relation"), ("jsonl", "bags"), ("bags", "bags")],
    ids=str,
)
def test_a_model_is_tried_without_a_word(corpus: tuple[str, str], encoder: Path, tmp_path: Path, say: Say) -> None:
    toml = spoilt_study(tmp_path / "good", corpus, encoder, 0, declared=True)
    say("run", toml, "--out", tmp_path / "run", "--no-report")
    facts = ("--kb", tmp_path / "good" / "facts.tsv") if corpus == ("jsonl", "bags") else ()
    results = {}
    for number, (name, spoil) in enumerate(SPOILT.items()):
        place = tmp_path / str(number)
        path = written(place, corpus[0], documents(12, words=(8, 3)[number % 2]), "test")
        spoilt(path, spoil)
        numbers = place / "numbers" / "figures.json"
        output = say("evaluate", tmp_path / "run", path, "--from", corpus[0], "--json", numbers, *facts)
        assert number or numbers.exists(), output
        results[name] = leaks(output, numbers.parent)
    assert {} == {name: leaked for name, leaked in results.items() if leaked}


def test_a_note_in_the_place_of_a_path_is_not_quoted(
    sorter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever forgets --text, or names the wrong file, is told without it and without a traceback."""
    notes = documents(12)
    whole, file = " ".join(note.text for note in notes), written(tmp_path, "jsonl", notes)
    (tmp_path / "plain").write_text(whole + "\n", encoding="utf-8")
    asked: list[tuple[object, ...]] = [
        ("predict", sorter, notes[0].text), ("predict", notes[0].text), ("predict", sorter, whole), ("serve", whole),
        ("data", "check", whole), ("report", whole), ("watch", whole), ("model", "show", whole),
        ("ledger", "show", whole), ("ledger", "show", file), ("ledger", "show", tmp_path / "plain"),
        ("site", "recover", file), ("site", "check", tmp_path / "none"), ("site", "check", whole),
    ]  # fmt: skip
    for words in asked:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code, words
    shown = capsys.readouterr()
    assert [] == leaks(shown.out + shown.err)
    assert f"{tmp_path / 'plain'}:1: this is no line of a ledger" in shown.err


def test_a_server_answers_and_logs_without_a_word(
    sorter: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    note = documents(1)[0]
    good = {"text": note.text, "entities": [{"type": "drug", "start": 0, "end": 4}]}
    bodies: list[Any] = [
        {note.text: "text"}, {note.text.split()[0]: note.text}, {"text": [note.text]}, {"txet": note.text},
        {**good, "entities": [note.text]}, {**good, "entities": [{note.text: 1}]}, {**good, "entities": note.text},
        {**good, "entities": [{"type": note.text, "start": 5, "end": 4}]},
        {**good, "entities": [{"type": "drug", "start": note.text, "end": 4}]},
        json.dumps(good).encode()[:-9], note.text.encode(), note.text.encode("utf-16"), f'"{note.text}"'.encode(),
    ]  # fmt: skip
    with served(Desk(load(sorter))) as place:
        assert 200 == send(place, "/predict", {"text": note.text})[0]
        answers = [send(place, "/predict", body) for body in bodies]
        answers.append(
            send(place, f"/predict?{note.text.split()[0]}", note.text.encode(), {"Content-Type": "text/plain"})
        )
        answers.append(send(place, "/" + note.text.split()[0]))
    assert [] == [status for status, _, _ in answers if status < 400]
    shown = capsys.readouterr()
    assert [] == leaks(repr(answers) + shown.out + shown.err + caplog.text)
