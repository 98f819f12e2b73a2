"""Records come back bit for bit from their one encoding, and nothing else passes for one."""

import dataclasses
import json
import pickle
import struct
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from wardround.core import codec
from wardround.core.codec import DTYPES, HEADER_LIMIT, DecodeError, decode
from wardround.core.record import Message, Private, Record, finite
from wardround.core.weights import Weights


class Everything(Message):
    """One field of each type that a record can have."""

    weights: Weights
    tensor: Tensor
    maybe_weights: Weights | None
    maybe_tensor: Tensor | None
    whole: int
    real: float
    yes: bool
    text: str
    wholes: tuple[int, ...]
    reals: tuple[float, ...]
    flags: tuple[bool, ...]
    texts: tuple[str, ...]
    by_name: dict[str, float]
    maybe_whole: int | None
    maybe_text: str | None
    maybe_wholes: tuple[int, ...] | None


class Whole(Message):
    """A whole number."""

    value: int


class Real(Message):
    """A number."""

    value: float


class Yes(Message):
    """Yes or no."""

    value: bool


class Words(Message):
    """Words."""

    value: tuple[str, ...]


class Named(Message):
    """Counts by name."""

    value: dict[str, int]


class Maybe(Message):
    """Weights or none."""

    value: Weights | None


class Model(Message):
    """Weights."""

    weights: Weights


class Table(Message):
    """One tensor."""

    table: Tensor


class Mixed(Message):
    """What adds, what must agree, what may be missing."""

    weights: Weights
    count: int
    share: float
    note: str
    numbers: tuple[int, ...]
    by_name: dict[str, int]
    table: Tensor | None


class Kept(Private):
    """A whole number that stays at the site."""

    count: int


