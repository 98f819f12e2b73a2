"""When rounds may start: a window of the day, which may go over midnight.

    [schedule]
    window = "22:00-06:00"
    zone = "Europe/Berlin"
    days = ["mon", "tue", "wed", "thu", "fri"]

    table.opens(datetime.now(UTC))       # None within the window, else when the next one opens

A window is a pair of instants: where clocks are put back or forward, it is an hour longer or shorter, and a time that
the clock leaves out counts as the one an hour later. Nothing here decides a result: a run with a window gives the bits
of one without, and the window may be another when the run is taken up again.
"""

import difflib
import re
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from annotated_types import MinLen
from pydantic import AfterValidator

from wardround.core.refusal import Refusal
from wardround.study.settings import TomlTable

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


class UnknownZone(Refusal, ValueError):
    """A time zone that this machine does not know."""


def _window(text: str) -> str:
    if not (times := WINDOW.fullmatch(text)):
        raise ValueError('should be two times of the day, such as "22:00-06:00"; midnight is 00:00')
    if times.group(1, 2) == times.group(3, 4):
        raise ValueError("should begin and end at different times; for the whole day, take [schedule] out")
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if known := available_timezones():  # a machine that knows none has not to wait for the window, either
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else 'write, say, "Europe/Berlin" or "UTC"'
            raise ValueError(f"is not a time zone; {hint}") from None
    return name


class ScheduleTable(TomlTable):
    """When rounds may start; a round that has started is brought to its end."""

    window: Annotated[str, AfterValidator(_window)]
    """From when to when, as "22:00-06:00"; over midnight, it belongs to the day on which it opens."""
    zone: Annotated[str, AfterValidator(_zone)] | None = None
    """Whose clock that is, such as "Europe/Berlin"; if not given, that of the machine that runs the study."""
    days: Annotated[tuple[Day, ...], MinLen(1)] = DAYS
    """On which days it opens."""

    def opens(self, now: datetime) -> datetime | None:
        """When the next window opens, on the clock that counts; None if one is open."""
        here = self._here(now)
        begin, end = (time.fromisoformat(part) for part in self.window.split("-"))
        for days in range(-1, 8):  # the one of yesterday may still be open
            day = here.date() + timedelta(days)
            if DAYS[day.weekday()] not in self.days:
                continue
            opens = self._instant(datetime.combine(day, begin))
            closes = self._instant(datetime.combine(day + timedelta(end < begin), end))
            if now < closes:
                return None if opens <= now else self._here(opens)
        raise AssertionError("a week has a day")

    def _here(self, now: datetime) -> datetime:
        return now.astimezone(self._clock())

    def _instant(self, wall: datetime) -> datetime:
        return wall.replace(tzinfo=self._clock()).astimezone(UTC)

    def _clock(self) -> ZoneInfo | None:
        try:
            return None if self.zone is None else ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise UnknownZone(
                f"schedule.zone = {self.zone!r}: this machine knows no time zones; install tzdata"
            ) from None
