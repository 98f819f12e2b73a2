"""Messages as whole numbers, whose sums come out the same whatever their order, and go modulo a power of two.

    encoded = encode(update, sites=3, ranges={"change/linear.weight": 2.0})
    update == decode(Update, encoded, sites=1, ranges=…)     # up to rounding

Rules of this file:
1. A whole number stands for itself. Any other is multiplied by a power of two and rounded.
2. A tensor of 32 bits whose range is known goes into 32 bits, by the power of two that its range and the number of
   sites allow: an error of n · range / 2³². All else goes into 64 bits, by `SCALE`: an error of 2⁻³⁵, or 2⁻²⁹.
3. What does not fit its range is not cut off: `over` says that the numbers of 32 bits are not there. What does not fit
   into 64 bits is an error that names the tensor. Nothing wraps.
4. The first number of all is 1: the sum of n messages begins with n, or masks were left on it. The second is 0, unless
   what a message had did not fit (`blurred`): then it is drawn by chance, as all numbers of 32 bits are.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf, log2, prod
from typing import Any, TypeVar

import torch
from torch import Tensor

from wardround.core.answer import Unfit
from wardround.core.codec import TORCH
from wardround.core.flat import restored, taken_apart
from wardround.core.record import Message

SCALE = {"F64": 2.0**28, "F32": 2.0**34, "F16": 2.0**34, "BF16": 2.0**34}
FIRST = 2  # numbers of 64 bits before those of the message
WIDE = 1 << 62  # of 64 bits one is the sign and one is spared
WHOLE = 1 << 53  # up to which every whole number is one in double precision
NARROW = (1 << 31) - 1
WITHIN = 2.0**64  # a scale up to which no number of single precision that fits its range leaves it
ROOM = 16.0  # at least so many times the largest number of the last sum one site's may be, when a range is chosen
STEPS = 32  # a range is from 16⁻³² to 16³²: all that single precision has
M = TypeVar("M", bound=Message)
Ranges = Mapping[str, float]
"""The largest number that a site may have in a tensor, by the tensor's name: a power of 16."""


@dataclass(frozen=True)
class Encoded:
    """A message, or a sum of some, in whole numbers."""

    narrow: Tensor
    wide: Tensor
    form: str
    over: bool = False


@dataclass(frozen=True)
class _Part:
    """Numbers of one kind in a row: a tensor, or a single number."""

    name: str
    count: int
    dtype: str
    """As records have it; a plain number's is I64 or F64."""
    power: float | None = field(default=None)
    """What its numbers are multiplied by in 32 bits; None if they are not in these."""

    @property
    def most(self) -> int:
        """How large a sum of its numbers may be, multiplied."""
        return NARROW if self.power is not None else WIDE if TORCH[self.dtype].is_floating_point else WHOLE

    @property
    def scale(self) -> float:
        """What its numbers are multiplied by."""
        if self.power is not None:
            return self.power
        return SCALE.get(self.dtype, 1.0)


def encode(message: Message, sites: int, ranges: Ranges) -> Encoded:
    """The message for a sum of so many."""
    rows, form = taken_apart(message)
    parts = _parts(form, sites, ranges)
    small = torch.zeros(sum(part.count for part in parts if part.power is not None), dtype=torch.int32)
    wide = [torch.tensor([1, 0])]
    over, start = False, 0
    for part, values in zip(parts, _cut(rows, parts), strict=True):
        scaled = _scaled(values, part.scale)
        largest = _largest(scaled)
        if part.power is not None:
            if not largest * sites <= part.most:  # nor is what is not a number
                whole, over = replace(part, power=None), True
                if largest / part.power * whole.scale * sites > whole.most:  # told before anything is opened
                    raise _too_large(message, whole, sites)
            if not over:
                small[start : start + part.count].copy_(scaled)
            start += part.count
            continue
        if not largest * sites <= part.most:
            raise _too_large(message, part, sites)
        wide.append(scaled.long())
    return Encoded(small.zero_() if over else small, torch.cat(wide), form, over)


def _too_large(message: Message, part: _Part, sites: int) -> Unfit:
    return Unfit(
        f"{type(message).__name__}.{part.name} has a number that is too large for a sum of {sites} sites, each "
        f"at most {part.most / sites / part.scale:.3g}; lower method.lr, if there is one, or take "
        "privacy.secure_aggregation out"
    )


def _scaled(values: Tensor, scale: float) -> Tensor:
    """The numbers times a power of two, rounded: in single precision to the same whole numbers as in double."""
    exact = values.dtype is torch.float32 and scale <= WITHIN
    return ((values if exact else values.double()) * scale).round_()


def _largest(values: Tensor) -> float:
    if not values.numel():
        return 0.0
    low, high = values.aminmax()
    return max(-float(low), float(high))


