"""Real processes of wardround's programs, without the seconds that each would spend on importing.

    process = start(["wardround.consortium.site_start", FOLDER, NAME], env, stdout=file)

A nursery is a process that has imported everything and done nothing else; it forks a program when it is asked to. Each
program that starts others has a nursery of its own, forked before anything else happens in it, so that who is whose
parent, and who ends with whom, is as always: but for one process in between. Killed, stopped, listed with its command
and its environment, a program is what it would be if it had been started with `python -m`. What is tested with
nothing warm is the rehearsal of the README, and a site with strange files in its folder.

Programs are also hasty: a test kills the same process several times within a minute, and the pauses that are right
for one that keeps dying by itself would be most of what it takes.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import random
import resource
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import wardround
from wardround.engines import certificates, processes
from wardround.runs import intervals
from wardround.study import trusted

__all__ = ["Process", "all_of_ours", "start"]

ROOM = "x" * 6000  # bytes for another command, and for another environment
WARM = (
    "wardround.engines.flare",
    "nvflare.private.fed.app.client.client_train", "nvflare.private.fed.app.client.worker_process",
    "nvflare.private.fed.app.server.server_train", "nvflare.private.fed.app.server.runner_process",
    "nvflare.fuel.flare_api.flare_api", "nvflare.app_common.resource_managers.gpu_resource_manager",
    "nvflare.app_common.resource_consumers.gpu_resource_consumer", "nvflare.app_common.storages.filesystem_storage",
    "nvflare.app_common.state_persistors.storage_state_persistor", "nvflare.app_common.job_schedulers.job_scheduler",
    "nvflare.app_common.decomposers.numpy_decomposers", "nvflare.app_common.widgets.convert_to_fed_event",
    "nvflare.app_common.executors.client_api_executor", "nvflare.fuel.utils.fobs.decomposers.core_decomposers",
    "nvflare.fuel.f3.drivers.grpc_driver", "nvflare.fuel.f3.drivers.tcp_driver",
    "nvflare.fuel.f3.drivers.file_driver", "nvflare.fuel.f3.drivers.aio_tcp_driver",
    "nvflare.fuel.f3.drivers.aio_http_driver", "nvflare.fuel.f3.drivers.aio_grpc_driver",
    "cryptography.hazmat.backends.openssl.backend", "grpc._channel", "grpc._interceptor", "grpc._server",
    "grpc.experimental",
)  # fmt: skip


COLD = {f"wardround.{name}" for name in ("__main__", "engines.flare", "exports.spacy_component", "models.foreign")}
"""What is not imported before anybody needs it: the command itself, and packages that few programs use."""

LEAVES = {
    "wardround.consortium.site_process",
    "nvflare.private.fed.app.client.worker_process",
    "nvflare.private.fed.app.server.runner_process",
}
"""What starts no other program."""


class Nursery:
    """A nursery, from the side of whoever asks it."""

    def __init__(self, end: socket.socket) -> None:
        self.end, self.lock = end, threading.Lock()

    def ask(self, order: Mapping[str, Any], handles: Sequence[int] = ()) -> Any:
        """Its answer to an order."""
        raw = json.dumps(order).encode()
        with self.lock:
            socket.send_fds(self.end, [struct.pack("<I", len(raw))], list(handles))
            self.end.sendall(raw)
            answer = self.end.recv(64)
        return json.loads(answer)


class Process:
    """A program that a nursery has forked, as far as anybody here asks one for what `subprocess.Popen` has."""

    def __init__(
        self,
        nursery: Nursery,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        *,
        start_new_session: bool = False,
        pass_fds: Sequence[int] = (),
        cwd: Path | None = None,
    ) -> None:
        self.nursery, self.args = nursery, list(command)
        self.returncode: int | None = None
        with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 -- a file, not a path
            errors = stdout if stderr == subprocess.STDOUT else stderr
            streams = [_handle(stream, number, nothing) for number, stream in enumerate((stdin, stdout, errors))]
            order = {
                "command": self.args, "env": dict(os.environ if env is None else env),
                "cwd": str(cwd or Path.cwd()),
                "session": start_new_session, "numbers": [0, 1, 2, *pass_fds],
                "files": resource.getrlimit(resource.RLIMIT_NOFILE),
            }  # fmt: skip
            self.pid = int(nursery.ask(order, [*streams, *pass_fds]))

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        if self.returncode is None:
            self.returncode = self.nursery.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The same, as soon as it has ended; NVFlare waits for each of its jobs for as long as there is one."""
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        _sleep_until_ended(self.pid, timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(0.005)  # until the nursery has heard of it
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def _sleep_until_ended(pid: int, timeout: float | None) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            ended.poll(None if timeout is None else 1000 * timeout)
        finally:
            os.close(handle)


def _handle(stream: Any, number: int, nothing: IO[bytes]) -> int:
    if stream is None:
        return number
    return nothing.fileno() if stream == subprocess.DEVNULL else int(stream.fileno())


@functools.cache
def first() -> Nursery:
    """The nursery of this process, which ends with it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno()), ROOM], pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "ROOM": ROOM},
        )  # fmt: skip

    def end() -> None:
        ours.close()
        process.wait(60)

    atexit.register(end)
    return Nursery(ours)


def start(words: Sequence[str], env: Mapping[str, str], output: IO[bytes], cwd: Path | None = None) -> Process:
    """Start one of our programs: a module, or a script by its path."""
    command = [sys.executable, *([] if words[0].endswith(".py") else ["-m"]), *words]
    return Process(first(), command, env, stdout=output, stderr=output, cwd=cwd)


# from inside


def nurse(end: socket.socket, parent: int) -> dict[str, Any]:
    """Fork whatever is asked for until nobody asks any more; comes back in each child, with its order."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)
    codes: dict[int, int] = {}
    signal.signal(signal.SIGCHLD, lambda *_: codes.update(_reaped()))
    while True:
        order = _received(end)
        if "ended" in order:
            end.sendall(json.dumps(codes.get(order["ended"])).encode())
            continue
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            end.close()
            return order
        for handle in order["handles"]:
            os.close(handle)
        end.sendall(json.dumps(pid).encode())


def _received(end: socket.socket) -> dict[str, Any]:
    head, handles, _, _ = socket.recv_fds(end, 4, 16)
    if len(head) < 4:
        os._exit(0)
    (size,), raw = struct.unpack("<I", head), b""
    while len(raw) < size:
        raw += end.recv(size)
    return {**json.loads(raw), "handles": handles}


def _reaped() -> Iterator[tuple[int, int]]:
    """Those that have ended, and how; none is left as a zombie, which others would take for a process."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def all_of_ours() -> list[str]:
    """Every module of ours but those."""
    names = [module.name for module in pkgutil.walk_packages(wardround.__path__, "wardround.")]
    return [name for name in names if name not in COLD]


def own() -> Nursery | dict[str, Any]:
    """A nursery for the program that this process is to be; in what it forks, the order instead."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        ours.close()
        _overwrite(_places()[0], ["nursery"])  # or it would pass for the program that it serves
        return nurse(theirs, parent)
    theirs.close()
    os.set_inheritable(ours.fileno(), False)
    return Nursery(ours)


def become(order: Mapping[str, Any]) -> None:
    """Take on what belongs to a process that was started with this command."""
    if order["session"]:
        os.setsid()
    os.chdir(order["cwd"])
    resource.setrlimit(resource.RLIMIT_NOFILE, order["files"])
    numbers = order["numbers"]
    aside = [fcntl.fcntl(handle, fcntl.F_DUPFD, 500) for handle in order["handles"]]
    os.closerange(3, 500)
    for handle, number in zip(aside, numbers, strict=True):
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", 1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
    random.seed()
    environment = dict(order["env"])
    if processes.PARENT in environment:
        environment[processes.PARENT] = str(os.getppid())  # the nursery, which ends with whoever that names
    ctypes.CDLL(None).clearenv()
    os.environ.clear()
    os.environ.update(environment)
    processes._VOICE = os.environ.pop(processes.VOICE, "")  # read when it is imported
    words, variables = _places()
    _overwrite(words, order["command"])
    _overwrite(variables, [f"{name}={value}" for name, value in environment.items()])


def _places() -> tuple[list[str], list[str]]:
    """Where the kernel reads this process's command, and its environment: from here to there."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return fields[45:47], fields[47:49]


def _overwrite(place: Sequence[str], words: Sequence[str]) -> None:
    """Have the list of processes show these words."""
    begin, end = map(int, place)
    raw = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert len(raw) <= end - begin, "the nursery has too little room"
    ctypes.memmove(begin, raw.ljust(end - begin, b"\0"), end - begin)


def furnish(nursery: Nursery) -> None:
    """Have this program start its own from this nursery, and again soon after they have died."""
    from nvflare.app_common.job_launcher import process_launcher  # noqa: PLC0415 -- warm by now
    from nvflare.utils.process_utils import ProcessAdapter  # noqa: PLC0415

    real: Any = subprocess.Popen

    def popen(words: Sequence[str], *arguments: Any, **options: Any) -> Any:
        ours = words[0] == sys.executable and ("-m" in words or words[1].endswith(".py"))
        return Process(nursery, words, *arguments, **options) if ours else real(words, *arguments, **options)

    processes.PAUSES = (0.2,)
    subprocess.Popen = popen  # type: ignore[assignment, misc]
    process_launcher.spawn_process = lambda words, env: ProcessAdapter(
        process=Process(nursery, words, env, start_new_session=True)
    )


def main() -> None:
    """Be a nursery, and in each child the program that is asked for."""
    end = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # what is imported stays
    for name in (*all_of_ours(), *WARM):
        importlib.import_module(name)
    trusted._taken()
    certificates.BITS = certificates.SMALLEST  # as `conftest` has it
    intervals.DRAWS = intervals.FEWER = 20  # likewise
    os.fsync = lambda fd: None  # noqa: ARG005 -- only a power cut could tell
    os.sync = lambda: None
    gc.freeze()  # what is shared stays shared
    gc.enable()
    order = nurse(end, os.getppid())
    become(order)
    while not LEAVES & set(order["command"]):
        nursery = own()
        if isinstance(nursery, Nursery):
            furnish(nursery)
            break
        order = nursery
        become(order)
    warnings.filterwarnings("ignore", "'.*' found in sys.modules", RuntimeWarning)  # it is, on purpose
    os.execv = _replaced  # type: ignore[assignment]
    words: Sequence[str] = order["command"]
    while True:
        try:
            run([word for word in words if word != "-P"])
        except Instead as other:
            words = other.words
            _overwrite(_places()[0], words)
        else:
            return


class Instead(BaseException):
    """This process is to go on as another program: nothing is imported again."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words


def _replaced(_path: str, words: Sequence[str]) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    raise Instead(words)


def run(words: Sequence[str]) -> None:
    """Do what these words do, after which the interpreter ends."""
    if words[1] == "-m":
        sys.argv = list(words[2:])
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words[1:])
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
