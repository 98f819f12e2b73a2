"""Everything that outlives a function call.

    class Update(Message):
        '''What a site has learnt in one round.'''
        change: Weights = reveals("how the site's notes move the model")
        examples: int = reveals("how many training examples the site has")

    data = update.encode()                  # len(data) == update.nbytes
    update == decode(Update, data)          # see `codec`

Rules of this file:
1. A record is a frozen dataclass; subclasses become one by being declared.
2. Its fields are `Weights`, `Tensor`, `int`, `float`, `bool`, `str`, tuples and string-keyed dicts of the last
   four, or any of these `| None`. Nothing else can be encoded, so nothing else can be sent or kept.
3. A `Message` may cross the wire; a `Private` may not, and nothing in between exists.
"""

import dataclasses
import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, dataclass_transform

import torch
from torch import Tensor

from wardround.core.codec import fields_of, plan, raw
from wardround.core.weights import Weights


@dataclass(frozen=True)
class Reveal:
    """What a message's field tells about patients, and what shape it must have."""

    what: str = "not stated"
    like: str = "model"
    shape: tuple[int | str, ...] = ()
    dtype: torch.dtype | str | None = None
    weighs: str = ""
    bounded: bool = False
    still: bool = False
    optional: bool = False


def reveals(
    what: str,
    *,
    like: str = "model",
    shape: tuple[int | str, ...] = (),
    dtype: torch.dtype | str | None = None,
    weighs: str = "",
    bounded: bool = False,
    still: bool = False,
    optional: bool = False,
    default: Any = dataclasses.MISSING,
) -> Any:
    """A message's field and what it tells about patients.

    For `Weights`, `like` names the layout they must have; for a tensor, `shape` gives sizes or the names of
    sizes that the manifest knows. `dtype`, too, may be a name that the manifest knows; it defaults to the model's.
    `weighs` marks the number by which the site has multiplied its weights, or that stands for its examples, and says
    what it counts: `train`, `test` or `sites`. `bounded` marks a tensor whose norm is much alike at all sites,
    `still` what stays the same throughout a study: batches of two sizes would tell a single example. `optional` marks
    what a site may keep to itself: 0 leaves in its place.
    """
    reveal = Reveal(what, like, shape, dtype, weighs, bounded, still, optional)
    return dataclasses.field(default=default, metadata={"reveal": reveal})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(reveals, dataclasses.field))
class Record:
    """Anything that outlives a function call: tensors, weights, numbers, text."""

    __dataclass_fields__: ClassVar[dict[str, "dataclasses.Field[Any]"]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, eq=False)(cls)

    @cached_property
    def nbytes(self) -> int:
        """The length of the encoding, found without encoding."""
        header, tensors = plan(self)
        return 8 + len(header) + sum(tensor.nbytes for tensor in tensors)

    def encode(self) -> bytes:
        """A safetensors file: tensors as themselves, everything else as its metadata."""
        header, tensors = plan(self)
        return b"".join([len(header).to_bytes(8, "little"), header, *map(raw, tensors)])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.encode() == other.encode()

    __hash__ = None  # type: ignore[assignment]  # compared by value, which is too dear for a key

    def __add__(self, other: Self) -> Self:
        """The field-wise sum; text must agree, and bytes do not overflow. What `Cohort.total` adds up with."""
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(
            **{name: _sum(name, getattr(self, name), getattr(other, name)) for name in fields_of(type(self))}
        )


class Message(Record):
    """A record that may cross the wire. Its docstring is what a data-protection officer reads."""

    delicate: ClassVar[bool] = False
    """Whether a real site sends it only if its consent names it: it tells more than its size suggests."""
    alone: ClassVar[bool] = True
    """Whether whoever receives it can read it alone, and not only in the sum over sites."""

    def row_length(self) -> float | None:
        """How long the rows are that it adds up products of, on average; nothing where it adds up none."""
        return None


class Private(Record):
    """A record that a site keeps between rounds and never sends."""

    constant: ClassVar[bool] = False
    """Whether it is small and nobody changes its tensors in place, so that a process may have it at hand as it is."""


TOGETHER = "of all sites together: "
"""What stands before what a field tells, where nothing but a sum can be read."""


def reveals_of(kind: type[Any]) -> dict[str, Reveal]:
    """For each field of a record, what its author said that it reveals."""
    known: dict[str, Reveal] | None = kind.__dict__.get("_reveals")
    if known is None:
        known = {field.name: field.metadata.get("reveal", Reveal()) for field in dataclasses.fields(kind)}
        kind._reveals = known  # noqa: SLF001 -- ours to remember
    return known


def still_of(message: Record) -> dict[str, Any]:
    """What a message has that stays the same throughout a study; of a tuple, its digest."""
    values = {name: getattr(message, name) for name, reveal in reveals_of(type(message)).items() if reveal.still}
    return {
        name: hashlib.sha256(repr(value).encode()).hexdigest()[:16] if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def _sum(name: str, left: Any, right: Any) -> Any:
    same = type(left) is type(right)
    if isinstance(left, bool | str) or left is None or right is None:
        if not same or left != right:
            raise ValueError(f"{name} differs between sites and cannot be added")
        return left
    if isinstance(left, tuple):
        if len(left) != len(right):
            raise ValueError(f"{name} has another length at another site and cannot be added")
        return tuple(_sum(name, a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        both = left.keys() & right.keys()
        return {
            key: _sum(name, left[key], right[key]) if key in both else left.get(key, right.get(key))
            for key in sorted({*left, *right})
        }
    if isinstance(left, Tensor):
        left, right = _wide(left), _wide(right)
        if left.shape != right.shape or left.dtype != right.dtype:
            raise ValueError(f"{name} has another shape or dtype at another site and cannot be added")
    return left + right


def _wide(tensor: Tensor) -> Tensor:
    """Whole numbers as wide as they get: the sum of two bytes may be none."""
    whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    return tensor.long() if whole else tensor


def finite(value: Any) -> bool:
    """Whether a field's value holds no NaN and no infinity."""
    if isinstance(value, Weights):
        value = value.flat
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            return True
        # One NaN or infinity makes the sum so; only a sum that overflows needs the slow look.
        return math.isfinite(float(value.sum())) or bool(value.isfinite().all())
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    return all(map(finite, value)) if isinstance(value, tuple) else True
