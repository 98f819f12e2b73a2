"""Times as files have them, in UTC: 2026-11-17T08:00:00+00:00."""

from datetime import UTC, datetime


def when(text: str) -> float | None:
    """Such a time in seconds; None if it is not one."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def today() -> str:
    """The day that it is, in UTC as ledgers have it."""
    return datetime.now(UTC).date().isoformat()


def readable(text: str) -> str:
    """Such a time as one reads it, in UTC."""
    return text[:16].replace("T", " ") if text else "—"
