"""Everything that outlives a function call, and its one encoding.

    class Update(Message):
        '''What a site has learnt in one round.'''
        change: Weights = reveals("how the site's notes move the model")
        examples: int = reveals("how many training examples the site has")

    data = update.encode()                  # len(data) == update.nbytes
    update == decode(Update, data)

Rules of this file:
1. A record is a frozen dataclass; subclasses become one by being declared.
2. Its fields are `Weights`, `Tensor`, `int`, `float`, `bool`, `str`, tuples and string-keyed dicts of the last
   four, or any of these `| None`. Nothing else can be encoded, so nothing else can be sent or kept.
3. The encoding is a safetensors file: tensors as themselves, the other fields as its metadata, the record's
   name under the empty key. It is canonical: equal records have equal bytes. No pickle, here or elsewhere.
4. Decoding trusts nothing: kind, field names, types and tensor names are checked against the class, and the
   caller's size limit before anything is parsed.
5. A `Message` may cross the wire; a `Private` may not, and nothing in between exists.
"""

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import safetensors
import torch
from torch import Tensor

from wardround.core.weights import Layout, Weights

__all__ = [
    "DecodeError",
    "Message",
    "Private",
    "Record",
    "Reveal",
    "decode",
    "finite",
    "reveals",
    "reveals_of",
]

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
TORCH = {name: dtype for dtype, name in DTYPES.items()}
HEADER_LIMIT = 64 << 20  # more metadata than any model has names for
KIND = ""  # the metadata key of the record's name

R = TypeVar("R", bound="Record")


class DecodeError(ValueError):
    """These bytes are not the record they were said to be."""


@dataclass(frozen=True)
class Reveal:
    """What a message's field tells about patients, and what shape it must have."""

    what: str = "not stated"
    like: str = "model"
    shape: tuple[int | str, ...] = ()
    dtype: torch.dtype | None = None


def reveals(
    what: str,
    *,
    like: str = "model",
    shape: tuple[int | str, ...] = (),
    dtype: torch.dtype | None = None,
    default: Any = dataclasses.MISSING,
) -> Any:
    """A message's field and what it tells about patients.

    For `Weights`, `like` names the layout they must have; for a tensor, `shape` gives sizes or the names of
    sizes that the manifest knows, and `dtype` defaults to the model's.
    """
    return dataclasses.field(default=default, metadata={"reveal": Reveal(what, like, shape, dtype)})


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
        header, tensors = self._plan()
        return 8 + len(header) + sum(tensor.nbytes for tensor in tensors)

    def encode(self) -> bytes:
        """A safetensors file: tensors as themselves, everything else as its metadata."""
        header, tensors = self._plan()
        return b"".join([len(header).to_bytes(8, "little"), header, *map(_raw, tensors)])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.encode() == other.encode()

    __hash__ = None  # type: ignore[assignment]  # compared by value, which is too dear for a key

    def __add__(self, other: Self) -> Self:
        """The field-wise sum; text must agree. What `Cohort.total` adds up with."""
        return type(self)(
            **{name: _sum(name, getattr(self, name), getattr(other, name)) for name in _fields(type(self))}
        )

    def _plan(self) -> tuple[bytes, list[Tensor]]:
        metadata = {KIND: type(self).__name__}
        tensors: list[Tensor] = []
        shapes: list[tuple[str, str, tuple[int, ...], int]] = []
        for name in _fields(type(self)):
            value = getattr(self, name)
            if isinstance(value, Weights):
                tensors.append(value.flat)
                dtype, itemsize = DTYPES[value.flat.dtype], value.flat.element_size()
                shapes += [
                    (f"{name}/{part}", dtype, shape, size * itemsize)
                    for (part, shape), size in zip(value.layout.shapes.items(), value.layout.sizes, strict=True)
                ]
            elif isinstance(value, Tensor):
                tensors.append(value)
                shapes.append((name, DTYPES[value.dtype], tuple(value.shape), value.nbytes))
            elif value is not None:
                metadata[name] = _text(value)
        return _header(tuple(metadata.items()), tuple(shapes)), tensors


class Message(Record):
    """A record that may cross the wire. Its docstring is what a data-protection officer reads."""


class Private(Record):
    """A record that a site keeps between rounds and never sends."""


def decode(kind: type[R], data: bytes | bytearray | memoryview, *, limit: int | None = None) -> R:
    """The record of this kind in these bytes, or a `DecodeError` that says why there is none."""
    if limit is not None and len(data) > limit:
        raise DecodeError(f"{kind.__name__} of {len(data):,} bytes; at most {limit:,} were expected")
    metadata, entries = _parse(data)
    if metadata.pop(KIND, None) != kind.__name__:
        raise DecodeError(f"these bytes are not a {kind.__name__}")
    values: dict[str, Any] = {}
    for name, hint in _fields(kind).items():
        mine = {key: entry for key, entry in entries.items() if key.partition("/")[0] == name}
        for key in mine:
            del entries[key]
        values[name] = _value(name, hint, mine, metadata.pop(name, None))
    if left := [*entries, *metadata]:
        raise DecodeError(f"{kind.__name__} has no field {left[0][:80]!r}")
    return kind(**values)


# encoding


