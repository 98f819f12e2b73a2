"""The one encoding of records, for the wire, for checkpoints and for what sites keep.

    data = update.encode()
    update == decode(Update, data)

Rules of this file:
1. The encoding is a safetensors file: tensors as themselves, the other fields as its metadata, the record's
   name under the empty key. It is canonical: equal records have equal bytes. No pickle, here or elsewhere.
2. Decoding trusts nothing: kind, field names, types and tensor names are checked against the class, the
   caller's size limit before anything is parsed, and only the one encoding that `encode` writes is accepted.
   What it refuses it does not quote.
"""

import dataclasses
import json
import types
import typing
from functools import lru_cache
from typing import Any, TypeVar

import safetensors
import torch
from torch import Tensor

from wardround.core.weights import Layout, Weights

if typing.TYPE_CHECKING:
    from wardround.core.record import Record

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip  # fmt: skip
TORCH = {name: dtype for dtype, name in DTYPES.items()}
PLAIN = (int, float, bool, str)
HEADER_LIMIT = 8 << 20  # more metadata than any model has names for; bounds what parsing can cost
RANK_LIMIT = 64  # torch can do little with more dimensions
KIND = ""  # the metadata key of the record's name
JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps would make one for every record
SORTED = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)

R = TypeVar("R", bound="Record")


class DecodeError(ValueError):
    """These bytes do not hold the record that was expected."""


def fields_of(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The fields of a record and their types; for `X | None` that is two."""
    known: dict[str, tuple[Any, ...]] | None = kind.__dict__.get("_types")
    if known is None:
        hints = typing.get_type_hints(kind)
        known = {field.name: _alternatives(hints[field.name]) for field in dataclasses.fields(kind)}
        kind._types = known  # noqa: SLF001 -- ours to remember
    return known


def plan(record: "Record") -> tuple[bytes, list[Tensor]]:
    """A record's header, and the tensors that follow it."""
    kind = type(record)
    metadata = {KIND: kind.__name__}
    tensors: list[Tensor] = []
    shapes: list[tuple[str, str, tuple[int, ...], int]] = []
    for name, kinds in fields_of(kind).items():
        value = getattr(record, name)
        if type(value) not in kinds:
            value = _declared(kind, name, value, kinds)
        if isinstance(value, Weights):
            tensors.append(value.flat)
            dtype, itemsize = _dtype(kind, name, value.flat), value.flat.element_size()
            if not value:  # no tensor would tell it from None
                metadata[name] = dtype
            shapes += [
                (f"{name}/{part}", dtype, shape, size * itemsize)
                for (part, shape), size in zip(value.layout.shapes.items(), value.layout.sizes, strict=True)
            ]
        elif isinstance(value, Tensor):
            tensors.append(value)
            shapes.append((name, _dtype(kind, name, value), tuple(value.shape), value.nbytes))
        elif value is not None:
            metadata[name] = _text(value)
    return _header(tuple(metadata.items()), tuple(shapes)), tensors


def decode(kind: type[R], data: bytes | bytearray | memoryview, *, limit: int | None = None) -> R:
    """The record of this kind in these bytes, or a `DecodeError` that says why there is none."""
    if limit is not None and len(data) > limit:
        raise DecodeError(f"{kind.__name__} of {len(data):,} bytes; at most {limit:,} were expected")
    metadata, entries = _parse(data)
    if metadata.pop(KIND, None) != kind.__name__:
        raise DecodeError(f"these bytes are not a {kind.__name__}")
    values: dict[str, Any] = {}
    for name, kinds in fields_of(kind).items():
        mine = {key: entry for key, entry in entries.items() if key.partition("/")[0] == name}
        for key in mine:
            del entries[key]
        values[name] = _value(name, kinds, mine, metadata.pop(name, None))
    if left := len(entries) + len(metadata):
        raise DecodeError(f"{kind.__name__} has no field for {left} of its entries")
    try:
        record = kind(**values)
        header, _ = plan(record)
    except ValueError:  # text that no encoding can hold, or a value that the class itself refuses
        raise DecodeError(f"a value in this {kind.__name__} is one that the class refuses") from None
    if len(header).to_bytes(8, "little") + header != data[: 8 + len(header)]:
        raise DecodeError(f"this {kind.__name__} is not encoded as records are")
    record.__dict__["nbytes"] = len(data)
    return record


# encoding


def _header(metadata: tuple[tuple[str, str], ...], shapes: tuple[tuple[str, str, tuple[int, ...], int], ...]) -> bytes:
    tensors = _tensor_header(shapes)
    text = JSON.encode({"__metadata__": dict(metadata)})[:-1] + tensors + "}"
    data = text.encode()
    data += b" " * (-len(data) % 8)  # as safetensors aligns its data
    if len(data) > HEADER_LIMIT:
        raise ValueError(f"{len(data):,} bytes of names, numbers and text in one record; put them into a tensor")
    return data


@lru_cache(maxsize=64)  # a model's names and shapes are the same in every message
def _tensor_header(shapes: tuple[tuple[str, str, tuple[int, ...], int], ...]) -> str:
    parts, start = [], 0
    for name, dtype, shape, size in shapes:
        entry = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + size]}
        parts.append(f",{JSON.encode(name)}:{JSON.encode(entry)}")
        start += size
    return "".join(parts)


