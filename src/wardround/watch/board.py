"""What a page shows: a title and parts, made anew at each look; and the board of runs and grids.

    board = RunBoard([Path("runs/demo")])
    board.look()
    board.view("")                   # the one run, or the table of all
    board.view("3")                  # the fourth of them

A board of another kind (a coordinator's, a hospital's) has the same four methods.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wardround.metrics.defined import better
from wardround.reports.figures import named
from wardround.reports.html import Html, bytes_of, count, figure, join, plural, table, tag
from wardround.reports.read import natural
from wardround.runs.errors import RunError
from wardround.runs.files import GRID, SITES
from wardround.runs.stopping import ask_to_stop, stop_asked
from wardround.watch import parts
from wardround.watch.events import Event, Log
from wardround.watch.gauges import Reading, run_samples
from wardround.watch.run import WatchedRun
from wardround.watch.sites import sites_of
from wardround.watch.words import STATES, left, span

DRAWN = 12  # runs whose curves one chart can hold
GAP = 30.0  # seconds after a cell's last round in which the next may be about to begin


@dataclass(frozen=True)
class Section:
    """One section of a page."""

    id: str
    title: str
    markup: Html


@dataclass(frozen=True)
class View:
    """A page: what it is about, and its parts in order."""

    over: str
    title: str
    parts: tuple[Section, ...]
    news: str = ""
    """The newest event, to be read out."""


class Board(Protocol):
    """Something to be watched."""

    def look(self) -> None:
        """Take in what has changed."""

    def view(self, place: str) -> View | None:
        """The page at a place, or none."""

    def stop(self, place: str) -> bool:
        """Have the run at a place end after its round; whether there is such a run."""

    def samples(self) -> Iterable[Reading]:
        """What other programs may know, as numbers."""


class RunBoard:
    """Runs and grids of runs, followed."""

    def __init__(
        self, paths: Sequence[Path], *, stoppable: bool = True, called: Callable[[Path], str] = lambda _: ""
    ) -> None:
        self.paths, self.stoppable, self.called = list(paths), stoppable, called
        self.runs: dict[Path, WatchedRun] = {}
        self.presence: Mapping[str, Mapping[str, Any]] = {}
        """What a coordinator's own process knows of sites, where there is one."""
        for path in paths:
            if not path.is_dir():
                what = "is a file; give the run folder" if path.exists() else "there is no such folder; check the path"
                raise RunError(f"{path}: {what}")
            if not any(_cells(path)):
                raise RunError(f"{path}: holds no run, nor a grid of them; give a folder that `wardround run` has made")
        self._gather()

    @property
    def whole(self) -> bool:
        """Whether this is one run, and not several."""
        return len(self.paths) == 1 and not self.grids

    @property
    def grids(self) -> list[Path]:
        """Those of the paths that are folders of runs."""
        return [path for path in self.paths if not _single(path) and path.resolve() not in self.runs]

    def look(self) -> None:
        """Take in what the runs have done; cells that have begun since are runs as well."""
        self._gather()
        for run in self.runs.values():
            run.look()

    def _gather(self) -> None:
        for path in self.paths:
            for folder, label, rounds in _cells(path):
                self.runs.setdefault(
                    folder.resolve(), WatchedRun(folder, label or self.called(folder.resolve()), rounds)
                )

    def view(self, place: str) -> View | None:
        """The run at a place; without one, the only run or the table of all."""
        runs = list(self.runs.values())
        if not place:
            return self._one(runs[0], "0") if self.whole else self._all(runs)
        return self._one(runs[int(place)], place) if place.isdecimal() and int(place) < len(runs) else None

    def stop(self, place: str) -> bool:
        """Ask for the end of a run, or of a grid (`grid-0`)."""
        kind, _, number = place.rpartition("-")
        folders = self.grids if kind == "grid" else [run.folder for run in self.runs.values()]
        if not self.stoppable or not number.isdecimal() or int(number) >= len(folders):
            return False
        ask_to_stop(folders[int(number)])
        return True

    def samples(self) -> Iterator[Reading]:
        """The numbers of each run."""
        for run in self.runs.values():
            yield from run_samples(run)

    def _one(self, run: WatchedRun, place: str) -> View:
        method = str(dict(run.study.get("method") or {}).get("name", ""))
        over = " · ".join(part for part in (method, run.label if run.label != run.name else "") if part)
        shown = (
            Section("state", "", parts.state(run, stop=place if self.stoppable else "")),
            Section("figures", "Figures", parts.figures(run)),
            Section("sites", "Sites", parts.sites(sites_of(run, self.presence))),
            Section("bytes", "Bytes", parts.wire(run)),
            Section("refused", "Refused and left out", parts.refused(run.seen.refusals)),
            Section("log", "What happened", parts.log(run.log)),
        )
        return View(over or "run", run.name, shown, _news(run))

    def _all(self, runs: Sequence[WatchedRun]) -> View:
        states = [run.state for run in runs]
        done = states.count("finished")
        title = ", ".join(dict.fromkeys(run.name for run in runs if run.study)) or self.paths[0].resolve().name
        shown = (
            Section("state", "", self._summary(runs, done)),
            Section("figures", "Figures", self._chart(runs)),
            Section("cells", "Runs", runs_table(runs)),
            Section("log", "What happened", parts.log(_merged(runs))),
        )
        newest = max((one for run in runs for one in list(run.log.lines)[-1:] if one.time), key=_when, default=None)
        return View("runs", title, shown, newest.text if newest else "")

    def _summary(self, runs: Sequence[WatchedRun], done: int) -> Html:
        words: list[object] = [tag("p", f"{count(done)} of {plural(len(runs), 'run')} finished", class_="lead")]
        words.append(tag("progress", max=len(runs), value=done, aria_label="runs finished"))
        busy = [run for run in runs if run.state == "running"]
        paces = [run.pace for run in runs if run.pace]
        open_ = bool(busy) or _between(runs)
        if open_:
            rest = sum(run.rounds - run.round for run in runs if run.state in ("running", "waiting"))
            seconds = rest * sum(paces) / len(paces) / max(len(busy), 1) if paces else 0.0
            about = f", about {span(seconds)} left" if paces else ""
            words.append(tag("p", f"{plural(len(busy), 'run')} at work{about}", class_="soft"))
        for number, folder in enumerate(self.grids if self.stoppable and open_ else ()):
            if stop_asked(folder):
                words.append(tag("p", f"{folder.name} will stop after the rounds under way.", class_="notice"))
                continue
            label = f"Stop {folder.name} after these rounds …" if len(self.grids) > 1 else "Stop after these rounds …"
            button = tag("button", label, type="button", data_stop=f"grid-{number}", data_name=folder.name)
            words.append(tag("p", button, class_="row"))
        return join(words)

    def _chart(self, runs: Sequence[WatchedRun]) -> Html:
        measured = [run for run in runs if run.main]
        if not measured:
            return tag("p", "No round has been evaluated yet.", class_="soft")
        metric = measured[0].main
        lines = [(run.label, run.seen.curves[metric].drawn) for run in measured if metric in run.seen.curves]
        if len(lines) <= DRAWN:
            return tag("div", parts.chart(lines, metric), class_="pair")
        best = measured[0]
        for run in measured[1:]:
            one, other = run.seen.curves.get(metric), best.seen.curves[metric]
            if one and one.best and other.best and better(metric, one.best[1], other.best[1]):
                best = run
        value = best.seen.curves[metric].best
        words = (
            f"Best so far: {best.label}, {named(metric)} {figure(value[1])} in round {count(value[0])}."
            if value
            else ""
        )
        return tag("p", words)