def decode(kind: type[M], total: Encoded, sites: int, ranges: Ranges) -> M:
    """The sum of so many messages that were encoded with these ranges; a `ValueError` if it is not one."""
    parts = _parts(total.form, sites, ranges)
    narrow = sum(part.count for part in parts if part.power is not None)
    count = sum(part.count for part in parts)
    if (len(total.narrow), len(total.wide)) != (narrow, FIRST + count - narrow):
        raise ValueError("its numbers are not as many as its form says")
    if int(total.wide[0]) != sites:
        raise ValueError("masks are left on the sum")
    if int(total.wide[1]):
        raise ValueError("numbers of some site are not in it")
    numbers = torch.empty(count, dtype=torch.float64)
    small, large, start = 0, FIRST, 0
    for part in parts:
        target = numbers[start : start + part.count]
        if part.power is not None:
            target.copy_(total.narrow[small : small + part.count])
            small += part.count
        else:
            target.copy_(total.wide[large : large + part.count])
            large += part.count
        target.div_(part.scale)
        start += part.count
    return restored(kind, numbers, json.dumps({name: _summed(entry) for name, entry in json.loads(total.form).items()}))


def blurred(encoded: Encoded, blur: Callable[[Encoded], tuple[Tensor, Tensor]]) -> Encoded:
    """A message that was over: chance in place of its numbers of 32 bits, and of the second of all, which says so."""
    narrow, second = blur(replace(encoded, wide=encoded.wide[1:FIRST]))
    return replace(encoded, narrow=narrow, wide=torch.cat([encoded.wide[:1], second, encoded.wide[FIRST:]]))


def beyond(total: Encoded, sites: int) -> bool:
    """Whether what some site had did not fit; which, and how many, the sum does not tell."""
    return len(total.wide) >= FIRST and int(total.wide[0]) == sites and bool(total.wide[1])


def widened(total: Encoded, decoded: Message, sites: int, known: Ranges) -> dict[str, float]:
    """The ranges for the next sum like this one, of which `known` were in use.

    A single site's numbers can be larger than the sum's, where sites pull against each other: so there is room for
    `ROOM` times the largest, and up to 16 times that. What was too narrow is widened; what has room for 4 times the
    largest, and for no more than 4096 times, stays, for sites must be told of new ones, and hear of few (`masks`).
    """
    rows, _ = taken_apart(decoded)
    parts = [part for part in _parts(total.form, sites, {}) if part.name]
    small = [TORCH[part.dtype] in (torch.float32, torch.float16, torch.bfloat16) for part in parts]
    largest = {
        part.name: _largest(values)
        for part, values, fits in zip(parts, _cut(rows, parts), small, strict=True)
        if fits and part.count
    }
    if not (top := max(largest.values(), default=0.0)):
        return dict(known)
    largest = {name: max(value, top * 2.0**-20) for name, value in largest.items()}
    wanted = {name: stepped(ROOM * value) for name, value in largest.items()}
    if total.over:
        return {name: max(value, min(16 * known.get(name, 0.0), 16.0**STEPS)) for name, value in wanted.items()}
    near = {name: known[name] for name, value in largest.items() if 4 * value <= known.get(name, 0.0) <= 4096 * value}
    return wanted | near


def stepped(value: float) -> float:
    """The least power of 16 that is not smaller."""
    return 16.0 ** min(max(ceil(log2(value) / 4), -STEPS), STEPS)


def _cut(rows: Iterable[Tensor], parts: list[_Part]) -> Iterator[Tensor]:
    """The numbers of each part: a row has those of one part, or of several one after the other."""
    rest, more = torch.zeros(0), iter(rows)
    for part in parts:
        while part.count and not len(rest):
            rest = next(more)
        yield rest[: part.count]
        rest = rest[part.count :]


def _parts(form: str, sites: int, ranges: Ranges) -> list[_Part]:
    """The parts of a message of this form, in order."""
    parts = []
    for name, count, dtype in (one for field_, entry in json.loads(form).items() for one in _leaves(field_, entry)):
        largest = ranges.get(name, inf)
        power = 2.0 ** floor(log2(NARROW / sites / largest)) if 0 < largest < inf else None
        parts.append(_Part(name, count, dtype, power))
    return parts


def _leaves(name: str, form: Any) -> Iterator[tuple[str, int, str]]:
    """Each tensor of a field: its name, how many numbers it has, and of which type."""
    what, *more = form
    if what == "weights":
        for part, shape in more[1]:
            yield f"{name}/{part}", prod(shape), more[0]
    elif what == "tensor":
        yield name, prod(more[1]), more[0]
    elif what == "tuple":
        for item in more[0]:
            yield from _leaves(name, item)
    elif what == "dict":
        for _, item in more[0]:
            yield from _leaves(name, item)
    elif what != "as is":
        yield name, 1, "I64" if what == "int" else "F64"


def _summed(form: Any) -> Any:
    """The form of a sum: whole numbers are as wide as they get."""
    what, *more = form
    if what in ("weights", "tensor") and more[0] != "BOOL" and not TORCH[more[0]].is_floating_point:
        return [what, "I64", more[1]]
    if what == "tuple":
        return [what, [_summed(item) for item in more[0]]]
    if what == "dict":
        return [what, [[key, _summed(item)] for key, item in more[0]]]
    return form
