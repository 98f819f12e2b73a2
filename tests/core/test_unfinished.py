"""Half a file is nobody else's to read, and no signal leaves one behind; SIGKILL's are removed by the next run."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest

from wardround.core.files import fresh, fresh_folder
from wardround.core.unfinished import ENDING, remove_stale

HALF = """
import os, signal, sys
from pathlib import Path
from wardround.core.files import fresh, fresh_folder
os.umask(0o022)
with fresh(Path("file")) as file, fresh_folder(Path("folder"), instead=True) as folder, fresh(folder / "in") as inner:
    for one in (file, inner):
        one.write(b"a note")
        one.flush()
    if sys.argv[1:] == ["fork"] and not os.fork():
        os.kill(os.getpid(), signal.SIGTERM)
    print("half", flush=True)
    sys.stdin.read()
"""


def half(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A process that has written half of a file and of a folder."""
    command = [sys.executable, "-c", HALF, *arguments]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)  # fmt: skip
    assert process.stdout is not None
    assert "half\n" == process.stdout.readline()
    return process


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_takes_away_what_is_half_written_and_ends_the_process(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").touch()
    process = half(tmp_path)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert -number == process.returncode
    assert ("Traceback" in out) == (number == signal.SIGINT)  # Python's own answer to Ctrl-C
    assert ["folder", "folder/old"] == sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))


def test_only_the_user_can_read_what_is_half_written_and_the_umask_decides_at_the_end(tmp_path: Path) -> None:
    process = half(tmp_path)
    new = {path.name.split(".")[1]: S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {"file": 0o600, "folder": 0o700} == new
    process.communicate(timeout=60)
    assert {"file": 0o644, "folder": 0o755} == {path.name: S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert 0o644 == S_IMODE((tmp_path / "folder" / "in").stat().st_mode)


def test_a_fork_that_is_ended_takes_nothing_away(tmp_path: Path) -> None:
    process = half(tmp_path, "fork")
    process.communicate(timeout=60)
    assert 0 == process.returncode
    assert b"a note" == (tmp_path / "file").read_bytes()
    assert ["file", "folder"] == sorted(path.name for path in tmp_path.iterdir())


def test_what_ignores_a_signal_goes_on(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with fresh(tmp_path / "file") as file:
            os.kill(os.getpid(), signal.SIGHUP)
            file.write(b"whole")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert b"whole" == (tmp_path / "file").read_bytes()


def test_handlers_are_as_before_when_all_is_written(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in ENDING]
    with fresh_folder(tmp_path / "a") as folder, fresh(folder / "b"):
        pass
    assert before == [signal.getsignal(number) for number in ENDING]


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    others = [".file.new", ".file.x.new", "file.1.new", ".file.1.old"]
    for name in others:
        (tmp_path / name).touch()
    process = half(tmp_path)
    begun = sorted(path for path in tmp_path.iterdir() if path.name not in others)
    assert 2 == len(begun)
    assert [] == remove_stale(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert begun == remove_stale(tmp_path)
    assert sorted(others) == sorted(path.name for path in tmp_path.iterdir())
    assert [] == remove_stale(tmp_path / "none")


def test_what_is_locked_belongs_to_a_process_on_another_machine(tmp_path: Path) -> None:
    with fresh(tmp_path / "file"):
        (mine,) = tmp_path.iterdir()
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        theirs = mine.rename(tmp_path / f".file.{gone.pid}.new")
        assert [] == remove_stale(tmp_path)
        theirs.rename(mine)
