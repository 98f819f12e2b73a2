"""A switchboard without NVFlare: the engine on one side, site processes' own code on the other, in one process.

    with Exchange(folder, study) as exchange:
        submit(study, folder / "run", exchange.over)

What lies between can be told to misbehave: `exchange.twist` sees each answer before the coordinator does.
"""

import json
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from wardround.consortium.kits import approve
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.submit import Consortium
from wardround.engines.frames import Line, door_of, listen, shut
from wardround.study import Study

__all__ = ["Exchange", "site_folder"]

Answer = tuple[dict[str, Any], bytes]
Twist = Callable[[str, dict[str, Any], Answer], Answer | None]


def site_folder(folder: Path, name: str, study: Study, *more: str, data: Sequence[str] = ("share = true",)) -> Path:
    """A site's folder with its share of the study's corpus, or data of its own, and the study approved."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    told = [f'name = "{name}"', "[data]", *data, *(more or ("[consent]", "smallest_count = 0"))]
    (place / "site.toml").write_text("\n".join(told), encoding="utf-8")
    approve(place, study)
    return place


class Exchange:
    """A consortium whose pipes end in this process."""

    def __init__(
        self, folder: Path, study: Study, names: Sequence[str], data: Sequence[str] = ("share = true",)
    ) -> None:
        self.sites = {name: SiteProcess(site_folder(folder, name, study, data=data)) for name in names}
        centre = folder / "consortium"
        centre.mkdir()
        (centre / "consortium.json").write_text(json.dumps({"sites": list(names)}), encoding="utf-8")
        self.over = Consortium(centre, deadline=20.0, patience=0.5)
        self.door = door_of(centre)
        self.twist: Twist = lambda _name, _head, answer: answer
        self.unasked: Callable[[str, dict[str, Any]], bool] = lambda _name, _head: False
        self.lock = threading.Lock()  # one process has one generator for dropout

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
                twisted = self.twist(name, frame[0], answer)
                if twisted is None:
                    return
                line.send(*twisted)