def reveals_of(kind: type[Any]) -> dict[str, Reveal]:
    """For each field of a record, what its author said that it reveals."""
    known: dict[str, Reveal] | None = kind.__dict__.get("_reveals")
    if known is None:
        known = {field.name: field.metadata.get("reveal", Reveal()) for field in dataclasses.fields(kind)}
        kind._reveals = known  # noqa: SLF001 -- ours to remember
    return known


def _fields(kind: type[Any]) -> dict[str, Any]:
    """The fields of a record and their types, `X | None` kept as it is."""
    known: dict[str, Any] | None = kind.__dict__.get("_types")
    if known is None:
        hints = typing.get_type_hints(kind)
        known = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
        kind._types = known  # noqa: SLF001 -- ours to remember
    return known


def _header(metadata: tuple[tuple[str, str], ...], shapes: tuple[tuple[str, str, tuple[int, ...], int], ...]) -> bytes:
    tensors = _tensor_header(shapes)
    text = json.dumps({"__metadata__": dict(metadata)}, ensure_ascii=False, separators=(",", ":"))[:-1] + tensors + "}"
    raw = text.encode()
    return raw + b" " * (-len(raw) % 8)  # as safetensors aligns its data


@cache  # a model's names and shapes are the same in every message
def _tensor_header(shapes: tuple[tuple[str, str, tuple[int, ...], int], ...]) -> str:
    parts, start = [], 0
    for name, dtype, shape, size in shapes:
        entry = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + size]}
        parts.append(f",{json.dumps(name, ensure_ascii=False)}:{json.dumps(entry, separators=(',', ':'))}")
        start += size
    return "".join(parts)


def _raw(tensor: Tensor) -> memoryview | bytes:
    if tensor.numel() == 0:
        return b""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _sum(name: str, left: Any, right: Any) -> Any:
    if isinstance(left, bool | str) or left is None:
        if left != right:
            raise ValueError(f"{name} differs between sites and cannot be added")
        return left
    if isinstance(left, tuple):
        return tuple(a + b for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        return {key: left.get(key, 0) + right.get(key, 0) for key in sorted({*left, *right})}
    return left + right


# decoding


def _parse(
    data: bytes | bytearray | memoryview,
) -> tuple[dict[str, str], dict[str, tuple[str, list[int], Any]]]:
    raw = bytes(data)
    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or size > min(len(raw) - 8, HEADER_LIMIT):
        raise DecodeError("the bytes are cut off or are no safetensors file")
    try:
        entries = dict(safetensors.deserialize(raw))  # type: ignore[no-untyped-call]
        header = json.loads(raw[8 : 8 + size], object_pairs_hook=_unique)
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise DecodeError(f"no valid safetensors file ({type(error).__name__})") from None
    metadata = header.pop("__metadata__", {})
    # The header's order is the sender's; safetensors returns the tensors in any.
    return metadata, {name: (entries[name]["dtype"], entries[name]["shape"], entries[name]["data"]) for name in header}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _value(name: str, hint: Any, entries: dict[str, tuple[str, list[int], Any]], text: str | None) -> Any:
    kinds = _alternatives(hint)
    if Weights in kinds and (entries or text is None):
        if not entries and type(None) in kinds:
            return None
        return _weights(name, entries)
    if Tensor in kinds and entries:
        if list(entries) != [name]:
            raise DecodeError(f"{name} should be one tensor")
        return _tensor(name, *entries[name])
    if entries:
        raise DecodeError(f"{name} should hold no tensor")
    if text is None:
        if type(None) in kinds:
            return None
        raise DecodeError(f"{name} is missing")
    return _plain(name, kinds, text)


def _plain(name: str, kinds: tuple[Any, ...], text: str) -> Any:
    if str in kinds:
        return text
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise DecodeError(f"{name} cannot be read") from None
    value = tuple(value) if isinstance(value, list) else value
    value = float(value) if float in kinds and type(value) is int and abs(value) < 2**53 else value
    if not any(_is_a(value, kind) for kind in kinds):
        raise DecodeError(f"{name} has the wrong type, {type(value).__name__}")
    return value


def _is_a(value: Any, kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is_a(item, arguments[1]) for item in value.values())
    return type(value) is kind


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _tensor(name: str, dtype: str, shape: list[int], data: Any) -> Tensor:
    if dtype not in TORCH:
        raise DecodeError(f"{name} has dtype {dtype}, which no record holds")
    if not data:
        return torch.empty(shape, dtype=TORCH[dtype])
    return torch.frombuffer(bytearray(data), dtype=TORCH[dtype]).view(shape)


def _weights(name: str, entries: dict[str, tuple[str, list[int], Any]]) -> Weights:
    dtypes = {dtype for dtype, _, _ in entries.values()}
    if len(dtypes) > 1 or not dtypes <= set(TORCH):
        raise DecodeError(f"{name} should have one known dtype")
    if any(not key.startswith(f"{name}/") for key in entries):
        raise DecodeError(f"{name} should be named tensors")
    layout = Layout((key.removeprefix(f"{name}/"), tuple(shape)) for key, (_, shape, _) in entries.items())
    flat = _tensor(name, dtypes.pop() if dtypes else "F32", [layout.size], b"".join(d for _, _, d in entries.values()))
    return Weights.of_flat(flat, layout)


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
