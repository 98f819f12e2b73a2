"""What would leave a hospital: found by rehearsing a method, so that it cannot be out of date.

    wardround protocol fedavg

A method is run for two rounds over three small generated sites (or those of a study), and every exchange
is written down: step, direction, message, field, shape, bytes, whether the coordinator sees each reply or only
the sum, and what its author says that it reveals.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from wardround.core.cohort import Seen
from wardround.engines.inline import Serial
from wardround.federation.public import Public
from wardround.methods import METHODS
from wardround.runs.build import Built, build
from wardround.runs.loop import one_thread
from wardround.runs.rounds import Rounds
from wardround.study.load import Study, cells

__all__ = ["REHEARSALS", "exchanged", "rehearsed", "toy"]


REHEARSALS: dict[str, dict[str, Any]] = {
    "features": {"corpus": {"name": "synthetic", "sites": 3, "features": 60, "classes": 10, "largest": 40}},
    "bags": {
        "task": {"name": "bags", "buckets": 256, "embedding": 8, "filters": 12},
        "corpus": {"name": "clinic-bags", "hospitals": 3, "sentences": 40, "test_sentences": 20},
        "partition": {"name": "iid", "sites": 3},
    },
}
"""By task, data small enough to rehearse a method on."""


def toy(method: str) -> Study:
    """A study small enough to rehearse any method on."""
    task = METHODS[method].kind.rehearsal if method in METHODS else "features"
    tables = {
        "name": "rehearsal", "rounds": 2, "method": {"name": method}, "task": {"name": task}, **REHEARSALS[task]
    }  # fmt: skip
    study = cells(tables, where=f"method {method}", folder=Path.cwd())[0].study
    return replace(study, public=Public(0.2)) if study.method.public else study


def rehearsed(study: Study, rounds: int = 2) -> list[Seen]:
    """Every exchange of the first rounds and of an evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        return exchanged(build(study, Path(folder)), rounds)


def exchanged(built: Built, rounds: int = 2) -> list[Seen]:
    """The same, of a study that is built already."""
    seen: list[Seen] = []
    with one_thread():
        rehearsal = Rounds(built, Serial(built.host, strict=True), watch=seen)
        state = rehearsal.start()
        for round_ in range(1, rounds + 1):
            state, _ = rehearsal.train(round_, state)
        rehearsal.evaluate(rounds, state.weights)
    return seen