@st.composite
def tensors(draw: st.DrawFn, dtype: torch.dtype | None = None) -> Tensor:
    """Any bits of any supported dtype; empty, 0-d and non-contiguous ones included."""
    dtype = dtype or draw(st.sampled_from(list(DTYPES)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype == torch.bool:
        raw = bytes(byte & 1 for byte in raw)
    flat = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    tensor = flat.view(shape)
    match draw(st.sampled_from(["as it is", "turned", "every other"])):
        case "turned":
            return tensor.permute(list(reversed(range(tensor.dim()))))
        case "every other":
            return torch.stack([tensor, tensor], -1)[..., 1]
        case _:
            return tensor


@st.composite
def weights(draw: st.DrawFn) -> Weights:
    dtype = draw(st.sampled_from(list(DTYPES)))
    return Weights(draw(st.dictionaries(TEXT, tensors(dtype), max_size=3)))


TEXT = st.text(max_size=6) | st.sampled_from(
    ["", "\0", '"', "\\", "a/b", "🏥", "\u00e9", "e\u0301", "头痛", "__metadata__"]
)
FLOATS = st.floats()
EVERYTHING = st.builds(
    Everything,
    weights=weights(),
    tensor=tensors(),
    maybe_weights=weights() | st.none(),
    maybe_tensor=tensors() | st.none(),
    whole=st.integers(),
    real=FLOATS,
    yes=st.booleans(),
    text=TEXT,
    wholes=st.lists(st.integers(), max_size=3).map(tuple),
    reals=st.lists(FLOATS, max_size=3).map(tuple),
    flags=st.lists(st.booleans(), max_size=3).map(tuple),
    texts=st.lists(TEXT, max_size=3).map(tuple),
    by_name=st.dictionaries(TEXT, FLOATS, max_size=3),
    maybe_whole=st.integers() | st.none(),
    maybe_text=TEXT | st.none(),
    maybe_wholes=st.lists(st.integers(), max_size=3).map(tuple) | st.none(),
)

F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
SAMPLE = Everything(
    weights=Weights({"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(1.5)}),
    tensor=torch.tensor([True, False]),
    maybe_weights=None,
    maybe_tensor=torch.ones(0, 2, dtype=torch.int64),
    whole=-7,
    real=float("nan"),
    yes=True,
    text='ward "7" 🏥',
    wholes=(1, 2),
    reals=(0.5, -0.0),
    flags=(True,),
    texts=("a", "头痛"),
    by_name={"b": 1.0, "a": 2.0},
    maybe_whole=None,
    maybe_text="",
    maybe_wholes=(),
)


def made(header: dict[str, Any] | str | bytes, data: bytes = b"") -> bytes:
    """A file of the format, with whatever header."""
    text = json.dumps(header, separators=(",", ":")) if isinstance(header, dict) else header
    raw = text.encode() if isinstance(text, str) else text
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data


def bits(value: Any) -> Any:
    """A value in a form in which equal means the same type, shape, dtype and bits."""
    if isinstance(value, Weights):
        return value.layout.shapes, [bits(tensor) for tensor in value.values()], value.flat.dtype
    if isinstance(value, Tensor):
        raw = value.contiguous().as_strided((value.numel(),), (1,)).view(torch.uint8).tolist() if value.numel() else []
        return value.dtype, tuple(value.shape), raw
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)  # noqa: PLR0124 -- of Python's NaNs JSON knows one
    if isinstance(value, tuple):
        return tuple, [bits(item) for item in value]
    if isinstance(value, dict):
        return dict, {key: bits(item) for key, item in value.items()}
    return type(value), value


def values(record: Record) -> dict[str, Any]:
    return {field.name: bits(getattr(record, field.name)) for field in dataclasses.fields(record)}


# encoding


@given(EVERYTHING)
@example(SAMPLE)
def test_a_record_comes_back_bit_for_bit(record: Everything) -> None:
    data = record.encode()
    again = decode(Everything, data)
    assert values(record) == values(again)
    assert record == again
    assert data == again.encode()
    assert len(data) == record.nbytes == again.nbytes


@given(EVERYTHING)
def test_any_reader_of_safetensors_finds_names_and_shapes(record: Everything) -> None:
    expected = {f"weights/{name}": tensor.shape for name, tensor in record.weights.items()}
    expected["tensor"] = record.tensor.shape
    if record.maybe_weights is not None:
        expected |= {f"maybe_weights/{name}": tensor.shape for name, tensor in record.maybe_weights.items()}
    if record.maybe_tensor is not None:
        expected["maybe_tensor"] = record.maybe_tensor.shape
    read = safetensors.torch.load(record.encode())
    assert expected == {name: tensor.shape for name, tensor in read.items()}


def test_the_data_begin_at_a_multiple_of_eight() -> None:
    assert [0] * 8 == [int.from_bytes(Words(("x" * n,)).encode()[:8], "little") % 8 for n in range(8)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Named({"a": 1, "b": 2}), Named({"b": 2, "a": 1})),
        (Real(1), Real(1.0)),
        (Table(torch.ones(2, 3).t()), Table(torch.ones(3, 2))),
        (Table(torch.zeros(1).expand(4)), Table(torch.zeros(4))),
        (Real(float("nan")), Real(-float("nan"))),
    ],
    ids=["order of a dict", "an int for a float", "strides", "expanded", "nan"],
)
def test_equal_records_have_equal_bytes(one: Record, other: Record) -> None:
    assert one == other
    assert one.encode() == other.encode()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Real(0.0), Real(-0.0)),
        (Whole(1), Kept(1)),
        (Maybe(None), Maybe(Weights({}))),
        (Table(torch.zeros(2)), Table(torch.zeros(2, 1))),
        (Table(torch.zeros(2)), Table(torch.zeros(2, dtype=torch.int32))),
        (Model(Weights({"a": torch.zeros(1), "b": torch.zeros(1)})), Model(Weights({"a": torch.zeros(2)}))),
    ],
)
def test_different_records_are_not_equal(one: Record, other: Record) -> None:
    assert one != other
    assert one.encode() != other.encode()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Whole, 1.5),
        (Whole, True),
        (Whole, ["a note"]),
        (Whole, "a note"),
        (Whole, None),
        (Whole, torch.tensor(1)),
        (Real, "a note"),
        (Yes, 1),
        (Words, "a note"),
        (Words, (("a note",),)),
        (Words, ("a", 1)),
        (Named, {1: 1}),
        (Named, {"a": ("a note",)}),
        (Model, torch.zeros(1)),
        (Table, Weights({})),
        (Table, torch.zeros(1, dtype=torch.complex64)),
    ],
)
def test_what_a_field_does_not_declare_cannot_be_encoded(kind: Any, value: Any) -> None:
    wrong = kind(value)
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.\w+ (holds a|has dtype) \w+, which") as caught:
        wrong.encode()
    assert "note" not in str(caught.value)
    with pytest.raises(TypeError):
        _ = wrong.nbytes


