"""A run that is killed, at whatever moment and however often, goes on and ends with the same bits."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from study_files import (
    PAUSING,
    TIMEOUT,
    Ended,
    children,
    cli,
    journal,
    listing,
    not_paused,
    paused,
    result_of,
    small_study,
    start,
    wait_for,
    write_module,
)
from wardround.layers.ledger import verify
from wardround.runs.protocol import rehearsal

WITH_MEMORY = [
    "PausingScaffold", "PausingDyn", "PausingLocal", "PausingPA", "PausingCMC", "PausingED", "PausingMOON",
    "PausingLazy",
]  # fmt: skip
EAGER = ("--checkpoint-seconds", 0)  # a checkpoint after each round
LAZY = ("--checkpoint-seconds", 3600)  # one before the first round and one after the last
SERIAL = ("--workers", 1, "--quiet")

DYING = """
import os, signal
from dataclasses import dataclass
from wardround.extend import FedAvg, Global, Site, Update, on_site

@dataclass(frozen=True, kw_only=True)
class Dying(FedAvg):
    "FedAvg with a site whose process always dies in round 2."

    @on_site
    def fit(self, model: Global, site: Site) -> Update:
        if (site.exchange.round, site.name) == (2, "site-01"):
            os.kill(os.getpid(), signal.SIGKILL)
        return FedAvg.fit.function(self, model, site)
"""


KILLED = """
import os, signal
from dataclasses import dataclass
from pathlib import Path
from wardround.extend import Site, on_site
from wardround.methods.fedner import FedNER, Turn
from wardround.methods.fedsgd import Gradient

