"""NVFlare as the wire: a pipe at the coordinator, a door at each site, and nothing of ours in between.

The one file that imports NVFlare; what kits and jobs say in words is in `flare_kits`.

    study ── run loop ── Pipe (NVFlare's server job) ══ mutual TLS ══ Door (NVFlare's client job) ── site process

Rules of this file:
1. A pipe and a door carry frames and do not look into them. Models, data and memory live in our own processes, on
   whose local sockets (`WARDROUND_DOOR`) both ends knock: what befalls an NVFlare process loses nothing.
2. One job per site: a killed job process fails its whole job, so a job is as small as it can be, and is submitted
   anew by the switchboard. A job carries configuration, never code.
3. Messages are pushed (auxiliary requests), not fetched by polling: an exchange takes as long as its bytes.
4. A door answers with the site process's frame or with one of our codes: no exception text travels. A ping asks the
   site process as well (`bell`): one that is frozen does not pass for ready.
5. No torch here: NVFlare's processes stay small.
6. Every NVFlare process, jobs included, is started through `main` and ends when the one that started it does.
7. Who may connect is decided at the `gate`.
"""

import contextlib
import io
import logging
import os
import runpy
import secrets
import shlex
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
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.job_launcher.process_launcher import ProcessJobLauncher
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey, MessageType
from nvflare.fuel.f3.cellnet.defs import ReturnCode as CellCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.fuel.f3.stats_pool import CounterPool, HistPool
from nvflare.fuel.utils.buffer_list import ConsumableBufferList
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args

from wardround.engines.bell import Bell
from wardround.engines.frames import DOOR, GATE, MARK, Line, dial, heard, readable
from wardround.engines.gate import guard_clients, guard_server
from wardround.engines.processes import end_soon_after_parent

TOPIC = "wardround"
BYTES = bytes | bytearray | memoryview  # of anything else, a number, `bytes` would make as many zeros
LOOK_SECONDS = 0.5
PING_SECONDS = 3.0
MISSED_PINGS = 3  # then the site is gone, and the job with it: a new one begins when it is back
SILENT_SECONDS = 180.0  # within which a ping gets through whatever is being carried
GONE_SECONDS = 30.0  # a switchboard that is away for longer will start new jobs when it is back
AT_ONCE = 1 << 20  # bytes that travel in one piece
HUNG_SECONDS = 15.0  # without an answer that are worth a word
FOREVER = 1e9


class Pipe(Controller):  # type: ignore[misc]  # NVFlare has no types
    """The coordinator's end of the line to one site: frames from our socket to the site's door and back."""

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site, self.hung = site, False

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
                    there = self._carry_frames(line, abort_signal, fl_ctx)
                    seen = time.monotonic()
                if not there:
                    with dial(Path(os.environ[DOOR])) as line:
                        line.send({"over": self.site})
                    return
            except OSError:  # the switchboard is being started again
                time.sleep(0.2)

    def _carry_frames(self, line: Line, abort_signal: Signal, fl_ctx: FLContext) -> bool:
        """Carry frames until whoever holds the other end hangs up (True) or the site is gone (False).

        An answer that nobody waits for any more is dropped.
        """
        writing = threading.Lock()

        def carry(head: dict[str, Any], data: bytes) -> None:
            answer = self._ask(head, data, fl_ctx)
            with contextlib.suppress(OSError), writing:  # or he has hung up
                line.send(*answer)

        with _Pulse(lambda: self._ping(fl_ctx)) as pulse:
            while not abort_signal.triggered and not pulse.gone:
                if readable(line, LOOK_SECONDS):
                    if (frame := line.receive()) is None:
                        return True
                    threading.Thread(target=carry, args=frame, daemon=True).start()
        return False

    def _ping(self, fl_ctx: FLContext) -> str | None:
        """Why the site's door was not reached, if it was not; the switchboard hears of one with nobody behind it."""
        head, _ = self._ask({"ping": True, "seconds": 5.0}, b"", fl_ctx)
        seconds = head.get("owed")
        hung = isinstance(seconds, float) and HUNG_SECONDS < seconds < FOREVER
        if hung or self.hung:
            self.hung = hung
            with contextlib.suppress(OSError), dial(Path(os.environ[DOOR]), timeout=5.0) as line:
                line.send({"hung": self.site, "seconds": seconds if hung else 0.0})
        return head.get("fault")

    def _ask(self, head: dict[str, Any], data: bytes, fl_ctx: FLContext) -> tuple[dict[str, Any], bytes]:
        seconds, began = float(head["seconds"]), time.monotonic()
        send = self._stream if len(data) > AT_ONCE else self._send
        code, reply = send(_shareable(head, data), seconds, fl_ctx)
        if code == CellCode.OK and "parked" in reply["head"]:
            left = max(seconds - (time.monotonic() - began), 1.0)
            code, reply = self._stream(_shareable({"fetch": reply["head"]["parked"]}, b""), left, fl_ctx)
        if code == CellCode.OK and isinstance(data := reply.get("data") or b"", BYTES):
            return reply["head"], bytes(data)
        late = code == CellCode.TIMEOUT and time.monotonic() - began > 0.9 * seconds  # NVFlare says it too early, too
        return {"fault": "late" if late else "lost", "ask": head.get("ask")}, b""

    def _send(self, request: Shareable, seconds: float, fl_ctx: FLContext) -> tuple[str, Any]:
        """Ask in one piece: in a third of the steps that a stream takes; how that ended, and the reply."""
        engine = fl_ctx.get_engine()
        if (client := engine.get_client_from_name(self.site)) is None:
            return CellCode.COMM_ERROR, None
        request.set_header(ReservedHeaderKey.TOPIC, TOPIC)
        request.set_peer_props(fl_ctx.get_all_public_props())
        reply = engine.get_cell().core_cell.send_request(
            CellChannel.AUX_COMMUNICATION, TOPIC, FQCN.join([client.get_fqcn(), fl_ctx.get_job_id()]),
            CellMessage(payload=request), seconds, optional=True,
        )  # fmt: skip
        return _outcome(reply.get_header(MessageHeaderKey.RETURN_CODE, CellCode.COMM_ERROR), reply.payload)

    def _stream(self, request: Shareable, seconds: float, fl_ctx: FLContext) -> tuple[str, Any]:
        """Ask in as many pieces as it takes."""
        replies = fl_ctx.get_engine().send_aux_request([self.site], TOPIC, request, seconds, fl_ctx, optional=True)
        reply = (replies or {}).get(self.site)
        timeout = reply is not None and reply.get_return_code() == ReturnCode.TIMEOUT
        return _outcome(CellCode.TIMEOUT if timeout else CellCode.OK, reply)


