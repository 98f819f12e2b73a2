"""A prediction that was cut goes on from there, and nobody can tell by its output."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

import trained_models
from study_files import cli, start

NOTE = "Patient was given aspirin for chest pain. Troponin showed infarction; continue metoprolol."
COUNT = 960
JOURNAL = ".{}.resume"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    (trained_models.tagger(folder / "run") / "model").rename(folder / "tagger")
    with (folder / "notes.jsonl").open("w") as file:
        for number in range(COUNT):
            file.write(json.dumps({"id": f"n{number}", "text": f"{number} {NOTE * (number % 3 + 1)}"}) + "\n")
    return folder


def cut(here: Path, name: str, number: signal.Signals, *more: object) -> int:
    """Begin a prediction and end it when some blocks are done; how many are kept."""
    running = start("predict", "tagger", "notes.jsonl", "--out", name, "--resume", *more, cwd=here)
    journal = here / JOURNAL.format(name)
    end = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
        assert time.monotonic() < end
        time.sleep(0.002)
    os.kill(running.pid, number)
    assert 0 != running.wait().code
    assert 0o600 == journal.stat().st_mode & 0o777
    assert not (here / name).exists()
    return journal.read_bytes().count(b"\n") - 1


@pytest.mark.parametrize("form", ["jsonl", "csv", "label-studio", "doccano", "omop"])
def test_the_output_is_that_of_a_prediction_that_was_never_cut(here: Path, form: str) -> None:
    whole, name = f"{form}.whole", f"{form}.out"
    never = cli("predict", "tagger", "notes.jsonl", "--to", form, "--out", whole, cwd=here)
    blocks = cut(here, name, signal.SIGKILL if form == "csv" else signal.SIGTERM, "--to", form)
    assert 3 <= blocks < COUNT / 64
    ended = cli("predict", "tagger", "notes.jsonl", "--to", form, "--out", name, "--resume", cwd=here)
    assert (0, 0) == (never.code, ended.code)
    assert f", {blocks * 64:,} of them done before" in ended.err
    assert (here / whole).read_bytes() == (here / name).read_bytes()
    assert [] == list(here.glob(".*.resume")) + list(here.glob(".*.new"))
    assert never.err.splitlines()[:-1] == [line for line in ended.err.splitlines()[:-1] if "removed" not in line]


def test_half_a_line_another_text_and_another_model_are_predicted_anew(here: Path) -> None:
    lines = (here / "notes.jsonl").read_bytes().splitlines(keepends=True)
    for name, change in (("torn", b""), ("text", b"x"), ("model", b"m")):
        cut(here, f"{name}.jsonl", signal.SIGTERM, "--workers", 2)
        journal = here / JOURNAL.format(f"{name}.jsonl")
        kept = journal.read_bytes()
        journal.write_bytes(
            kept[:-5] if name == "torn" else kept.replace(b"small@", b"other@", 1) if change == b"m" else kept
        )
        if change == b"x":
            (here / "notes.jsonl").write_bytes(
                b"".join([*lines[:70], lines[70].replace(b"aspirin", b"ibuprofen"), *lines[71:]])
            )
        both = [
            cli("predict", "tagger", "notes.jsonl", "--out", f"{name}{more}.jsonl", *option, "--quiet", cwd=here)
            for more, option in (("", ["--resume"]), ("-whole", []))
        ]
        assert [(0, ""), (0, "")] == [(one.code, one.err) for one in both]
        assert (here / f"{name}-whole.jsonl").read_bytes() == (here / f"{name}.jsonl").read_bytes()
        (here / "notes.jsonl").write_bytes(b"".join(lines))


def test_what_was_left_is_named_and_standard_output_cannot_be_resumed(here: Path) -> None:
    (here / ".new.jsonl.resume").touch()
    ended = cli("predict", "tagger", "--text", NOTE, "--out", "new.jsonl", cwd=here)
    assert 0 == ended.code
    assert ".new.jsonl.resume is left from a prediction that was interrupted; go on with --resume, " in ended.err
    (here / ".new.jsonl.resume").unlink()
    ended = cli("predict", "tagger", "--text", NOTE, "--resume", cwd=here)
    assert (2, "--resume goes with --out") == (ended.code, ended.err.split(":")[0])
    ended = cli("predict", "tagger", "--text", NOTE, "--out", "new.jsonl", "--resume", cwd=here)
    assert (2, []) == (ended.code, list(here.glob(".*.resume")))  # it exists already
