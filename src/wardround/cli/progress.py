"""How far a run is: a bar or a table on a terminal or in a notebook (with `ipywidgets`), plain lines elsewhere."""

import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from wardround.core.doing import OUTSIDE, clock, read_notice
from wardround.runs.files import Round, read_journal
from wardround.runs.sweep import CellState
from wardround.study.load import Cell, Study

LINE_SECONDS = 5.0


def headline(metrics: dict[str, float], signs: Sequence[str] = ()) -> str:
    """The first metric, of the test split if there is one, or nothing yet, and what looks wrong with the model."""
    names = sorted(metrics, key=lambda name: name.startswith(("train_", "valid_")))
    first = f"{names[0]} {metrics[names[0]]:.4f}" if names else ""
    return f"{first} ({'; '.join(signs)})" if signs else first


class _Shown:
    """A rich display where it can be drawn anew; elsewhere a line every few seconds; with `quiet`, nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self.console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        widgets = self.console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        self.rich = not quiet and (self.console.is_terminal or widgets)
        self.plain = not quiet and not self.rich
        self.last = 0.0
        self.display: Any

    def __enter__(self) -> Self:
        if self.rich:
            self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.rich:
            self.display.stop()

    def due(self, *, over: bool) -> bool:
        """Whether another plain line is due."""
        now = time.monotonic()
        if not self.plain or (now - self.last < LINE_SECONDS and not over):
            return False
        self.last = now
        return True


class Single(_Shown):
    """One run's bar: round, metric, megabytes, time left."""

    def __init__(self, study: Study, *, quiet: bool, out: Path | None = None) -> None:
        super().__init__(quiet=quiet)
        self.study, self.out, self.best, self.signs, self.at = study, out, "", "", ""
        self.up: int | None = None
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self.display = Progress(*columns, console=self.console, disable=not self.rich)
        self.task = self.display.add_task(study.name, total=study.rounds, words="")

    def doing(self, words: str) -> None:
        """Take in what the run is at; once there are figures, these say more, unless it waits for its window."""
        outside = words.startswith(OUTSIDE)
        if (self.best and not outside) or words == self.at:
            return
        self.at = words
        self.display.update(self.task, words=words)
        if self.due(over=outside):
            self.console.print(f"{self.study.name}: {words}", soft_wrap=True)

    def tell(self, words: str) -> None:
        """Print what is doubtful about the data."""
        if self.plain or self.rich:
            self.console.print(f"in the data: {words}", soft_wrap=True)

    def line(self, line: Round) -> None:
        """Take in a round."""
        if self.up is None:  # a run that is taken up again has sent something before
            earlier = read_journal(self.out) if self.out else ()
            self.up = sum(one.up for one in earlier if one.round < line.round)
        self.up += line.up
        self.best = headline(line.metrics) or self.best
        self.signs = "; ".join(line.signs) if line.metrics else self.signs
        words = f"{self.best}  {self.up / 1e6:.2f} MB up" + f"  ({self.signs})" * bool(self.signs)
        self.display.update(self.task, completed=min(line.round, self.study.rounds), words=words)
        for name, why in line.left_out.items() if self.plain or self.rich else ():
            self.console.print(f"round {line.round}: {name} left out ({why})", soft_wrap=True)
        if self.due(over=line.round >= self.study.rounds):
            far = (
                f"round {line.round}/{self.study.rounds}" if line.round <= self.study.rounds else "after the last round"
            )
            self.console.print(f"{self.study.name}: {far}  {words}", soft_wrap=True)


class Counter(_Shown):
    """How many texts are done, and how many in a second, on a terminal; elsewhere a line of what takes long."""

    def __init__(self, name: str, total: int | None, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"),
                   TimeElapsedColumn())  # fmt: skip
        self.display = Progress(*columns, console=self.console, disable=not self.rich, transient=True)
        self.task = self.display.add_task(name, total=total, words="")
        self.done, self.began = 0, time.monotonic()
        self.last = self.began

    def doing(self, words: str) -> None:
        """Take in how far the texts are that are under way."""
        if self.rich:
            self.display.update(self.task, words=f"{self.words()}  {words}")
        elif self.due(over=False):
            self.console.print(f"{self.display.tasks[0].description}: {self.words()}, {words}", soft_wrap=True)

    def step(self) -> None:
        """One more."""
        self.done += 1
        if self.rich:
            self.display.update(self.task, completed=self.done, words=self.words())

    def words(self) -> str:
        """The count and the rate."""
        rate = self.done / max(time.monotonic() - self.began, 1e-3)
        return f"{self.done:,} text{'s' * (self.done != 1)}, {rate:,.0f} texts/s"


class Grid(_Shown):
    """A grid's live table: each cell's round, metric, megabytes and time left, and that of all together."""

    def __init__(self, cells: Sequence[Cell], *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self.display = Live(console=self.console, auto_refresh=False, transient=True)  # no thread: cells are forked
        self.count = len(cells)
        self.began: tuple[float, int] | None = None

    def show(self, states: list[CellState]) -> None:
        """Take in how far the cells are."""
        if self.began is None:
            self.began = time.monotonic(), sum(state.round for state in states)
        done = sum(state.done for state in states)
        over = f"{done}/{self.count} cells done{self._left(states)}"
        if self.rich:
            self.display.update(self._table(states, over), refresh=True)
        if self.due(over=done == self.count):
            now = ", ".join(f"{s.cell.label} {_so_far(s)}" for s in states if s.process)
            self.console.print(f"{over}; {now}" if now else over, soft_wrap=True)

    def _left(self, states: list[CellState]) -> str:
        """The time that all cells will take, if rounds go on as they went since the start; they may not."""
        began, first = self.began or (0.0, 0)
        rounds = sum(state.cell.study.rounds - state.round for state in states if not state.done and not state.failed)
        did = sum(state.round for state in states) - first
        if did <= 0 or not rounds:
            return ""
        return f", about {clock((time.monotonic() - began) / did * rounds)} left"

    def _table(self, states: list[CellState], over: str) -> Table:
        table = Table("cell", "round", "metric", "MB up", "left", box=None)
        height = max(self.console.height - 4, 5)
        busy = [state for state in states if state.process]
        rest = [state for state in states if not state.process and (state.done or state.failed)]
        for state in [*rest[-max(height - len(busy), 0) :], *busy]:
            left = "failed" if state.failed else "done" if state.done else _left(state)
            rounds = f"{state.round}/{state.cell.study.rounds}"
            words = _headline(state) or (read_notice(state.folder) if state.process else "")
            table.add_row(state.cell.label, rounds, words, f"{state.up / 1e6:.2f}", left)
        waiting = len(states) - len(busy) - len(rest)
        if waiting:
            table.add_row(f"… and {waiting} waiting", "", "", "", "")
        table.caption, table.caption_justify = over, "left"
        return table


def _headline(state: CellState) -> str:
    return headline(state.line.metrics, state.line.signs)


def _left(state: CellState) -> str:
    gone, did = time.monotonic() - state.began, state.round - state.first
    if did <= 0:
        return "…"
    seconds = gone / did * (state.cell.study.rounds - state.round)
    return clock(seconds)


def _so_far(state: CellState) -> str:
    """The round and its figure; before there is one, what the cell is at."""
    far = f"{state.round}/{state.cell.study.rounds}"
    return f"{far} {_headline(state)}" if state.round else read_notice(state.folder) or far