def raw(tensor: Tensor) -> memoryview | bytes:
    """A tensor's numbers, as they lie in memory."""
    if tensor.numel() == 0:
        return b""
    plain = tensor.detach().cpu().contiguous().as_strided((tensor.numel(),), (1,))  # one number may have any stride
    return plain.view(torch.uint8).numpy().data


def _text(value: Any) -> str:
    return value if isinstance(value, str) else SORTED.encode(value)


def _dtype(kind: "type[Record]", name: str, tensor: Tensor) -> str:
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{kind.__name__}.{name} has dtype {str(tensor.dtype)[6:]}, which no record holds")
    return DTYPES[tensor.dtype]


def _declared(kind: "type[Record]", name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    """The value, if it is of a type that its field declares; an int in the place of a float becomes one."""
    if any(float in (choice, *typing.get_args(choice)) for choice in kinds):
        value = _floats(value)
    if not any(_is_a(value, choice) for choice in kinds):
        raise TypeError(f"{kind.__name__}.{name} holds a {type(value).__name__}, which is not what it declares")
    return value


def _floats(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_floats, value))
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    return float(value) if type(value) is int else value


# decoding


def _parse(data: bytes | bytearray | memoryview) -> tuple[dict[str, str], dict[str, tuple[str, list[int], Any]]]:
    whole = bytes(data)
    size = int.from_bytes(whole[:8], "little")
    if len(whole) < 8 or size > min(len(whole) - 8, HEADER_LIMIT):
        raise DecodeError("the bytes are cut off or are no safetensors file")
    try:
        entries = dict(safetensors.deserialize(whole))  # type: ignore[no-untyped-call]
        header = json.loads(whole[8 : 8 + size], object_pairs_hook=_unique)
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise DecodeError(f"no valid safetensors file ({type(error).__name__})") from None
    metadata = header.pop("__metadata__", None) or {}
    # The header's order is the sender's; safetensors returns the tensors in any.
    return metadata, {name: (entries[name]["dtype"], entries[name]["shape"], entries[name]["data"]) for name in header}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("duplicate key")
    return entries


def _value(name: str, kinds: tuple[Any, ...], entries: dict[str, tuple[str, list[int], Any]], text: str | None) -> Any:
    if Weights in kinds and (entries or text in TORCH):
        return _weights(name, entries, text)
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
    if not any(_is_a(value, kind) for kind in kinds):
        raise DecodeError(f"{name} has the wrong type, {type(value).__name__}")
    return value


def _is_a(value: Any, kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_plain(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            isinstance(key, str) and _is_plain(item, arguments[1]) for key, item in value.items()
        )
    return isinstance(value, kind) if kind in (Weights, Tensor, type(None)) else _is_plain(value, kind)


def _is_plain(value: Any, kind: Any) -> bool:
    return kind in PLAIN and isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _tensor(name: str, dtype: str, shape: list[int], data: Any) -> Tensor:
    if dtype not in TORCH:
        raise DecodeError(f"{name} has dtype {dtype}, which no record holds")
    _possible(name, shape)
    if not data:
        return torch.empty(shape, dtype=TORCH[dtype])
    if dtype == "BOOL" and max(data) > 1:
        raise DecodeError(f"{name} holds what is neither true nor false")
    return torch.frombuffer(bytearray(data), dtype=TORCH[dtype]).view(shape)


def _possible(name: str, shape: list[int]) -> None:
    if len(shape) > RANK_LIMIT or any(size >= 1 << 63 for size in shape):
        raise DecodeError(f"{name} has a shape that no tensor can have")


def _weights(name: str, entries: dict[str, tuple[str, list[int], Any]], empty: str | None) -> Weights:
    dtypes = {dtype for dtype, _, _ in entries.values()} | ({empty} if empty else set())
    if len(dtypes) > 1 or not dtypes <= set(TORCH):
        raise DecodeError(f"{name} should have one known dtype")
    if any(not key.startswith(f"{name}/") for key in entries):
        raise DecodeError(f"{name} should be named tensors")
    for _, shape, _ in entries.values():
        _possible(name, shape)
    layout = Layout((key.removeprefix(f"{name}/"), tuple(shape)) for key, (_, shape, _) in entries.items())
    flat = _tensor(name, dtypes.pop(), [layout.size], b"".join(d for _, _, d in entries.values()))
    return Weights.of_flat(flat, layout)
