"""The journal of a run while it goes on: one line per round, kept in step with the checkpoints.

journal = Journal(out / "journal.jsonl")
journal.back_to(12)          # after a checkpoint: the lines after it are about to be written again
journal.add(line); journal.flush()
"""

import contextlib
import json
import os
from pathlib import Path

from wardround.core.files import write
from wardround.metrics.defined import better
from wardround.runs.errors import RunError
from wardround.runs.files import JOURNAL, BestFigure, Round, read_line


class Journal:
    """The lines of one run, those of earlier attempts included; new ones are written when they are flushed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self.lines: list[Round] = []
        self._unwritten: list[str] = []

    def add(self, line: Round) -> None:
        """One more round."""
        self.lines.append(line)
        self._unwritten.append(json.dumps(line.model_dump()) + "\n")

    def flush(self) -> None:
        """Make what was added durable."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(self._unwritten))
            file.flush()
            os.fsync(file.fileno())
        self._unwritten.clear()

    def back_to(self, round_: int | None) -> None:
        """Keep the lines up to a checkpoint, or see that there are none without one."""
        path = self.path
        if round_ is None and path.exists() and path.stat().st_size:
            raise RunError(f"{path} tells of rounds, but there is no checkpoint; delete {path.parent} to start anew")
        kept = []
        for raw in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError):  # a line cut off by the crash
                line = read_line(raw)
                if line.round <= (round_ or 0):
                    kept.append(raw)
                    self.lines.append(line)
        if len(kept) < (round_ or 0):
            raise RunError(
                f"{path}: {len(kept)} of {round_} rounds are there; the journal was changed since the checkpoint"
            )
        write(path, "".join(f"{raw}\n" for raw in kept).encode())

    @property
    def evaluated(self) -> Round | None:
        """The last round that has figures."""
        return next((line for line in reversed(self.lines) if line.metrics), None)

    def values(self, metric: str) -> list[float]:
        """A figure in all rounds that have it."""
        return [line.metrics[metric] for line in self.lines if metric in line.metrics]

    def reached(self, metric: str, target: float) -> int | None:
        """The first round whose figure met the target."""
        for line in self.lines:
            value = line.metrics.get(metric)
            if value is not None and not better(metric, target, value):
                return line.round
        return None

    def first_best(self, metric: str, until: int) -> int | None:
        """The first of the rounds with the best value of a figure, up to this one."""
        values = [(line.round, line.metrics[metric]) for line in self.lines if metric in line.metrics]
        best: tuple[int, float] | None = None
        for at, value in values:
            if at <= until and (best is None or better(metric, value, best[1])):
                best = at, value
        return best[0] if best else None

    def best(self) -> dict[str, BestFigure]:
        """Per figure its best value, and the round of it: the highest, or the lowest of what should be low."""
        best: dict[str, BestFigure] = {}
        for line in self.lines:
            for name, value in line.metrics.items():
                if not name.endswith("examples") and (name not in best or better(name, value, best[name].value)):
                    best[name] = BestFigure(value=value, round=line.round)
        return best
