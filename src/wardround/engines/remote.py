"""The engine of real sites: frames to a switchboard's pipes, whatever lies behind them.

Rules of this file:
1. An ask is a letter, signed, that its site alone can read (`seal`); what comes back counts if it is sealed to that
   very letter. All that the way itself can say is that a letter did not get through.
2. A pipe that breaks is asked for again, and the same ask sent again: a site answers the same ask with the same
   reply. So a killed process in between costs seconds, and no site its place in the round.
3. What a site may say besides its message is a code (`codes`); the words for it are ours.
4. A site hears which of its replies did not arrive, and forgets what it kept then: it was not in that round. Which
   these are outlives this process, in a file beside the checkpoints, written before the round is over.
5. Nothing waits without end: an exchange has a deadline, and a site that is away has less than that. One that missed
   a deadline is greeted before it is asked again, and asked only if it answers; then it has twice as long for that
   step, up to eight deadlines, and keeps what it was seen to need: a slow hospital is not left out for good. One that
   misses even that has one deadline from then on, until it answers: whoever only greets cannot cost a run eight in
   every exchange.
6. A site hears with every ask which line of its own ledger it told us of last. One that was put back from a copy does
   not know it, answers nothing, and is told what it has forgotten.
"""

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from wardround import __version__
from wardround.core.codec import DecodeError, decode
from wardround.core.exchange import Exchange, Fault
from wardround.core.manifest import COUNT_LIMIT
from wardround.core.method import Step
from wardround.core.record import Message
from wardround.engines.codes import CODES
from wardround.engines.frames import Line, dial
from wardround.engines.pace import Pace
from wardround.engines.recollection import Recollection, answered, asked
from wardround.engines.seal import Asker, Letter, Parcel, SealError
from wardround.engines.versions import series, version_name

R = TypeVar("R", bound=Message)
Void = dict[str, list[Exchange]]

PATIENCE = 60.0  # what a new job needs, and a client that is started again
AWAY = 1.0  # what a site gets that was away the last time
PROBE = 5.0  # what a site gets to show that it lives, once it has missed a deadline
SLACK = 2.0
SPLITS = ("train", "test", "valid")  # of which a site says how much it has
UNCERTAIN = ("died", "forged", "late", "lost", "unsigned")  # what the site did before, nobody knows
ON_THE_WAY = ("died", "late", "lost", "unsigned")  # what can be said by whoever carries a letter
UNLENT = ("busy", "expired", "linking", "revoked", "unasked", "unseen")  # why our own switchboard has no line to lend


