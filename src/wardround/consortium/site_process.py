"""The site process: one long-lived process of ours that holds a hospital's model, data, memory and ledger.

    python -m wardround.consortium.site_process FOLDER       # started and kept running by `wardround site start`

Rules of this file:
1. It answers one ask at a time, with a message or with one of the engine's codes: never an exception's text.
2. It refuses another version of wardround, a study that was not approved here, or not for so many rounds, a step or a
   message that the site's consent does not allow, an exchange that is over, and whatever does not match the manifest,
   in either direction.
3. An exchange is over when a later one has been asked for. The last one may be asked for again with the same message
   and gets the same reply; another message in its place is refused.
4. What a reply says is in the ledger, on the disk, before it leaves. If it cannot be written down it does not leave.
"""

import contextlib
import hashlib
import json
import signal
import socket
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from wardround import __version__
from wardround.build import Built, build_at_site
from wardround.consortium.deployed import study_hash
from wardround.consortium.house_ledger import HouseLedger
from wardround.consortium.settings import SiteSettings, read_site, site_study
from wardround.core.cohort import Fault
from wardround.core.files import write
from wardround.core.method import Step
from wardround.core.record import DecodeError, Message, decode
from wardround.core.serve import step_of
from wardround.core.site import Exchange
from wardround.engines.frames import Line, door_of, listen
from wardround.engines.host import Host, describe
from wardround.engines.processes import end_with_parent
from wardround.layers.small_counts import SmallCounts
from wardround.run_folder import NO_ROOM

__all__ = ["Refused", "SiteProcess", "main"]

Answer = tuple[dict[str, Any], bytes]


