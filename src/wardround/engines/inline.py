"""The embedded engine: all sites on this machine, one after another or in a pool of worker processes.

Serial, pooled and strict runs give the same bits: a site's work depends only on the message, its data and its
seed, and every process computes with one thread.

Within a round a site stays with its worker, where it may hold something between exchanges.

Workers are children of this process, which has read the corpus: once per run, whatever their number. They speak frames
over pipes, in our own encoding: no pickle. A worker that dies is replaced and its site asked again; a site whose worker
dies twice is at fault.
"""

import os
import selectors
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar, cast

from wardround.core.codec import DecodeError, decode
from wardround.core.device import OUT_OF_MEMORY
from wardround.core.doing import look
from wardround.core.exchange import Exchange, Fault
from wardround.core.method import Step
from wardround.core.record import Message
from wardround.core.refusal import Refusal
from wardround.engines.fork import Child
from wardround.engines.frames import read_frame, write_frame
from wardround.engines.host import Host
from wardround.engines.worker import answer_requests

R = TypeVar("R", bound=Message)
PAUSE = 1.0  # between two looks at what workers are at


class SiteFailed(Refusal, RuntimeError):
    """A step raised an error at a site; in a simulation that is a fault in the code, and stops the run."""

    code = 1

    def __init__(self, name: str, exchange: Exchange, fault: Fault) -> None:
        unseen = "its text is not shown, since it could quote a note: wardround run --traceback shows it"
        more = "with fewer --workers, go on with --resume" if fault.detail == OUT_OF_MEMORY else unseen
        super().__init__(f"{name} failed in step {exchange.step!r} of round {exchange.round}: {fault.detail}; {more}")


@dataclass(frozen=True)
class _Raised(Fault):
    """An error in a worker process, with its number if it is the operating system's: a full disk, say."""

    errno: int | None = None

    @property
    def cause(self) -> OSError | None:
        return None if self.errno is None else OSError(self.errno, os.strerror(self.errno))


class Serial:
    """One site after the other, in this process."""

    def __init__(self, host: Host, *, strict: bool = False) -> None:
        self.host, self.strict = host, strict

    def deliver(
        self, exchange: Exchange, step: Step[Any, R], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, R | Fault]]:
        """Each site's reply in turn."""
        for name, message in messages.items():
            sent = decode(step.message, message.encode()) if self.strict else message
            reply = self.host.answer(name, exchange, sent)
            if isinstance(reply, Fault):
                if reply.code == "failed":
                    raise SiteFailed(name, exchange, reply) from self.host.error
            elif self.strict:
                reply = decode(step.reply, reply.encode(), limit=step.limit)
            yield name, cast("R | Fault", reply)

    def close(self) -> None:
        """Nothing to stop."""


class Pool:
    """Sites dealt out to worker processes, one at a time to each."""

    def __init__(self, workers: int, host: Host, *, show_errors: bool = False) -> None:
        self.host, self.show_errors = host, show_errors
        self.workers = [_Worker(host, number, workers, show_errors=show_errors) for number in range(workers)]
        self.round = 0
        self.seats: dict[str, _Worker] = {}
        """Who served each site in this round."""

    def deliver(
        self, exchange: Exchange, step: Step[Any, R], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, R | Fault]]:
        """Each site's reply as it comes in."""
        for name, reply in self._replies(exchange, step, messages):
            if isinstance(reply, Fault) and reply.code == "failed":
                raise SiteFailed(name, exchange, reply) from getattr(reply, "cause", None)
            yield name, reply

    def _replies(
        self, exchange: Exchange, step: Step[Any, R], messages: Mapping[str, Message]
    ) -> Iterator[tuple[str, R | Fault]]:
        encoded: dict[int, bytes] = {}
        if exchange.round != self.round:
            self.round, self.seats = exchange.round, {}
        queue = deque(messages)
        tries = dict.fromkeys(messages, 0)
        busy: dict[_Worker, str] = {}
        idle = list(self.workers)
        with selectors.DefaultSelector() as selector:

            def waiting() -> str | None:
                """The next site whose worker is free; any may serve one that has none yet."""
                return next((n for n in queue if self.seats.get(n, idle[-1]) in idle), None) if idle else None

            def deal() -> None:
                while (name := waiting()) is not None:
                    worker = self.seats.setdefault(name, idle[-1])
                    queue.remove(name)
                    idle.remove(worker)
                    message = messages[name]
                    data = encoded.setdefault(id(message), b"") or message.encode()
                    encoded[id(message)] = data
                    tries[name] += 1
                    busy[worker] = name
                    selector.register(worker.out, selectors.EVENT_READ, worker)
                    worker.ask(name, exchange, data)

            deal()
            while busy:
                for key in _ready(selector):
                    worker = key.data
                    selector.unregister(worker.out)
                    name = busy.pop(worker)
                    answer = worker.answer(step)
                    if answer is None:
                        code = worker.stop()
                        number = self.workers.index(worker)
                        replacement = _Worker(self.host, number, len(self.workers), show_errors=self.show_errors)
                        self.workers[number] = replacement
                        self.seats |= {n: replacement for n, seat in self.seats.items() if seat is worker}
                        worker = replacement
                        if tries[name] < 2:
                            queue.appendleft(name)
                        else:
                            answer = Fault("lost", f"its worker process died twice (exit code {code}); out of memory?")
                    idle.append(worker)
                    deal()  # before the answer is looked at, for which the worker need not wait
                    if answer is not None:
                        yield name, answer

    def close(self) -> None:
        """Stop the workers; what one of them may still be at is not wanted any more."""
        for worker in self.workers:
            worker.child.send(signal.SIGKILL)
        for worker in self.workers:
            worker.stop()


def _ready(selector: selectors.BaseSelector) -> Iterator[selectors.SelectorKey]:
    """The workers that have something to say; meanwhile, what they are at is shown."""
    while not (ready := selector.select(PAUSE)):
        look()
    return (key for key, _ in ready)


class _Worker:
    """One worker process and the frames to and from it."""

    def __init__(self, host: Host, number: int, workers: int, *, show_errors: bool) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        work = partial(answer_requests, host, number, workers, show_errors=show_errors)
        self.child = Child(work, theirs_in, theirs_out, 2)
        os.close(theirs_in)
        os.close(theirs_out)
        self.into, self.out = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb")
        self.sent: bytes | None = None

    def ask(self, name: str, exchange: Exchange, data: bytes) -> None:
        """Hand over a message; one that it has already is not sent twice."""
        again = data is self.sent
        self.sent = data
        head = {"site": name, "exchange": asdict(exchange), "again": again}
        with suppress(BrokenPipeError):  # its end of the answer pipe is closed too, which `answer` sees
            write_frame(self.into, head, b"" if again else data)

    def answer(self, step: Step[Any, R]) -> R | Fault | None:
        """The reply or the fault; None if the process is gone."""
        frame = read_frame(self.out)
        if frame is None:
            return None
        head, data = frame
        if "fault" in head:
            return _Raised(*head["fault"])
        try:
            return decode(step.reply, data)
        except DecodeError as error:
            return Fault("invalid", str(error))

    def stop(self) -> int:
        """End the process and say how it ended."""
        for pipe in (self.into, self.out):
            with suppress(BrokenPipeError):
                pipe.close()
        return self.child.wait(5)