@dataclass(frozen=True, kw_only=True)
class Killed(FedNER):
    "FedNER whose process is killed in the exchange that a file names, once."

    @on_site
    def grade(self, turn: Turn, site: Site) -> Gradient:
        mark = Path(f"kill-{site.exchange.round}-{site.exchange.number}-{site.name}")
        if mark.exists():
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return FedNER.grade.function(self, turn, site)
"""


def pausing_study(folder: Path, method: str, rounds: int = 4) -> Path:
    write_module(folder, PAUSING)
    changes: dict[str, Any] = {"public": {"fraction": 0.2}} if method == "PausingED" else {}
    if method == "PausingLazy":
        changes = rehearsal("bags") | {"evaluation": {"splits": ["test", "train"]}}
    return small_study(folder, method={"name": f"mine:{method}"}, rounds=rounds, sites={"fraction": 0.67}, **changes)


def uninterrupted(folder: Path, study: Path) -> dict[str, object]:
    assert 0 == cli("run", study, "--out", "whole", *SERIAL, cwd=folder).code
    return result_of(folder / "whole")


def assert_same(expected: dict[str, object], run: Path) -> None:
    assert expected == result_of(run)
    for ledger in (run / "ledger").rglob("*.jsonl"):
        assert 0 < verify(ledger)


def cohort_moments(run: Path) -> list[tuple[int, str]]:
    """The first training of each round and, in each round but the first, the last one."""
    moments = []
    for line in (run / "ledger" / "coordinator.jsonl").read_text().splitlines():
        if ('"step":"fit' in line or '"step":"teach"' in line) and '"to":' in line:
            names = line.partition('"to":["')[2].partition('"]')[0].split('","')
            round_ = int(line.partition('"round":')[2].partition(",")[0])
            moments += [(round_, name) for name in {names[0], names[-1]}]
    return sorted(moments)


@pytest.mark.parametrize("pause", [EAGER, LAZY], ids=["after each round", "at the ends"])
@pytest.mark.parametrize("method", WITH_MEMORY)
def test_killed_within_every_round_a_run_ends_with_the_same_bits(
    tmp_path: Path, method: str, pause: tuple[str, int]
) -> None:
    path = pausing_study(tmp_path, method, rounds=3)
    expected = uninterrupted(tmp_path, path)
    # With checkpoints at the ends alone, each resume begins with round 1 anew: sites remember more than they may use.
    moments = cohort_moments(tmp_path / "whole")[slice(None) if pause == EAGER else slice(1, None, 3)]
    assert {1, 3} <= {round_ for round_, _ in moments}
    for round_, site in moments:
        reached = paused(tmp_path, round_, site)
        running = start("run", path, "--out", "run", *SERIAL, *pause, "--resume", cwd=tmp_path)
        wait_for(reached.exists, running.pid)
        assert -signal.SIGKILL == running.kill().code
    assert 0 == cli("run", path, "--out", "run", *SERIAL, "--resume", cwd=tmp_path).code
    assert_same(expected, tmp_path / "run")


@pytest.mark.parametrize("method", ["PausingScaffold", "PausingLocal"])
def test_killed_with_its_workers_at_work_a_run_goes_on_with_any_number_of_them(tmp_path: Path, method: str) -> None:
    path = pausing_study(tmp_path, method)
    expected = uninterrupted(tmp_path, path)
    orphans = []
    for (round_, site), workers in zip(cohort_moments(tmp_path / "whole")[1::2], (2, 3, 1, 2), strict=True):
        reached = paused(tmp_path, round_, site)
        running = start("run", path, "--out", "run", "--workers", workers, *EAGER, "--resume", cwd=tmp_path)
        wait_for(reached.exists, running.pid)
        orphans += children(running.pid)
        running.kill()
    assert 0 == cli("run", path, "--out", "run", "--workers", 2, "--resume", cwd=tmp_path).code
    for orphan in orphans:  # those that were waiting to be killed still are
        if Path(f"/proc/{orphan}").exists():
            os.kill(orphan, signal.SIGKILL)
    assert_same(expected, tmp_path / "run")


def test_a_worker_that_is_killed_is_replaced_and_its_site_asked_again(tmp_path: Path) -> None:
    path = pausing_study(tmp_path, "PausingScaffold")
    expected = uninterrupted(tmp_path, path)
    moments = cohort_moments(tmp_path / "whole")[1::2]
    marks = [paused(tmp_path, round_, site) for round_, site in moments]
    running = start("run", path, "--out", "run", "--workers", 2, "--quiet", cwd=tmp_path)
    for reached in marks:
        wait_for(reached.exists, running.pid)
        worker = int(reached.read_text())
        assert worker in children(running.pid)
        os.kill(worker, signal.SIGKILL)
    ended = running.wait()
    assert (0, "") == (ended.code, ended.err)
    assert_same(expected, tmp_path / "run")


def test_a_site_whose_worker_dies_twice_is_left_out_by_name(tmp_path: Path) -> None:
    write_module(tmp_path, DYING)
    path = small_study(tmp_path, method={"name": "mine:Dying"})
    ended = cli("run", path, "--out", "run", "--workers", 2, cwd=tmp_path)
    reason = "fit: lost: its worker process died twice (exit code -9); out of memory?"
    assert 0 == ended.code
    assert [{}, {"site-01": reason}, {}] == [line["left_out"] for line in journal(tmp_path / "run")]
    assert f"round 2: site-01 left out ({reason})\n" in ended.err


def test_the_command_as_typed_survives_kills_of_a_worker_and_of_itself(tmp_path: Path) -> None:
    """Nothing is forked here: `python -m wardround`, with workers that it starts itself."""
    path = pausing_study(tmp_path, "PausingScaffold", rounds=3)
    expected = uninterrupted(tmp_path, path)
    first, second = cohort_moments(tmp_path / "whole")[1::2][:2]
    marks = [paused(tmp_path, *first), paused(tmp_path, *second)]
    command = [sys.executable, "-m", "wardround", "run", str(path), "--out", "run", "--workers", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        wait_for(marks[0].exists, process.pid)
        os.kill(int(marks[0].read_text()), signal.SIGKILL)
        wait_for(marks[1].exists, process.pid)
        orphans = children(process.pid)
        process.kill()
        assert -signal.SIGKILL == process.wait(TIMEOUT)
    for orphan in orphans:
        os.kill(orphan, signal.SIGKILL)
    assert 0 == cli("run", path, "--out", "run", *SERIAL, "--resume", cwd=tmp_path).code
    assert_same(expected, tmp_path / "run")


@pytest.mark.parametrize("lines", [0, 1, 7, 12])
def test_killed_between_rounds_a_run_ends_with_the_same_bits(tmp_path: Path, lines: int) -> None:
    path = pausing_study(tmp_path, "PausingDyn", rounds=15)
    expected = uninterrupted(tmp_path, path)
    paused(tmp_path, *cohort_moments(tmp_path / "whole")[-1])  # however late we look, it has not ended
    running = start("run", path, "--out", "run", *SERIAL, *EAGER, cwd=tmp_path)
    written = tmp_path / "run" / "journal.jsonl"
    wait_for(lambda: written.exists() and len(written.read_bytes().splitlines()) >= lines, running.pid)
    assert -signal.SIGKILL == running.kill().code
    not_paused(tmp_path)
    assert 0 == cli("run", path, "--out", "run", *SERIAL, "--resume", cwd=tmp_path).code
    assert_same(expected, tmp_path / "run")


def test_killed_at_each_of_its_writes_a_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Before a write, after it and half way through it, from the first to the last."""
    path = small_study(tmp_path, corpus={"sites": 2}, rounds=2, method={"name": "scaffold"})
    expected = uninterrupted(tmp_path, path)
    for count, moment in zip(itertools.count(1), itertools.cycle(["torn", "before", "after", "torn"])):
        out = tmp_path / f"run-{count}"
        ended = cli("run", path, "--out", out, *SERIAL, *EAGER, cwd=tmp_path, kill_at=(count, moment))
        if ended.code == 0:
            break
        assert -signal.SIGKILL == ended.code
        resumed = cli("run", path, "--out", out, *SERIAL, "--resume", cwd=tmp_path)
        assert (0, "") == (resumed.code, resumed.err), (count, moment)
        assert_same(expected, out)
        assert [] == list(out.glob(".*.new")) + list((out / "checkpoints").glob(".*.new"))
    assert 25 < count


