"""A coordinator's live page: who is there, what runs, what happened; a program of its own beside the coordinator's.

    python -m wardround.watch.coordinator FOLDER HOST PORT [TOKEN-FILE]       # `wardround coordinator start --page`

It asks the coordinator's process as `wardround status` does, and reads its log and the folders of the runs that were
submitted. It is started again if it ends; that it does cannot harm a run. No torch here.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from wardround.consortium.forms import read_charter
from wardround.consortium.presence import REVOKED
from wardround.consortium.submitted import called
from wardround.consortium.voice import LOG, STOPPING
from wardround.core.tail import Tail
from wardround.engines.frames import dial, door_of
from wardround.engines.processes import end_with_parent, tell
from wardround.reports.html import Html, join, plural, tag
from wardround.reports.read import natural
from wardround.serve.server import HostError, address, listening, loopback, names, serve
from wardround.watch import parts
from wardround.watch.app import BoardDesk, application
from wardround.watch.board import RunBoard, Section, View, runs_table
from wardround.watch.events import Event, Log
from wardround.watch.gauges import Reading
from wardround.watch.sites import Mood, SiteState
from wardround.watch.times import when
from wardround.watch.token import read_token
from wardround.watch.words import ago

TOKEN = "page.token"  # noqa: S105 -- the name of a file
LOOKING = "watch.token"
END = 1 << 18  # bytes of the log that are read at first
BAD, GOOD = ("gone", "away"), ("connected",)
PATIENCE = 3.0


class CoordinatorBoard:
    """A consortium, watched by its coordinator."""

    def __init__(self, folder: Path, *, stoppable: bool = True) -> None:
        self.folder, self.name = folder, read_charter(folder).name
        self.log, self._lines = Log(), Tail(folder / LOG, last=END)
        self.runs = RunBoard([], stoppable=stoppable, called=partial(called, folder))
        self.status: Mapping[str, Any] | None = None
        self.seen: dict[str, float] = {}
        """When each site was last there, as the log has it."""
        self._there: set[str] = set()
        """Who is connected, as far as the log goes."""

    def look(self) -> None:
        """Take in who is there, what was said, and what the runs did."""
        self.status = _status(self.folder)
        for raw in self._lines:
            self._take(raw)
        for place in (self.status or {}).get("runs", ()):
            if Path(place) not in self.runs.paths:
                self.runs.paths.append(Path(place))
        self.runs.presence = self.sites
        self.runs.look()

    @property
    def sites(self) -> Mapping[str, Mapping[str, Any]]:
        """What the coordinator's process knows of each site."""
        return dict((self.status or {}).get("sites", {}))

    def view(self, place: str) -> View | None:
        """The consortium; at a number, one of its runs."""
        if place:
            return self.runs.view(place)
        runs = list(self.runs.runs.values())
        shown = (
            Section("state", "", self._state()),
            Section("sites", "Sites", parts.sites([self._site(name, self.sites[name]) for name in self._order()])),
            Section("cells", "Runs", runs_table(runs) if runs else tag("p", NO_RUN, class_="soft")),
            Section("log", "What happened", parts.log(self.log)),
        )
        last = self.log.lines[-1].text if self.log.lines else ""
        return View("coordinator", self.name, shown, last)

    def stop(self, place: str) -> bool:
        """Have a run end after its round."""
        return self.runs.stop(place)

    def samples(self) -> Iterator[Reading]:
        """The numbers of the consortium and of its runs."""
        yield Reading("wardround_coordinator_up", self.status is not None, {"consortium": self.name})
        for name, state in self.sites.items():
            yield Reading("wardround_site_connected", bool(state["connected"]), {"site": name})
        yield from self.runs.samples()

    def _order(self) -> list[str]:
        return sorted(self.sites, key=lambda name: (self.sites[name]["connected"], natural(name)))

    def _state(self) -> Html:
        if self.status is None:
            words = " The coordinator's process does not answer."
            return tag("p", tag("span", "off", class_="badge gone"), words, class_="lead")
        members = [state for state in self.sites.values() if not str(state["words"]).startswith(REVOKED)]
        there = sum(bool(state["connected"]) for state in members)
        words = f" at {self.status['address']}; {there} of {plural(len(members), 'site')} connected"
        return join([
            tag("p", tag("span", "running", class_="badge running"), words, class_="lead"),
            tag("progress", max=max(len(members), 1), value=there, aria_label="sites connected"),
        ])  # fmt: skip

    def _site(self, name: str, state: Mapping[str, Any]) -> SiteState:
        words, there = str(state["words"]), bool(state["connected"])
        busy = words.startswith("busy")
        mood: Mood = "bad" if not there or words.startswith("silent") else "busy" if busy else "good"
        seen = "now" if there else ago(self.seen.get(name))
        return SiteState(name, mood, words, seen)

    def _take(self, raw: str) -> None:
        try:
            line = json.loads(raw)
            text, kind, time = str(line["text"]), str(line["event"]), when(str(line["time"]))
        except (ValueError, KeyError, TypeError):
            return
        if time is not None:
            self._see(kind, str(line.get("site")), text, time)
        self.log.add(Event(text, time, None, "bad" if kind in BAD else "good" if kind in GOOD else ""))

    def _see(self, kind: str, site: str, text: str, time: float) -> None:
        """Take in who came and who went; whoever was there when the coordinator was stopped, was so until then."""
        if kind in (*BAD, *GOOD):
            self.seen[site] = time
            self._there = self._there | {site} if kind in GOOD else self._there - {site}
        elif kind == "said" and text == STOPPING:
            self.seen |= dict.fromkeys(self._there, time)
            self._there = set()


NO_RUN = "No run has been submitted yet."


def _status(folder: Path) -> Mapping[str, Any] | None:
    """What the coordinator's process says of itself, if it is there."""
    try:
        with dial(door_of(folder), timeout=PATIENCE) as line:
            line.send({"status": True})
            reply = line.receive()
    except OSError:
        return None
    return reply[0] if reply else None


def main() -> None:
    """Serve the page until whoever started this ends."""
    end_with_parent()
    folder, host, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    given = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    try:
        with listening(host, port) as door:
            file = given or (None if loopback(door) else folder / TOKEN)
            token = read_token(file) if file else ""
            looking = read_token(folder / LOOKING) if file else ""
            tokens = f"; its token is in {file}, the one for looking only in {folder / LOOKING}" if file else ""
            tell(f"the page is at {address(host, door)}{tokens}")
            serve(application(BoardDesk(CoordinatorBoard(folder)), names(host), token, looking), door)
    except HostError as error:
        tell(f"no page: {error}".replace("--host", "--page-host").replace("--port", "--page-port"))
        sys.exit(2)


if __name__ == "__main__":
    main()
