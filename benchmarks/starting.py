"""What it takes to start: help, the version, a mistyped study; and what one more cell of a grid costs.

    python benchmarks/starting.py [--repeats N] [--cells N] [--every]

Each command is started anew, in turn with `python -c pass`: medians of wall time, CPU time and the largest memory, and
the ratio of wall times of neighbours. A cell's cost is the CPU time of a grid of N small cells less that of a run.
With --every, the help of every command is asked for.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from wardround.cli.app import COMMAND, HOME

BARE = [sys.executable, "-c", "pass"]
WARDROUND = [sys.executable, "-m", "wardround"]
STUDY = """
name = "small"
rounds = 2
seeds = {seeds}
[corpus]
name = "synthetic"
sites = 4
[task]
name = "features"
[method]
name = "{method}"
"""


@dataclass(frozen=True)
class Cost:
    """Of one process and its children: seconds by the clock and of the processors, and megabytes at most."""

    wall: float
    cpu: float
    megabytes: float


def cost(command: list[str]) -> Cost:
    """Of a command, whatever it ends with."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it has been waited for
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def commands() -> list[str]:
    """All commands, as they are typed."""
    files = [path for path in sorted(HOME.rglob("*.py")) if COMMAND.search(path.read_text(encoding="utf-8"))]
    return [" ".join(path.relative_to(HOME).with_suffix("").parts).replace("_", "-") for path in files]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--every", action="store_true")
    options = parser.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}")
    with tempfile.TemporaryDirectory(prefix="wardround-") as place:
        folder = Path(place)
        for file, method, seeds in (("typo", "fedavgg", 1), ("one", "fedavg", 1), ("many", "fedavg", options.cells)):
            text = STUDY.format(method=method, seeds=list(range(seeds)))
            (folder / f"{file}.toml").write_text(text, encoding="utf-8")
        asked = ["--version", "--help", *(f"{name} --help" for name in (commands() if options.every else ["run"]))]
        starts = {line: [*WARDROUND, *line.split()] for line in asked}
        starts["a mistyped study"] = [*WARDROUND, "run", str(folder / "typo.toml")]
        for name, command in starts.items():
            pairs = [(cost(BARE), cost(command)) for _ in range(options.repeats)]
            wall, cpu, size = (statistics.median(getattr(mine, key) for _, mine in pairs)
                               for key in ("wall", "cpu", "megabytes"))  # fmt: skip
            ratio = statistics.median(mine.wall / bare.wall for bare, mine in pairs)
            print(f"{name:26} {wall:6.2f} s  {cpu:6.2f} s CPU  {size:5.0f} MB  {ratio:5.1f} × python -c pass")
        run = [*WARDROUND, "run", "--no-report", "--quiet"]
        one, many = (
            cost([*run, str(folder / f"{file}.toml"), "--out", str(folder / file)]) for file in ("one", "many")
        )
        each = (many.cpu - one.cpu) / max(options.cells - 1, 1)
        print(f"a run {one.cpu:.2f} s CPU; a grid of {options.cells} {many.cpu:.2f} s; each further cell {each:.2f} s")


if __name__ == "__main__":
    main()
