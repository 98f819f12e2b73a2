"""The README's second example, as typed: a coordinator and three sites as real processes, and none left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

ROOT = Path(__file__).parents[2]


def test_a_rehearsal_runs_the_study_over_real_connections_and_leaves_no_process(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    typed = next(line for line in text.splitlines() if line.startswith("wardround consortium rehearse"))
    command = [sys.executable, "-m", *typed.split(), "--out", str(tmp_path / "run"), "--set", "rounds=2"]
    mark = f"rehearsal-{os.getpid()}"
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "WARDROUND_TEST": mark},
    )  # fmt: skip
    assert 0 == ended.returncode, ended.stderr
    assert "all 3 sites are ready" in ended.stderr
    assert "nvflare" not in (ended.stdout + ended.stderr).lower()
    run = tmp_path / "run"
    assert (run / "report.html").exists()
    assert 2 == json.loads((run / "metrics.json").read_text())["rounds"]
    assert {"hospital-0", "hospital-1", "hospital-2"} == {
        line["from"]
        for line in map(json.loads, (run / "ledger" / "coordinator.jsonl").read_text().splitlines())
        if "from" in line
    }
    assert [] == left(mark)


def left(mark: str) -> list[str]:
    """Commands of the processes that still run and were started below the one with this mark."""
    results = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                results.append((folder / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return results
