"""What the engine costs beyond the training itself: the same local steps with it and without it.

    python benchmarks/overhead.py [--repeats N] [--only tiny|lstm] [--json FILE] [--quick]

Two cases: `tiny`, a logistic regression over 60 features (10 of 100 sites, 5 steps of 10 examples, 20 rounds),
where every microsecond of overhead shows; and `lstm`, a small LSTM (10 of 20 sites, 5 steps of 16 texts of up to
30 tokens, 3 rounds), which is more like real work. Each is done

- *bare*: a plain PyTorch loop (`bare.py`), with no checks, no ledger, no checkpoints;
- *serial*: through the engine in one process, as `wardround run` does it: messages checked against the manifest,
  bytes counted, ledgers at both ends, a checkpoint at the start and at the end;
- *two workers*: the same with two worker processes;
- in *pfl* and *Flower*, if they are installed (`peers.py`).

Everyone starts from the same weights, draws the same sites, trains on the same batches, and must end with the same
weights: the script stops if not. They take turns (bare, serial, two workers, bare, …), with one thread each; a
ratio is that of two neighbours in time, and what is printed is the median of the ratios and their quartiles. Where
all the work is in this process, the ratio of CPU times stands beside it: other processes on the machine disturb it
less, but it leaves out waiting for the disk.

Outside the clock: reading the data, starting worker processes or Flower's actors, one run of each to warm up, and
removing the run folders.
"""

import argparse
import contextlib
import functools
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

import peers
from bare import StateDict, bare
from cases import CASES, case, work_of
from wardround.engines.inline import Pool, Serial
from wardround.layers.ledger import Ledger
from wardround.runs.build import Built, drawn
from wardround.runs.checkpoint import Checkpoint, save
from wardround.runs.loop import one_thread

WORKERS = 2
IN_PROCESS = ("serial", "pfl")

AIMS = {("tiny", "serial"): 1.15, ("lstm", "serial"): 1.05, ("lstm", "two workers"): 0.6}


class Time(NamedTuple):
    """Seconds of one run, by the clock and on this process's CPU."""

    wall: float
    cpu: float


Run = Callable[[Path], StateDict]


