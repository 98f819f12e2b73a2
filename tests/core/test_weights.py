"""Weights do the arithmetic of plain dicts of tensors, and are never changed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from wardround.core.weights import Layout, Weights

SHAPES = {"embedding.weight": (4, 3), "linear.weight": (2, 3), "linear.bias": (2,), "scale": (), "none": (0, 2)}


def drawn(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=rng, dtype=dtype) for name, shape in SHAPES.items()}


def same(expected: dict[str, Tensor], actual: Weights) -> None:
    """Same names in the same order, and each tensor the same to the bit."""
    assert list(expected) == list(actual)
    for name, tensor in expected.items():
        assert tensor.dtype == actual[name].dtype
        assert tensor.shape == actual[name].shape
        assert torch.equal(tensor, actual[name])


def test_weights_are_a_mapping_of_the_tensors_they_were_made_of() -> None:
    tensors = drawn(1)
    weights = Weights(tensors)
    same(tensors, weights)
    assert len(tensors) == len(weights)
    assert "scale" in weights
    assert "Weights(5 tensors, 21 × float32)" == repr(weights)


@given(seed=st.integers(0, 99), factor=st.floats(-10, 10), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_arithmetic_is_that_of_each_tensor(seed: int, factor: float, dtype: torch.dtype) -> None:
    a, b = drawn(seed, dtype), drawn(seed + 1, dtype)
    x, y = Weights(a), Weights(b)
    same({name: a[name] + b[name] for name in a}, x + y)
    same({name: a[name] - b[name] for name in a}, x - y)
    same({name: a[name] * factor for name in a}, x * factor)
    same({name: factor * a[name] for name in a}, factor * x)
    same({name: a[name] / (factor or 1) for name in a}, x / (factor or 1))
    same({name: -a[name] for name in a}, -x)
    same({name: torch.zeros_like(a[name]) for name in a}, x.zeros())
    assert torch.allclose(torch.cat([t.reshape(-1) for t in a.values()]).norm(), torch.tensor(x.norm(), dtype=dtype))


OPERATIONS: list[Callable[[Weights, Weights], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, _: x * 2,
    lambda x, _: x / 2,
    lambda x, _: -x,
    lambda x, _: x.zeros(),
    lambda x, _: x.scaled(torch.arange(5.0)),
    lambda x, _: x.norms(),
    lambda x, _: x.only("linear"),
    lambda x, _: x.without("linear"),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_operation_changes_what_it_works_on(operation: Callable[[Weights, Weights], Any]) -> None:
    x, y = Weights(drawn(1)), Weights(drawn(2))
    result = operation(x, y)
    same(drawn(1), x)
    same(drawn(2), y)
    if isinstance(result, Weights):
        result.flat.fill_(7)  # nor is it the same memory
        same(drawn(1), x)


def test_the_tensors_that_weights_are_made_of_stay_free() -> None:
    for tensors in (drawn(1), {"scale": torch.ones(3)}):
        before = {name: tensor.clone() for name, tensor in tensors.items()}
        weights = Weights(tensors)
        for tensor in tensors.values():
            tensor.fill_(7)
        same(before, weights)


def test_only_and_without_take_prefixes() -> None:
    tensors = drawn(1)
    weights = Weights(tensors)
    same({name: tensors[name] for name in ("linear.weight", "linear.bias")}, weights.only("linear."))
    same({name: tensors[name] for name in ("embedding.weight", "scale", "none")}, weights.without("linear."))
    same({name: tensors[name] for name in ("embedding.weight", "scale")}, weights.only("embedding.", "scale"))
    same({}, weights.only("no such"))
    same(tensors, weights.without("no such"))


def test_each_tensor_has_a_norm_and_can_have_a_factor() -> None:
    tensors = drawn(1)
    factors = torch.tensor([1.0, 2.0, 0.0, -1.0, 5.0], dtype=torch.float64)
    weights = Weights(tensors)
    assert [float(torch.linalg.vector_norm(tensor)) for tensor in tensors.values()] == weights.norms().tolist()
    assert [float(tensor.sum()) for tensor in tensors.values()] == weights.norms(torch.sum).tolist()
    same(
        {name: tensor * float(factor) for (name, tensor), factor in zip(tensors.items(), factors, strict=True)},
        weights.scaled(factors),
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": (2,)}, "b is missing"),
        ({"a": (2,), "b": (3, 1)}, "b has shape [3, 1], not [1, 3]"),
        ({"a": (2,), "b": (1, 3), "c": ()}, "c is not part of the model"),
        ({"b": (1, 3), "a": (2,)}, "the tensors come in another order"),
    ],
)
def test_weights_of_two_models_do_not_meet(other: dict[str, tuple[int, ...]], message: str) -> None:
    mine = Weights({"a": torch.zeros(2), "b": torch.zeros(1, 3)})
    theirs = Weights({name: torch.zeros(shape) for name, shape in other.items()})
    for operation in OPERATIONS[:2]:
        with pytest.raises(ValueError, match="weights of two models meet") as caught:
            operation(mine, theirs)
        assert f"weights of two models meet: {message}" == str(caught.value)


def test_weights_have_one_dtype() -> None:
    with pytest.raises(TypeError, match=r"float32.*float64"):
        Weights({"a": torch.zeros(1), "b": torch.zeros(1, dtype=torch.float64)})


def test_a_buffer_must_fit_its_layout() -> None:
    with pytest.raises(ValueError, match=r"does not fit a buffer of shape \[3\]"):
        Weights.of_flat(torch.zeros(3), Layout([("a", (2,))]))


def test_weights_are_equal_if_names_shapes_dtype_and_bits_are() -> None:
    nan = torch.tensor([float("nan"), 0.0])
    assert Weights({"a": nan}) == Weights({"a": nan.clone()})
    assert Weights({"a": torch.zeros(1)}) != Weights({"a": -torch.zeros(1)})
    assert Weights({"a": torch.zeros(2)}) != Weights({"b": torch.zeros(2)})
    assert Weights({"a": torch.zeros(2)}) != Weights({"a": torch.zeros(2, 1)})
    assert Weights({"a": torch.zeros(2)}) != Weights({"a": torch.zeros(2, dtype=torch.float64)})
    assert Weights({}) == Weights({})
    assert Weights({}) != {}


def test_only_trainable_parameters_are_weights() -> None:
    frozen, linear = nn.Embedding(4, 3), nn.Linear(3, 2)
    frozen.weight.requires_grad = False
    weights = Weights.of_model(nn.Sequential(frozen, linear, nn.BatchNorm1d(2)))
    assert ["1.weight", "1.bias", "2.weight", "2.bias"] == list(weights)
    assert not weights.flat.requires_grad
    with torch.no_grad():
        linear.weight.fill_(7)
    assert not (weights["1.weight"] == 7).any()
