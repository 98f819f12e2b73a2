"""Many cells of a grid side by side, each in a process of its own, forked from this one: torch is imported once.

A cell is an ordinary run in a folder of its own, as of `wardround run … --resume`: killing any of them, or this
process, loses nothing that a second `--resume` does not find. Progress is read from the cells' journals. A corpus that
several cells have is read or generated once, before the first of them.
"""

import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from wardround.core.files import file_name, write
from wardround.core.tail import Tail
from wardround.engines.fork import Child
from wardround.federation.sites import Sites, opened
from wardround.runs.errors import RunError
from wardround.runs.files import GRID, JOURNAL, METRICS, REFERENCES, Planned, Round, read_line
from wardround.runs.folder import finished, make_folder, refuse_other
from wardround.runs.stopping import ask_to_stop, forget_stop, leave_if_asked, stop_asked
from wardround.study.grid import label_of
from wardround.study.load import Cell, Study

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

    def __post_init__(self) -> None:
        self._journal = Tail(self.folder / JOURNAL, self._forget)

    @property
    def round(self) -> int:
        """The last round in its journal; [finish], which has a line of its own, is none."""
        return min(self.line.round, self.cell.study.rounds)

    @property
    def done(self) -> bool:
        """Whether it has ended well."""
        return METRICS.exists(self.folder) and self.process is None and not self.failed

    def look(self) -> None:
        """Read what its journal has gained."""
        for raw in self._journal:
            self.line = read_line(raw)
            self.up += self.line.up

    def _forget(self) -> None:
        """The journal was cut back by a resume, which writes it anew."""
        self.up = 0


def sweep(
    cells: Sequence[Cell],
    out: Path,
    *,
    workers: int,
    resume: bool,
    work: Callable[[Study, Path, Sites | None], None],
    watch: Callable[[list[CellState]], None] | None = None,
) -> list[CellState]:
    """Run all cells, `workers` at a time; what is finished already is left as it is.

    `work` runs a study in a folder, on a corpus that has been read if others have the same.
    """
    states, corpora = _claimed(cells, out, resume=resume), _Corpora(cells)
    forget_stop(out)
    for state in states:
        state.look()  # what is done already is not done now: time left is reckoned from here
    waiting = iter(states)
    running: list[CellState] = []
    try:
        while True:
            running = [state for state in running if not _ended(state)]
            for state in _next(waiting, 0 if _stopping(out, running) else workers - len(running)):
                state.look()
                state.first, state.began = state.round, time.monotonic()
                state.process = _start(state, work, corpora.take(state.cell.study))
                running.append(state)
            for state in running:
                state.look()
            if watch:
                watch(states)
            if not running:
                return _all_done(out, states)
            _wait(running)
    finally:
        for state in running:
            if state.process:
                state.process.send(signal.SIGTERM)
                state.process.wait()


def _stopping(out: Path, running: Sequence[CellState]) -> bool:
    """Whether somebody asked for the end; the cells that are running are told."""
    asked = stop_asked(out)
    for state in running if asked else ():
        ask_to_stop(state.folder)
    return asked


def _all_done(out: Path, states: list[CellState]) -> list[CellState]:
    if not all(state.done for state in states):
        leave_if_asked(out, "before all cells were done")
    return states


class _Corpora:
    """What several cells read: held from the first of them that begins to the last."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.left = [_read_by(cell.study) for cell in cells]
        self.held: list[tuple[tuple[Any, bool], Sites]] = []

    def take(self, study: Study) -> Sites | None:
        """The corpus of a cell that is about to begin, if others after it have the same."""
        wanted = _read_by(study)
        self.left.remove(wanted)
        known = next((sites for read, sites in self.held if read == wanted), None)
        if known is None and wanted in self.left:
            known = opened(wanted[0], valid=wanted[1])
            with suppress(ValueError, LookupError, OSError):  # which each cell tells of its own
                known.pool() if known.split else known.read()
                if known.split and known.tried:
                    known.split("valid")
            self.held.append((wanted, known))
        self.held = [(read, sites) for read, sites in self.held if read in self.left]
        return known


def _read_by(study: Study) -> tuple[Any, bool]:
    """What a study reads: its corpus, and whether with the validation split."""
    return study.corpus, "valid" in study.evaluation.splits


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
    planned = [Planned(label=s.cell.label, folder=s.folder.name, rounds=s.cell.study.rounds) for s in states]
    if GRID.read(out) != planned:
        GRID.write(out, planned)
    return states


def _next(waiting: Iterator[CellState], room: int) -> Iterator[CellState]:
    for _ in range(room):
        state = next((state for state in waiting if not _is_finished(state)), None)
        if state is None:
            return
        yield state


def _is_finished(state: CellState) -> bool:
    state.look()
    study = state.cell.study
    result = finished(study, state.folder, state.line.round - (study.finish is not None))
    if result is not None and result.rounds <= study.rounds:
        _written(state)
    return result is not None


def _written(state: CellState) -> None:
    """The cell's study in its folder, as it is now: more rounds than before, say, or a description."""
    path, text = state.folder / "study.toml", state.cell.study.toml().encode()
    if not path.exists() or path.read_bytes() != text:
        write(path, text)


def _start(state: CellState, work: Callable[[Study, Path, Sites | None], None], corpus: Sites | None) -> Child:
    state.errors = tempfile.TemporaryFile()  # noqa: SIM115 -- `_ended` closes it; a pipe that nobody reads fills up
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        return Child(partial(work, state.cell.study, state.folder, corpus), nothing, nothing, state.errors.fileno())
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
    """One row per combination of choices but the seed: mean and standard deviation over seeds.

    Cells that ended after different rounds have rows of their own: what is not alike has no mean. Where validation
    chose the round of each, and each was at its end, they are alike.
    """
    groups: dict[str, dict[int, list[CellState]]] = {}
    for state in states:
        rest = {key: value for key, value in state.cell.choices.items() if key != "seed"}
        ended = METRICS.read(state.folder) if state.done else None
        rounds = 0 if ended is None else state.cell.study.rounds if ended.exhausted else ended.rounds
        groups.setdefault(json.dumps(rest, sort_keys=True), {}).setdefault(rounds, []).append(state)
    return [
        _row(json.loads(key), mine[rounds])
        for key, mine in groups.items()
        for rounds in sorted(mine)
        if rounds or len(mine) == 1  # what is not done has no row beside what is
    ]


def _row(choices: dict[str, Any], members: Sequence[CellState]) -> dict[str, Any]:
    done = [member.folder for member in members if member.done]
    metrics = [one for one in map(METRICS.read, done) if one]
    final = {name: _spread([one.final.get(name) for one in metrics]) for name in (metrics[0].final if metrics else ())}
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
    return {
        "references": references,
        "choices": choices,
        "label": label_of(choices) or members[0].cell.study.name,
        "seeds": [m.cell.study.seed for m in members if m.done],
        "rounds": sorted({one.rounds for one in metrics}),
        "final": final,
        "best": best,
        "rounds_to_target": [one.rounds_to_target for one in metrics],
        "up": statistics.fmean([one.bytes.up for one in metrics]) if metrics else None,
        "seconds": statistics.fmean([one.seconds for one in metrics]) if metrics else None,
    }


def _spread(values: Sequence[float | None]) -> dict[str, float]:
    known = [value for value in values if value is not None]
    if not known:
        return {}
    return {"mean": statistics.fmean(known), "sd": statistics.stdev(known) if len(known) > 1 else 0.0}
