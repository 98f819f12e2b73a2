"""A consortium on one machine: coordinator and sites as local processes, over real mutual TLS, gone afterwards.

with Rehearsal(folder, study) as rehearsal:
    submit(study, out, rehearsal.over)
"""

import json
import logging
import socket
import sys
from pathlib import Path
from typing import Any, Self

from wardround.consortium.approval import approve
from wardround.consortium.identity import introduce
from wardround.consortium.kits import init_site, new_consortium
from wardround.consortium.site_start import commands
from wardround.consortium.submit import Consortium
from wardround.consortium.trust import modules_table
from wardround.engines.frames import DOOR, door_of, shut
from wardround.engines.processes import WITH_PARENT, Programs
from wardround.runs.build import build
from wardround.study.load import Study, cells

log = logging.getLogger(__name__)


def generated(study: Study, folder: Path) -> Study:
    """The study on generated notes; its own corpus is kept if that is generated already."""
    if study.resolved["corpus"].get("name") == study.task.generated["name"]:
        return study
    task = {key: value for key, value in study.resolved["task"].items() if key not in study.task.of_corpus}
    tables: dict[str, Any] = {**study.resolved, "task": task, "corpus": dict(study.task.generated)}
    tables.pop("partition", None)
    return cells(tables, where=study.name, folder=folder)[0].study


def _own(study: Study) -> bool:
    """Whether the study names a class of somebody's own, which each site then has to trust."""
    tables = [study.resolved[section] for section in ("method", "task", "corpus")]
    return any(":" in str(table.get("name")) for table in (*tables, *study.resolved.get("layers", ())))


def consent_of(study: Study) -> str:
    """What a rehearsal's sites agree to: all that the study asks, also what a real site would have to name."""
    replies = {step.kinds()[1] for step in study.method.declared().values()}
    delicate = sorted(reply.__name__ for reply in replies if reply.delicate)
    # Generated notes have no patients whose counts would have to stay small.
    plain = "[consent]\nsmallest_count = 0\nleast_examples = 0\n"
    if not delicate:
        return plain
    named = f"messages = {json.dumps(['any', *delicate])}"
    log.warning("the rehearsal's sites agree to send %s; a real one has to say so: %s", " and ".join(delicate), named)
    return f"{plain}{named}\n"


class Rehearsal:
    """All processes of a consortium, each site with its share of the study's generated notes."""

    def __init__(self, folder: Path, study: Study, beside: Path) -> None:
        names = build(study, folder / "names").sites.names
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            port = trial.getsockname()[1]
        centre = folder / "consortium"
        kits = new_consortium(centre, "rehearsal", names, "127.0.0.1", port)
        self.over = Consortium(centre)
        board = {"coordinator": [sys.executable, "-m", "wardround.consortium.switchboard", str(centre)]}
        self.programs = [Programs(board, {WITH_PARENT: "1"}, folder / "printed.txt")]
        self.doors: list[Path] = []
        places = {name: folder / "sites" / name for name in names}
        consent = consent_of(study)
        for name, kit in zip(names, kits, strict=True):
            place = places[name]
            init_site(kit, place)
            settings = f'name = "{name}"\n[data]\nfrom_study = true\n{consent}'
            modules = sorted(beside.glob("*.py")) if _own(study) else []
            (place / "site.toml").write_text(settings + modules_table(modules), encoding="utf-8")
            for module in modules:
                (place / module.name).write_bytes(module.read_bytes())
            approve(place, study)
            self.doors.append(door_of(place))
            self.programs.append(Programs(commands(place, name), {DOOR: str(self.doors[-1])}, folder / "printed.txt"))
        introduce(places)

    def __enter__(self) -> Self:
        for programs in self.programs:
            programs.look()
        return self

    def __exit__(self, *_: object) -> None:
        for programs in reversed(self.programs):
            programs.stop()
        for door in self.doors:
            shut(door)