class Refused(Exception):
    """An ask is not answered; the code says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class _Run:
    """One run of an approved study at this site."""

    built: Built
    host: Host
    memory: Path
    last: tuple[int, int, int] = (-1, -1, -1)
    """The newest exchange asked for: attempt, round, number."""
    message: str = ""
    reply: Answer | None = field(default=None, repr=False)

    def admit(self, exchange: Exchange, digest: str) -> Answer | None:
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
        self.ledger = HouseLedger(folder / "ledger" / "site.jsonl", self.settings.name)
        self.runs: dict[tuple[str, str], _Run] = {}
        self.built = lru_cache(maxsize=4)(self._build)
        self.rounds = lru_cache(maxsize=64)(self._rounds)

    def answer(self, head: Mapping[str, Any], data: bytes) -> Answer:
        """The reply to an ask, or a code in its place."""
        number = head.get("ask")
        try:
            said, reply = self._answer(head, data)
        except Refused as refused:
            self._note(head, refused.code)
            said, reply = {"fault": refused.code}, b""
        except OSError as error:
            code = "disk" if error.errno in NO_ROOM else "failed"
            self._log(f"{code}: {describe(error)}")
            said, reply = {"fault": code}, b""
        except Exception as error:  # noqa: BLE001 -- whatever it is, its text stays here
            self._log(f"failed: {describe(error)}")
            said, reply = {"fault": "failed"}, b""
        if said.get("fault") == "version":
            said["version"] = __version__
        return {**said, "ask": number}, reply

    def _answer(self, head: Mapping[str, Any], data: bytes) -> Answer:
        if head.get("version") != __version__:
            raise Refused("version")
        run = self._run(str(head.get("study")), str(head.get("run")))
        if "hello" in head:
            self._approved(head, head.get("rounds", 0))
            own = run.built.sites.open(self.settings.name)
            most = {split: 1 << (len(own.split(split)) - 1).bit_length() for split in ("train", "test")}
            return {"ready": True, "most": most}, b""
        if "bye" in head:
            self.ledger.farewell(head)
            return {}, b""
        exchange, step = self._asked(run, head)
        message = self._decoded(run, step, data)
        for told in head.get("void") or ():
            run.host.undo(self.settings.name, Exchange.of(told))
        again = run.admit(exchange, hashlib.sha256(data).hexdigest())
        if again is not None:
            return again
        try:
            reply = self._served(run, step, exchange, message)
            noted = self.ledger.note(head, exchange, run.built.study.name, message, reply)
        except Exception:
            run.host.undo(self.settings.name, exchange)  # as if it had not been asked
            raise
        run.reply = {"ledger": noted}, reply.encode()
        return run.reply

    def _asked(self, run: _Run, head: Mapping[str, Any]) -> tuple[Exchange, Step[Any, Any]]:
        """The exchange and the step that are asked for, if this site takes part in such."""
        try:
            exchange = Exchange.of(head["exchange"])
            step = step_of(run.built.study.method, exchange.step)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise Refused("message") from None
        if exchange.seed != run.built.study.seed:
            raise Refused("message")
        self._approved(head, exchange.round)
        if not self.settings.consent.allows(step.name, step.reply.__name__):
            raise Refused("consent")
        return exchange, step

    def _approved(self, head: Mapping[str, Any], round_: int) -> None:
        path = self._approval(str(head["study"]))
        if round_ > self.rounds(path, path.stat().st_mtime_ns):
            raise Refused("rounds")

    def _served(self, run: _Run, step: Step[Any, Any], exchange: Exchange, message: Message) -> Message:
        reply = run.host.serve(self.settings.name, exchange, message)
        if isinstance(reply, Fault):
            error = run.host.error
            if isinstance(error, OSError):
                raise error
            self._log(f"failed in {step.name} of round {exchange.round}: {reply.detail}")
            raise Refused("failed")
        if run.built.manifest.refusal(step.reply, reply):
            self._log(f"the result of {step.name} in round {exchange.round} does not fit the study; it was not sent")
            raise Refused("result")
        return reply

    def _decoded(self, run: _Run, step: Step[Any, Any], data: bytes) -> Message:
        manifest = run.built.manifest
        try:
            message: Message = decode(step.message, data, limit=manifest.limit(step.message))
        except DecodeError:
            raise Refused("message") from None
        if manifest.refusal(step.message, message):
            raise Refused("message")
        return message

    # studies and runs

    def _run(self, study: str, run: str) -> _Run:
        if (study, run) not in self.runs:
            if not (study.isalnum() and run.isalnum() and len(study) == 64 and len(run) <= 64):
                raise Refused("study")
            memory = self.folder / "memory" / study[:16] / run
            built = self.built(study)
            layers = [SmallCounts(self.settings.consent.smallest_count)] if self.settings.consent.smallest_count else []
            private = built.study.sites.private
            host = Host(built.study.method, built.task, built.sites, memory, layers, private)
            found = _Run(built, host, memory)
            with contextlib.suppress(FileNotFoundError):
                told = json.loads((memory / "last.json").read_text(encoding="utf-8"))
                found.last, found.message = tuple(told["last"]), told["message"]
            self.runs[study, run] = found
        if not self._approval(study).exists():  # may have been taken back
            raise Refused("study")
        return self.runs[study, run]

    def _approval(self, study: str) -> Path:
        return self.folder / "approved" / f"{study}.toml"

    def _rounds(self, approval: Path, _written: int) -> int:
        """How many rounds were approved; more can be, later."""
        return int(tomllib.loads(approval.read_text(encoding="utf-8"))["rounds"])

    def _build(self, study: str) -> Built:
        path = self._approval(study)
        if not path.exists():
            raise Refused("study")
        told = site_study(self.folder, path.read_text(encoding="utf-8"), str(path))
        if study_hash(told) != study:  # a module of the study's was changed since
            raise Refused("study")
        try:
            built = build_at_site(told, self.folder, [self.settings.name], self.settings.examples(told))
            if not len(built.sites.open(self.settings.name).train):
                raise Refused("data")
        except (ValueError, LookupError, OSError) as error:
            self._log(f"data: {describe(error)}; run wardround site check")
            raise Refused("data") from None
        return built

    # what stays here

    def _note(self, head: Mapping[str, Any], code: str) -> None:
        with contextlib.suppress(OSError):
            self.ledger.refusal(head, code)

    def _log(self, text: str) -> None:
        """A line in the site's own log: codes and places in the source, no text of a note."""
        with contextlib.suppress(OSError), (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def serve(server: socket.socket, process: SiteProcess) -> None:
    """Answer whoever knocks, one after the other."""
    while True:
        end, _ = server.accept()
        with contextlib.suppress(OSError), Line(end) as line:
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
    serve(listen(door_of(folder)), process)


if __name__ == "__main__":
    main()
