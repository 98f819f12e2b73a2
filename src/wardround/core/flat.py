"""A message as one row of numbers and a description of where each belongs: what a layer adds masks or noise to.

    numbers, form = flattened(reply)
    reply == restored(type(reply), numbers, form)

The form is text, and the same at all sites whose replies can be added: it has names, shapes and words, no number.
"""

import json
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor

from wardround.core.codec import DTYPES, TORCH, fields_of
from wardround.core.record import Message
from wardround.core.weights import Layout, Weights

M = TypeVar("M", bound=Message)


def flattened(message: Message) -> tuple[Tensor, str]:
    """All numbers of a message in double precision, and the form in which they stood."""
    rows, form = taken_apart(message)
    return torch.cat([torch.zeros(0, dtype=torch.float64), *(row.double() for row in rows)]), form


def taken_apart(message: Message) -> tuple[list[Tensor], str]:
    """The same, as the message has them: a row of numbers for each tensor, set of weights or number."""
    rows: list[Tensor] = []
    form = {name: _taken(getattr(message, name), rows) for name in fields_of(type(message))}
    return rows, json.dumps(form)


def restored(kind: type[M], numbers: Tensor, form: str) -> M:
    """The message of this form with these numbers; whole numbers are rounded."""
    rest = [numbers]
    return kind(**{name: _put_back(entry, rest) for name, entry in json.loads(form).items()})


def _taken(value: Any, rows: list[Tensor]) -> Any:
    """The form of one field; its numbers go to the rows."""
    if isinstance(value, Weights):
        rows.append(value.flat)
        return ["weights", DTYPES[value.flat.dtype], list(value.layout.shapes.items())]
    if isinstance(value, Tensor):
        rows.append(value.flatten())
        return ["tensor", DTYPES[value.dtype], list(value.shape)]
    if isinstance(value, tuple):
        return ["tuple", [_taken(item, rows) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[key, _taken(value[key], rows)] for key in sorted(value)]]
    if value is None or isinstance(value, bool | str):
        return ["as is", value]
    rows.append(torch.tensor([value], dtype=torch.float64))
    return [type(value).__name__]


def _put_back(form: Any, rest: list[Tensor]) -> Any:
    """The value of one field, its numbers taken off what is left."""
    what, *more = form
    if what == "weights":
        layout = Layout((name, tuple(shape)) for name, shape in more[1])
        return Weights.of_flat(_next(layout.size, more[0], rest), layout)
    if what == "tensor":
        return _next(prod(more[1]), more[0], rest).view(more[1])
    if what == "tuple":
        return tuple(_put_back(item, rest) for item in more[0])
    if what == "dict":
        return {key: _put_back(item, rest) for key, item in more[0]}
    if what == "as is":
        return more[0]
    return (int if what == "int" else float)(_next(1, "I64" if what == "int" else "F64", rest))


def _next(count: int, dtype: str, rest: list[Tensor]) -> Tensor:
    part, rest[0] = rest[0][:count], rest[0][count:]
    kind = TORCH[dtype]
    return part.to(kind) if kind.is_floating_point else part.round().to(kind)
