"""What `wardround site start` becomes: it keeps the site process and NVFlare's client running, and ends both.

    python -m wardround.consortium.site_start FOLDER NAME

Its console says what a hospital has to know: whether the coordinator is heard of, why it refuses this site, when the
certificate ends, what went wrong in the site process (a code and a place in the source; the disk may be too full for
a log). A new certificate is taken up without a restart.
"""

import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path

from wardround.consortium.console import Certificates, writing
from wardround.consortium.roster import DAY, lasts
from wardround.consortium.voice import LOG, Voice
from wardround.core.lock import InUse, sole
from wardround.engines.frames import DOOR, MARK, REFUSED, door_of, shut, silence
from wardround.engines.processes import WITH_PARENT, Programs, end_with_parent

MINUTE = 60.0
JOINING = ""
CONNECTED = "connected to the coordinator"
GONE = "the coordinator has not been heard of for a minute; waiting for it"
ALONE = "not connected yet; is the coordinator running?"
RENEW = "ask the coordinator for a new one: wardround consortium renew"
REFUSALS = {
    "expired": f"the coordinator refuses this site: its certificate has expired; {RENEW}",
    "revoked": "the coordinator refuses this site: it was revoked; ask the coordinator why, and whether to join anew",
    "twin": "the coordinator refuses this machine: this kit is in use on another machine; stop it there, or here",
    "unknown": "the coordinator refuses this site: it is no longer a member of the consortium; ask the coordinator",
}
NAMES = {"process": "the site process", "client": "NVFlare's client"}
FULL = "no room left on this disk, so nothing was sent; make room"
HINTS = {"disk": FULL}


def commands(folder: Path, name: str) -> dict[str, list[str]]:
    """The two programs of a site."""
    kit = folder / "kit"
    settings = ["--set", "secure_train=true", f"uid={name}", "org=wardround", "config_folder=config"]
    program = "nvflare.private.fed.app.client.client_train"
    client = [sys.executable, "-m", "wardround.engines.flare", program, "-m", str(kit), "-s", "fed_client.json"]
    return {
        "process": [sys.executable, "-m", "wardround.consortium.site_process", str(folder)],
        "client": [*client, *settings],
    }


class Console:
    """What a site's terminal says: each thing once, until something else is the case."""

    def __init__(self, folder: Path) -> None:
        self.say = Voice(folder / LOG)
        startup = folder / "kit" / "startup"
        self.certificates = Certificates({"certificate": startup / "client.crt", "root": startup / "rootCA.pem"})
        self.began, self.last = time.monotonic(), JOINING
        self.warned = -DAY
        self.refusal = ("", 0.0)
        self.lines: dict[str, float] = {}

    def died(self, program: str, code: int) -> None:
        """A program has ended."""
        self.say(f"{NAMES[program]} ended (code {code}); it is being started again")

    def line(self, _program: str, text: str) -> None:
        """A program has something to say."""
        if text.startswith(REFUSED):
            self.refusal = (text.removeprefix(REFUSED), time.time())
            return
        code, _, place = text.partition(": ")
        if time.monotonic() - self.lines.get(text, -MINUTE) >= MINUTE:
            self.lines[text] = time.monotonic()
            self.say(f"{HINTS[code]} ({place})" if code in HINTS else text)

    def look(self, quiet: float | None) -> None:
        """Say what has changed, given for how long the coordinator has not been heard of."""
        if (now := self._state(quiet)) != self.last:
            self.last = now
            self.say(now)
        text = self._ends()
        if text.startswith("ends") and time.monotonic() - self.warned >= DAY:
            self.warned = time.monotonic()
            self.say(f"this site's certificate {text}; {RENEW}")

    def _ends(self) -> str:
        return lasts(min(self.certificates.ends.values())) if self.certificates.ends else ""

    def _state(self, quiet: float | None) -> str:
        """What there is to say of the coordinator, which is heard of every few seconds unless a line is full."""
        if (text := self._ends()).startswith("expired"):
            return f"this site's certificate {text}; {RENEW}"
        word, when = self.refusal
        if word in REFUSALS and (quiet is None or when > time.time() - quiet):
            return REFUSALS[word]
        if quiet is not None:
            return CONNECTED if quiet < MINUTE else GONE
        return self.last if time.monotonic() - self.began < MINUTE else ALONE


def run(folder: Path, name: str, stop: threading.Event) -> None:
    """Keep a site's programs running until told to stop."""
    door, console = door_of(folder), Console(folder)
    environment = {DOOR: str(door), MARK: secrets.token_hex(16)}
    with Programs(commands(folder, name), environment, folder / "printed.txt", console.died, console.line) as programs:
        console.say(f"{name}: joining; what leaves is written to {folder / 'ledger' / 'site.jsonl'}")
        door.with_name("heard").unlink(missing_ok=True)
        while not stop.is_set():
            programs.look()
            console.look(silence(door))
            if console.certificates.changed():
                console.say("there is a new certificate; connecting with it")
                programs.restart("client")
            stop.wait(0.2)
        console.say("stopping")
    shut(door)


def main() -> None:
    """Run a site until interrupted."""
    if WITH_PARENT in os.environ:
        end_with_parent()
    folder, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with writing(folder, "the site keeps its ledger"), sole(folder / ".lock"):
            run(folder, name, stop)
    except InUse:
        sys.stderr.write(f"{folder}: this site is running already\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
