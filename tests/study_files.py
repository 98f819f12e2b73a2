"""Small studies for tests, and the command line in processes of its own.

    path = small_study(tmp_path, method={"name": "scaffold"})
    ended = cli("run", path, "--out", tmp_path / "run")
    assert (0, "") == (ended.code, ended.err)

`fresh` is `python -m wardround`, which spends seconds on importing. `cli`, `start` and `script` fork from one warm
process that has imported everything and done nothing else: real processes, that can be killed for real, in no time.
What they start of ours (workers, cells) they fork likewise.
"""

import atexit
import contextlib
import faulthandler
import fcntl
import functools
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self, cast

import tomli_w

from nursery import all_of_ours

__all__ = [
    "PAUSING", "Ended", "Running", "children", "cli", "fresh", "journal", "kept", "listing", "not_paused", "paused",
    "result_of", "script", "small_study", "start", "wait_for", "write_module",
]  # fmt: skip

TIMEOUT = 300.0  # far more than anything here takes: only what hangs gets there

SMALL: dict[str, Any] = {
    "name": "small",
    "rounds": 3,
    "seed": 7,
    "corpus": {"name": "synthetic", "sites": 3, "features": 4, "classes": 3, "largest": 20},
    "task": {"name": "features"},
    "method": {"name": "fedavg", "lr": 0.1},
}


def small_study(folder: Path, file: str = "study.toml", **changes: Any) -> Path:
    """A study file of a few sites with a few examples; a table among the changes is laid over, None takes away."""
    tables = dict(SMALL)
    for key, value in changes.items():
        if value is None:
            tables.pop(key, None)
        elif isinstance(value, Mapping) and key in tables and not value.keys() & {"name", "format"}:
            tables[key] = {**tables[key], **value}
        else:
            tables[key] = value
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_text(tomli_w.dumps(tables), encoding="utf-8")
    return path


def write_module(folder: Path, source: str, name: str = "mine") -> None:
    """A user's own module beside the study."""
    (folder / f"{name}.py").write_text(source, encoding="utf-8")


PAUSING = """
import os
import time
from dataclasses import dataclass
from pathlib import Path
from wardround.methods.fedcmc import FedCMC
from wardround.methods.feddyn import FedDyn
from wardround.methods.feded import FedED
from wardround.methods.fedpa import FedPA
from wardround.methods.lazy_mil import LazyMIL
from wardround.methods.moon import MOON
from wardround.methods.references import Local
from wardround.methods.scaffold import Scaffold

ARMED = Path(__file__).parent / "armed"

class Pausing:
    def train(self, site, weights, terms=(), loss=None, **more):
        mark = ARMED / f"{site.exchange.round}-{site.name}"
        if mark.exists():
            mark.write_text(str(os.getpid()))
            mark.rename(mark.with_suffix(".reached"))
            time.sleep(600)
        return super().train(site, weights, terms, loss, **more)

@dataclass(frozen=True, kw_only=True)
class PausingLazy(Pausing, LazyMIL): "Lazy MIL that stops at will, between its two exchanges."
@dataclass(frozen=True, kw_only=True)
class PausingScaffold(Pausing, Scaffold): "Scaffold that stops at will."
@dataclass(frozen=True, kw_only=True)
class PausingDyn(Pausing, FedDyn): "FedDyn that stops at will."
@dataclass(frozen=True, kw_only=True)
class PausingCMC(Pausing, FedCMC): "FedCMC that stops at will."
@dataclass(frozen=True, kw_only=True)
class PausingED(Pausing, FedED): "FedED that stops at will."
@dataclass(frozen=True, kw_only=True)
class PausingMOON(Pausing, MOON): "MOON that stops at will."
@dataclass(frozen=True, kw_only=True)
class PausingLocal(Pausing, Local): "Local that stops at will."
@dataclass(frozen=True, kw_only=True)
class PausingPA(Pausing, FedPA): "FedPA that stops at will."
"""
"""A user's module with methods that have site memory, each of which pauses where `paused` says."""


def paused(folder: Path, round_: int, site: str) -> Path:
    """Have the next training at this site in this round wait to be killed; then there is this file, with its pid."""
    mark = folder / "armed" / f"{round_}-{site}"
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    reached = mark.with_suffix(".reached")
    reached.unlink(missing_ok=True)
    return reached


def not_paused(folder: Path) -> None:
    """Let every training go on that has not been reached."""
    for mark in (folder / "armed").glob("*"):
        mark.unlink()


# what a run left


