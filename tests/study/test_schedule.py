"""A window of the day: when it is open, and when the next one opens, on whose clock."""

from datetime import UTC, datetime
from typing import Any

import pytest

from wardround.study.load import cells
from wardround.study.schedule import ScheduleTable
from wardround.study.settings import StudyError

NIGHT = ScheduleTable(window="22:00-06:00", zone="Europe/Berlin")
TABLES: dict[str, Any] = {
    "name": "nightly",
    "rounds": 3,
    "method": {"name": "fedavg"},
    "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 3},
}


def berlin(table: ScheduleTable, *instant: int) -> str:
    """When the next window opens after an instant in UTC; nothing if one is open."""
    opens = table.opens(datetime(*instant, tzinfo=UTC))  # type: ignore[misc,arg-type]  # no positional tzinfo
    return f"{opens:%a %d %H:%M %Z}" if opens else ""


def test_a_window_over_midnight_is_open_on_both_sides_of_it() -> None:
    assert "Tue 17 22:00 CET" == berlin(NIGHT, 2026, 11, 17, 20, 59)
    assert "" == berlin(NIGHT, 2026, 11, 17, 21, 0)
    assert "" == berlin(NIGHT, 2026, 11, 18, 4, 59)
    assert "Wed 18 22:00 CET" == berlin(NIGHT, 2026, 11, 18, 5, 0)


def test_a_window_within_a_day_opens_once_a_day() -> None:
    noon = ScheduleTable(window="12:00-13:30", zone="UTC")
    assert "Tue 17 12:00 UTC" == berlin(noon, 2026, 11, 17, 11, 59)
    assert "" == berlin(noon, 2026, 11, 17, 13, 29)
    assert "Wed 18 12:00 UTC" == berlin(noon, 2026, 11, 17, 13, 30)


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    weekdays = NIGHT.model_copy(update={"days": ("mon", "tue", "wed", "thu", "fri")})
    assert "" == berlin(weekdays, 2026, 11, 21, 4, 0)  # Friday's, on Saturday
    assert "Mon 23 22:00 CET" == berlin(weekdays, 2026, 11, 21, 22, 0)
    only = NIGHT.model_copy(update={"days": ("sun",)})
    assert "Sun 22 22:00 CET" == berlin(only, 2026, 11, 16, 5, 0)
    assert "" == berlin(only, 2026, 11, 16, 4, 59)


def test_the_clock_may_be_put_back_or_forward_within_a_window() -> None:
    assert "" == berlin(NIGHT, 2026, 10, 25, 4, 59)  # nine hours, until 06:00 CET
    assert "Sun 25 22:00 CET" == berlin(NIGHT, 2026, 10, 25, 5, 0)
    assert "" == berlin(NIGHT, 2026, 3, 29, 3, 59)  # seven, until 06:00 CEST
    assert "Sun 29 22:00 CEST" == berlin(NIGHT, 2026, 3, 29, 4, 0)
    left_out = ScheduleTable(window="02:30-05:00", zone="Europe/Berlin")
    assert "Sun 29 03:30 CEST" == berlin(left_out, 2026, 3, 29, 1, 0)
    assert "" == berlin(left_out, 2026, 3, 29, 1, 30)


def test_without_a_zone_it_is_the_clock_of_this_machine() -> None:
    now = datetime.now(UTC)
    hour = now.astimezone().hour
    around = ScheduleTable(window=f"{hour:02d}:00-{(hour + 1) % 24:02d}:00")
    assert around.opens(now) is None


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({}, "schedule.window is missing"),
        ({"window": "22-06"}, "schedule.window = '22-06': should be two times of the day, such as \"22:00-06:00\""),
        ({"window": "18:00-24:00"}, "midnight is 00:00"),
        ({"window": "1\N{ARABIC-INDIC DIGIT THREE}:00-20:00"}, "should be two times of the day"),
        ({"window": "22:00-22:00"}, "should begin and end at different times; for the whole day, take [schedule] out"),
        ({"window": "22:00-06:00", "zone": "Europe/Berln"}, "is not a time zone; did you mean 'Europe/Berlin'?"),
        ({"window": "22:00-06:00", "zone": "../../etc/passwd"}, "schedule.zone = '../../etc/passwd': is not a time"),
        ({"window": "22:00-06:00", "days": []}, "schedule.days = []: "),
        ({"window": "22:00-06:00", "days": ["monday"]}, "schedule.days.0 = 'monday': should be 'mon', 'tue'"),
        ({"windows": "22:00-06:00"}, "schedule.windows is unknown; did you mean 'window'?"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_said_before_anything_runs(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(StudyError) as error:
        cells({**TABLES, "schedule": table})
    assert problem in str(error.value)


def test_a_schedule_decides_no_result_and_needs_no_new_approval() -> None:
    plain, nightly = (cells({**TABLES, **more})[0].study for more in ({}, {"schedule": {"window": "22:00-06:00"}}))
    assert plain.fingerprint == nightly.fingerprint
    assert "22:00-06:00" in nightly.toml()
