"""What each message must look like, checked on arrival before anything is done with it.

A manifest knows the layouts (the model's, the counts') and sizes (classes, …) that the fields of messages
refer to in `reveals(…)`. Names, shapes, dtypes, finite values and plausible counts are checked; what fails
is refused with a reason that quotes no value of the site's, nor a name that it made up.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from wardround.core.record import Message, Reveal, finite, reveals_of
from wardround.core.weights import Layout, Weights

COUNT_LIMIT = 10**9  # no site has more examples; a larger count is a fault or an attack on the mean
NOT_FINITE = "holds NaN or infinity"
HEADER_SLACK = 4096  # metadata of any message of ours


@dataclass(frozen=True)
class Manifest:
    """The layouts and sizes that messages of one study must agree with."""

    layouts: Mapping[str, Layout]
    sizes: Mapping[str, int]
    dtype: torch.dtype = torch.float32
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)
    """Those that a setting of the method decides, by the names that messages have for them."""
    limits: dict[type[Message], int] = field(default_factory=dict, compare=False, repr=False)
    """Worked out before, by kind."""

    def refusal(self, kind: type[Message], message: Message) -> str | None:
        """Why this message cannot be accepted as a `kind`, or None if it can."""
        if type(message) is not kind:
            return f"a {type(message).__name__} came in place of a {kind.__name__}"
        for name, reveal in reveals_of(kind).items():
            value = getattr(message, name)
            if isinstance(value, Weights):
                wrong = self._weights(value, reveal)
            elif isinstance(value, Tensor):
                wrong = self._tensor(value, reveal)
            else:
                wrong = None if _plausible(value) else f"is outside 0 … {COUNT_LIMIT:,}"
            if wrong is None and not finite(value):
                wrong = NOT_FINITE
            if wrong:
                return f"{kind.__name__}.{name} {wrong}"
        return None

    def limit(self, kind: type[Message]) -> int:
        """More bytes than any acceptable message of this kind has: what is longer is not even parsed."""
        if kind not in self.limits:
            self.limits[kind] = self._limit(kind)
        return self.limits[kind]

    def _limit(self, kind: type[Message]) -> int:
        total = HEADER_SLACK
        for own, reveal in reveals_of(kind).items():
            layout = self.layouts.get(reveal.like)
            if layout is not None:
                total += layout.size * 8
                for name, shape in layout.shapes.items():
                    total += 128 + len(own) + len(json.dumps(name)) + 20 * len(shape)
            known = [self.sizes.get(size, 1 << 20) if isinstance(size, str) else size for size in reveal.shape]
            total += 8 * prod(known)
        return total

    def _weights(self, value: Weights, reveal: Reveal) -> str | None:
        layout = self.layouts.get(reveal.like)
        if layout is None:
            return f"should be like {reveal.like!r}, which this study does not know"
        if not value.keys() <= layout.shapes.keys():
            return "does not fit: it has a tensor that is not part of the model"
        if value.layout != layout:
            return f"does not fit: {layout.differs(value.layout)}"
        if reveal.like == "counts" and bool((value.flat < 0).any()):
            return "holds a negative count"
        return self._dtype(value.flat.dtype, reveal)

    def _tensor(self, value: Tensor, reveal: Reveal) -> str | None:
        shape = [self.sizes.get(size, size) if isinstance(size, str) else size for size in reveal.shape]
        fits = len(shape) == value.dim() and all(
            isinstance(want, str) or want == got for want, got in zip(shape, value.shape, strict=True)
        )
        if not fits:
            return f"has shape {list(value.shape)}, not {shape}"
        return self._dtype(value.dtype, reveal)

    def _dtype(self, got: torch.dtype, reveal: Reveal) -> str | None:
        want = self.dtypes.get(reveal.dtype) if isinstance(reveal.dtype, str) else reveal.dtype
        want = want or self.dtype
        return None if got == want else f"has dtype {str(got)[6:]}, not {str(want)[6:]}"


def _plausible(value: object) -> bool:
    """Whether every whole number in a field, alone or in a tuple or dict, can be a count."""
    if isinstance(value, tuple):
        return all(map(_plausible, value))
    if isinstance(value, dict):
        return all(map(_plausible, value.values()))
    return not isinstance(value, int) or 0 <= value <= COUNT_LIMIT
