"""A full disk stops a run with a clear message; what was written before is whole, and with room the run goes on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from study_files import TIMEOUT, Ended, cli, journal, listing, result_of, small_study
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


@pytest.mark.parametrize("limit", [400, 500, 640, 700, 3000, 6000, 10_000])
def test_a_file_that_may_not_grow_stops_the_run_until_it_may(tmp_path: Path, limit: int) -> None:
    """From a limit that not even the study fits in to one that the ledger reaches in the last round."""
    small_study(tmp_path, method={"name": "scaffold"}, rounds=6)
    cli("run", "study.toml", "--out", "whole", *SERIAL, cwd=tmp_path)
    ended = cli("run", "study.toml", "--out", "run", *SERIAL, cwd=tmp_path, file_limit=limit)
    assert_no_room(ended, "run", "wardround run study.toml --out run --resume")
    assert 0 == cli("run", "study.toml", "--out", "run", *SERIAL, "--resume", cwd=tmp_path).code
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "run")
    for ledger in (tmp_path / "run" / "ledger").rglob("*.jsonl"):
        assert 0 < verify(ledger)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("limit", "reached"), [(8_000, "a site's memory"), (20_000, "a checkpoint")])
def test_no_room_for_what_a_site_keeps_or_for_a_checkpoint_loses_nothing(
    tmp_path: Path, limit: int, reached: str, workers: int
) -> None:
    path = small_study(tmp_path, corpus=LARGE, method={"name": "scaffold"}, rounds=4)
    cli("run", path, "--out", "whole", *SERIAL, cwd=tmp_path)
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=2", cwd=tmp_path)
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
mount -t tmpfs -o size=128k tmpfs disk &&
"$@"; echo $? >code
cp -r disk/run full
mount -o remount,size=16m disk && "$@" --resume || exit 1
cp -r disk/run done
"""


def test_a_disk_that_is_really_full_loses_nothing(tmp_path: Path) -> None:
    inside = ["unshare", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let a user mount a small disk")
    path = small_study(tmp_path, method={"name": "scaffold"}, rounds=40)
    (tmp_path / "disk").mkdir()
    command = [sys.executable, "-m", "wardround", "run", "study.toml", "--out", "disk/run", *map(str, SERIAL)]
    script = ["sh", "-c", ON_A_SMALL_DISK, "sh", *command]
    done = subprocess.run([*inside, *script], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert "1" == (tmp_path / "code").read_text().strip()
    assert done.stderr.startswith("no room left to write disk/run")
    assert 1 == len(done.stderr.splitlines())
    study = load_study(path)[0].study
    checkpoint = load_newest(tmp_path / "full" / "checkpoints", study.fingerprint, Controlled)
    assert checkpoint is not None
    whole_lines = (tmp_path / "full" / "journal.jsonl").read_text().rpartition("\n")[0].splitlines()
    assert checkpoint.round <= len(whole_lines) < 40
    cli("run", path, "--out", "whole", *SERIAL, cwd=tmp_path)
    assert journal(tmp_path / "whole")[: len(whole_lines)] == [
        {key: value for key, value in json.loads(line).items() if key not in ("seconds", "waited")}
        for line in whole_lines
    ]
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "done")
