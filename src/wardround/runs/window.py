"""Waiting for the window in which a study's rounds may start (`[schedule]`), in words that say until when.

    window = Window(study.schedule, out, clock)
    if window.closed:
        window.wait()                # until it opens; a run that is asked to stop does

A clock is what says the time and sleeps, so that a test need not.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from wardround.core.doing import OUTSIDE, doing
from wardround.runs.stopping import leave_if_asked
from wardround.study.schedule import ScheduleTable

LOOK_SECONDS = 1.0  # from one look at the clock to the next, which may have been set, or stood still with the machine


@dataclass(frozen=True)
class Clock:
    """The time, and how to let it pass."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Window:
    """The window of one run."""

    schedule: ScheduleTable | None
    out: Path
    clock: Clock

    @property
    def closed(self) -> bool:
        """Whether no round may start now."""
        return self.schedule is not None and self.schedule.opens(self.clock.now()) is not None

    def wait(self) -> float:
        """Wait until the window is open, and say until when; how many seconds that took."""
        began, words = self.clock.now(), ""
        while self.schedule and (opens := self.schedule.opens(self.clock.now())):
            leave_if_asked(self.out, "while it waited for its window")
            until = f"{OUTSIDE} {self.schedule.window}, which opens on {opens:%a %d %b at %H:%M} {opens.tzname()}"
            if until != words:
                words = until
                doing(words)
            self.clock.sleep(LOOK_SECONDS)
        if words:
            doing("asking sites")
        return (self.clock.now() - began).total_seconds() if words else 0.0