def _outcome(code: str, reply: Any) -> tuple[str, Any]:
    """Whether there is a door's answer, and if not, whether it only took too long."""
    if code == CellCode.TIMEOUT:
        return code, None
    whole = isinstance(reply, Shareable) and reply.get_return_code() == ReturnCode.OK
    return (CellCode.OK, reply) if whole and isinstance(reply.get("head"), dict) else (CellCode.COMM_ERROR, None)


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

    def __init__(self) -> None:
        super().__init__()
        self.bell = Bell(Path(os.environ[DOOR]))
        self.parked: dict[str, tuple[dict[str, Any], bytes]] = {}
        """The last answer that was too long for one piece, until it is fetched."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open when the job starts."""
        if event_type == EventType.START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self.answer)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:  # noqa: ARG002
        """Tasks are not how we speak."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def answer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:  # noqa: ARG002
        """The site process's answer, or a code."""
        head, data = dict(request["head"]), request["data"]
        if not isinstance(data, BYTES):
            return make_reply(ReturnCode.BAD_REQUEST_DATA)
        heard(self.bell.path)
        if "ping" in head:
            return _shareable({"owed": self.bell.owing()}, b"")
        if "fetch" in head:
            return _shareable(*self.parked.pop(str(head["fetch"]), ({"fault": "lost"}, b"")))
        answer = self.bell.ask(head, bytes(data))
        if len(answer[1]) <= AT_ONCE or len(data) > AT_ONCE:  # asked in pieces, it is answered so
            return _shareable(*answer)
        place = secrets.token_hex(8)
        self.parked = {place: answer}  # an older one nobody has waited for
        return _shareable({"parked": place}, b"")


def _shareable(head: Mapping[str, Any], data: bytes) -> Shareable:
    frame = make_reply(ReturnCode.OK)
    frame["head"], frame["data"] = head, data
    return frame


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


def sign_returns() -> None:
    """Have a client that cannot pass on a message say so in a way that the server takes: with its token.

    Otherwise whoever asks a job that ended with the client before this one waits for as long as it waits for anything.
    """
    send = CoreCell._send_to_endpoint  # noqa: SLF001 -- there is no setting

    def signed(cell: CoreCell, to_endpoint: Any, message: CellMessage) -> Any:
        own = message.get_header(MessageHeaderKey.ORIGIN) == cell.my_info.fqcn and to_endpoint.name == FQCN.ROOT_SERVER
        if own and message.get_header(MessageHeaderKey.MSG_TYPE) == MessageType.RETURN:  # the token is for the server
            message = cell._filter_outgoing_reply(message)  # noqa: SLF001
        return send(cell, to_endpoint, message)

    CoreCell._send_to_endpoint = signed  # noqa: SLF001


def main() -> None:
    """Run one of NVFlare's own programs: it ends with the process that started it, and connects through the gate."""
    program, *arguments = sys.argv[1:]
    end_soon_after_parent()
    lighten()
    sign_returns()
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
    from nvflare.fuel.utils.config_service import ConfigService  # noqa: PLC0415

    logging.disable(logging.CRITICAL)
    # Or it would look for its settings through all folders below the one that it was started in, eight times.
    ConfigService.initialize(section_files={}, config_path=[str(kit / "startup")])
    with quiet():
        return new_secure_session(user, str(kit), timeout=timeout)


if __name__ == "__main__":
    main()
