"""A full disk stops a run with a clear message; what was written before is whole, and with room the run goes on."""

import errno
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from study_files import Ended, cli, journal, listing, result_of, script, small_study
from wardround.cli.options import resumable
from wardround.layers.ledger import verify
from wardround.methods.scaffold import Controlled
from wardround.runs.checkpoint import load_newest
from wardround.study.load import load_study

EAGER = ("--quiet", "--checkpoint-seconds", 0)
SERIAL = ("--workers", 1, *EAGER)
LARGE = {"name": "synthetic", "sites": 3, "features": 100, "classes": 30, "largest": 20}
"""So many weights that a site's memory is about 12 kB and a checkpoint twice that; a study is below 1 kB."""


def assert_no_room(ended: Ended, place: str, again: str) -> None:
    expected = f"no room left to write {place}; nothing written before is lost: make room, then go on with: {again}\n"
    assert (1, "", expected) == (ended.code, ended.out, ended.err)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run of six rounds ends with that always had room."""
    folder = tmp_path_factory.mktemp("whole")
    small_study(folder, method={"name": "scaffold"}, rounds=6)
    cli("run", "study.toml", "--out", "whole", *SERIAL, cwd=folder)
    return result_of(folder / "whole")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of many weights, a whole run of it, and one of half the rounds."""
    folder = tmp_path_factory.mktemp("large")
    path = small_study(folder, corpus=LARGE, method={"name": "scaffold"}, rounds=4)
    cli("run", path, "--out", "whole", *SERIAL, cwd=folder)
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=2", cwd=folder)
    return folder


@pytest.mark.parametrize("limit", [400, 500, 640, 700, 3000, 6000, 10_000])
def test_a_file_that_may_not_grow_stops_the_run_until_it_may(tmp_path: Path, whole: dict[str, Any], limit: int) -> None:
    """From a limit that not even the study fits in to one that the ledger reaches in the last round."""
    small_study(tmp_path, method={"name": "scaffold"}, rounds=6)
    ended = cli("run", "study.toml", "--out", "run", *SERIAL, cwd=tmp_path, file_limit=limit)
    assert_no_room(ended, "run", "wardround run study.toml --out run --resume")
    assert 0 == cli("run", "study.toml", "--out", "run", *SERIAL, "--resume", cwd=tmp_path).code
    assert whole == result_of(tmp_path / "run")
    for ledger in (tmp_path / "run" / "ledger").rglob("*.jsonl"):
        assert 0 < verify(ledger)


def test_a_disk_that_is_only_read_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "run" / ".lock"
    with pytest.raises(SystemExit) as ended, resumable(Path("study.toml"), lock.parent, "again"):
        raise OSError(errno.EROFS, "Read-only file system", str(lock))
    expected = f"{lock} cannot be written to (Read-only file system); choose another --out\n"
    assert (2, expected) == (ended.value.code, capsys.readouterr().err)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("limit", "reached"), [(8_000, "a site's memory"), (20_000, "a checkpoint")])
def test_no_room_for_what_a_site_keeps_or_for_a_checkpoint_loses_nothing(
    tmp_path: Path, large: Path, limit: int, reached: str, workers: int
) -> None:
    shutil.copytree(large, tmp_path, dirs_exist_ok=True)
    before = listing(tmp_path / "run")
    arguments = ("run", "study.toml", "--out", "run", "--resume")
    ended = cli(*arguments, "--workers", workers, *EAGER, cwd=tmp_path, file_limit=limit)
    assert_no_room(ended, "run", "wardround run study.toml --out run --resume")
    after = listing(tmp_path / "run")
    kept = [name for name in before if name.startswith(("checkpoints/", "memory/", "model/", "metrics"))]
    assert {name: before[name] for name in kept} == {name: after[name] for name in kept}, reached
    for name in ("journal.jsonl", *(name for name in before if name.startswith("ledger/"))):
        assert after[name][0].startswith(before[name][0])
    assert 0 == cli(*arguments, *SERIAL, cwd=tmp_path).code
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "run")


ON_A_SMALL_DISK = """
import ctypes, os, shutil, subprocess, sys
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
user, group = os.getuid(), os.getgid()
NEW_USER, NEW_MOUNTS, REMOUNT = 0x10000000, 0x20000, 32

def done(code):
    if code:
        raise OSError(ctypes.get_errno(), "no small disk")

done(libc.unshare(NEW_USER | NEW_MOUNTS))
for name, line in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    Path(f"/proc/self/{name}").write_text(line)
done(libc.mount(b"tmpfs", b"disk", b"tmpfs", 0, b"size=128k"))
command = [sys.executable, "-m", "wardround", *sys.argv[1:]]
with Path("said").open("w") as said:
    Path("code").write_text(str(subprocess.Popen(command, stderr=said).wait()))
shutil.copytree("disk/run", "full")
done(libc.mount(None, b"disk", None, REMOUNT, b"size=16m"))
code = subprocess.Popen([*command, "--resume"]).wait()
shutil.copytree("disk/run", "done")
sys.exit(code)
"""


def test_a_disk_that_is_really_full_loses_nothing(tmp_path: Path) -> None:
    inside = ["unshare", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let a user mount a small disk")
    path = small_study(tmp_path, method={"name": "scaffold"}, rounds=40)
    (tmp_path / "disk").mkdir()
    (tmp_path / "small.py").write_text(ON_A_SMALL_DISK, encoding="utf-8")
    arguments = ("run", "study.toml", "--no-report", "--out", "disk/run", *SERIAL)
    ended = script(tmp_path / "small.py", *arguments, cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    assert "1" == (tmp_path / "code").read_text()
    (line,) = (tmp_path / "said").read_text().splitlines()
    assert line.startswith("no room left to write disk/run")
    study = load_study(path)[0].study
    checkpoint = load_newest(tmp_path / "full" / "checkpoints", study.fingerprint, Controlled)
    assert checkpoint is not None
    whole_lines = (tmp_path / "full" / "journal.jsonl").read_text().rpartition("\n")[0].splitlines()
    assert checkpoint.round <= len(whole_lines) < 40
    cli("run", path, "--out", "whole", *SERIAL, cwd=tmp_path)
    assert journal(tmp_path / "whole")[: len(whole_lines)] == [
        {key: value for key, value in json.loads(line).items() if key not in ("seconds", "waited", "ended")}
        for line in whole_lines
    ]
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "done")
