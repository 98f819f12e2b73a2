"""What happened, the newest last: so many lines, and no more."""

import time
from collections import deque
from dataclasses import dataclass, field

MOST = 300


@dataclass(frozen=True)
class Event:
    """One thing that happened: when, if that is known, and in words of ours."""

    text: str
    time: float | None = None
    round: int | None = None
    weight: str = ""
    """`bad` for what needs a look, `good` for what has come right again."""

    @property
    def clock(self) -> str:
        """When, as one reads it here."""
        if self.time is None:
            return ""
        same = time.strftime("%F", time.localtime(self.time)) == time.strftime("%F")
        return time.strftime("%H:%M:%S" if same else "%F %H:%M", time.localtime(self.time))


@dataclass
class Log:
    """The last events, and how many there were before them."""

    lines: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST))
    count: int = 0

    def add(self, event: Event) -> None:
        """One more."""
        self.lines.append(event)
        self.count += 1
