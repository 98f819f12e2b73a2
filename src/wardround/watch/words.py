"""Times and states in words: a span of time, when something was, what a run is at."""

import time
from itertools import pairwise

from wardround.reports.html import count, plural
from wardround.watch.run import WatchedRun

SPANS = ((86400, "day"), (3600, "h"), (60, "min"), (1, "s"))
STATES = {
    "waiting": "waiting", "running": "running", "stopped": "stopped", "finished": "finished", "gone": "gone",
    "unreadable": "cannot be read",
}  # fmt: skip


def span(seconds: float) -> str:
    """A span of time with two units at most: 3 h 20 min, 45 s."""
    rest = max(int(seconds), 0)
    for (size, unit), (below, smaller) in pairwise(SPANS):
        if rest >= size:
            whole, part = rest // size, rest % size // below
            first = plural(whole, unit) if unit == "day" else f"{whole} {unit}"
            return f"{first} {part} {smaller}" if part and whole < 10 else first
    return f"{rest} s"


def ago(when: float | None, now: float | None = None) -> str:
    """When something was, as one says it; a dash if that is not known."""
    if when is None:
        return "—"
    return f"{span((time.time() if now is None else now) - when)} ago"


def left(run: WatchedRun) -> str:
    """The time that a run will take, as far as that can be said."""
    if run.left is None or run.pace is None:
        return ""
    if run.left <= 0:
        return "about to end"
    each = f"{run.pace:.1f} s" if run.pace < 10 else span(run.pace)
    window = dict(run.study.get("schedule") or {}).get("window")
    within = f", within {window}" if window else ""
    return f"about {span(max(run.left, 1))} left{within}; a round takes {each}"


def standing(run: WatchedRun) -> str:
    """What a run is at, in one line that follows its state."""
    far = f"{count(run.round)} of {plural(run.rounds, 'round')} done" if run.rounds else ""
    if run.state == "running":
        return "; ".join(part for part in (far, f"now {run.doing}" if run.doing else "") if part)
    if run.state == "finished" and run.metrics:
        return f"{plural(run.metrics.rounds, 'round')}: {run.metrics.stopped}"
    if run.state == "stopped":
        return "; ".join(part for part in (far, "it can be taken up again with --resume") if part)
    if run.state == "waiting":
        return "; ".join(part for part in (far if run.round else "", run.doing) if part) or "to begin"
    return run.problem or STATES[run.state]
