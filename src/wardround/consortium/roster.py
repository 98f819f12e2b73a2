"""Who is a member of a consortium, with which certificate, until when: `CONSORTIUM/roster.json`.

    members = read_roster(folder)                          # by name
    with changed(folder) as members:                       # one writer at a time, seen whole or not at all
        members["charite"] = Member("charite", seal, serial, expires)

`consortium.json` names the members that are not revoked, in step with this file.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.core.files import write
from wardround.core.lock import sole
from wardround.runs.errors import RunError

__all__ = ["SOON", "Member", "changed", "lasts", "read_roster"]

SOON = 30  # days before a certificate's end when it is time to say so


@dataclass(frozen=True)
class Member:
    """One site: the public half of its sealing key (hex), and its certificate."""

    name: str
    seal: str
    serial: str
    expires: datetime
    revoked: datetime | None = None

    @property
    def barred(self) -> str | None:
        """Why this site may not take part, in words, or None."""
        if self.revoked is not None:
            return f"its certificate was revoked on {self.revoked:%Y-%m-%d}"
        ends = lasts(self.expires)
        return f"its certificate {ends}" if ends.startswith("expired") else None


def lasts(ends: datetime, now: datetime | None = None) -> str:
    """How it is with a certificate that ends then: `expired 3 days ago …`, `ends in 12 days …` or nothing to say."""
    days = (ends - (now or datetime.now(UTC))).total_seconds() / 86400
    if days < 0:
        return f"expired {_days(int(-days))} ago ({ends:%Y-%m-%d})"
    return f"ends in {_days(int(days))} ({ends:%Y-%m-%d})" if days < SOON else ""


def _days(days: int) -> str:
    return "less than a day" if days == 0 else "1 day" if days == 1 else f"{days} days"


def read_roster(folder: Path) -> dict[str, Member]:
    """The members of the consortium in this folder, by name."""
    path = folder / "roster.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {name: _member(name, row) for name, row in rows.items()}
    except FileNotFoundError:
        if not (folder / "consortium.json").exists():
            raise RunError(f"{folder} holds no consortium; make one with: wardround consortium new") from None
        raise RunError(f"{path} is missing; was this consortium made by an older wardround? make a new one") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{path} is damaged; put back a copy of it, or make a new consortium") from None


def _member(name: str, row: dict[str, Any]) -> Member:
    revoked = row["revoked"]
    return Member(
        name, str(row["seal"]), str(row["serial"]), datetime.fromisoformat(row["expires"]),
        None if revoked is None else datetime.fromisoformat(revoked),
    )  # fmt: skip


@contextmanager
def changed(folder: Path) -> Iterator[dict[str, Member]]:
    """The members, to be changed by one command at a time; what reads them sees all of a change or none of it."""
    with sole(folder / ".roster", seconds=-1):
        members = read_roster(folder)
        yield members
        _write(folder, members)


def _write(folder: Path, members: dict[str, Member]) -> None:
    rows = {
        one.name: {
            "seal": one.seal, "serial": one.serial, "expires": one.expires.isoformat(),
            "revoked": None if one.revoked is None else one.revoked.isoformat(),
        }
        for one in members.values()
    }  # fmt: skip
    write(folder / "roster.json", (json.dumps(rows, indent=1) + "\n").encode())
    about = json.loads((folder / "consortium.json").read_text(encoding="utf-8"))
    about["sites"] = [one.name for one in members.values() if one.revoked is None]
    write(folder / "consortium.json", (json.dumps(about, indent=1) + "\n").encode())
