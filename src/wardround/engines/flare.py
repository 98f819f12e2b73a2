"""NVFlare as the wire: a pipe at the coordinator, a door at each site, and nothing of ours in between.

The one file that imports NVFlare; what kits and jobs say in words is in `flare_kits`.

    study ── run loop ── Pipe (NVFlare's server job) ══ mutual TLS ══ Door (NVFlare's client job) ── site process

Rules of this file:
1. A pipe and a door carry frames and do not look into them. Models, data and memory live in our own processes, on
   whose local sockets (`WARDROUND_DOOR`) both ends knock: what befalls an NVFlare process loses nothing.
2. One job per site: a killed job process fails its whole job, so a job is as small as it can be, and is submitted
   anew by the switchboard. A job carries configuration, never code.
3. Messages are pushed (auxiliary requests), not fetched by polling: an exchange takes as long as its bytes.
4. A door answers with the site process's frame or with one of our codes: no exception text travels.
5. No torch here: NVFlare's processes stay small.
6. Every NVFlare process, jobs included, is started through `main` and ends when the one that started it does.
7. Who may connect is decided at the `gate`.
"""

import contextlib
import io
import logging
import os
import runpy
import selectors
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.job_launcher.process_launcher import ProcessJobLauncher
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.stats_pool import CounterPool, HistPool
from nvflare.fuel.utils.buffer_list import ConsumableBufferList
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args

from wardround.engines.frames import DOOR, GATE, MARK, Line, dial, heard
from wardround.engines.gate import guard_clients, guard_server
from wardround.engines.processes import end_soon_after_parent

__all__ = ["Door", "Launcher", "Pipe", "lighten", "provision", "quiet", "session"]

TOPIC = "wardround"
PING_SECONDS = 3.0
MISSED_PINGS = 3  # then the site is gone, and the job with it: a new one begins when it is back
SILENT_SECONDS = 180.0  # within which a ping gets through whatever is being carried
GONE_SECONDS = 30.0  # a switchboard that is away for longer will start new jobs when it is back
TRIES = 2  # as often as the pool asks a worker that dies


class Pipe(Controller):  # type: ignore[misc]  # NVFlare has no types
    """The coordinator's end of the line to one site: frames from our socket to the site's door and back."""

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site = site

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to tidy up."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Offer the line to the switchboard, again and again, until the job is to end."""
        seen = time.monotonic()
        while not abort_signal.triggered and self._ask({"ping": True, "seconds": 2.0}, b"", fl_ctx)[0].get("fault"):
            if time.monotonic() - seen > GONE_SECONDS:
                return
            time.sleep(0.05)  # until the site's job process is up
        while not abort_signal.triggered and time.monotonic() - seen < GONE_SECONDS:
            try:
                with dial(Path(os.environ[DOOR])) as line:
                    line.send({"pipe": self.site})
                    there = self._serve(line, abort_signal, fl_ctx)
                    seen = time.monotonic()
                if not there:
                    with dial(Path(os.environ[DOOR])) as line:
                        line.send({"over": self.site})
                    return
            except OSError:  # the switchboard is being started again
                time.sleep(0.2)

    def _serve(self, line: Line, abort_signal: Signal, fl_ctx: FLContext) -> bool:
        """Carry frames until whoever holds the other end hangs up (True) or the site is gone (False).

        An answer that nobody waits for any more is dropped.
        """
        pulse = _Pulse(lambda: self._ask({"ping": True, "seconds": 20.0}, b"", fl_ctx)[0].get("fault"))
        wake, woken = socket.socketpair()
        answers: list[tuple[dict[str, Any], bytes]] = []
        with selectors.DefaultSelector() as selector, wake, woken, pulse:
            selector.register(line, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while not abort_signal.triggered:
                for key, _ in selector.select(0.5):
                    if key.fileobj is woken:
                        woken.recv(1)
                        line.send(*answers.pop(0))
                        continue
                    frame = line.receive()
                    if frame is None:
                        return True

                    def carry(head: dict[str, Any], data: bytes) -> None:
                        answers.append(self._ask(head, data, fl_ctx))
                        try:
                            wake.send(b"!")
                        except OSError:  # hung up
                            return

                    threading.Thread(target=carry, args=frame, daemon=True).start()
                if pulse.gone:
                    return False
        return False

    def _ask(self, head: dict[str, Any], data: bytes, fl_ctx: FLContext) -> tuple[dict[str, Any], bytes]:
        request = Shareable()
        request["head"], request["data"] = head, data
        timeout, began = float(head["seconds"]), time.monotonic()
        replies = fl_ctx.get_engine().send_aux_request([self.site], TOPIC, request, timeout, fl_ctx, optional=True)
        reply = (replies or {}).get(self.site)
        code = ReturnCode.COMMUNICATION_ERROR if reply is None else reply.get_return_code()
        if reply is not None and code == ReturnCode.OK:
            return dict(reply["head"]), bytes(reply["data"])
        late = code == ReturnCode.TIMEOUT and time.monotonic() - began > 0.9 * timeout  # NVFlare says it too early, too
        return {"fault": "late" if late else "lost", "ask": head.get("ask")}, b""


class _Pulse:
    """Whether a site is still there, found out by asking it every few seconds, beside whatever else is carried.

    A site that cannot be reached is gone after a few tries; one that does not answer may only have a full line.
    """

    def __init__(self, ping: Callable[[], str | None]) -> None:
        self.ping, self.missed, self.seen, self.over = ping, 0, time.monotonic(), threading.Event()

    @property
    def gone(self) -> bool:
        return self.missed >= MISSED_PINGS or time.monotonic() - self.seen > SILENT_SECONDS

    def _beat(self) -> None:
        while not self.over.wait(PING_SECONDS if self.missed == 0 else 0.4):
            fault = self.ping()
            if fault is None:
                self.missed, self.seen = 0, time.monotonic()
            elif fault == "lost":
                self.missed += 1

    def __enter__(self) -> Self:
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()


class Door(Executor):  # type: ignore[misc]  # NVFlare has no types
    """The site's end: frames from the coordinator to the hospital's own site process, and its answers back."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open when the job starts."""
        if event_type == EventType.START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self.answer)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:  # noqa: ARG002
        """Tasks are not how we speak."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:  # noqa: ARG002
        """The site process's answer, or a code; a process that dies over a message is asked once more."""
        head, data = dict(request["head"]), bytes(request["data"])
        heard(Path(os.environ[DOOR]))
        if "ping" in head:
            return _reply({}, b"")
        end = time.monotonic() + float(head["seconds"])
        tries = 0
        answer: tuple[dict[str, Any], bytes] | None = None
        while answer is None and tries < TRIES and time.monotonic() < end:
            try:
                with dial(Path(os.environ[DOOR])) as line:
                    line.send(head, data)
                    answer = line.receive()
                    tries += 1
            except OSError:  # it is being started again
                pass
            if answer is None:
                time.sleep(0.3)  # a dying process may still accept a call for a moment
        return _reply(*(answer or ({"fault": "died", "ask": head.get("ask")}, b"")))