def test_a_record_with_more_text_than_can_be_read_back_is_not_written() -> None:
    with pytest.raises(ValueError, match="put them into a tensor"):
        Words(("x" * HEADER_LIMIT,)).encode()


# decoding


def test_bytes_cut_off_anywhere_are_refused() -> None:
    data = SAMPLE.encode()
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            decode(Everything, data[:length])


@pytest.mark.parametrize("kind", [Whole, Kept, Model, Mixed])
def test_another_kind_is_refused(kind: type[Record]) -> None:
    with pytest.raises(DecodeError, match=f"not a {kind.__name__}"):
        decode(kind, SAMPLE.encode())


ONE = {"__metadata__": {"": "Whole", "value": "1"}}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param(Whole, b"", id="nothing"),
        pytest.param(Whole, b"\0" * 8, id="a header of no bytes"),
        pytest.param(Whole, pickle.dumps({"value": 1}), id="a pickle"),
        pytest.param(Whole, (2**60).to_bytes(8, "little") + b"{}", id="a header of 2**60 bytes"),
        pytest.param(Whole, (2**64 - 1).to_bytes(8, "little") + b"{}", id="a header of 2**64-1 bytes"),
        pytest.param(Whole, made(b"[" * 100_000), id="deep nesting"),
        pytest.param(Whole, made(b"\xff\xfe{}"), id="no text"),
        pytest.param(Whole, made("[]"), id="a list"),
        pytest.param(Whole, made("{}"), id="an empty header"),
        pytest.param(Whole, made({"__metadata__": None}), id="no metadata"),
        pytest.param(Whole, made({"__metadata__": {"": "Whole"}}), id="a missing field"),
        pytest.param(Model, made({"__metadata__": {"": "Model"}}), id="missing weights"),
        pytest.param(Table, made({"__metadata__": {"": "Table"}}), id="a missing tensor"),
        pytest.param(Whole, made({"__metadata__": {"value": "1"}}), id="a missing kind"),
        pytest.param(Whole, made({"__metadata__": {**ONE["__metadata__"], "x": "1"}}), id="extra metadata"),
        pytest.param(Whole, made({**ONE, "x": F32}, b"\0" * 4), id="an extra tensor"),
        pytest.param(Whole, made({**ONE, "value": F32}, b"\0" * 4), id="a tensor beside the number"),
        pytest.param(Whole, made(ONE, b"\0" * 4), id="data that belong to no tensor"),
        pytest.param(Whole, made('{"__metadata__":{"":"Whole","value":"1","value":"2"}}'), id="a key twice"),
        pytest.param(
            Named, made({"__metadata__": {"": "Named", "value": '{"a":1,"a":2}'}}), id="a key twice in a field"
        ),
        pytest.param(
            Table,
            made(
                '{"__metadata__":{"":"Table"},"table":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                '"table":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
                b"\0" * 4,
            ),
            id="a tensor twice",
        ),
        *(
            pytest.param(Whole, made({"__metadata__": {"": "Whole", "value": text}}), id=f"a whole number: {text[:9]}")
            for text in ["1.5", "true", "null", '"1"', "[1]", "{}", "", "01", " 1", "1 ", "NaN", "1e3", "9" * 5000]
        ),
        *(
            pytest.param(Real, made({"__metadata__": {"": "Real", "value": text}}), id=f"a number: {text}")
            for text in ["1", "1.50", "true", '"1.0"', "1e400", "nan", "[" * 100_000]
        ),
        pytest.param(Words, made({"__metadata__": {"": "Words", "value": "[1]"}}), id="numbers for words"),
        pytest.param(Words, made({"__metadata__": {"": "Words", "value": '[["a"]]'}}), id="nested words"),
        pytest.param(Words, made({"__metadata__": {"": "Words", "value": '["\\ud800"]'}}), id="half a character"),
        pytest.param(Table, made({"__metadata__": {"": "Table", "table": "1"}}), id="a number for a tensor"),
        pytest.param(Model, made({"__metadata__": {"": "Model", "weights": "F8"}}), id="weights of unknown dtype"),
        *(
            pytest.param(
                Table,
                made(
                    {"__metadata__": {"": "Table"}, "table": {"dtype": dtype, "shape": [2], "data_offsets": [0, size]}},
                    b"\0" * size,
                ),
                id=f"dtype {dtype}",
            )
            for dtype, size in [("F8_E4M3", 2), ("C64", 16), ("U64", 16), ("F4", 1), ("X9", 2), ("torch.float32", 8)]
        ),
        *(
            pytest.param(
                Table,
                made(
                    {
                        "__metadata__": {"": "Table"},
                        "table": {"dtype": "U8", "shape": shape, "data_offsets": [0, size]},
                    },
                    b"\0" * size,
                ),
                id=f"shape {str(shape)[:24]}",
            )
            for shape, size in [
                ([2**63, 0], 0),
                ([0, 2**64 - 1], 0),
                ([2**40, 2**40, 0], 0),
                ([2**60], 4),
                ([-1], 0),
                ([1] * 3000, 1),
            ]
        ),
        pytest.param(
            Model,
            made(
                {
                    "__metadata__": {"": "Model"},
                    "weights/a": {"dtype": "U8", "shape": [0, 2**64 - 1], "data_offsets": [0, 0]},
                }
            ),
            id="weights of a shape that cannot be",
        ),
        pytest.param(
            Model, made({"__metadata__": {"": "Model"}, "weights": F32}, b"\0" * 4), id="one tensor for weights"
        ),
        pytest.param(
            Table, made({"__metadata__": {"": "Table"}, "table/a": F32}, b"\0" * 4), id="weights for one tensor"
        ),
        pytest.param(
            Model,
            made(
                {
                    "__metadata__": {"": "Model"},
                    "weights/a": F32,
                    "weights/b": {"dtype": "I32", "shape": [1], "data_offsets": [4, 8]},
                },
                b"\0" * 8,
            ),
            id="weights of two dtypes",
        ),
        pytest.param(
            Table,
            made(
                {
                    "__metadata__": {"": "Table"},
                    "table": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]},
                },
                b"\2",
            ),
            id="neither true nor false",
        ),
        pytest.param(
            Table,
            made({"__metadata__": {"": "Table"}, "table": {**F32, "note": "Jane"}}, b"\0" * 4),
            id="more than dtype, shape and place",
        ),
        pytest.param(
            Table, made({"table": F32, "__metadata__": {"": "Table"}}, b"\0" * 4), id="the header in another order"
        ),
        pytest.param(Whole, made(json.dumps(ONE, indent=1)), id="a header with blanks"),
        pytest.param(Whole, made(json.dumps(ONE, separators=(",", ":")) + " " * 8), id="a longer padding"),
    ],
)
def test_what_no_record_encodes_to_is_refused(kind: type[Record], data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(kind, data)


def test_a_refusal_quotes_nothing_that_was_sent() -> None:
    for header in (
        {"__metadata__": {"": "Whole", "value": "1", "Jane Doe": "x"}},
        {"__metadata__": {"": "Whole", "value": "Jane Doe"}},
        {"__metadata__": {"": "Whole", "value": '"Jane Doe"'}},
        {"__metadata__": {"": "Jane Doe", "value": "1"}},
        {**ONE, "Jane Doe": F32},
    ):
        with pytest.raises(DecodeError) as caught:
            decode(Whole, made(header, b"\0" * 4 * ("Jane Doe" in header)))
        assert "Jane" not in str(caught.value)


def test_more_bytes_than_the_limit_are_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SAMPLE.encode()
    assert decode(Everything, data, limit=len(data)) == SAMPLE
    monkeypatch.setattr(codec, "_parse", lambda _: pytest.fail("parsed"))
    with pytest.raises(DecodeError, match="at most"):
        decode(Everything, data, limit=len(data) - 1)


def test_a_header_of_200_000_empty_tensors_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = ",".join(f'"weights/{n}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for n in range(200_000))
    data = made(f'{{"__metadata__":{{"":"Model"}},{tensors}}}')
    monkeypatch.setattr(safetensors, "deserialize", lambda _: pytest.fail("parsed"))
    with pytest.raises(DecodeError):
        decode(Model, data)


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    for kind in (Everything, Whole, Model):
        with pytest.raises(DecodeError):
            decode(kind, data)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, SAMPLE.nbytes - 1), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bits_give_a_refusal_or_the_record_that_the_bytes_now_are(flips: list[tuple[int, int]]) -> None:
    data = bytearray(SAMPLE.encode())
    for place, mask in flips:
        data[place] ^= mask
    try:
        record = decode(Everything, data)
    except DecodeError:
        return
    assert bytes(data) == record.encode()


@settings(max_examples=200)
@given(st.integers(8, SAMPLE.nbytes), st.integers(0, 8), st.text(alphabet='{}[]":,0123 \\u\0', max_size=6))
def test_spoilt_headers_give_a_refusal_or_the_record_that_the_bytes_now_are(at: int, cut: int, put: str) -> None:
    old = SAMPLE.encode()
    size = int.from_bytes(old[:8], "little")
    at = min(at, 8 + size)
    header = old[8:at] + put.encode() + old[at + cut : 8 + size]
    data = len(header).to_bytes(8, "little") + header + old[8 + size :]
    try:
        record = decode(Everything, data)
    except DecodeError:
        return
    assert data == record.encode()


def test_a_memoryview_is_as_good_as_bytes() -> None:
    assert decode(Everything, memoryview(SAMPLE.encode())) == SAMPLE


# addition, and staying as it is


def mixed(**changes: Any) -> Mixed:
    plain: dict[str, Any] = {
        "weights": Weights({"a": torch.tensor([1.0, 2.0])}),
        "count": 3,
        "share": 0.5,
        "note": "v1",
        "numbers": (1, 2),
        "by_name": {"x": 1},
        "table": torch.tensor([1, 1]),
    }
    return Mixed(**(plain | changes))


def test_records_add_field_by_field() -> None:
    other = mixed(weights=Weights({"a": torch.tensor([10.0, 20.0])}), numbers=(10, 20), by_name={"x": 2, "y": 5})
    expected = Mixed(
        weights=Weights({"a": torch.tensor([11.0, 22.0])}),
        count=6,
        share=1.0,
        note="v1",
        numbers=(11, 22),
        by_name={"x": 3, "y": 5},
        table=torch.tensor([2, 2]),
    )
    assert expected == mixed() + other
    assert mixed(table=None).table is (mixed(table=None) + mixed(table=None)).table


WHOLE = [dtype for dtype in DTYPES if not dtype.is_floating_point and dtype != torch.bool]


@given(st.sampled_from(WHOLE), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9))
def test_whole_numbers_add_up_however_narrow_they_are(dtype: torch.dtype, seeds: list[int]) -> None:
    """A sum over sites is exact: what a byte cannot hold is not lost. One site's own stays as it came."""
    info = torch.iinfo(dtype)
    bound = min(info.max, 2**40)
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    tables = [torch.randint(max(info.min, -bound), bound, (4,), generator=rng).to(dtype) for rng in draws]
    total = Table(tables[0])
    for table in tables[1:]:
        total += decode(Table, Table(table).encode())
    assert torch.stack([table.long() for table in tables]).sum(0).tolist() == total.table.tolist()
    assert (dtype if len(tables) == 1 else torch.int64) == total.table.dtype


