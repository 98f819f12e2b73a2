"""The site process: one long-lived process of ours that holds a hospital's model, data, memory and ledger.

    python -m wardround.consortium.site_process FOLDER       # started and kept running by `wardround site start`

Rules of this file:
1. It opens a letter only if the coordinator signed it for this site (`engines.seal`), looks at nothing else before, and
   answers so that only the coordinator can read it: whoever carries the letters is not trusted.
2. It answers one ask at a time, with a message or with one of the engine's codes: never an exception's text.
3. It refuses a version of wardround that does not go with its own, a study that was not approved here for these data,
   what its approval or its consent does not cover, an exchange that is over, weights that cannot be this study's, a
   reply that stands on too few examples, and whatever does not match the manifest, in either direction.
4. An exchange is over when a later one has been asked for. The last one may be asked for again with the same message
   and gets the same reply; another message in its place is refused.
5. What a reply says is in the ledger, on the disk, and spent from the approval before it leaves. If it cannot be
   written down it does not leave.
6. A site that was put back from a copy answers nothing until its hospital has said what counts as spent (`forgotten`).
7. `site.toml` and approvals are read anew when they have changed: what the hospital decides holds from the next ask on.
"""

import contextlib
import hashlib
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from wardround import __version__
from wardround.consortium.approval import Approval
from wardround.consortium.budget import Denial, Question
from wardround.consortium.clock import OFF, note_clock, off
from wardround.consortium.forgotten import LARGEST, LEDGER, keep_account, knows, mark_restored, restored
from wardround.consortium.forms import read_membership
from wardround.consortium.house_ledger import Answer, HouseLedger
from wardround.consortium.identity import MOST, hear_of
from wardround.consortium.private_site import JOURNAL
from wardround.consortium.received import keep_model, most_of_model
from wardround.consortium.site_words import begins, delivers, ends, joined, refused, unsure
from wardround.consortium.studies import Run, Studies
from wardround.consortium.voice import append
from wardround.core.codec import DecodeError, decode
from wardround.core.device import out_of_memory
from wardround.core.doing import NOTICE, doing, noticed
from wardround.core.exchange import Exchange, Fault
from wardround.core.files import NO_ROOM
from wardround.core.layer import Withheld
from wardround.core.method import Exam, Step
from wardround.core.record import Message
from wardround.engines.frames import Line, calls, door_of
from wardround.engines.host import describe
from wardround.engines.processes import end_with_parent, tell
from wardround.engines.seal import Answerer, Ask, SealError, read_sealing_key
from wardround.engines.versions import compatible
from wardround.layers.ledger import last_value
from wardround.runs.errors import RunError

Frame = tuple[dict[str, Any], bytes]
SMALL = 1 << 20  # bytes of a message that is read, whoever it is from