@pytest.mark.parametrize("moment", ["torn", "after"])
def test_killed_again_and_again_a_run_ends_with_the_same_bits(tmp_path: Path, moment: str) -> None:
    path = small_study(tmp_path, method={"name": "scaffold"}, rounds=6)
    expected = uninterrupted(tmp_path, path)
    kills = 0
    ended = Ended(1, "", "")
    while ended.code:
        ended = cli("run", path, "--out", "run", *SERIAL, *EAGER, "--resume", cwd=tmp_path, kill_at=(26, moment))
        kills += ended.code != 0
        assert ended.code in (0, -signal.SIGKILL), ended
    assert 3 < kills
    assert_same(expected, tmp_path / "run")


def test_what_a_killed_write_left_behind_is_not_taken_for_a_checkpoint(tmp_path: Path) -> None:
    path = small_study(tmp_path, method={"name": "scaffold"}, rounds=4)
    expected = uninterrupted(tmp_path, path)
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=2", cwd=tmp_path)
    half = max((tmp_path / "run" / "checkpoints").iterdir()).read_bytes()[:100]
    (tmp_path / "run" / "checkpoints" / ".round-000003.checkpoint.1234.new").write_bytes(half)
    (tmp_path / "run" / ".metrics.json.1234.new").write_bytes(b'{"rounds": 4')
    assert 0 == cli("run", path, "--out", "run", *SERIAL, "--resume", cwd=tmp_path).code
    assert_same(expected, tmp_path / "run")
    assert [] == [name for name in listing(tmp_path / "run") if name.endswith(".new")]


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupted_from_the_keyboard_a_run_says_how_to_go_on(tmp_path: Path, workers: int) -> None:
    path = pausing_study(tmp_path, "PausingScaffold")
    expected = uninterrupted(tmp_path, path)
    round_, site = cohort_moments(tmp_path / "whole")[3]
    reached = paused(tmp_path, round_, site)
    arguments = ("run", "study.toml", "--out", "my run", "--set", "method.lr=0.01")
    running = start(*arguments, "--workers", workers, "--quiet", *EAGER, cwd=tmp_path)
    wait_for(reached.exists, running.pid)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    ended = running.wait()
    again = "wardround run study.toml --set method.lr=0.01 --out 'my run' --resume"
    assert (130, f"stopped; nothing is lost, go on with: {again}\n") == (ended.code, ended.err)
    assert 0 == cli(*arguments, *SERIAL, "--resume", cwd=tmp_path).code
    assert_same(expected, tmp_path / "my run")


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_between_the_exchanges_of_a_round_private_parts_end_with_the_same_bits(
    tmp_path: Path, workers: int
) -> None:
    """What sites held is gone with their process; their disk has the end of the round before."""
    write_module(tmp_path, KILLED)
    path = small_study(
        tmp_path,
        rounds=3,
        method={"name": "mine:Killed", "steps": 3},
        task={"name": "tagging", "buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4},
        corpus={"name": "clinic", "hospitals": 3, "documents": 6, "test_documents": 2},
        sites={"private": ["lstm", "crf"]},
    )
    expected = uninterrupted(tmp_path, path)
    options = ("--workers", workers, "--quiet", *EAGER)
    # The first exchange of a round holds nothing yet, so that with workers its site is just asked again.
    for names in (("1-1-hospital-0", "1-3-hospital-1"), ("2-2-hospital-2",), ("3-3-hospital-2",)):
        for name in names:
            (tmp_path / f"kill-{name}").touch()
        while list(tmp_path.glob("kill-*")):
            ended = cli("run", path, "--out", "run", *options, "--resume", cwd=tmp_path)
            assert (-signal.SIGKILL if workers == 1 else 1) == ended.code
            assert ("failed in step 'grade'" in ended.err) == (workers > 1)
    assert 0 == cli("run", path, "--out", "run", *options, "--resume", cwd=tmp_path).code
    assert_same(expected, tmp_path / "run")
