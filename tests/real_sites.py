"""A federation of real processes for tests: NVFlare over mutual TLS on loopback, site processes, a switchboard.

    with Federation(folder, ["site-00", "site-01"]) as federation:
        federation.approve(study)
        result = federation.submit(study, folder / "run")

A cold start costs many seconds: tests share one. Whatever a test does to it, `ready` waits until it is whole again.
"""

import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from loopback import Twisted
from nursery import Process, start
from wardround.consortium.approval import approve
from wardround.consortium.identity import introduce
from wardround.consortium.kits import init_site, new_consortium
from wardround.consortium.submit import Consortium, submit
from wardround.consortium.trust import modules_table
from wardround.engines.frames import Line, dial, door_of, listen
from wardround.engines.processes import WITH_PARENT, descendants
from wardround.runs.folder import Result
from wardround.study.load import Study

__all__ = ["Answer", "Between", "Federation", "free_port", "running", "wait_until"]

Answer = tuple[dict[str, Any], bytes]

PATIENCE = 120.0  # far more than anything here takes


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def wait_until(reached: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What the function returns once that is true."""
    end = time.monotonic() + seconds
    while not (value := reached()):
        assert time.monotonic() < end, "that did not come about in time"
        time.sleep(0.05)
    return value


def running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def command(pid: int) -> str:
    """What a process was started with, as far as it is still there."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


class Federation:
    """A consortium whose coordinator and sites all run on this machine."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        modules: Sequence[Path] = (),
        *,
        page: int | None = None,
        people: int | None = None,
    ) -> None:
        self.page, self.people = page, people
        """The ports of the coordinator's live page and of its door for people, if it is to have them."""
        self.folder, self.names = folder, tuple(names)
        self.centre = folder / "a consortium"  # with a blank, as people have them
        relative = Path(os.path.relpath(self.centre))  # as people name them
        kits = new_consortium(relative, "tests", self.names, "127.0.0.1", free_port())
        for name, kit in zip(self.names, kits, strict=True):
            init_site(kit, self.site(name))
            text = f'name = "{name}"\n[data]\nfrom_study = true\n[consent]\nsmallest_count = 0\nleast_examples = 0\n'
            text += 'messages = ["any", "Sums"]\n'
            (self.site(name) / "site.toml").write_text(text + modules_table(modules), encoding="utf-8")
            for module in modules:
                shutil.copy(module, self.site(name))
        introduce({name: self.site(name) for name in self.names})
        self.processes: dict[str, Process] = {}
        self.started: set[int] = set()

    def site(self, name: str) -> Path:
        return self.folder / f"at {name}"

    def start(self, name: str) -> None:
        """Start the coordinator ("coordinator") or a site."""
        module, place = (
            ("switchboard", [self.centre, *self._shown()])
            if name == "coordinator"
            else ("site_start", [self.site(name), name])
        )
        with (self.folder / f"{name}.said").open("ab") as printed:
            words = [f"wardround.consortium.{module}", *map(str, place)]
            self.processes[name] = start(words, {**os.environ, WITH_PARENT: "1"}, printed)

    def _shown(self) -> list[str]:
        shown = {"--page": self.page, "--people": self.people}
        return [word for name, port in shown.items() if port for word in (name, "127.0.0.1", str(port))]

    def stop(self, name: str) -> int:
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(PATIENCE)

    def kill(self, name: str) -> None:
        """Kill -9 the coordinator's or a site's first process."""
        process = self.processes.pop(name)
        self.started |= set(descendants(process.pid))
        process.kill()
        process.wait(PATIENCE)

    def power_cut(self, name: str) -> None:
        """Kill -9 all processes of a site, and see them gone: none of them carries anything any more."""
        pids = {*descendants(self.processes[name].pid)}
        self.kill(name)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(running, pids)))

    def pid(self, name: str, what: str) -> int:
        """The process of a site or the coordinator whose command has this in it."""

        def pid() -> int | None:
            return next((p for p in descendants(self.processes[name].pid) if what in command(p)), None)

        return int(wait_until(pid))

    def kill_part(self, name: str, what: str) -> None:
        os.kill(self.pid(name, what), signal.SIGKILL)

    def approve(self, study: Study, *names: str) -> None:
        """Have sites approve a study, for many runs in which sites come and go."""
        for name in names or self.names:
            approve(self.site(name), study, restarts=1000, exchanges=10**6)

    def over(self, **options: Any) -> Consortium:
        return Consortium(self.centre, **options)

    def submit(self, study: Study, out: Path, *, over: Consortium | None = None, **options: Any) -> Result:
        return submit(study, out, over or self.over(), **{"wait": PATIENCE, **options})

    def ready(self, study: Study) -> None:
        """Wait until every site would take part."""
        out = self.folder / "ready"
        out.mkdir(exist_ok=True)
        remote = self.over().remote(study, out)
        try:
            wait_until(lambda: not any(remote.ready(self.names, study.rounds).values()))
        finally:
            remote.close()

    def whole(self, study: Study) -> None:
        """Start again what a test that failed has left stopped, or all after it would wait in vain; then `ready`."""
        for name in ("coordinator", *self.names):
            if name not in self.processes:
                self.start(name)
        self.ready(study)

    def ledger(self, name: str) -> list[dict[str, Any]]:
        path = self.site(name) / "ledger" / "site.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def __enter__(self) -> Self:
        for name in ("coordinator", *self.names):
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            self.started |= {process.pid, *descendants(process.pid)}
            process.terminate()
        for process in self.processes.values():
            process.wait(PATIENCE)
        wait_until(lambda: not any(running(pid) and "wardround" in command(pid) for pid in self.started), 30)


class Between:
    """Sits between NVFlare's door at a site and the site's own process: sees what is carried, and may change it."""

    def __init__(self, site: Path, twist: Callable[[Mapping[str, Any], Answer], Answer]) -> None:
        self.door, self.twist = door_of(site), twist
        self.real = self.door.with_name("real")

    def __enter__(self) -> Self:
        self.door.rename(self.real)
        self.server = listen(self.door)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
        self.real.replace(self.door)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self.server.accept()
                with Line(end) as line:
                    frame = line.receive()
                    if frame is not None:
                        line.send(*self.answer(*frame))

    def answer(self, head: dict[str, Any], data: bytes) -> Answer:
        """What the site's own process answers, changed."""
        with dial(self.real) as real:
            real.send(head, data)
            return self.twist(head, real.receive() or ({}, b""))


class Liar(Between):
    """Stands in for a site's own process, with the site's keys: a site that lies. The real one is ended afterwards."""

    def __init__(self, federation: Federation, name: str, twist: Callable[[Mapping[str, Any], Answer], Answer]) -> None:
        super().__init__(federation.site(name), twist)
        self.federation, self.name = federation, name
        self.process = Twisted(federation.site(name), twist)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.federation.kill_part(self.name, "wardround.consortium.site_process")  # its ledger has gone on without it

    def answer(self, head: dict[str, Any], data: bytes) -> Answer:
        """What the lying site answers."""
        return self.process.answer(head, data)