class SiteProcess:
    """Answers asks for one site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.studies = Studies(folder, self._log)
        self.name = self.studies.name
        ask_key = read_membership(folder / "kit").ask_key
        self.seal = Answerer(self.name, ask_key, read_sealing_key(folder / "keys" / "seal.key"))
        self.ledger = HouseLedger(folder / LEDGER, self.name)
        self.begun: set[tuple[str, str]] = set()
        """Runs of which the log says that they have begun, and not yet that they ended."""
        self.named: set[str] = set()
        """Members of whom the log says that they are new."""
        self.lapse = restored(folder)
        """Since when it has not known what it has answered, if that is so."""
        if self.lapse is not None:
            self._log(unsure(folder))

    def answer(self, head: Mapping[str, Any], data: bytes) -> Frame:
        """The sealed reply to an ask of the coordinator's; to anybody else a code that says nothing."""
        try:
            ask = self.seal.open(head, data)
        except SealError:
            return self._stranger(head)
        return ask.reply(*self.respond(ask))

    def unread(self, head: Mapping[str, Any], size: int) -> Frame | None:
        """The reply to a letter that is too long, or not the coordinator's, before its message is read; else None."""
        if size <= SMALL:
            return None
        try:
            ask = self.seal.look(head)
        except SealError:
            return self._stranger(head)
        reply = self._safely(ask, lambda: self._sized(ask, size))
        return ask.reply(*reply) if reply[0] else None

    def _stranger(self, head: Mapping[str, Any]) -> Frame:
        with contextlib.suppress(OSError):
            if self.lapse is None:
                self.ledger.knock()
        return {"fault": "unsigned", "ask": str(head.get("ask"))[:64]}, b""

    def respond(self, ask: Ask) -> Frame:
        """What to reply to the coordinator: an answer, or a code in its place."""
        return self._safely(ask, lambda: self._respond(ask))

    def _safely(self, ask: Ask, reply_of: Callable[[], Frame]) -> Frame:
        try:
            reply = reply_of()
        except Denial as refusal:
            with contextlib.suppress(OSError):
                new = self.lapse is None and self.ledger.refusal(ask.head, refusal.code)
                if new and (words := refused(self.folder, ask.head, refusal.code)):
                    self._log(words)
            reply = {"fault": refusal.code, **({"lapse": self.lapse.lapse} if self.lapse else {})}, b""
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

    def _sized(self, ask: Ask, size: int) -> Frame:
        """Nothing, or a `Denial` of a message that is longer than such a one can be."""
        head, study = ask.head, str(ask.head.get("study"))
        if not compatible(str(head.get("version")), __version__):
            raise Denial("version")
        most = 0
        if "told" in head:
            most = LARGEST
        elif approval := self.studies.approved(study):
            if "model" in head:
                most = most_of_model(self.folder, study, str(head.get("run")))
            elif "exchange" in head:
                run = self.studies.run(study, str(head.get("run")), fresh=False)
                most = run.ready.built.manifest.limit(self._asked(run, head, approval)[1].message)
        if size > most + SMALL:  # with what the seal adds
            raise Denial("model" if "model" in head else "message")
        return {}, b""

    def _respond(self, ask: Ask) -> Frame:
        head = ask.head
        if not compatible(str(head.get("version")), __version__):
            raise Denial("version")
        if "hello" in head and abs(error := note_clock(self.folder, head.get("time"))) > OFF:
            self._log(f"clock: this machine's clock is {off(error)}; set it, or certificates will seem to have expired")
        self._remember(ask)
        self._tell_members(head.get("members"))
        if "told" in head:
            return {}, b""
        study = str(head.get("study"))
        approval = self.studies.approved(study)
        if "model" in head:  # of a run that has ended: the data may be others by now
            return self._delivered(ask), b""
        run = self.studies.run(study, str(head.get("run")), fresh="hello" in head)
        if run.ready.data != approval.data:
            raise Denial("changed")
        if "hello" in head:
            if int(head.get("rounds", 0)) > approval.rounds:
                raise Denial("rounds")
            if run.ready.thin:
                raise Denial("few")
            self.ledger.greeted(head, run.ready.sizes, run.greet(self.name))
            left = max(approval.exchanges - self.ledger.budget.of(study).exchanges, 0)
            return {"ready": True, "version": __version__, "most": dict(run.ready.sizes), "left": left}, b""
        if "bye" in head:
            self.ledger.farewell(head)
            self._tell_end(head, run)
            return {}, b""
        return self._exchanged(ask, run, approval)

    def _remember(self, ask: Ask) -> None:
        """A `Denial` if this site was put back from a copy, and nobody there has said yet what that means."""
        head = ask.head
        now = restored(self.folder)
        if now is None and self.lapse is not None:  # its hospital has said it: the ledger is another
            self.ledger, self.studies = HouseLedger(self.folder / LEDGER, self.name), Studies(self.folder, self._log)
        if now is None and not knows(self.folder, head.get("yours")):
            self.ledger.refusal(head, "restored")
            now = mark_restored(self.folder)
        if now is not None and now != self.lapse:
            self._log(unsure(self.folder))
        self.lapse = now
        if now is not None and not (
            "told" in head and keep_account(self.folder, now, ask.statement, head["told"], ask.data)
        ):
            raise Denial("restored")

    def _exchanged(self, ask: Ask, run: Run, approval: Approval) -> Frame:
        """The reply of a step, spent and written down; or the last one again."""
        study, digest = str(ask.head["study"]), str(ask.statement["digest"])
        exchange, step = self._asked(run, ask.head, approval)
        message = self._decoded(run, step, ask.data)
        budget = self.ledger.budget
        question = Question.of(exchange, message, digest, run.ready.expected.first)
        budget.admit(study, approval, question, run.ready.expected.tried)
        if run.ready.expected.full(exchange, budget.of(study).numbers):
            raise Denial("restart")
        if run.ready.reach.refusal(exchange, message):
            raise Denial("weights")
        new = run.last[0] < 0
        if again := run.admit(exchange, digest):
            return again
        self._tell_begin(ask.head, exchange.round, approval, new=new)
        doing(f"{run.ready.built.study.name}, round {exchange.round}: {step.name}")
        try:
            for lost in ask.head.get("void") or ():
                run.host.undo(self.name, Exchange.of(lost))
            vault = run.host.vault
            if vault:
                vault.choices, vault.new = budget.of(study).sums, {}
            run.greet(self.name)  # what a site says of its size has its price, whether a coordinator greets or not
            reply = self._served(run, step, exchange, message)
            data = reply.encode()
            sent = hashlib.sha256(data).hexdigest()
            mark = budget.settle(study, approval, question, sent)
            name, theirs = run.ready.built.study.name, str(ask.head.get("ledger", ""))
            hides = None if type(reply).alone or type(reply) is step.reply else step.reply
            fewest = max((layer.quorum for layer in run.ready.built.study.layers), default=0)
            spent = last_value(self.folder / JOURNAL, "hash") if run.guards else ""
            sums = vault.new if vault else {}
            answer = Answer(
                ask.statement, theirs, question, name, run.ready.data, message, reply, sent, hides, fewest, mark, sums,
                spent,
            )  # fmt: skip
            noted = self.ledger.note(answer)
        except Exception:
            run.host.undo(self.name, exchange)  # as if it had not been asked
            raise
        finally:
            doing("")
        run.ready.reach.seen(exchange, message)
        run.reply = {"ledger": noted, "version": __version__}, data
        return run.reply

    def _asked(self, run: Run, head: Mapping[str, Any], approval: Approval) -> tuple[Exchange, Step[Any, Any]]:
        """The exchange and the step that are asked for, if this site takes part in such."""
        study = run.ready.built.study
        try:
            exchange = Exchange.of(head["exchange"])
            step = run.host.step(exchange.step)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise Denial("message") from None
        if exchange.seed != study.seed or exchange.round < 0 or not run.ready.expected.has(exchange):
            raise Denial("message")
        if exchange.round > approval.rounds:
            raise Denial("rounds")
        if not self.studies.settings.consent.allows(step.name, step.reply):
            raise Denial("consent")
        return exchange, step

    def _served(self, run: Run, step: Step[Any, Any], exchange: Exchange, message: Message) -> Message:
        reply = run.host.answer(self.name, exchange, message)
        if isinstance(reply, Fault):
            error = run.host.error
            if isinstance(error, OSError):
                raise error
            if reply.code == "invalid":
                why = f"does not fit the study ({reply.detail}); it was not sent"
                self._log(f"the result of {step.name} in round {exchange.round} {why}")
                raise Denial("result")
            self._log(f"{reply.code} in {step.name} of round {exchange.round}: {reply.detail}")
            code = "memory" if error is not None and out_of_memory(error) else "failed"
            raise Denial(error.code if isinstance(error, Withheld) else code)
        return reply

    def _decoded(self, run: Run, step: Step[Any, Any], data: bytes) -> Message:
        manifest = run.ready.built.manifest
        try:
            message: Message = decode(step.message, data, limit=manifest.limit(step.message))
        except DecodeError:
            raise Denial("message") from None
        if manifest.refusal(step.message, message):
            raise Denial("message")
        if isinstance(message, Exam) and message.split not in run.ready.built.study.evaluation.splits:
            raise Denial("message")
        return message

    def _delivered(self, ask: Ask) -> dict[str, Any]:
        """Keep the model of a run that has ended."""
        if not keep_model(self.folder, ask):
            return {"ledger": self.ledger.chain.head}
        noted = self.ledger.delivered(ask)
        self._log(delivers(self.folder, ask.head, len(ask.data)))
        return {"ledger": noted}

    # what stays here

    def _tell_members(self, names: object) -> None:
        """Tell this hospital once of each member that is new to it: whom to ring up, and what to type."""
        with contextlib.suppress(RunError, OSError):  # what is damaged, or full, is told where it is needed
            new = [name for name in hear_of(self.folder, names) if name not in self.named][: MOST - len(self.named)]
            if new:
                self.named |= {*new}
                self._log(joined(self.folder, new))

    def _tell_begin(self, head: Mapping[str, Any], round_: int, approval: Approval, *, new: bool) -> None:
        if (key := (str(head["study"]), str(head["run"]))) not in self.begun:
            self.begun.add(key)
            self._log(begins(self.folder, head, None if new else round_, approval.rounds))

    def _tell_end(self, head: Mapping[str, Any], run: Run) -> None:
        if (key := (str(head["study"]), str(head["run"]))) in self.begun:
            self.begun.remove(key)
            self._log(ends(self.folder, head, max(run.last[1], 0)))

    def _log(self, text: str) -> None:
        """A line in the site's own log and on its console: codes and places in the source, no text of a note."""
        tell(text)
        append(self.folder / "log.txt", f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")


def answer_calls(lines: Iterable[Line], process: SiteProcess) -> None:
    """Answer whoever knocks, one after the other."""
    for line in lines:
        with contextlib.suppress(OSError), line:
            line.socket.settimeout(600.0)  # a frame that takes longer on the same machine will never end
            told = line.announced()
            if told is None:
                continue
            head, size = told
            if reply := process.unread(head, size):
                line.skip(size)
                line.send(*reply)
            elif (data := line.rest(size)) is not None:
                line.send(*process.answer(head, data))


def main() -> None:
    """Serve the site in the folder that is named."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches whoever started us, who ends us
    folder = Path(sys.argv[1]).resolve()
    process = SiteProcess(folder)
    torch.set_num_threads(process.studies.settings.threads)
    with noticed(folder / NOTICE):
        answer_calls(calls(door_of(folder)), process)


if __name__ == "__main__":
    main()
