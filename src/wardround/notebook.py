"""`wardround.run`: a study from Python or a notebook, with the command line's progress and run folder.

result = wardround.run("study.toml")                  # how one run ended
table = wardround.run("grid.toml", workers=4)         # a row per cell of a grid, or seed
table[["method", "seed", "accuracy"]]                 # pandas, if it is there
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.cli.progress import Grid, Single
from wardround.core.refusal import Refusal
from wardround.federation.sites import Sites
from wardround.reports.page import write_report
from wardround.runs.errors import RunError
from wardround.runs.files import METRICS
from wardround.runs.loop import run as run_rounds
from wardround.runs.sweep import CellState, sweep
from wardround.study.grid import label_of
from wardround.study.load import Cell, Study, cells, load_study


@dataclass(frozen=True)
class ResultTable:
    """Rows of a grid where there is no pandas: a column by its name, a row by its number."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            return dict(zip(self.columns, self.rows[key], strict=True))
        if key not in self.columns:
            raise KeyError(f"there is no column {key!r}; the columns are {', '.join(self.columns)}")
        return [row[self.columns.index(key)] for row in self.rows]

    def __str__(self) -> str:
        cells = [self.columns, *([_shown(value) for value in row] for row in self.rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.columns))]
        return "\n".join("  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)) for row in cells)

    __repr__ = __str__


def run(
    study: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    workers: int = 1,
    resume: bool = False,
    quiet: bool = False,
    report: bool = True,
) -> Any:
    """Run a study (a TOML file, or its tables as a dict) and return how it ended.

    The run folder is `out`, or runs/NAME; `resume` goes on where a stopped run left off. One run gives a `Result`; a
    study with a grid or several seeds a table with a row per cell, of which `workers` go on side by side: a pandas
    DataFrame if pandas is installed, else a `Table`.
    """
    listed = cells(study, folder=Path.cwd()) if isinstance(study, Mapping) else load_study(Path(study))
    folder = Path(out) if out else Path("runs") / listed[0].study.name
    ended = _single if len(listed) == 1 else _grid
    result = ended(listed, folder, workers=workers, resume=resume, quiet=quiet)
    if report:
        write_report([folder], folder / "report.html")
    return result


def _single(listed: Sequence[Cell], folder: Path, *, workers: int, resume: bool, quiet: bool) -> Any:
    with Single(listed[0].study, quiet=quiet, out=folder) as progress:
        return run_rounds(
            listed[0].study, folder, workers=workers, resume=resume, progress=progress.line, show=progress.doing
        )


def _grid(listed: Sequence[Cell], folder: Path, *, workers: int, resume: bool, quiet: bool) -> Any:
    with Grid(listed, quiet=quiet) as grid:
        states = sweep(listed, folder, workers=workers, resume=resume, work=_cell, watch=grid.show)
    if failed := [state for state in states if state.failed]:
        first = f"{failed[0].cell.label}: {' '.join(failed[0].failed.split())}"
        raise RunError(f"{len(failed)} of {len(states)} cells failed ({first}); mend it and go on with resume=True")
    rows = [_row(state) for state in states]
    if importlib.util.find_spec("pandas") is not None:
        return importlib.import_module("pandas").DataFrame(rows)
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    return ResultTable(columns, tuple(tuple(row.get(name) for name in columns) for row in rows))


def _cell(study: Study, folder: Path, corpus: Sites | None) -> None:
    """Run one cell in a process of its own, whose last words go where the grid reads them."""
    try:
        run_rounds(study, folder, resume=True, corpus=corpus)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the other cells go on
        words = str(error) if isinstance(error, Refusal) else type(error).__name__  # its text could quote a note
        os.write(2, words.encode())
        raise SystemExit(1) from None


def _row(state: CellState) -> dict[str, Any]:
    """What a cell is, and how it ended."""
    metrics = METRICS.read(state.folder)
    if metrics is None:
        raise RunError(f"{state.folder}: has no metrics.json, though its run has ended; go on with resume=True")
    chosen = {key: value for key, value in state.cell.choices.items() if key != "seed"}
    plain = {key: value for key, value in chosen.items() if isinstance(value, str | int | float)}
    what = {"cell": label_of(chosen) or metrics.study, **plain, "method": metrics.method, "seed": metrics.seed}
    what.pop("method.name", None)
    chosen_round = {"chosen": metrics.chosen} if metrics.chosen else {}
    ended = {"rounds": metrics.rounds, **chosen_round, "signs": "; ".join(metrics.signs), "folder": str(state.folder)}
    return {**what, **metrics.final, **ended}


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
