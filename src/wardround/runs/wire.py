"""What crossed the wire, in words: one row per field of each kind of message.

Made from exchanges as they happened, so that it cannot be out of date.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from wardround.core.cohort import Seen
from wardround.core.record import Message, reveals_of
from wardround.core.weights import Weights

__all__ = ["EACH", "HEADER", "SEEN", "SUM", "Row", "rows"]

EACH = "each"
SUM = "the sum; its machine each"
"""A method that needs only the sum looks at no single reply, but somebody's machine adds them up."""
HEADER = ("step", "direction", "message", "field", "shape", "bytes", "the coordinator sees", "reveals")
SEEN = (
    f'"{SUM}": the method looks at the sum over sites alone, but without secure aggregation each reply reaches the '
    "coordinator's machine, and whoever controls that can read it."
)


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


def rows(seen: Iterable[Seen]) -> list[Row]:
    """One row per field of each kind of message, in the order of the exchanges."""
    found: dict[tuple[str, ...], Row] = {}
    for exchange in seen:
        each = EACH if exchange.verb == "ask" else SUM
        for message, direction, how in (
            (exchange.message, "to site", "—"),
            (exchange.reply, "from site", each),
        ):
            for row in _fields(exchange.step, message, direction, how):
                found.setdefault((row.step, row.direction, row.field, row.seen), row)
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
