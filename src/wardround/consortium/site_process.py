"""The site process: one long-lived process of ours that holds a hospital's model, data, memory and ledger.

    python -m wardround.consortium.site_process FOLDER       # started and kept running by `wardround site start`

Rules of this file:
1. It opens a letter only if the coordinator signed it for this site (`engines.seal`), looks at nothing else before, and
   answers so that only the coordinator can read it: whoever carries the letters is not trusted.
2. It answers one ask at a time, with a message or with one of the engine's codes: never an exception's text.
3. It refuses another version of wardround, a study that was not approved here for these data, what its approval or its
   consent does not cover, an exchange that is over, weights that cannot be this study's, a reply that stands on too few
   examples, and whatever does not match the manifest, in either direction.
4. An exchange is over when a later one has been asked for. The last one may be asked for again with the same message
   and gets the same reply; another message in its place is refused.
5. What a reply says is in the ledger, on the disk, and spent from the approval before it leaves. If it cannot be
   written down it does not leave.
6. `site.toml` and approvals are read anew when they have changed: what the hospital decides holds from the next ask on.
"""

import contextlib
import hashlib
import json
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from wardround import __version__
from wardround.consortium.approval import Approval, read_approval
from wardround.consortium.approving import data_fingerprint
from wardround.consortium.budget import Overspent, Question
from wardround.consortium.deployed import study_hash
from wardround.consortium.expected import sites_of
from wardround.consortium.forms import read_membership
from wardround.consortium.house_ledger import Answer, HouseLedger
from wardround.consortium.places import Places
from wardround.consortium.reach import Reach
from wardround.consortium.settings import SiteSettings, read_site, site_study
from wardround.core.codec import DecodeError, decode
from wardround.core.exchange import Exchange, Fault
from wardround.core.files import NO_ROOM, write
from wardround.core.layer import Withheld
from wardround.core.method import Exam, Step
from wardround.core.record import Message
from wardround.engines.frames import Line, calls, door_of
from wardround.engines.host import Host, describe
from wardround.engines.processes import end_with_parent, tell
from wardround.engines.seal import Answerer, Ask, SealError, read_sealing_key
from wardround.layers.least import LeastExamples
from wardround.layers.small_counts import SmallCounts
from wardround.runs.build import Built, build_at_site
from wardround.study.settings import StudyError

__all__ = ["RUNS", "Refused", "SiteProcess", "main"]

Frame = tuple[dict[str, Any], bytes]
RUNS = 16  # kept at hand; a coordinator may name as many as it likes


