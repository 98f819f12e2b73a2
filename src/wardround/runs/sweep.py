"""Many cells of a grid side by side, each in a process of its own, forked from this one: torch is imported once.

A cell is an ordinary run in a folder of its own, as of `wardround run … --resume`: killing any of them, or this
process, loses nothing that a second `--resume` does not find. Progress is read from the cells' journals.
"""

import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from wardround.core.files import file_name, write
from wardround.engines.fork import Child
from wardround.runs.errors import RunError
from wardround.runs.files import JOURNAL, METRICS, REFERENCES, Round, read_line
from wardround.runs.folder import finished, make_folder, refuse_other
from wardround.study.grid import label_of
from wardround.study.load import Cell

__all__ = ["CellState", "summary", "sweep"]

POLL_SECONDS = 0.5


@dataclass
class CellState:
    """How far one cell is."""

    cell: Cell
    folder: Path
    process: Child | None = None
    errors: IO[bytes] | None = None
    began: float = 0.0
    first: int = 0
    line: Round = field(default_factory=lambda: Round(round=0))
    up: int = 0
    failed: str = ""
    _read: int = 0

    @property
    def round(self) -> int:
        """The last round in its journal."""
        return self.line.round

    @property
    def done(self) -> bool:
        """Whether it has ended well."""
        return METRICS.exists(self.folder) and self.process is None and not self.failed

    def look(self) -> None:
        """Read what its journal has gained."""
        path = self.folder / JOURNAL
        if not path.exists():
            return
        if path.stat().st_size < self._read:  # cut back by a resume
            self._read, self.up = 0, 0
        with path.open("rb") as file:
            file.seek(self._read)
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                self._read += len(raw)
                self.line = read_line(raw.decode())
                self.up += self.line.up


def sweep(
    cells: Sequence[Cell],
    out: Path,
    *,
    workers: int,
    resume: bool,
    command: Callable[[list[str]], None],
    options: Sequence[str] = (),
    watch: Callable[[list[CellState]], None] | None = None,
) -> list[CellState]:
    """Run all cells, `workers` at a time; what is finished already is left as it is.

    `command` does what `wardround` does with these arguments; `options` are further ones of each `wardround run`.
    """
    states = _claimed(cells, out, resume=resume)
    waiting = iter(states)
    running: list[CellState] = []
    try:
        while True:
            running = [state for state in running if not _ended(state)]
            for state in _next(waiting, workers - len(running)):
                state.look()
                state.first, state.began = state.round, time.monotonic()
                state.process = _start(state, command, options)
                running.append(state)
            for state in running:
                state.look()
            if watch:
                watch(states)
            if not running:
                return states
            _wait(running)
    finally:
        for state in running:
            if state.process:
                state.process.send(signal.SIGTERM)
                state.process.wait()


def _wait(running: Sequence[CellState]) -> None:
    """Until one of these has ended, or it is time to look how far they are."""
    end = time.monotonic() + POLL_SECONDS
    while time.monotonic() < end and all(state.process and state.process.poll() is None for state in running):
        time.sleep(0.02)


def _claimed(cells: Sequence[Cell], out: Path, *, resume: bool) -> list[CellState]:
    """The cells in their folders, unless those hold anything else."""
    make_folder(out)
    if any(out.iterdir()) and not resume:
        raise RunError(f"{out} holds runs already; go on with --resume, or choose another --out")
    if (out / "study.toml").exists():
        raise RunError(f"{out} holds one run, and this study is a grid of {len(cells)}; choose another --out")
    states = [CellState(cell, out / file_name(cell.label)) for cell in cells]
    for state in states:
        refuse_other(state.cell.study, state.folder)
    return states


def _next(waiting: Iterator[CellState], room: int) -> Iterator[CellState]:
    for _ in range(room):
        state = next((state for state in waiting if not _is_finished(state)), None)
        if state is None:
            return
        yield state


def _is_finished(state: CellState) -> bool:
    state.look()
    done = finished(state.cell.study, state.folder, state.round) is not None
    if done and state.round <= state.cell.study.rounds:
        _written(state)
    return done


def _written(state: CellState) -> Path:
    """The cell's study in its folder, as it is now: more rounds than before, say, or a description."""
    path, text = state.folder / "study.toml", state.cell.study.toml().encode()
    if not path.exists() or path.read_bytes() != text:
        write(path, text)
    return path


def _start(state: CellState, command: Callable[[list[str]], None], options: Sequence[str]) -> Child:
    arguments = ["run", str(_written(state)), "--out", str(state.folder), "--workers", "1", "--resume", "--quiet"]
    state.errors = tempfile.TemporaryFile()  # noqa: SIM115 -- `_ended` closes it; a pipe that nobody reads fills up
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        return Child(partial(command, [*arguments, *options]), nothing, nothing, state.errors.fileno())
    finally:
        os.close(nothing)


def _ended(state: CellState) -> bool:
    assert state.process is not None  # noqa: S101 -- it was started
    assert state.errors is not None  # noqa: S101 -- likewise
    code = state.process.poll()
    if code is None:
        return False
    state.process = None
    state.look()
    with state.errors as file:
        file.seek(0)
        words = file.read().decode(errors="replace").strip()
    if code:
        state.failed = words or f"ended with code {code}"
    return True


def summary(states: Sequence[CellState]) -> list[dict[str, Any]]:
    """One row per combination of choices but the seed: mean and standard deviation over seeds."""
    groups: dict[str, list[CellState]] = {}
    for state in states:
        rest = {key: value for key, value in state.cell.choices.items() if key != "seed"}
        groups.setdefault(json.dumps(rest, sort_keys=True), []).append(state)
    rows = []
    for key, members in groups.items():
        done = [member.folder for member in members if member.done]
        metrics = [one for one in map(METRICS.read, done) if one]
        final = {
            name: _spread([one.final.get(name) for one in metrics]) for name in (metrics[0].final if metrics else ())
        }
        best = {
            name: _spread([one.best[name].value for one in metrics if name in one.best])
            for name in final
            if metrics and name in metrics[0].best
        }
        known = [REFERENCES.read(folder) or {} for folder in done]
        references = {
            name: {metric: _spread([t[name].get(metric) for t in known if name in t]) for metric in figures}
            for name, figures in (known[0].items() if known else ())
        }
        rows.append(
            {
                "references": references,
                "choices": json.loads(key),
                "label": label_of(json.loads(key)) or members[0].cell.study.name,
                "seeds": [m.cell.study.seed for m in members if m.done],
                "final": final,
                "best": best,
                "rounds_to_target": [one.rounds_to_target for one in metrics],
                "up": statistics.fmean([one.bytes.up for one in metrics]) if metrics else None,
                "seconds": statistics.fmean([one.seconds for one in metrics]) if metrics else None,
            }
        )
    return rows


def _spread(values: Sequence[float | None]) -> dict[str, float]:
    known = [value for value in values if value is not None]
    if not known:
        return {}
    return {"mean": statistics.fmean(known), "sd": statistics.stdev(known) if len(known) > 1 else 0.0}
