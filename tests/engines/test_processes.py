"""No process is left behind, whatever its parent was doing when it was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from real_sites import running, wait_until

pytest.importorskip("nvflare")

PARENT = """
import subprocess, sys, threading, time
from wardround.engines.processes import end_soon_after_parent

def begin():
    print(subprocess.Popen([sys.executable, "-m", "wardround.engines.flare", "slow_to_import"]).pid, flush=True)

end_soon_after_parent()
thread = threading.Thread(target=begin)
thread.start()
thread.join()
time.sleep(600)
"""
SLOW = """
import pathlib, time
pathlib.Path(__file__).with_name("importing").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("when", ["while it imports NVFlare", "while it imports its own program"])
def test_a_job_ends_soon_after_its_parent_but_not_with_the_thread_that_started_it(when: str, tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text(SLOW, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        job = int(parent.stdout.readline())
        if when == "while it imports its own program":
            wait_until((tmp_path / "importing").exists)  # which it lives to see
        os.kill(parent.pid, signal.SIGKILL)
        wait_until(lambda: not running(job))
    assert (tmp_path / "importing").exists() is (when == "while it imports its own program")


def test_nvflare_is_kept_from_spelling_out_messages_and_from_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    flare = pytest.importorskip("wardround.engines.flare")
    kinds = {"ConsumableBufferList": "__repr__", "CoreCell": "_stats_category", "CounterPool": "increment"}
    for kind, name in {**kinds, "HistPool": "record_value"}.items():
        patched = getattr(flare, kind)
        monkeypatch.setattr(patched, name, getattr(patched, name))  # an error if NVFlare has no such any more
    assert "update" in f"{flare.ConsumableBufferList([b'update'])}"
    flare.lighten()
    assert "update" not in f"{flare.ConsumableBufferList([b'update'])}"
