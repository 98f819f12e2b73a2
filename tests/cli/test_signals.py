"""Whatever signal ends a command that writes notes, no half-written note stays; what SIGKILL left, the next removes."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import trained_models
from study_files import Running, children, start

NOTE = "Patient was given aspirin for chest pain. Troponin showed infarction; continue metoprolol."
COMMANDS = {
    "predict": ("predict", "tagger", "notes.jsonl", "--out", "out.jsonl"),
    "workers": ("predict", "tagger", "notes.jsonl", "--out", "out.jsonl", "--workers", 2),
    "brat": ("predict", "tagger", "notes.jsonl", "--out", "out", "--to", "brat"),
    "convert": ("data", "convert", "notes.jsonl", "out.csv", "--to", "csv", "--lossy"),
    "split": ("data", "split", "notes.jsonl", "out"),
    "merge": ("data", "merge", "notes.jsonl", "--out", "out.jsonl"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    (trained_models.tagger(folder / "run") / "model").rename(folder / "tagger")
    with (folder / "notes.jsonl").open("w") as file:
        for number in range(15_000):
            file.write(json.dumps({"id": str(number), "text": f"{number} {NOTE}"}) + "\n")
    return folder


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.002)


def begun(here: Path) -> list[Path]:
    return list(here.glob(".*.new"))


def half(here: Path, command: str) -> Running:
    """The command, when it has begun to write."""
    running = start(*COMMANDS[command], cwd=here)
    until(lambda: begun(here))
    if command == "workers":
        until(lambda: begun(here)[0].stat().st_size)
    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_leaves_nothing_of_the_notes(here: Path, command: str, number: signal.Signals) -> None:
    before = sorted(here.iterdir())
    running = half(here, command)
    assert 0 == begun(here)[0].stat().st_mode & 0o077
    workers = children(running.pid)
    os.kill(running.pid, number)
    until(lambda: not any(Path(f"/proc/{worker}/cmdline").is_file() and _runs(worker) for worker in workers))
    ended = running.wait()
    assert (2 * (command == "workers"), "") == (len(workers), ended.out)
    assert ended.code == (-number if number != signal.SIGINT else 130)
    assert "Traceback" not in ended.err
    assert before == sorted(here.iterdir())


def _runs(process: int) -> bool:
    state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return state != "Z"


def test_what_a_killed_command_left_is_removed_by_the_next_and_named(here: Path) -> None:
    half(here, "convert").kill()
    (stale,) = begun(here)
    (here / "one.jsonl").write_text(json.dumps({"text": NOTE}) + "\n")
    ended = start("data", "convert", "one.jsonl", "two.jsonl", "--to", "jsonl", cwd=here).wait()
    assert (0, f"removed {stale.name}: half written by a process that was killed\n") == (ended.code, ended.err)
    assert [] == begun(here)
