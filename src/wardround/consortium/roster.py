"""Who is a member of a consortium, with which certificate, until when: `CONSORTIUM/roster.json`.

    members = read_roster(folder)                          # by name
    with changed(folder) as members:                       # one writer at a time, seen whole or not at all
        members["charite"] = Member(seal=seal, serial=serial, expires=expires)

`consortium.json` names the members that are not revoked, in step with this file. No torch here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import AwareDatetime, RootModel, ValidationError

from wardround.consortium.forms import Form, read_charter
from wardround.core.files import write
from wardround.core.lock import sole
from wardround.runs.errors import RunError

DAY = 86400.0
SOON = 30  # days before a certificate's end when it is time to say so


class Certified(Form):
    """Whoever has a certificate of the consortium: which one, and until when."""

    serial: str
    expires: AwareDatetime
    revoked: AwareDatetime | None = None

    @property
    def barred(self) -> str:
        """Why it counts no more ("revoked", "expired"), or nothing."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires <= datetime.now(UTC) else ""

    def revoked_now(self, name: str) -> Self:
        """The same, revoked; an error if it is already."""
        if self.revoked is not None:
            raise RunError(f"{name} was revoked already, on {self.revoked:%Y-%m-%d}")
        return self.model_copy(update={"revoked": datetime.now(UTC)})


class Member(Certified):
    """One site: its certificate, and the public half of its sealing key (hex)."""

    seal: str


Roster = RootModel[dict[str, Member]]


def lasts(ends: datetime, now: datetime | None = None) -> str:
    """How it is with a certificate that ends then: `expired 3 days ago …`, `ends in 12 days …` or nothing to say."""
    days = (ends - (now or datetime.now(UTC))).total_seconds() / DAY
    if days < 0:
        return f"expired {_days(int(-days))} ago ({ends:%Y-%m-%d})"
    return f"ends in {_days(int(days))} ({ends:%Y-%m-%d})" if days < SOON else ""


def _days(days: int) -> str:
    return "less than a day" if days == 0 else "1 day" if days == 1 else f"{days} days"


def read_roster(folder: Path) -> dict[str, Member]:
    """The members of the consortium in this folder, by name, the revoked ones included."""
    path = folder / "roster.json"
    try:
        return Roster.model_validate_json(path.read_bytes()).root
    except FileNotFoundError:
        read_charter(folder)
        raise RunError(f"{path} is missing; was this consortium made by an older wardround? make a new one") from None
    except ValidationError:
        raise RunError(f"{path} is damaged; put back a copy of it, or make a new consortium") from None


@contextmanager
def changed(folder: Path) -> Iterator[dict[str, Member]]:
    """The members, to be changed by one command at a time; what reads them sees all of a change or none of it."""
    with sole(folder / ".roster", seconds=-1):
        members = read_roster(folder)
        yield members
        write_roster(folder, members)


def write_roster(folder: Path, members: dict[str, Member]) -> None:
    """Put the members in their place, and the names of those who are not revoked into the consortium's charter."""
    write(folder / "roster.json", (Roster(members).model_dump_json(indent=1) + "\n").encode())
    names = tuple(name for name, member in members.items() if member.revoked is None)
    write(folder / "consortium.json", read_charter(folder).model_copy(update={"sites": names}).encode())