def _reply(head: dict[str, Any], data: bytes) -> Shareable:
    reply = make_reply(ReturnCode.OK)
    reply["head"], reply["data"] = head, data
    return reply


# programs


class Launcher(ProcessJobLauncher):  # type: ignore[misc]  # NVFlare has no types
    """Starts job processes through `main`; NVFlare's own would outlive a parent that dies while they import."""

    def get_command(self, job_meta: Mapping[str, Any], fl_ctx: FLContext) -> str:  # noqa: ARG002
        """The command of a job process; credentials are no part of it, but of its environment."""
        arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
        names = dict.fromkeys((*get_client_job_args(False, False), *get_server_job_args(False, False)))
        words = [sys.executable, "-m", "wardround.engines.flare", arguments[JobProcessArgs.EXE_MODULE][1]]
        words += [str(word) for name in names if name in arguments for word in arguments[name]]
        option, settings = arguments[JobProcessArgs.OPTIONS]
        return shlex.join([*words, option, *settings.split()])


def lighten() -> None:
    """Keep NVFlare from what nobody reads: all that arrives spelt out for a log that is off, and its statistics."""
    ConsumableBufferList.__repr__ = object.__repr__
    CoreCell._stats_category = lambda *_: ""  # noqa: SLF001 -- there is no setting
    HistPool.record_value = CounterPool.increment = lambda *_, **__: None


def main() -> None:
    """Run one of NVFlare's own programs: it ends with the process that started it, and connects through the gate."""
    program, *arguments = sys.argv[1:]
    end_soon_after_parent()
    lighten()
    if GATE in os.environ:
        guard_server()
    if MARK in os.environ:
        guard_clients()
    sys.argv = [program, *arguments]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


# provisioning and the coordinator's session: slow to import, and nothing for job processes


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """NVFlare prints; our users read our messages."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def provision(folder: Path, project: dict[str, Any]) -> Path:
    """Have NVFlare make the certificates and kits of a project; where they are."""
    from nvflare.lighter.prov_utils import prepare_builders  # noqa: PLC0415
    from nvflare.lighter.provision import prepare_project  # noqa: PLC0415
    from nvflare.lighter.provisioner import Provisioner  # noqa: PLC0415

    with quiet():
        Provisioner(str(folder), prepare_builders(project), None).provision(prepare_project(project))
    return folder / str(project["name"]) / "prod_00"


def session(user: str, kit: Path, timeout: float) -> Any:
    """The session of an administrator with NVFlare's server."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session  # noqa: PLC0415

    logging.disable(logging.CRITICAL)
    with quiet():
        return new_secure_session(user, str(kit), timeout=timeout)


if __name__ == "__main__":
    main()
