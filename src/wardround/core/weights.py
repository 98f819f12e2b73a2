"""Named tensors with the arithmetic that papers write.

    change = after - before
    state.weights + change * n / total

Rules of this file:
1. A `Weights` is never changed in place; every operation gives a new one.
2. All its tensors have one dtype and lie in one flat buffer, in the order of the layout: arithmetic on a
   whole model is one tensor operation, and the buffer is the data section of the encoding.
3. Two `Weights` can meet in an operation only if names and shapes agree, in the same order.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Self

import torch
from torch import Tensor, nn


class Layout:
    """Names and shapes of a model's tensors, and where each lies in the flat buffer."""

    def __init__(self, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        self.shapes = dict(shapes)
        self.sizes = [prod(shape) for shape in self.shapes.values()]
        self.size = sum(self.sizes)
        self.slices: dict[str, slice] = {}
        start = 0
        for name, size in zip(self.shapes, self.sizes, strict=True):
            self.slices[name] = slice(start, start + size)
            start += size

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Layout) and list(self.shapes.items()) == list(other.shapes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.shapes.items()))

    def __repr__(self) -> str:
        return f"Layout({len(self.shapes)} tensors, {self.size:,} numbers)"

    def differs(self, other: "Layout") -> str:
        """In words, the first way in which `other` is not this layout."""
        for name, shape in self.shapes.items():
            if name not in other.shapes:
                return f"{name} is missing"
            if other.shapes[name] != shape:
                return f"{name} has shape {list(other.shapes[name])}, not {list(shape)}"
        extra = [name for name in other.shapes if name not in self.shapes]
        return f"{extra[0]} is not part of the model" if extra else "the tensors come in another order"

    def segments(self, device: torch.device) -> Tensor:
        """For each number of the flat buffer, the index of the tensor it belongs to."""
        return torch.repeat_interleave(torch.tensor(self.sizes, device=device))

    @cached_property
    def _segments(self) -> Tensor:
        return self.segments(torch.device("cpu"))


def _bits(flat: Tensor) -> Tensor:
    plain = flat.contiguous().as_strided(flat.shape, (1,))  # one number may have any stride
    return plain.view(torch.uint8)  # NaN is itself there, and −0 is not 0


class Weights(Mapping[str, Tensor]):
    """Named tensors with the arithmetic that papers write: + - * /, only(), without()."""

    __slots__ = ("flat", "layout")

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        dtypes = {tensor.dtype for tensor in tensors.values()}
        if len(dtypes) > 1:
            raise TypeError(f"weights have one dtype, got {sorted(map(str, dtypes))}")
        self.layout = Layout((name, tuple(tensor.shape)) for name, tensor in tensors.items())
        parts = [tensor.detach().reshape(-1) for tensor in tensors.values()]
        self.flat = torch.cat(parts) if parts else torch.empty(0)

    @property
    def digest(self) -> str:
        """What stands for these numbers, bit for bit, where only sameness matters."""
        return hashlib.sha256(_bits(self.flat.cpu()).numpy().data).hexdigest()

    @classmethod
    def of_flat(cls, flat: Tensor, layout: Layout) -> Self:
        """Weights over an existing buffer, which nobody may change afterwards."""
        if flat.shape != (layout.size,):
            raise ValueError(f"{layout} does not fit a buffer of shape {list(flat.shape)}")
        weights = cls.__new__(cls)
        weights.flat, weights.layout = flat, layout
        return weights

    @classmethod
    def of_model(cls, model: nn.Module) -> Self:
        """The trainable parameters of a model; frozen ones are not weights and never travel."""
        return cls({name: p for name, p in model.named_parameters() if p.requires_grad})

    # Mapping

    def __getitem__(self, name: str) -> Tensor:
        return self.flat[self.layout.slices[name]].view(self.layout.shapes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout.shapes)

    def __len__(self) -> int:
        return len(self.layout.shapes)

    def __repr__(self) -> str:
        return f"Weights({len(self)} tensors, {self.layout.size:,} × {str(self.flat.dtype)[6:]})"

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same names, shapes, dtype and bits."""
        if not isinstance(other, Weights):
            return NotImplemented
        return (
            self.layout == other.layout
            and self.flat.dtype == other.flat.dtype
            and torch.equal(_bits(self.flat), _bits(other.flat))
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value

    # arithmetic

    def _like(self, flat: Tensor) -> Self:
        weights = self.__class__.__new__(self.__class__)
        weights.flat, weights.layout = flat, self.layout
        return weights

    def _buffer(self, other: "Weights") -> Tensor:
        if self.layout != other.layout:
            raise ValueError(f"weights of two models meet: {self.layout.differs(other.layout)}")
        return other.flat

    def __add__(self, other: "Weights") -> Self:
        return self._like(self.flat + self._buffer(other))

    def __sub__(self, other: "Weights") -> Self:
        return self._like(self.flat - self._buffer(other))

    def __mul__(self, factor: float) -> Self:
        return self._like(self.flat * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        return self._like(self.flat / divisor)

    def __neg__(self) -> Self:
        return self._like(-self.flat)

    def zeros(self) -> Self:
        """Weights of the same shapes, all zero."""
        return self._like(torch.zeros_like(self.flat))

    def norm(self) -> float:
        """Euclidean norm over all numbers."""
        return float(self.flat.norm())

    def norms(self, norm: Callable[[Tensor], Tensor] = torch.linalg.vector_norm) -> Tensor:
        """One norm per tensor, in the order of the layout (Frobenius unless told otherwise)."""
        return torch.stack([norm(tensor) for tensor in self.values()])

    def scaled(self, factors: Tensor) -> Self:
        """Each tensor times its own factor, given in the order of the layout."""
        return self._like(self.flat * factors[self.layout._segments].to(self.flat.dtype))  # noqa: SLF001 -- cached there

    def only(self, *prefixes: str) -> Self:
        """The tensors whose name starts with one of the prefixes."""
        return self.__class__({name: t for name, t in self.items() if name.startswith(prefixes)})

    def without(self, *prefixes: str) -> Self:
        """The tensors whose name starts with none of the prefixes."""
        return self.__class__({name: t for name, t in self.items() if not name.startswith(prefixes)})