@dataclass
class Timed:
    """One contestant: the times of each run, and of the bare run before it."""

    mine: list[Time] = field(default_factory=list)
    bare: list[Time] = field(default_factory=list)

    def ratio(self, clock: Literal["wall", "cpu"]) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile of the ratios to the bare loop."""
        ratios = [getattr(mine, clock) / getattr(its, clock) for mine, its in zip(self.mine, self.bare, strict=True)]
        if len(ratios) == 1:
            return ratios[0], ratios[0], ratios[0]
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return low, median, high


def main() -> None:
    """Measure the chosen cases and print the ratios."""
    options = _options()
    repeats = 1 if options.quick else options.repeats
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, one thread, {repeats} repeats; time is per site and round")
    results: dict[str, Any] = {}
    with one_thread():
        for name in [options.only] if options.only else CASES:
            print(f"\n{name}", flush=True)
            results[name] = _case(name, repeats, quick=options.quick)
    if options.json:
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}
        options.json.write_text(json.dumps({"machine": machine, "cases": results}, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=21, help="how often everyone's turn comes (21)")
    parser.add_argument("--only", choices=list(CASES), help="one case instead of all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all times here")
    parser.add_argument("--quick", action="store_true", help="one repeat of two rounds: does it work at all?")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats}: use 1 or more")
    return options


def _case(name: str, repeats: int, *, quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        built = case(name, Path(folder), quick=quick)
        work = work_of(built)
        turns = len(work.plan) * len(work.plan[0])
        results = {"bare": Timed(), "serial": Timed(), "two workers": Timed()}
        with _pool(built) as pool:
            serial = Serial(built.host)
            contestants: dict[str, Run] = {
                "bare": lambda _: bare(work),
                "serial": lambda out: through(built, serial, out),
                "two workers": lambda out: through(built, pool, out),
            }
            if peers.installed("pfl"):
                simulated = peers.pfl(work)
                contestants["pfl"], results["pfl"] = lambda _: simulated(), Timed()
            agree({who: run(Path(folder) / who) for who, run in contestants.items()})
            for _ in range(repeats):
                for who, run in contestants.items():
                    results[who].mine.append(clocked(run))
                    results[who].bare.append(results["bare"].mine[-1])
        if peers.installed("flwr"):
            alone = functools.partial(clocked, contestants["bare"])
            pairs, weights = peers.flower(name, work, lambda: alone().wall, max(repeats // 4, 1), quick=quick)
            agree({"bare": bare(work), "Flower": weights})
            results["Flower"] = Timed([Time(its, 0) for _, its in pairs], [Time(alone, 0) for alone, _ in pairs])
    rows = {who: _row(name, who, mine, turns) for who, mine in results.items()}
    _missing()
    return rows


@contextlib.contextmanager
def _pool(built: Built) -> Iterator[Pool]:
    pool = Pool(WORKERS, built.host, show_errors=True)
    try:
        yield pool
    finally:
        pool.close()


def through(built: Built, engine: Serial | Pool, out: Path, *, before: bool = True) -> StateDict:
    """All rounds through an engine, with ledger and checkpoints as in a run, that `before` them too; no evaluation."""
    study, names = built.study, built.sites.names
    ledger = Ledger(out / "ledger", sites=True)
    state = study.method.start(built.weights, built.cohort(0, names, engine, (ledger,)))
    if before:
        save(out / "checkpoints", Checkpoint(0, study.fingerprint, state))
    for round_ in range(1, study.rounds + 1):
        cohort = built.cohort(round_, drawn(study, names, round_), engine, (ledger,))
        state = study.method.round(state, cohort)
    ledger.flush()
    save(out / "checkpoints", Checkpoint(study.rounds, study.fingerprint, state))
    return dict(state.weights)


def clocked(run: Run) -> Time:
    """How long a run takes, from clean hands."""
    with tempfile.TemporaryDirectory() as folder:
        gc.collect()  # nobody pays for another's rubbish
        wall, cpu = time.perf_counter(), time.process_time()
        run(Path(folder))
        return Time(time.perf_counter() - wall, time.process_time() - cpu)


def agree(weights: dict[str, StateDict]) -> None:
    """Stop unless everyone has arrived at the same weights: then it was the same work."""
    for who, theirs in weights.items():
        for name, tensor in weights["bare"].items():
            if not torch.allclose(theirs[name], tensor, rtol=1e-4, atol=1e-5):
                sys.exit(f"{who} ends with other weights than the bare loop ({name}): no comparison")
        if who == "two workers" and any(not torch.equal(theirs[name], weights["serial"][name]) for name in theirs):
            sys.exit("two workers end with other bits than one process: that is a fault in the engine")


def _row(case: str, who: str, timed: Timed, turns: int) -> dict[str, Any]:
    low, median, high = timed.ratio("wall")
    aim = AIMS.get((case, who))
    line = f"  {who:<12} {statistics.median(time.wall for time in timed.mine) / turns * 1e6:9,.0f} µs"
    if who != "bare":
        line += f"   {median:5.2f} × bare  [{low:.2f} – {high:.2f}]"
        line += f"   CPU {timed.ratio('cpu')[1]:.2f} ×" if who in IN_PROCESS else " " * 13
        line += f"   aim ≤ {aim}" if aim else ""
    print(line.rstrip(), flush=True)
    times = {"wall": [time.wall for time in timed.mine], "wall_bare": [time.wall for time in timed.bare]}
    return {"ratio": median, "quartiles": [low, high], "aim": aim, **times}


def _missing() -> None:
    for who, package, wanted in (("pfl", "pfl", "pfl"), ("Flower", "flwr", "'flwr[simulation]'")):
        if not peers.installed(package):
            print(f"  {who:<12} not installed: pip install {wanted}")


if __name__ == "__main__":
    main()
