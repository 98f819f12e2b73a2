"""By how much this machine's clock differs from the coordinator's: noted when the coordinator greets the site.

    note_clock(folder, theirs)               # `clock.json` in the site's folder
    clock_error(folder)                      # seconds; None if nobody has greeted it yet

A clock that is wrong makes good certificates look expired, and a ledger useless as evidence.
"""

import json
import time
from contextlib import suppress
from pathlib import Path

from wardround.core.files import write

FILE = "clock.json"
OFF = 60.0  # seconds by which clocks may differ


def note_clock(folder: Path, theirs: object) -> float:
    """Note what the coordinator's clock says now; by how many seconds ours is ahead, 0 if it says nothing."""
    if type(theirs) not in (int, float):
        return 0.0
    error = time.time() - float(theirs)  # type: ignore[arg-type]  # a number, as just seen
    before = clock_error(folder)
    if before is None or abs(before - error) > OFF / 2:
        with suppress(OSError):
            write(folder / FILE, json.dumps({"ahead": round(error, 1)}).encode())
    return error


def clock_error(folder: Path) -> float | None:
    """By how many seconds the clock was ahead of the coordinator's when that was last seen to change."""
    try:
        return float(json.loads((folder / FILE).read_text(encoding="utf-8"))["ahead"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def off(seconds: float) -> str:
    """The difference in words."""
    return f"{abs(seconds) / 60:,.0f} minutes {'ahead of' if seconds > 0 else 'behind'} the coordinator's"
