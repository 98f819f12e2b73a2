"""Run folders, read back: what was set, what was measured, what crossed the wire.

    runs = read_runs([Path("runs/demo")])       # a run, a sweep's folder of runs, or several of either

A run that was stopped, or is still running, has no `metrics.json`; then its journal tells how far it is. What cannot
be read is a `RunError` with the path, what is wrong and what to do.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wardround.reports.apart import labelled
from wardround.reports.record import RunRecord
from wardround.runs.errors import RunError
from wardround.runs.files import (
    COUNTS,
    CURVE,
    DATA,
    INTERVALS,
    JOURNAL,
    MEMBERS,
    METRICS,
    REFERENCES,
    current,
    read_journal,
    text_of,
)
from wardround.runs.wire import WIRE


def read_runs(paths: Sequence[Path]) -> tuple[RunRecord, ...]:
    """All runs under these folders, each once, with labels that tell them apart."""
    if not paths:
        raise RunError("report: no run is given; name at least one run folder")
    runs: dict[Path, RunRecord] = {}
    for path in paths:
        for folder in _folders(path):
            runs.setdefault(folder.resolve(), _read(folder, path.resolve().name))
    return labelled(tuple(runs.values()))


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sort key by which site-2 comes before site-10."""
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def _folders(path: Path) -> Iterator[Path]:
    """The run folders that a path stands for: itself, or those in it."""
    if not path.exists():
        raise RunError(f"{path}: there is no such folder; check the path")
    if not path.is_dir():
        raise RunError(f"{path}: is a file; give the run folder, which holds study.toml")
    if (path / "study.toml").exists():
        yield path
        return
    below = sorted((study.parent for study in path.glob("*/study.toml")), key=lambda folder: natural(folder.name))
    if not below:
        near = next((str(study.parent.parent) for study in sorted(path.glob("*/*/study.toml"))), None)
        remedy = f"did you mean {near}?" if near else "give a folder that `wardround run` has made"
        raise RunError(f"{path}: holds no run: neither study.toml nor folders with one; {remedy}")
    yield from below


def _read(folder: Path, origin: str) -> RunRecord:
    path = folder / "study.toml"
    toml = text_of(path)
    try:
        study = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"{path}: is not valid TOML ({error}); restore it, or run the study again") from None
    for table in ("method", "corpus"):
        if not isinstance(study.get(table), dict) or not study[table].keys() & {"name", "format"}:  # files have no name
            raise RunError(f"{path}: has no [{table}] with a name; give a folder that `wardround run` has made")
    start, metrics, lines = current(folder), METRICS.read(folder), read_journal(folder)
    if metrics is not None and not lines:
        raise RunError(f"{folder / JOURNAL}: is missing or empty, though the run finished; restore it")
    mark, name = folder / "fingerprint", folder.resolve().name
    record = RunRecord(
        name, origin, name, "", study, toml, lines, start, metrics, DATA.read(folder), WIRE.read(folder) or (),
        text_of(mark).strip() if mark.exists() else "", (), REFERENCES.read(folder) or {},
        members=tuple(MEMBERS.read(folder) or ()),
    )  # fmt: skip
    at = record.last.round if record.last else None  # of any other round: left from before it was raised, or the best
    curve, tally, intervals = CURVE.read(folder), COUNTS.read(folder), INTERVALS.read(folder)
    return replace(
        record,
        pr=curve.points if curve and curve.round == at else (),
        tally=tally if tally and tally.round == at else None,
        intervals=intervals if intervals and intervals.round == at else None,
    )