class Remote:
    """Carries messages to real sites through the switchboard at `door`."""

    def __init__(
        self,
        door: Path,
        desk: Asker,
        study: str,
        run: str,
        *,
        ledger: Callable[[], str] = lambda: "",
        deadline: float = 3600.0,
        patience: float = PATIENCE,
        void: Void | None = None,
        keep: Callable[[Void], None] = lambda _: None,
        title: str = "",
        recollection: Recollection | None = None,
        whole: Callable[[], bool] = lambda: False,
        pace: Pace | None = None,
        versions: dict[str, str] | None = None,
    ) -> None:
        self.door, self.desk, self.ledger, self.recollection = door, desk, ledger, recollection
        self.deadline, self.patience = deadline, patience
        self.mark = {"version": __version__, "study": study, "run": run}
        """What every ask begins with."""
        self.heads: dict[str, str] = {}
        """The head of each site's own ledger, as its last reply had it."""
        self.lines: dict[str, Line] = {}
        self.away: set[str] = set()
        self.unlent: dict[str, str] = {}
        """Why the switchboard does not lend the line to a site: `busy` with another run, `revoked`, `expired`."""
        self.title, self.doing, self.whole = title, "", whole
        self.hung: set[str] = set()
        """Sites that missed a deadline and have not answered since."""
        self.declared: dict[str, dict[str, int]] = {}
        """At most how many examples of each split each site has, as it said when it was last greeted."""
        self.left: dict[str, int] = {}
        """How many answers each site's approval has left, likewise."""
        self.versions = {} if versions is None else versions
        """Which version of wardround each site runs, as its last answer said: it may be upgraded in the middle."""
        self.pace = pace or Pace()
        self.reminded: set[tuple[str, str]] = set()
        """Sites that have been told what they have forgotten, and at which time they forgot it."""
        self.void, self.keep = void or {}, keep
        """Exchanges of which each site's reply did not arrive: what it kept in them does not count."""

    def deliver(
        self, exchange: Exchange, step: Step[Any, R], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, R | Fault]]:
        """Each site's reply as it comes in; what is not there at the deadline is a fault."""
        different = {id(message): message.encode() for message in {id(m): m for m in messages.values()}.values()}
        parcels = {key: Parcel.of(data) for key, data in different.items()}
        stated: dict[int, dict[str, Any]] = {}
        head: dict[str, Any] = {"exchange": asdict(exchange), "ledger": self.ledger()}
        replies: queue.Queue[tuple[str, dict[str, Any], bytes]] = queue.Queue()
        self._tell(f"{self.title}, round {exchange.round}", messages)

        def one(name: str, parcel: Parcel) -> None:
            whole = {**head, "void": [asdict(lost) for lost in self.void.get(name, [])]}
            given: tuple[dict[str, Any], bytes] = {"fault": "forged"}, b""
            try:
                hangs = name in self.hung and self._hangs(name)
                given = ({"fault": "hung"}, b"") if hangs else self._timed(name, whole, parcel)
            finally:  # whatever a site sends, the others are not kept waiting
                replies.put((name, *given))

        for name, message in messages.items():
            threading.Thread(target=one, args=(name, parcels[id(message)]), daemon=True).start()
        for _ in messages:
            name, outcome, data = replies.get()
            if outcome.get("fault") == "late":
                self.hung.add(name)
            elif outcome.get("fault") != "hung":
                self.hung.discard(name)
            if outcome.get("fault") in UNCERTAIN:
                self._note({**self.void, name: [*self.void.get(name, []), exchange]})
            elif "fault" not in outcome and name in self.void:  # it has heard
                self._note({site: lost for site, lost in self.void.items() if site != name})
            reply = self._reply(step, name, outcome, data)
            if "fault" not in outcome and self.recollection is not None:
                kind = step.reply if isinstance(reply, Fault) else type(reply)
                key = id(messages[name])
                if key not in stated:
                    stated[key] = asked(messages[name], parcels[key].digest)
                line = answered(exchange, stated[key], kind, data)
                was = {"study": self.mark["study"][:16], "run": self.mark["run"][:16], "was": self.heads[name]}
                with suppress(OSError):  # a full disk, which the run's own files will tell
                    self.recollection.note(name, {**line, **was})
            yield name, reply

    def _timed(self, name: str, head: Mapping[str, Any], parcel: Parcel) -> tuple[dict[str, Any], bytes]:
        """The site's answer within its own deadline for this step, which grows with what it turns out to need."""
        began, step = time.monotonic(), str(head["exchange"]["step"])
        times = self.pace.times(name, step)
        answer = self.put(name, head, parcel, times * self.deadline)
        if answer[0].get("fault") == "late":
            self.pace.missed(name, step, times)
        elif "fault" not in answer[0]:
            self.pace.answered(name, step, (time.monotonic() - began) / self.deadline)
        return answer

    def _tell(self, doing: str, names: Iterable[str]) -> None:
        """Let whoever asks for the consortium's status know what these sites are busy with, once a round."""
        if self.title and doing != self.doing:
            self.doing = doing
            with suppress(OSError), dial(self.door, timeout=1.0) as desk:
                desk.send({"doing": doing, "sites": list(names)})

    def _hangs(self, name: str) -> bool:
        """Whether a site that missed a deadline does not even answer a greeting: one more deadline would be lost."""
        head, _ = self.put(name, {"hello": True, "rounds": 0}, b"", PROBE, patience=0.0)
        return head.get("fault") == "late"

    def _note(self, void: Void) -> None:
        self.void = void
        self.keep(void)

    def _reply(self, step: Step[Any, R], name: str, head: Mapping[str, Any], data: bytes) -> R | Fault:
        if "fault" in head:
            return fault(head)
        self.heads[name] = str(head.get("ledger", ""))[:100]
        try:
            return decode(step.reply, data, limit=step.limit)
        except DecodeError as error:
            return Fault("invalid", str(error))

    def ready(self, names: Iterable[str], rounds: int, seconds: float = 20.0) -> dict[str, Fault | None]:
        """Whether each of the members would take part in so many rounds, from now on: None, or why not."""
        states: dict[str, Fault | None] = {}
        greeting = {"hello": True, "rounds": rounds, "title": self.title, "members": sorted(names)}

        def one(name: str) -> None:
            head, _ = self.put(name, greeting, b"", seconds, patience=0.0)
            states[name] = fault(head) if "fault" in head else None
            most, left = head.get("most"), head.get("left")
            if type(left) is int and left >= 0:
                self.left[name] = left
            if isinstance(most, dict):
                sizes = {split: most.get(split) for split in SPLITS}
                self.declared[name] = {k: min(v, COUNT_LIMIT) for k, v in sizes.items() if type(v) is int and v >= 0}

        threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return dict(sorted(states.items()))

    def put(
        self,
        name: str,
        head: Mapping[str, Any],
        message: bytes | Parcel,
        seconds: float,
        patience: float | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """The site's answer, or a fault code in its place; one that has forgotten its answers is told of them."""
        before = self.recollection.head(name) if self.recollection is not None else ""
        mine = {"yours": before, "time": time.time()}
        answer = self._sent(name, self._letter(name, {**head, **mine}, message), seconds, patience)
        if "fault" not in answer[0] and version_name(version := str(answer[0].get("version", ""))):
            self.versions[name] = version
        lapse = str(answer[0].get("lapse", ""))[:64]
        if (
            answer[0].get("fault") == "restored"
            and self.recollection is not None
            and (name, lapse) not in self.reminded
        ):
            letter = self._letter(name, {"told": lapse}, self.recollection.all_of(name))
            head, _ = self._sent(name, letter, seconds, 0.0)
            self.reminded |= set() if "fault" in head else {(name, lapse)}
        return answer

    def _letter(self, name: str, head: Mapping[str, Any], message: bytes | Parcel) -> Letter:
        return self.desk.write(name, {**self.mark, **head}, message)

    def _sent(self, name: str, letter: Letter, seconds: float, patience: float | None) -> tuple[dict[str, Any], bytes]:
        """What comes back to this letter."""
        end = time.monotonic() + seconds
        wait = self.patience if patience is None else patience
        until = time.monotonic() + (min(wait, AWAY) if name in self.away else wait)
        broken = False
        while True:
            line = self._line(name, min(until, end))
            if line is None:
                self.away.add(name)
                return {"fault": "lost" if broken else self.unlent.get(name, "absent")}, b""
            left = end - time.monotonic()
            try:
                line.socket.settimeout(max(left, 0.0) + SLACK)
                line.send({**letter.head, "seconds": max(left, 0.1)}, letter.data)
                frame = line.receive()
            except TimeoutError:
                self.drop(name)
                return {"fault": "late"}, b""
            except OSError:
                frame = None
            if frame is None or frame[0].get("fault") == "lost":
                self.drop(name)
                with suppress(OSError), dial(self.door, timeout=5.0) as desk:
                    desk.send({"over": name})
                if not broken:
                    broken, until = True, time.monotonic() + wait
                if time.monotonic() > min(until, end):
                    return {"fault": "lost"}, b""
                time.sleep(0.1)
                continue
            self.away.discard(name)
            answer = opened(letter, *frame)
            if answer[0].get("fault") in ("forged", "late"):
                self.drop(name)
            return answer

    def _line(self, name: str, until: float) -> Line | None:
        """The line to a site: the one at hand, or a new one as soon as there is one."""
        while name not in self.lines:
            try:
                line = borrowed(self.door, name, self.title)
            except OSError:
                line = "unasked"
            self.unlent.pop(name, None)
            if isinstance(line, Line):
                self.lines[name] = line
                break
            if line in UNLENT:
                self.unlent[name] = line
            if time.monotonic() >= until or self.unlent.get(name) in ("revoked", "expired"):
                return None
            time.sleep(0.2)
        return self.lines[name]

    def drop(self, name: str) -> None:
        """Hang up."""
        if line := self.lines.pop(name, None):
            line.close()

    def close(self) -> None:
        """Tell the sites the last head of our ledger, as far as they listen, and hang up."""
        for name, line in list(self.lines.items()):
            if head := self.ledger():
                with suppress(OSError):
                    line.socket.settimeout(SLACK)
                    letter = self.desk.write(name, {**self.mark, "bye": True, "whole": self.whole(), "ledger": head})
                    line.send({**letter.head, "seconds": SLACK}, letter.data)
                    line.receive()
            self.drop(name)


def opened(letter: Letter, head: Mapping[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    """What the site answered to this letter, or what befell it on the way."""
    if "fault" in head:  # said in the clear, so by whoever carries letters
        return {"fault": head["fault"] if head["fault"] in ON_THE_WAY else "forged"}, b""
    try:
        return letter.read(head, data)
    except SealError:
        return {"fault": "forged"}, b""


def fault(head: Mapping[str, Any]) -> Fault:
    """A code in our own words; what is no code of ours is not repeated."""
    code, words = CODES.get(str(head["fault"]), ("invalid", "it answered with something that is no code"))
    version = str(head.get("version", ""))
    if head["fault"] == "version" and version_name(version):
        words = f"it runs wardround {version}, the coordinator {__version__}; install {series(__version__)}"
    return Fault(code, words)


def borrowed(door: Path, name: str, title: str = "") -> Line | str:
    """The pipe to a site, for what is called so, if the switchboard has it at hand; if not, why, if that is known."""
    with dial(door, timeout=5.0) as desk:
        desk.send({"want": name, "for": title})
        frame = desk.receive()
        if frame is None or not frame[0].get("lent"):
            head = frame[0] if frame else {}
            return "busy" if head.get("busy") else str(head.get("barred", ""))
        _, handles, _, _ = socket.recv_fds(desk.socket, 1, 1)
    return Line(socket.socket(fileno=handles[0])) if handles else ""