@pytest.mark.parametrize(
    "changes",
    [
        {"note": "v2"},
        {"numbers": (1, 2, 3)},
        {"table": None},
        {"table": torch.tensor([1])},
        {"table": torch.tensor([1.0, 1.0])},
        {"weights": Weights({"b": torch.zeros(2)})},
    ],
    ids=str,
)
def test_what_differs_and_is_no_number_cannot_be_added(changes: dict[str, Any]) -> None:
    for left, right in ((mixed(), mixed(**changes)), (mixed(**changes), mixed())):
        with pytest.raises(ValueError, match=r"cannot be added|two models meet") as caught:
            left + right
        assert "v2" not in str(caught.value)


def test_text_is_never_joined() -> None:
    assert Words(("a", "b")) == Words(("a", "b")) + Words(("a", "b"))
    assert Yes(True) == Yes(True) + Yes(True)
    with pytest.raises(ValueError, match="value differs"):
        Words(("a",)) + Words(("b",))


def test_two_kinds_cannot_be_added() -> None:
    with pytest.raises(TypeError):
        Whole(1) + Kept(1)  # type: ignore[operator]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Everything)])
def test_a_record_stays_as_it_is(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(SAMPLE, field, None)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_finite_sees_every_nan_and_infinity(bad: float) -> None:
    places = (bad, (1.0, bad), {"a": bad}, torch.tensor([1.0, bad]), Weights({"a": torch.tensor([bad, -bad])}))
    assert [False] * len(places) == [finite(place) for place in places]


def test_finite_accepts_numbers_whose_sum_overflows() -> None:
    largest = torch.full((4,), torch.finfo(torch.float32).max)
    assert finite(largest)
    assert finite(Weights({"a": largest}))
    assert finite(torch.tensor([2**62] * 4))
    assert finite("text")
