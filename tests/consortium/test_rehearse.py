"""The coordinators' first example, as typed: a coordinator and three sites as real processes, and none left behind."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wardround.consortium.rehearse import consent_of
from wardround.study.load import cells

pytest.importorskip("nvflare")

ROOT = Path(__file__).parents[2]


def test_a_rehearsal_runs_the_study_over_real_connections_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "rehearsal.toml").write_text(shown("docs/coordinator.md")[1], encoding="utf-8")
    command = [sys.executable, "-m", *shown("docs/coordinator.md")[0], "--out", "run", "--set", "rounds=2"]
    mark = f"rehearsal-{os.getpid()}"
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
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


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"method": {"name": "fedavg"}}, None),
        ({"method": {"name": "ridge"}}, ["any", "Sums"]),
        ({"method": {"name": "fedavg"}, "finish": {"head": "ccvr"}}, ["any", "Moments"]),
    ],
)
def test_its_sites_agree_to_what_a_real_one_has_to_name_and_say_so(
    changes: dict[str, Any], named: list[str] | None, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = {"name": "synthetic", "sites": 3, "largest": 400}
    tables = {"name": "m", "rounds": 1, "task": {"name": "features"}, "corpus": corpus, **changes}
    consent = tomllib.loads(consent_of(cells(tables)[0].study))["consent"]
    assert named == consent.get("messages")
    assert (named is not None) == ("a real one has to say so" in caplog.text)


def test_the_readme_rehearses_the_same_study() -> None:
    *command, study = shown("README.md")[0]
    assert shown("docs/coordinator.md")[0] == [*command, Path(study).name]
    expected = tomllib.loads((ROOT / study).read_text(encoding="utf-8"))
    assert expected == tomllib.loads(shown("docs/coordinator.md")[1]) | {"description": expected["description"]}


def shown(page: str) -> tuple[list[str], str]:
    """The command for a rehearsal that a page shows, and its first file."""
    text = (ROOT / page).read_text(encoding="utf-8")
    typed = next(line for line in text.splitlines() if line.startswith("wardround consortium rehearse"))
    return typed.split(), re.findall(r"```toml.*?\n(.*?)```", text, re.DOTALL)[0]


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
