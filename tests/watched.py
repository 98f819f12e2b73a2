"""A run folder that grows as if a run went on in it, for tests of what watches runs.

with going(tmp_path / "run", rounds=50) as run:
    run.add(accuracy=0.6)
    run.add(left_out={"south": "late: no reply within the deadline"})
"""

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from run_folders import make_run
from wardround.core.doing import NOTICE
from wardround.core.lock import sole
from wardround.runs.files import JOURNAL, LOCK

__all__ = ["Going", "going"]

SITES = ("north", "south", "east")


class Going:
    """A run that goes on."""

    def __init__(self, folder: Path, sites: Sequence[str]) -> None:
        self.folder, self.sites, self.round = folder, tuple(sites), 0

    def add(self, accuracy: float | None = None, left_out: Mapping[str, str] | None = None, times: int = 1) -> None:
        """One more round, or many that are alike, on the disk at once."""
        lines = []
        for _ in range(times):
            self.round += 1
            value = accuracy if accuracy is not None else 1 - 1 / (self.round + 1)
            out = dict(left_out or {})
            lines.append({
                "round": self.round, "sites": len(self.sites) - len(out), "asked": len(self.sites), "left_out": out,
                "metrics": {"accuracy": value, "loss": 1 - value, "examples": 9.0}, "up": 1000, "down": 900,
                "evaluation_up": 50, "evaluation_down": 800, "seconds": 2.0, "ended": time.time(),
            })  # fmt: skip
        with (self.folder / JOURNAL).open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))

    def doing(self, words: str) -> None:
        (self.folder / NOTICE).write_text(words, encoding="utf-8")

    def delete(self) -> None:
        shutil.rmtree(self.folder)


@contextmanager
def going(folder: Path, sites: Sequence[str] = SITES, **options: Any) -> Iterator[Going]:
    """A run whose process has its folder, until this is over."""
    make_run(folder, values=[], sites=sites, finished=False, **{"rounds": 50, **options})
    with sole(folder / LOCK):
        yield Going(folder, sites)