def runs_table(runs: Sequence[WatchedRun]) -> Html:
    """Each run in a row, as far as it is."""
    metric = next((run.main for run in runs if run.main), "")
    rows = []
    for number, run in enumerate(runs):
        curve = run.seen.curves.get(metric)
        name = run.label if run.planned or run.label == run.name else f"{run.name} ({run.label})"
        begun = bool(run.study or run.members)
        link = tag("a", name, href=f"/run/{number}") if begun else name
        state = tag("span", STATES[run.state], class_=f"badge {run.state}")
        bar = tag("progress", max=max(run.rounds, 1), value=run.round, aria_hidden="true")
        rows.append((
            link, state, join([bar, f" {count(run.round)}/{count(run.rounds)}"]) if run.study else "",
            figure(curve.last[1]) if curve and curve.last else "—",
            figure(curve.best[1]) if curve and curve.best else "—",
            bytes_of(run.seen.bytes["up"]) if run.seen.line.round else "—",
            left(run).partition(";")[0].removeprefix("about ").removesuffix(" left"),
        ))  # fmt: skip
    head = ("run", "state", "round", named(metric) if metric else "figure", "best", "from sites", "time left")
    return table("How far each run is", head, rows, words=3)


def _single(path: Path) -> bool:
    return (path / "study.toml").exists() or SITES.exists(path)


def _cells(path: Path) -> Iterator[tuple[Path, str, int]]:
    """The folders of runs that a path stands for, with labels and planned rounds: itself, a grid's cells, or others."""
    if _single(path):
        yield path, "", 0
        return
    try:
        planned = GRID.read(path) or []
    except RunError:
        planned = []
    yield from ((path / cell.folder, cell.label, cell.rounds) for cell in planned)
    known = {cell.folder for cell in planned}
    below = (study.parent for study in path.glob("*/study.toml") if study.parent.name not in known)
    yield from ((folder, "", 0) for folder in sorted(below, key=lambda folder: natural(folder.name)))


def _when(event: Event) -> float:
    return event.time or 0.0


def _between(runs: Sequence[WatchedRun]) -> bool:
    """Whether one run has just ended and the next is about to begin: the button stays, and who is on it by keyboard."""
    last = max((run.seen.line.ended or 0.0 for run in runs), default=0.0)
    return any(run.state == "waiting" for run in runs) and time.time() - last < GAP


def _merged(runs: Sequence[WatchedRun]) -> Log:
    """The events of all runs, in the order of their times."""
    merged = Log()
    events = [(run, event) for run in runs for event in run.log.lines]
    for run, event in sorted(events, key=lambda pair: _when(pair[1])):
        merged.add(Event(f"{run.label}: {event.text}", event.time, event.round, event.weight))
    return merged


def _news(run: WatchedRun) -> str:
    last = run.log.lines[-1] if run.log.lines else None
    return last.text if last and last.time else ""
