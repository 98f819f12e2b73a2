"""One run folder as it is now, and what has changed since the last look; the run may be going on, over, or gone.

    run = WatchedRun(folder)
    run.look()
    run.state, run.round, run.sites, run.curves, run.log

Rules of this file:
1. It only reads; nothing that is missing, broken or deleted meanwhile is an error, but something to say (`problem`).
2. Memory does not grow with the rounds: curves are thinned, events and absences are counted.
3. No torch here.
"""

import time
import tomllib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from wardround.core.doing import OUTSIDE, WAITING, read_asked, read_notice
from wardround.core.lock import held
from wardround.core.tail import Tail
from wardround.metrics.defined import lower_is_better
from wardround.runs.errors import RunError
from wardround.runs.files import (
    DATA,
    JOURNAL,
    LOCK,
    METRICS,
    SITES,
    START,
    Bytes,
    Data,
    GreetedSite,
    Metrics,
    Round,
    Start,
    read_line,
)  # fmt: skip
from wardround.runs.stopping import stop_asked
from wardround.watch.curve import ThinnedCurve
from wardround.watch.events import Event, Log

T = TypeVar("T")
State = Literal["waiting", "running", "stopped", "finished", "gone", "unreadable"]
RECENT = 20  # rounds whose time tells how long the next will take
REASONS = 100  # for which sites were left out, that are counted
FIGURES = 60  # that are followed; of hundreds of classes, each has its own


@dataclass
class Absence:
    """How often a site was left out, and why the last time."""

    rounds: int = 0
    last: int = 0
    why: str = ""


@dataclass
class JournalSoFar:
    """What the journal has told so far."""

    line: Round = field(default_factory=lambda: Round(round=0))
    curves: dict[str, ThinnedCurve] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Bytes.model_fields, 0))
    absences: dict[str, Absence] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    """By reason, how often a site was left out."""
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    out: dict[str, str] = field(default_factory=dict)
    """Who is left out now, and why."""
    took: float = 0.0
    signs: tuple[str, ...] = ()


