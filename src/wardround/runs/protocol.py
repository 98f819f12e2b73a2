"""What would leave a hospital: found by rehearsing a method, so that it cannot be out of date.

    wardround protocol fedavg

A method is run for two rounds over three small generated sites (or those of a study), and every exchange
is written down: step, direction, message, field, shape, bytes, whether the coordinator sees each reply or only
the sum, and what its author says that it reveals. What a method warns of in a rehearsal is of its few rows, and of no
run: it is not told.
"""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from wardround.core.cohort import Seen
from wardround.core.method import Method
from wardround.engines.inline import Serial
from wardround.federation.partition import Public
from wardround.methods import METHODS
from wardround.runs.build import Built, build
from wardround.runs.loop import one_thread
from wardround.runs.rounds import Rounds
from wardround.study.load import Study, cells
from wardround.tasks import TASKS


def rehearsal(task: str) -> dict[str, Any]:
    """The tables of a study on data of this task small enough to rehearse a method on."""
    kind = TASKS[task]
    tables = {"task": {"name": task, **kind.small}, "corpus": dict(kind.generated)}
    return tables if kind.takes == "rows" else {**tables, "partition": {"name": "iid", "sites": 3}}


def toy(method: str) -> Study:
    """A study small enough to rehearse any method on."""
    task = METHODS[method].kind.rehearsal if method in METHODS else Method.rehearsal
    tables = {"name": "rehearsal", "rounds": 2, "method": {"name": method}, **rehearsal(task)}
    study = cells(tables, where=f"method {method}", folder=Path.cwd())[0].study
    return replace(study, public=Public(0.2)) if study.method.public else study


def rehearsed(study: Study, rounds: int = 2) -> list[Seen]:
    """Every exchange of the first rounds and of an evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        return exchanged(build(study, Path(folder)), rounds)


def exchanged(built: Built, rounds: int = 2) -> list[Seen]:
    """The same, of a study that is built already."""
    seen: list[Seen] = []
    with one_thread(), unheard():
        rounds_of = Rounds(built, Serial(built.host, strict=True), watch=seen)
        state = rounds_of.start()
        for round_ in range(1, rounds + 1):
            state, _ = rounds_of.train(round_, state)
        if built.study.finish:
            state, _ = rounds_of.finish(rounds + 1, state)
        rounds_of.evaluate(rounds, state.weights)
    return seen


@contextmanager
def unheard() -> Iterator[None]:
    """Without the warnings of methods."""
    log = logging.getLogger("wardround.methods")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