class Refused(Exception):
    """An ask is not answered; the code says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class _Ready:
    """A study as this site has it: built from its own data, whose fingerprint is known."""

    built: Built
    places: Places
    reach: Reach
    data: str
    sizes: Mapping[str, int]
    """How many examples it has of each split, rounded up to a power of two: all that is told of it beforehand."""


@dataclass
class _Run:
    """One run of an approved study at this site."""

    ready: _Ready
    host: Host
    memory: Path
    last: tuple[int, int, int] = (-1, -1, -1)
    """The newest exchange asked for: attempt, round, number."""
    message: str = ""
    reply: Frame | None = field(default=None, repr=False)

    def admit(self, exchange: Exchange, digest: str) -> Frame | None:
        """Let a new exchange pass (None), answer the last one again, refuse all others."""
        now = (len(exchange.resumed), exchange.round, exchange.number)
        if now < self.last or (now == self.last and digest != self.message):
            raise Refused("stale")
        if now > self.last:
            write(
                self.memory / "last.json",
                json.dumps({"last": now, "message": digest, "resumed": exchange.resumed}).encode(),
            )
            self.last, self.message, self.reply = now, digest, None
        return self.reply


class SiteProcess:
    """Answers asks for one site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: SiteSettings = read_site(folder)
        self.name = self.settings.name
        ask_key = read_membership(folder / "kit").ask_key
        self.seal = Answerer(self.name, ask_key, read_sealing_key(folder / "keys" / "seal.key"))
        self.ledger = HouseLedger(folder / "ledger" / "site.jsonl", self.name)
        self.runs: dict[tuple[str, str, int], _Run] = {}
        self.stamp: tuple[tuple[str, int, int], ...] = ()
        """The site's files as they were when they were last read."""
        self.read = lru_cache(maxsize=1)(self._read)
        self.ready = lru_cache(maxsize=4)(self._ready)
        self.approval = lru_cache(maxsize=64)(self._approval)

    def answer(self, head: Mapping[str, Any], data: bytes) -> Frame:
        """The sealed reply to an ask of the coordinator's; to anybody else a code that says nothing."""
        try:
            ask = self.seal.open(head, data)
        except SealError:
            with contextlib.suppress(OSError):
                self.ledger.knock()
            return {"fault": "unsigned", "ask": str(head.get("ask"))[:64]}, b""
        return ask.reply(*self.respond(ask))

    def respond(self, ask: Ask) -> Frame:
        """What to reply to the coordinator: an answer, or a code in its place."""
        try:
            reply = self._respond(ask)
        except Refused as refused:
            with contextlib.suppress(OSError):
                self.ledger.refusal(ask.head, refused.code)
            reply = {"fault": refused.code}, b""
        except OSError as error:
            code = "disk" if error.errno in NO_ROOM else "failed"
            self._log(f"{code}: {describe(error)}")
            reply = {"fault": code}, b""
        except Exception as error:  # noqa: BLE001 -- whatever it is, its text stays here
            self._log(f"failed: {describe(error)}")
            reply = {"fault": "failed"}, b""
        if reply[0].get("fault") == "version":
            reply[0]["version"] = __version__
        return reply

    def _respond(self, ask: Ask) -> Frame:
        head = ask.head
        if head.get("version") != __version__:
            raise Refused("version")
        study = str(head.get("study"))
        approval = self._approved(study)
        run = self._run(study, str(head.get("run")), fresh="hello" in head)
        if run.ready.data != approval.data:
            raise Refused("changed")
        if "hello" in head:
            if int(head.get("rounds", 0)) > approval.rounds:
                raise Refused("rounds")
            self.ledger.greeted(head, run.ready.sizes)
            return {"ready": True, "most": dict(run.ready.sizes)}, b""
        if "bye" in head:
            self.ledger.farewell(head)
            return {}, b""
        return self._exchanged(ask, run, approval)

    def _exchanged(self, ask: Ask, run: _Run, approval: Approval) -> Frame:
        """The reply of a step, spent and written down; or the last one again."""
        study, digest = str(ask.head["study"]), str(ask.statement["digest"])
        exchange, step = self._asked(run, ask.head, approval)
        message = self._decoded(run, step, ask.data)
        budget = self.ledger.budget
        question = Question.of(exchange, message, digest, moving=run.ready.places.moving)
        try:
            budget.admit(study, approval, question, run.ready.places.evaluations)
            if run.ready.places.full(exchange, budget.of(study).answered):
                raise Refused("restart")
            if run.ready.reach.refusal(exchange, message):
                raise Refused("weights")
        except Overspent as error:
            raise Refused(error.code) from None
        if again := run.admit(exchange, digest):
            return again
        try:
            for lost in ask.head.get("void") or ():
                run.host.undo(self.name, Exchange.of(lost))
            reply = self._served(run, step, exchange, message)
            data = reply.encode()
            sent = hashlib.sha256(data).hexdigest()
            mark = budget.settle(study, approval, question, sent)
            name, theirs = run.ready.built.study.name, str(ask.head.get("ledger", ""))
            answer = Answer(ask.statement, theirs, question, name, run.ready.data, message, reply, sent, mark)
            noted = self.ledger.note(answer)
        except Overspent as error:
            run.host.undo(self.name, exchange)
            raise Refused(error.code) from None
        except Exception:
            run.host.undo(self.name, exchange)  # as if it had not been asked
            raise
        run.ready.reach.seen(exchange, message)
        run.reply = {"ledger": noted}, data
        return run.reply

    def _asked(self, run: _Run, head: Mapping[str, Any], approval: Approval) -> tuple[Exchange, Step[Any, Any]]:
        """The exchange and the step that are asked for, if this site takes part in such."""
        study = run.ready.built.study
        try:
            exchange = Exchange.of(head["exchange"])
            step = run.host.step(exchange.step)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise Refused("message") from None
        if exchange.seed != study.seed or exchange.round < 0 or not run.ready.places.has(exchange):
            raise Refused("message")
        if exchange.round > approval.rounds:
            raise Refused("rounds")
        if not self.settings.consent.allows(step.name, step.reply.__name__):
            raise Refused("consent")
        return exchange, step

    def _served(self, run: _Run, step: Step[Any, Any], exchange: Exchange, message: Message) -> Message:
        reply = run.host.answer(self.name, exchange, message)
        if isinstance(reply, Fault):
            error = run.host.error
            if isinstance(error, OSError):
                raise error
            if reply.code == "invalid":
                why = "does not fit the study; it was not sent"
                self._log(f"the result of {step.name} in round {exchange.round} {why}")
                raise Refused("result")
            self._log(f"{reply.code} in {step.name} of round {exchange.round}: {reply.detail}")
            raise Refused(error.code if isinstance(error, Withheld) else "failed")
        return reply

    def _decoded(self, run: _Run, step: Step[Any, Any], data: bytes) -> Message:
        manifest = run.ready.built.manifest
        try:
            message: Message = decode(step.message, data, limit=manifest.limit(step.message))
        except DecodeError:
            raise Refused("message") from None
        if manifest.refusal(step.message, message):
            raise Refused("message")
        if isinstance(message, Exam) and message.split not in run.ready.built.study.evaluation.splits:
            raise Refused("message")
        return message

    # studies and runs

    def _run(self, study: str, run: str, *, fresh: bool) -> _Run:
        """The run as this site knows it; with fresh data, if a run begins, announced or not, and they have changed."""
        if not (run.isalnum() and run.isascii() and len(run) <= 64):
            raise Refused("study")
        changed = _changed(self.folder / "site.toml")
        try:
            self.settings = self.read(changed)
        except StudyError:
            self._log("settings: site.toml is not in order; run wardround site check")
            raise Refused("settings") from None
        key = (study, run, changed)
        if (fresh or key not in self.runs) and (stamp := _stamp(self.folder, self.settings)) != self.stamp:
            self.ready.cache_clear()
            self.runs.clear()
            self.stamp = stamp
        if key not in self.runs:
            self.runs = {known: value for known, value in self.runs.items() if known[2] == changed}
            ready = self.ready(study, changed)
            memory = self.folder / "memory" / study[:16] / run
            consent, built = self.settings.consent, ready.built
            own = (SmallCounts(consent.smallest_count), LeastExamples(consent.least_examples))
            layers = (*own, *built.study.layers)  # what it does not tell it does not tell behind a mask either
            private = built.study.sites.private
            host = Host(built.study.method, built.task, built.sites, memory, layers, private, built.manifest)
            while len(self.runs) >= RUNS:  # each holds a reply; what must last is on the disk
                del self.runs[next(iter(self.runs))]
            self.runs[key] = known = _Run(ready, host, memory)
            with contextlib.suppress(FileNotFoundError):
                last = json.loads((memory / "last.json").read_text(encoding="utf-8"))
                known.last, known.message = tuple(last["last"]), last["message"]
        return self.runs[key]

    def _approved(self, study: str) -> Approval:
        """What was agreed to for this study, which may be taken back or added to at any time."""
        if not (study.isalnum() and study.isascii() and len(study) == 64):
            raise Refused("study")
        place = self.folder / "approved" / f"{study}.json"
        approval = self.approval(study, _changed(place), _changed(place.with_suffix(".toml")))
        if approval is None:
            raise Refused("study")
        return approval

    def _approval(self, study: str, *_changed: int) -> Approval | None:
        try:
            return read_approval(self.folder, study)
        except ValueError:
            self._log("approved: an approval cannot be read; give it again with wardround site approve")
            return None

    def _read(self, _changed: int) -> SiteSettings:
        return read_site(self.folder)

    def _ready(self, study: str, _changed: int) -> _Ready:
        path = self.folder / "approved" / f"{study}.toml"
        try:
            settings = site_study(self.folder, path.read_text(encoding="utf-8"), str(path))
            if study_hash(settings) != study:  # a module of the hospital's own was changed since
                raise Refused("study")
            examples = self.settings.examples(settings)
            built = build_at_site(settings, self.folder, [self.name], examples)
            data = built.sites.open(self.name)
            if not len(data.train):
                raise Refused("data")
        except FileNotFoundError:
            raise Refused("study" if not path.exists() else "data") from None
        except (ValueError, LookupError, OSError) as error:
            self._log(f"data: {describe(error)}; run wardround site check")
            raise Refused("data") from None
        splits = {"train": data.train, "test": data.test, "valid": data.valid}
        sizes = {split: 1 << max(len(part) - 1, 0).bit_length() for split, part in splits.items() if part is not None}
        places = Places.of(settings, len(data.train), sites_of(self.folder))
        reach = Reach(built, self.name, self.settings.consent.largest_change, moving=places.moving)
        return _Ready(built, places, reach, data_fingerprint(self.settings, examples), sizes)

    # what stays here

    def _log(self, text: str) -> None:
        """A line in the site's own log and on its console: codes and places in the source, no text of a note."""
        tell(text)
        with contextlib.suppress(OSError), (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def _changed(path: Path) -> int:
    """When a file was last changed; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _stamp(folder: Path, settings: SiteSettings) -> tuple[tuple[str, int, int], ...]:
    """Size and time of every file that `[data]` names, or that lies in a folder that it names."""
    named = [folder / value for value in settings.data.values() if isinstance(value, str) and value]
    files = [file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    with contextlib.suppress(OSError):
        return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file())
    return ()


def serve(lines: Iterable[Line], process: SiteProcess) -> None:
    """Answer whoever knocks, one after the other."""
    for line in lines:
        with contextlib.suppress(OSError), line:
            line.socket.settimeout(600.0)  # a frame that takes longer on the same machine will never end
            frame = line.receive()
            if frame is not None:
                line.send(*process.answer(*frame))


def main() -> None:
    """Serve the site in the folder that is named."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches whoever started us, who ends us
    folder = Path(sys.argv[1]).resolve()
    process = SiteProcess(folder)
    torch.set_num_threads(process.settings.workers)
    serve(calls(door_of(folder)), process)


if __name__ == "__main__":
    main()
