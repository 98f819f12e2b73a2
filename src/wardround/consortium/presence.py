"""Which sites are there, which may be, and how to say it: from the roster, and from what the gate reports.

    presence = Presence(folder)
    presence.read()                          # the roster, if it changed
    presence.hear(report)                    # of the gate, twice a second
    presence.words("a", line="idle")         # "ready", "silent for 40 s", "certificate expired 3 days ago (2026-03-01)"

Rules of this file:
1. Whatever is said of a site is said once, when it becomes so; a certificate that ends soon, once a day.
2. Times are this machine's; certificates' dates are in UTC, and only their day is said.
3. No torch here.
"""

import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from wardround.consortium.roster import DAY, Member, lasts, read_roster

RECENT = 600.0  # seconds for which something is not worth repeating
SILENT = 15.0  # seconds without a sign of life that are worth a word: a client sends one every few
RENEW = "give it a new one: wardround consortium renew"
OUTDATED = "shows the certificate from before it was renewed; there: wardround site join, with the new kit"
WORDS = {
    "expired": "refused: its certificate has expired",
    "revoked": "refused: it is revoked",
    "twin": "a second machine with its kit was refused: the first is still connected",
    "unknown": "refused: it is not a member of this consortium",
}
REVOKED = "revoked since"
HUNG = "its site process has not answered"
CUT_OFF = {"expired": "cut off: its certificate has expired", "revoked": "cut off: it is revoked"}


@dataclass
class _Site:
    """What is known of one site."""

    member: Member
    quiet: float | None = None
    """Seconds since it was last heard of; None while it has no connection."""
    reported: float = 0.0
    last: str = ""
    """When it was last connected."""
    away: float = field(default_factory=time.monotonic)
    """Since when it is not."""
    outdated: bool = False
    """Whether it shows a certificate from before it was renewed."""
    twin: float | None = None
    """When a second machine with its certificate was last refused."""
    hung: tuple[float, float] = (0.0, 0.0)
    """For how many seconds its own process has not answered, behind a client that lives, and when that was said."""