class WatchedRun:
    """One run, followed."""

    def __init__(self, folder: Path, label: str = "", planned: int = 0, now: Callable[[], float] = time.time) -> None:
        self.folder, self.label, self.now = folder, label or folder.resolve().name, now
        self.planned = planned
        """How many rounds it will have, where it is a cell of a grid that may not have begun."""
        self.seen, self.log = JournalSoFar(), Log()
        self.study: Mapping[str, Any] = {}
        self.start: Start | None = None
        self.metrics: Metrics | None = None
        self.data: Data | None = None
        self.members: Mapping[str, GreetedSite] = {}
        self.asked: Mapping[str, Any] = {}
        self.doing, self.problem = "", ""
        self.state: State = "waiting"
        self.stopping = False
        self.heard: dict[str, float] = {}
        """When each real site last answered."""
        self._live = False
        self._journal = Tail(folder / JOURNAL, self._forget)
        self._stamps: dict[str, tuple[int, int]] = {}

    # what is shown

    @property
    def name(self) -> str:
        """The study's name."""
        return str(self.study.get("name", self.label))

    @property
    def rounds(self) -> int:
        """How many rounds the study has."""
        return int(self.study.get("rounds", self.planned))

    @property
    def round(self) -> int:
        """The last round that is done; [finish], which has a line of its own, is not one."""
        return min(self.seen.line.round, self.rounds) if self.rounds else self.seen.line.round

    @property
    def pace(self) -> float | None:
        """Seconds that a round takes, of late."""
        recent = self.seen.seconds
        return sum(recent) / len(recent) if recent else None

    @property
    def left(self) -> float | None:
        """Seconds until the last round, if rounds go on as they went; they may not."""
        if self.state != "running" or self.pace is None or not self.rounds:
            return None
        return self.pace * (self.rounds - self.round)

    @property
    def main(self) -> str:
        """The figure that says most: that of the test split which is no loss, if there is one."""
        names = sorted(self.seen.curves, key=rank)
        return names[0] if names else ""

    # how it comes about

    def look(self) -> None:
        """Read what has changed."""
        before = self.state
        if not self.folder.is_dir() and self.planned and not self.study and self.folder.parent.is_dir():
            self.state = "waiting"
        elif not self.folder.is_dir():
            self.state, self.problem = "gone", f"{self.folder} is not there any more; it was moved or deleted"
            self._stamps.clear()
        else:
            self.problem = ""
            try:
                self._read()
            except RunError as error:
                self.problem = str(error)
            except OSError as error:  # deleted while it is read, say
                self.problem = f"{self.folder} cannot be read: {error.strerror}"
            self.state = self._state()
        if self._live and before != self.state:
            self._changed(before)
        self._live = True

    def _read(self) -> None:
        self.study = self._fresh("study.toml", lambda: _study(self.folder), self.study) or {}
        self.start = self._fresh(START.name, lambda: START.read(self.folder), self.start)
        self.data = self._fresh(DATA.name, lambda: DATA.read(self.folder), self.data)
        self.members = self._fresh(SITES.name, lambda: SITES.read(self.folder), self.members) or {}
        self.metrics = self._fresh(METRICS.name, lambda: METRICS.read(self.folder), self.metrics)
        self.doing, self.asked = read_notice(self.folder), read_asked(self.folder)
        self.stopping = stop_asked(self.folder)
        self.heard |= {str(name): float(when) for name, when in dict(self.asked.get("answered") or {}).items()}
        for raw in self._journal:
            try:
                self._take(read_line(raw))
            except ValueError:
                self.problem = f"{self.folder / JOURNAL}: a line cannot be read, and is passed over"

    def _fresh(self, name: str, read: Callable[[], T | None], before: T | None) -> T | None:
        """What a file holds, read again only if it is another than at the last look."""
        try:
            state = (self.folder / name).stat()
        except FileNotFoundError:
            self._stamps.pop(name, None)
            return None
        stamp = state.st_mtime_ns, state.st_size
        if self._stamps.get(name) == stamp:
            return before
        value = read()
        self._stamps[name] = stamp
        return value

    def _state(self) -> State:
        locked = held(self.folder / LOCK)
        if not self.study and self.members and locked is False:  # it waited for its sites, and was ended
            return "stopped"
        if not self.study or self.doing.startswith((OUTSIDE, WAITING)):
            return "waiting" if self.members or not self.problem else "unreadable"
        early = bool(dict(self.study.get("stop") or {}).get("early", True))
        if locked or (locked is None and self.doing):
            return "running"
        ended = self.metrics is not None and self.metrics.ended(self.rounds, early=early)
        if ended and self.metrics and self.metrics.rounds + ("finish" in self.study) >= self.seen.line.round:
            return "finished"
        return "stopped" if self.seen.line.round or self.start else "waiting"

    def _changed(self, before: State) -> None:
        words = {
            "running": ("it runs", "good"), "finished": ("it has finished", "good"), "gone": (self.problem, "bad"),
            "stopped": ("it has stopped before its last round; go on with --resume", "bad"),
            "waiting": (self.doing or "it waits", ""), "unreadable": (self.problem, "bad"),
        }  # fmt: skip
        text, weight = words[self.state]
        if self.state == "finished" and self.metrics:
            text = f"finished: {self.metrics.stopped}"
        if (before, self.state) != ("waiting", "running") or self.seen.line.round:
            self.log.add(Event(text, self.now(), self.round or None, weight))

    def _forget(self) -> None:
        """The journal was cut back to a checkpoint, and is read again from its start."""
        again = self.seen.line.round
        self.seen = JournalSoFar()
        if again and self._live:
            self.log.add(Event("taken up again from a checkpoint", self.now()))

    def _take(self, line: Round) -> None:
        """One more round."""
        seen, now = self.seen, line.ended
        seen.line = line
        seen.took += line.seconds
        seen.seconds.append(line.seconds)
        for key in seen.bytes:
            seen.bytes[key] += getattr(line, key)
        for name, value in line.metrics.items():
            if not name.endswith("examples") and (name in seen.curves or len(seen.curves) < FIGURES):
                seen.curves.setdefault(name, ThinnedCurve()).add(line.round, value, lower=lower_is_better(name))
        self._absent(line, now)
        if line.signs and line.signs != seen.signs:
            self.log.add(Event("; ".join(line.signs), now, line.round, "bad"))
        if line.metrics:
            seen.signs = line.signs

    def _absent(self, line: Round, now: float | None) -> None:
        """Who was left out of this round, and who is back."""
        seen = self.seen
        for site, why in line.left_out.items():
            absence = seen.absences.setdefault(site, Absence())
            absence.rounds, absence.last, absence.why = absence.rounds + 1, line.round, why
            if why in seen.refusals or len(seen.refusals) < REASONS:
                seen.refusals[why] = seen.refusals.get(why, 0) + 1
            if seen.out.get(site) != why:
                self.log.add(Event(f"{site} was left out ({why})", now, line.round, "bad"))
        everyone = line.asked and (self.data is None or line.asked >= self.data.count)
        if everyone and line.ended is not None:
            answered = self.members.keys() - line.left_out.keys()
            self.heard |= {site: max(line.ended, self.heard.get(site, 0.0)) for site in answered}
        for site in [*seen.out] if everyone else ():  # where some are drawn, who was not asked is not back
            if site not in line.left_out:
                self.log.add(Event(f"{site} is back", now, line.round, "good"))
                del seen.out[site]
        seen.out |= line.left_out


def rank(name: str) -> tuple[bool, bool, bool]:
    """By which figures are put in order: the test split first, losses and single classes last."""
    return name.startswith(("train_", "valid_")), lower_is_better(name), name.endswith("]")


def _study(folder: Path) -> dict[str, Any]:
    path = folder / "study.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: is not valid TOML ({error}); restore it, or run the study again") from None
