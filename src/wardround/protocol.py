"""What would leave a hospital: found by rehearsing a method, so that it cannot be out of date.

    wardround protocol fedavg

A method is run for two rounds over three small generated sites (or those of a study), and every exchange
is written down: step, direction, message, field, shape, bytes, whether the coordinator sees each reply or only
the sum, and what its author says that it reveals.
"""

import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from wardround.core.cohort import Seen
from wardround.core.method import Exam
from wardround.core.record import Message, reveals_of
from wardround.core.weights import Weights
from wardround.engines.inline import Serial
from wardround.run import build, drawn, one_thread
from wardround.study import Study, cells

__all__ = ["Row", "rehearsed", "rows"]


@dataclass(frozen=True)
class Row:
    """One field of one message."""

    step: str
    direction: str
    message: str
    field: str
    shape: str
    bytes: str
    seen: str
    reveals: str


def toy(method: str) -> Study:
    """A study small enough to rehearse any method on."""
    tables = {
        "name": "rehearsal",
        "rounds": 2,
        "method": {"name": method},
        "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "features": 60, "classes": 10, "largest": 40},
    }
    return cells(tables, where=f"method {method}", folder=Path.cwd())[0].study


def rehearsed(study: Study, rounds: int = 2) -> list[Seen]:
    """Every exchange of the first rounds and of an evaluation."""
    seen: list[Seen] = []
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        built = build(study, Path(folder))
        engine = Serial(built.host, None, built.manifest, strict=True)
        state = study.method.start(built.weights, built.cohort(0, built.sites.names, engine, watch=seen))
        for round_ in range(1, rounds + 1):
            names = drawn(study, built.sites.names, round_)
            state = study.method.round(state, built.cohort(round_, names, engine, watch=seen))
        cohort = built.cohort(rounds, built.sites.names, engine, watch=seen)
        cohort.exchanges = 1000
        verb = cohort.ask if study.evaluation.each else cohort.total
        for split in study.evaluation.splits:
            verb(study.method.evaluate, Exam(state.weights, split))
    return seen


def rows(seen: list[Seen]) -> list[Row]:
    """One row per field of each kind of message, in the order of the exchanges."""
    found: dict[tuple[str, str, str], Row] = {}
    for exchange in seen:
        each = "each" if exchange.verb == "ask" else "sum only"
        for message, direction, how in (
            (exchange.message, "to site", "—"),
            (exchange.reply, "from site", each),
        ):
            for row in _fields(exchange.step, message, direction, how):
                found.setdefault((row.step, row.direction, row.field), row)
    return list(found.values())


def _fields(step: str, message: Message, direction: str, seen: str) -> list[Row]:
    kind = type(message)
    told = reveals_of(kind)
    found = []
    overhead = message.nbytes
    for field in fields(message):
        value = getattr(message, field.name)
        size = value.flat.nbytes if isinstance(value, Weights) else value.nbytes if isinstance(value, Tensor) else 0
        overhead -= size
        found.append(
            Row(
                step,
                direction,
                kind.__name__,
                field.name,
                _shape(value),
                f"{size:,}",
                seen,
                told[field.name].what,
            )
        )
    whole = Row(step, direction, kind.__name__, "(names, numbers, framing)", "", f"{overhead:,}", seen, "as above")
    return [*found, whole]


def _shape(value: Any) -> str:
    if isinstance(value, Weights):
        return f"{len(value)} tensors, {value.layout.size:,} × {str(value.flat.dtype)[6:]}"
    if isinstance(value, Tensor):
        return f"{list(value.shape)} {str(value.dtype)[6:]}"
    return type(value).__name__