@dataclass
class Presence:
    """The sites of a consortium, as they are now."""

    folder: Path
    say: Callable[[str], None]
    remote: Callable[[int], str] = lambda _port: ""
    sites: dict[str, _Site] = field(default_factory=dict)
    _read: int | None = None
    _uttered: dict[str, float] = field(default_factory=dict)

    def read(self) -> bool:
        """Read the roster anew if it changed; whether it did."""
        changed = (self.folder / "roster.json").stat().st_mtime_ns
        if changed == self._read:
            return False
        members = read_roster(self.folder)
        first, self._read = self._read is None, changed
        for name, member in members.items():
            known = name in self.sites
            site = self.sites.setdefault(name, _Site(member))
            before, site.member = site.member, member
            if not first and not known:
                self.say(f"{name} was admitted")
            if not first and member.revoked and not (known and before.revoked):
                self.say(f"{name} was revoked; it is cut off")
        for name in self.sites.keys() - members.keys():
            del self.sites[name]
            self.say(f"{name} is no longer a member")
        return True

    def members(self) -> dict[str, Any]:
        """What the gate has to know."""
        revoked = [name for name, site in self.sites.items() if site.member.revoked]
        return {"sites": list(self.sites), "revoked": revoked}

    def hear(self, report: Mapping[str, Any]) -> None:
        """Take in who is there, and what happened at the gate."""
        now = time.monotonic()
        for name, site in self.sites.items():
            seen = report["there"].get(name)
            if seen is None and site.quiet is not None:
                site.last, site.away = time.strftime("%H:%M:%S"), now
            site.quiet, site.reported = (None if seen is None else float(seen["quiet"])), now
            site.outdated = seen is not None and site.member.serial not in seen["serials"]
            if site.outdated and not self._often(f"{name} outdated", DAY):
                self.say(f"{name} {OUTDATED}")
        for event in report["events"]:
            self._note(event)

    def hangs(self, name: str, seconds: float) -> None:
        """Take in for how long the process behind a site's door has not answered; 0 if it does."""
        if name in self.sites:
            self.sites[name].hung = (seconds, time.monotonic())
            if seconds and not self._often(f"{name} hung", RECENT):
                self.say(f"{name}: {HUNG} for {seconds:.0f} s; there: stop the site, and start it again")

    def _note(self, event: Mapping[str, Any]) -> None:
        name, port = str(event.get("site")), int(event.get("port", 0))
        why = str(event.get("refused") or event.get("dropped") or "")
        if not why:
            return
        if why == "twin" and name in self.sites:
            self.sites[name].twin = time.monotonic()
        kind = f"{name} {'dropped' in event} {why}"
        if not self._often(kind, RECENT):
            origin = self.remote(port)
            words = CUT_OFF.get(why, WORDS[why]) if "dropped" in event else WORDS[why]
            self.say(f"{name}{f' from {origin}' * bool(origin)}: {words}")

    def _often(self, kind: str, seconds: float) -> bool:
        """Whether this was said less than so many seconds ago; if not, it is now."""
        if time.monotonic() - self._uttered.get(kind, -seconds) < seconds:
            return True
        self._uttered[kind] = time.monotonic()
        return False

    def _renew(self, name: str) -> str:
        return f"{RENEW} {shlex.quote(str(self.folder))} {name}"

    # what may be, and how to say it

    def gone(self, seconds: float) -> Iterator[str]:
        """Members that have not been connected for so long: each once, until it was there again."""
        for name, site in self.sites.items():
            if site.member.revoked or site.quiet is not None:
                self._uttered.pop(f"{name} gone", None)
            elif time.monotonic() - site.away >= seconds and not self._often(f"{name} gone", math.inf):
                yield name

    def barred(self, name: str) -> str:
        """Why a site may not take part ("revoked", "expired", "unknown"), or nothing."""
        site = self.sites.get(name)
        return "unknown" if site is None else site.member.barred

    def unseen(self, name: str) -> str:
        """The word for a site that was never there, if it is one."""
        return "" if self.there(name) or self.sites[name].last else "unseen"

    def there(self, name: str) -> bool:
        """Whether a site has a connection."""
        return name in self.sites and self.sites[name].quiet is not None

    def words(self, name: str, line: str) -> str:
        """How it is with a site, whose line is "idle", "lent…" or not there."""
        site = self.sites[name]
        if site.member.revoked:
            return f"{REVOKED} {site.member.revoked:%Y-%m-%d}"
        ends = lasts(site.member.expires)
        if ends.startswith("expired"):
            return f"certificate {ends}; {self._renew(name)}"
        quiet = None if site.quiet is None else site.quiet + time.monotonic() - site.reported
        if quiet is None:
            state = "not connected" + (f" since {site.last}" if site.last else "")
        elif quiet > SILENT:
            state = f"silent for {quiet:.0f} s"
        elif line == "idle" and site.hung[0] and (since := time.monotonic() - site.hung[1]) < SILENT:
            state = f"connected, but {HUNG} for {site.hung[0] + since:.0f} s"
        else:
            state = {"": "connected, being linked", "idle": "ready"}.get(line, line)
        if site.outdated:
            state += f"; {OUTDATED}"
        if site.twin is not None and time.monotonic() - site.twin < RECENT:
            state += "; a second machine with its kit was refused"
        return f"{state}; certificate {ends}" if ends else state

    def warnings(self, own: Mapping[str, datetime]) -> Iterator[str]:
        """Certificates that have run out, or will soon: each of them once a day."""
        dated = {name: site.member.expires for name, site in self.sites.items() if not site.member.revoked}
        for name, ends in {**dated, **own}.items():
            text = lasts(ends)
            if text and not self._often(f"{name} {text.split()[0]}", DAY):
                yield f"{name}: its certificate {text}; {self._renew(name)}"