def journal(run: Path) -> list[dict[str, Any]]:
    """The journal's lines, but for when each round was, and how long it took."""
    lines = [json.loads(raw) for raw in (run / "journal.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "waited", "ended")} for line in lines]


def kept(run: Path) -> dict[str, bytes]:
    """What each site kept last, of each kind."""
    newest: dict[str, tuple[tuple[int, int], bytes]] = {}
    for path in (run / "memory").glob("*/*.kept"):
        kind, round_, number, *_ = path.stem.split("-")
        key, version = f"{path.parent.name}/{kind}", (int(round_), int(number))
        if key not in newest or version > newest[key][0]:
            newest[key] = (version, path.read_bytes())
    return {key: data for key, (_, data) in sorted(newest.items())}


def result_of(run: Path) -> dict[str, Any]:
    """All that must be the same bits, however often a run was killed."""
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    del metrics["seconds"]
    model = run / "model" / "weights.safetensors"
    return {
        "journal": journal(run),
        "metrics": metrics,
        "model": model.read_bytes() if model.exists() else None,
        "state": max((run / "checkpoints").glob("round-*.checkpoint")).read_bytes(),
        "kept": kept(run),
    }


def listing(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder with its bytes and the time of its last change."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def wait_for(reached: Callable[[], bool], pid: int) -> None:
    """Wait until something has come about while this process is at work, or fail."""
    end = time.monotonic() + TIMEOUT
    while not reached():
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z":
            raise AssertionError("the process ended before that")
        if time.monotonic() > end:
            raise AssertionError("that did not come about in time")
        time.sleep(0.01)


# processes


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, or minus the signal, and what it said."""

    code: int
    out: str
    err: str


def fresh(*arguments: object, cwd: Path) -> Ended:
    """`python -m wardround …`."""
    command = [sys.executable, "-m", "wardround", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def cli(*arguments: object, cwd: Path, **options: Any) -> Ended:
    """`wardround …`, forked from the warm process; for the options see `start`."""
    return start(*arguments, cwd=cwd, **options).wait()


def script(path: Path, *arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> Ended:
    """`python path …`, forked likewise; only modules of ours may be started from it."""
    return _started(arguments, cwd, script=str(path), env=dict(env or {})).wait()


def start(
    *arguments: object,
    cwd: Path,
    file_limit: int | None = None,
    kill_at: tuple[int, str] | None = None,
    report: bool = False,
) -> "Running":
    """Begin `wardround …`, in a process group of its own.

    `file_limit` is the most bytes that any file may have, as on a full disk. `kill_at` is for `_kill_at`. A run
    writes a report at its end only if one is asked for.
    """
    if arguments[:1] == ("run",) and not report:
        arguments = ("run", "--no-report", *arguments[1:])
    return _started(arguments, cwd, file_limit=file_limit, kill_at=kill_at)


def _started(arguments: Sequence[object], cwd: Path, **more: Any) -> "Running":
    streams = [cwd / f".said-{time.monotonic_ns()}-{stream}" for stream in ("out", "err")]
    order = {"arguments": list(map(str, arguments)), "cwd": str(cwd), "streams": list(map(str, streams)), **more}
    return Running(_warm().ask(order)["pid"], streams[0], streams[1])


@dataclass(frozen=True)
class Running:
    """A process that was started."""

    pid: int
    out: Path
    err: Path

    def kill(self) -> Ended:
        """End it with SIGKILL, and nothing of what it started."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> Ended:
        """Wait for its end."""
        code = _warm().ask({"wait": self.pid})["code"]
        out, err = self.out.read_text(encoding="utf-8"), self.err.read_text(encoding="utf-8")
        self.out.unlink()
        self.err.unlink()
        if code is None:
            raise AssertionError(f"it did not end in time: {out}{err}")
        return Ended(code, out, err)


def children(pid: int) -> list[int]:
    """The processes that this one has started and that still run."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


class _Warm:
    """The warm process, from this side."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.close)

    def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        into, out = self.process.stdin, self.process.stdout
        assert into is not None
        assert out is not None
        into.write(json.dumps(order) + "\n")
        into.flush()
        answer: dict[str, Any] = json.loads(out.readline())
        return answer

    def close(self) -> None:
        self.process.communicate(timeout=TIMEOUT)


@functools.cache
def _warm() -> _Warm:
    return _Warm()


# the warm process, from inside


def _serve() -> None:
    from wardround.engines import certificates  # noqa: PLC0415 -- here it costs nothing
    from wardround.runs import intervals  # noqa: PLC0415
    from wardround.study.load import cells  # noqa: PLC0415

    gc.disable()  # what is imported stays
    for name in (*all_of_ours(), "numpy.ctypeslib", "numpy.ma", "typer._adapters"):
        importlib.import_module(name)
    for method in ("fedavg", "scaffold"):
        cells({**SMALL, "method": {"name": method}})  # once read, the sources of our settings stay read
    intervals.DRAWS = intervals.FEWER = 20  # as `conftest` has it
    certificates.BITS = certificates.SMALLEST  # likewise
    subprocess.Popen = _Forked  # type: ignore[assignment, misc]
    gc.freeze()  # what is shared stays shared
    gc.enable()
    os.fsync = lambda fd: None  # noqa: ARG005 -- only a power cut could tell, and `_kill_at` stands in for that
    os.sync = lambda: None
    answers = os.fdopen(os.dup(1), "w")
    for raw in sys.stdin:
        order = json.loads(raw)
        if "wait" in order:
            print(json.dumps({"code": _waited(order["wait"])}), file=answers, flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            answers.close()
            _become(order)
        print(json.dumps({"pid": pid}), file=answers, flush=True)


def _waited(pid: int) -> int | None:
    handle = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([handle], [], [], TIMEOUT)
    finally:
        os.close(handle)
    if not ended:
        os.kill(pid, signal.SIGUSR1)  # it tells where it is
        time.sleep(1)
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if ended else None


def _become(order: Mapping[str, Any]) -> None:
    """The rest of a forked process: as if it had been started with these arguments."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
    os.chdir(order["cwd"])
    handles = [
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        for path in (os.devnull, order["streams"][0], order["streams"][1])
    ]
    if order.get("file_limit") is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_limit"],) * 2)
    if order.get("kill_at") is not None:
        _kill_at(*order["kill_at"])
    if "script" in order:
        os.environ.update(order["env"])
        tempfile.tempdir, sys.dont_write_bytecode = None, True
        sys.argv = [order["script"], *order["arguments"]]
        sys.path[0] = str(Path(order["script"]).parent)
        _run(lambda: runpy.run_path(order["script"], run_name="__main__"), handles)
    _run_module("wardround", order["arguments"], handles)


def _run_module(name: str, arguments: list[str], handles: list[int]) -> None:
    """Do what `python -m name arguments` does, with these as its three streams, and end."""

    def work() -> None:
        module = importlib.import_module("wardround.cli.app" if name == "wardround" else name)
        module.main(*([arguments] if name == "wardround" else []))

    _run(work, handles)


def _run(work: Callable[[], object], handles: list[int]) -> None:
    """Do this with these as the three streams, and end."""
    code = 1
    try:
        for number, handle in enumerate(handles):
            os.dup2(handle, number)
        os.closerange(3, 256)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1, closefd=False), os.fdopen(2, "w", 1, closefd=False)
        faulthandler.register(signal.SIGUSR1, file=sys.stderr)
        work()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:  # noqa: BLE001 -- as the interpreter would
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class _Forked:
    """`subprocess.Popen` for our own modules, without the seconds that importing takes."""

    def __init__(
        self,
        command: list[str],
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        process_group: int | None = None,
    ) -> None:
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.returncode: int | None = None
        handles, ours = [], []
        for number, wanted in enumerate((stdin, stdout, stderr)):
            if wanted == subprocess.PIPE:
                reading, writing = os.pipe()
                handles.append(writing if number else reading)
                ours.append(reading if number else writing)
            elif wanted == subprocess.DEVNULL:
                handles.append(os.open(os.devnull, os.O_RDWR))
            else:
                handles.append(os.dup(number if wanted is None else wanted.fileno()))
        if ours:
            self.stdin, self.stdout = os.fdopen(ours[0], "wb"), os.fdopen(ours[1], "rb")
        self.pid = os.fork()
        if self.pid == 0:
            if process_group is not None:
                os.setpgid(0, process_group)
            handles = [fcntl.fcntl(handle, fcntl.F_DUPFD, 3) for handle in handles]
            _run_module(command[2], command[3:], handles)
        for handle in handles:
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = TIMEOUT) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("forked", timeout)
            time.sleep(0.005)
        return cast("int", self.returncode)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)


def _kill_at(count: int, moment: str) -> None:
    """Have this process killed at its `count`-th sync, rename or removal of a file: `before`, `after`, or `torn`.

    `torn` also loses half of what was written to the file since it was last made durable, as a power cut does.
    """
    left = count
    durable: dict[Path, int] = {}

    def file_of(handle: int) -> Path:
        return Path(f"/proc/self/fd/{handle}").readlink()

    def tear(handle: int) -> None:
        os.ftruncate(handle, (durable.get(file_of(handle), 0) + os.fstat(handle).st_size) // 2)

    def watched(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def watch(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if name == "fsync" and not file_of(arguments[0]).is_file():
                return real(*arguments, **options)
            left -= 1
            if left == 0 and moment != "after":
                if moment == "torn" and name == "fsync":
                    tear(arguments[0])
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                result = real(*arguments, **options)
            finally:  # a removal of what is not there is one, too
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            if name == "fsync":
                durable[file_of(arguments[0])] = os.fstat(arguments[0]).st_size
            return result

        return watch

    os.fsync, os.replace, os.unlink = watched("fsync"), watched("replace"), watched("unlink")


if __name__ == "__main__":
    _serve()
