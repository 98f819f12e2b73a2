"""Exchanges as they happened, and what of them goes on the list of what crossed the wire."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, Literal

from torch import Tensor

from wardround.core.cohort import Seen
from wardround.core.record import TOGETHER, Message, reveals_of
from wardround.core.weights import Weights
from wardround.runs.wire import WireRow
from wardround.study.outline import DPTable

SIZE, COUNTED = "how many training examples the site has", "how many of the site's examples"
"""What messages say of themselves where noise is another matter."""


class FirstOfEach(list[Seen]):
    """The first exchange of each step: a whole round's would hold every site's reply."""

    def append(self, seen: Seen) -> None:
        """Keep it if it is the first of its step."""
        if all(known.step != seen.step for known in self):
            super().append(seen)


def rows(seen: Iterable[Seen], dp: DPTable | None = None) -> tuple[WireRow, ...]:
    """One row per field of each kind of message, in the order of the exchanges; under `dp` counts have noise."""
    listed: dict[tuple[str, ...], WireRow] = {}
    for exchange in seen:
        sight: Literal["each", "sum", "masked"] = "each" if exchange.verb == "ask" else "sum"
        hidden: list[WireRow] = []
        if not type(exchange.reply).alone:
            sight = "masked"
            hidden = [*_hidden(exchange.step, exchange.hides)] if exchange.hides else []
        for row in (
            *_fields(exchange.step, exchange.message, "to site", ""),
            *hidden,
            *_fields(exchange.step, exchange.reply, "from site", sight),
        ):
            listed.setdefault((row.step, row.direction, row.message, row.field, row.seen), row)
    return tuple(listed.values() if dp is None else (_noisy(row, dp.unit) for row in listed.values()))


def _noisy(row: WireRow, unit: str) -> WireRow:
    """A row whose counts have noise, and are of units."""
    size = row.reveals.replace(SIZE, f"about how many {unit}s the site has to train on, counted with noise")
    return row.model_copy(update={"reveals": size.replace(COUNTED, f"about {COUNTED}")})


def _fields(
    step: str, message: Message, direction: Literal["to site", "from site"], seen: Literal["", "each", "sum", "masked"]
) -> Iterator[WireRow]:
    kind = type(message)
    reveals = reveals_of(kind)
    head: dict[str, Any] = {"step": step, "direction": direction, "message": kind.__name__, "seen": seen}
    overhead = message.nbytes
    for field in fields(message):
        value = getattr(message, field.name)
        content = _content(value)
        overhead -= content["bytes"]
        own = {"seen": "each"} if seen == "masked" and not isinstance(value, Tensor) else {}  # numbers are, words not
        yield WireRow(**(head | own), field=field.name, reveals=reveals[field.name].what, **content)
    yield WireRow(**head, field="", type="", bytes=overhead, reveals="")


def _hidden(step: str, kind: type[Message]) -> Iterator[WireRow]:
    """The fields of a message that leaves as another: what the sum of them tells."""
    head: dict[str, Any] = {"step": step, "direction": "from site", "message": kind.__name__, "seen": "masked"}
    for name, reveal in reveals_of(kind).items():
        yield WireRow(**head, field=name, type="masked", bytes=0, reveals=f"{TOGETHER}{reveal.what}")


def _content(value: Any) -> dict[str, Any]:
    if isinstance(value, Weights):
        size = value.layout.size
        return {"tensors": len(value), "shape": (size,), "type": _dtype(value.flat), "bytes": value.flat.nbytes}
    if isinstance(value, Tensor):
        return {"shape": tuple(value.shape), "type": _dtype(value), "bytes": value.nbytes}
    return {"type": type(value).__name__, "bytes": 0}


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype)[6:]
