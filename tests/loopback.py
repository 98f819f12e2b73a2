"""A switchboard without NVFlare: the engine on one side, site processes' own code on the other, in one process.

    with Exchange(folder, study) as exchange:
        submit(study, folder / "run", exchange.over)

What lies between can be told to misbehave: `exchange.twist` sees each answer that a site is about to seal, and
`exchange.garble` what is carried. `put` asks one site as its coordinator would, without any of this.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from wardround import __version__
from wardround.consortium.approval import approve
from wardround.consortium.deployed import study_hash
from wardround.consortium.forms import Charter, Membership
from wardround.consortium.identity import introduce
from wardround.consortium.roster import Member, write_roster
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.submit import Consortium
from wardround.consortium.trust import modules_table
from wardround.core.record import Message
from wardround.core.weights import Weights
from wardround.engines.frames import Line, door_of, listen, shut
from wardround.engines.seal import Ask, Asker, make_sealing_key, make_signing_key, read_sealing_key, read_signing_key
from wardround.runs.build import build_apart
from wardround.study.load import Study

__all__ = ["DEPARTMENTS", "OPEN", "Exchange", "Twisted", "ask", "desk_of", "first_weights", "put", "site_folder"]

Answer = tuple[dict[str, Any], bytes]
NAMES = ("site-0", "site-1", "site-2")
DEPARTMENTS = """
name = "departments"
rounds = 2
[corpus]
format = "csv"
train = "train.csv"
test = "test.csv"
labels = ["DRUG", "DISEASE"]
[task]
name = "classification"
tokens = "words"
buckets = 64
[method]
name = "fedavg"
"""
"""A study on a site's own files."""
OPEN = ("[consent]", "smallest_count = 0", "least_examples = 0", 'messages = ["any", "Sums"]')
"""The consent of a site whose notes are generated, and few."""
Twist = Callable[[str, dict[str, Any], Answer], Answer | None]


def site_folder(
    folder: Path,
    name: str,
    study: Study,
    *more: str,
    data: Sequence[str] = ("from_study = true",),
    modules: Sequence[Path] = (),
    **budget: int,
) -> Path:
    """A site's folder with keys, its share of the study's corpus, or data of its own, and the study approved."""
    place = folder / name
    if not (place / "keys").exists():
        make_sealing_key(place / "keys" / "seal.key")
        (place / "kit").mkdir()
        (place / "kit" / "site.json").write_bytes(Membership(**charter(folder), site=name).encode())
    lines = [f'name = "{name}"', "[data]", *data, *(more or OPEN)]
    for module in modules:
        (place / module.name).write_bytes(module.read_bytes())
    (place / "site.toml").write_text("\n".join([*lines, modules_table(modules)]), encoding="utf-8")
    approve(place, study, **budget)  # type: ignore[arg-type]  # numbers, and no switch
    return place


def charter(folder: Path, sites: Sequence[str] = NAMES) -> dict[str, Any]:
    """What the consortium and its sites' kits say of it."""
    path = folder / "keys" / "ask.key"
    if not path.exists():
        make_signing_key(path)
    ask_key = read_signing_key(path).public_key().public_bytes_raw().hex()
    return {
        "name": "loop", "host": "127.0.0.1", "port": 1, "version": "0", "sites": tuple(sites), "ask_key": ask_key,
    }  # fmt: skip


def _seal_key(place: Path) -> str:
    return read_sealing_key(place / "keys" / "seal.key").public_key().public_bytes_raw().hex()


def desk_of(site: SiteProcess) -> Asker:
    """The desk of this site's coordinator."""
    key = read_signing_key(site.folder.parent / "keys" / "ask.key")
    return Asker(key, {site.name: _seal_key(site.folder)})


def put(site: SiteProcess, head: dict[str, Any], data: bytes = b"") -> Answer:
    """What a site answers to its coordinator."""
    letter = desk_of(site).write(site.name, head, data)
    return letter.read(*site.answer(letter.head, letter.data))


def first_weights(study: Study, folder: Path, names: Sequence[str] = NAMES) -> Weights:
    """The study's own first model."""
    return build_apart(study, folder, tuple(names)).weights


def ask(of: Study, message: Message, **changes: Any) -> Answer:
    """An ask as the coordinator would send it, but for the changes."""
    exchange = {"step": "fit", "round": 1, "number": 1, "settled": 0, "seed": 0, "resumed": []}
    exchange |= {key: value for key, value in changes.items() if key in exchange}
    head = {"version": __version__, "study": study_hash(of), "run": "0" * 16, "exchange": exchange}
    return head | {key: value for key, value in changes.items() if key not in exchange}, message.encode()


class Twisted(SiteProcess):
    """A site whose answers somebody changes who has its keys: a site that lies."""

    def __init__(self, folder: Path, twist: Callable[[dict[str, Any], Answer], Answer | None]) -> None:
        super().__init__(folder)
        self.twist = twist

    def respond(self, ask: Ask) -> Answer:
        """Its answer, changed."""
        twisted = self.twist(dict(ask.head), super().respond(ask))
        if twisted is None:
            raise ConnectionError
        return twisted


class Exchange:
    """A consortium whose pipes end in this process."""

    def __init__(
        self,
        folder: Path,
        study: Study,
        names: Sequence[str],
        data: Sequence[str] = ("from_study = true",),
        consent: Sequence[str] = OPEN,
        modules: Sequence[Path] = (),
        **budget: int,
    ) -> None:
        self.folder = folder
        self.twist: Twist = lambda _name, _head, answer: answer
        self.sites = {
            name: Twisted(
                site_folder(folder, name, study, *consent, data=data, modules=modules, **budget),
                lambda head, answer, name=name: self.twist(name, head, answer),  # type: ignore[misc]
            )
            for name in names
        }
        introduce({name: folder / name for name in names})
        centre = folder / "consortium"
        (centre / "keys").mkdir(parents=True)
        (centre / "keys" / "ask.key").write_bytes((folder / "keys" / "ask.key").read_bytes())
        (centre / "consortium.json").write_bytes(Charter(**charter(folder)).encode())
        ends = datetime(2999, 1, 1, tzinfo=UTC)
        write_roster(centre, {name: Member(seal=_seal_key(folder / name), serial="1", expires=ends) for name in names})
        self.over = Consortium(centre, deadline=20.0, patience=0.5)
        self.door = door_of(centre)
        self.garble: Twist = lambda _name, _head, answer: answer
        self.unasked: Callable[[str, dict[str, Any]], bool] = lambda _name, _head: False
        self.lock = threading.Lock()  # one process has one generator for dropout

    def site(self, name: str) -> Path:
        """The folder of a site."""
        return self.folder / name

    def __enter__(self) -> Self:
        self.server = listen(self.door)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
        shut(self.door)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self.server.accept()
                with suppress(OSError), Line(end) as line:
                    self._lend(line)

    def _lend(self, line: Line) -> None:
        head, _ = line.receive() or ({}, b"")
        if head.get("want") not in self.sites:
            line.send({"lent": False})
            return
        near, far = socket.socketpair()
        threading.Thread(target=self._serve, args=(str(head["want"]), Line(near)), daemon=True).start()
        line.send({"lent": True})
        socket.send_fds(line.socket, [b"!"], [far.fileno()])
        far.close()

    def _serve(self, name: str, line: Line) -> None:
        with line, suppress(OSError):
            while (frame := line.receive()) is not None:
                if self.unasked(name, frame[0]):
                    return
                with self.lock:
                    answer = self.sites[name].answer(*frame)
                garbled = self.garble(name, frame[0], answer)
                if garbled is None:
                    return
                line.send(*garbled)
