"""Gradients of single units by layer: what one call of a module adds to each unit's, and their sum once clipped.

    known(module); rule(call, gradient, grouping)      # the call's parts, from the gradient of its output

A unit's gradient of a layer's weights is a product of what went in and of the gradient of what came out; its norm often
needs not even that. Each kind of layer has a rule here; a module of another kind says itself what its own parameters'
gradients are (`each_gradient`). `clipping` puts the parts together, and tests compare each rule with a loop of units.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.recurrence import gate_gradients, simple

SHORT = 96  # words of a row up to which comparing each two is faster than sorting
WIDE = 2**20  # rows times words of a table up to which adding up in a buffer of that size is faster than either
LOST = 8  # times the precision: where much cancels out, what rounding may take from a norm, and so is added to it


@dataclass
class GradientPart:
    """What one call of a module contributes: units' squared norms, and the sum once each unit has its factor."""

    squares: Tensor
    add: Callable[[Tensor], None]


@dataclass
class ModuleCall:
    """One call of a module: what went in, what came out."""

    module: nn.Module
    inputs: tuple[Any, ...]
    options: Mapping[str, Any]
    output: Tensor


@dataclass(frozen=True)
class Grouping:
    """Which unit each row of a batch is of (rows,), and how many units there are; no owner, if each has one row."""

    owner: Tensor | None
    count: int

    def side_by_side(self, values: Tensor) -> Tensor:
        """Rows (rows, T, D) as units (units, rows of the largest · T, D), filled up with zeros."""
        if self.owner is None:
            return values
        rows, length = values.shape[:2]
        order = torch.argsort(self.owner, stable=True)
        sizes = torch.bincount(self.owner, minlength=self.count)  # (units,)
        within = torch.arange(rows) - (torch.cumsum(sizes, 0) - sizes)[self.owner[order]]
        places = self.owner[order] * int(sizes.max()) + within
        wide = values.new_zeros(self.count * int(sizes.max()), *values.shape[1:])
        wide[places] = values[order]
        return wide.reshape(self.count, int(sizes.max()) * length, *values.shape[2:])

    def summed(self, values: Tensor) -> Tensor:
        """The sum of rows (rows, …) by unit (units, …)."""
        if self.owner is None:
            return values
        return values.new_zeros(self.count, *values.shape[1:]).index_add(0, self.owner, values)


def known(module: nn.Module) -> bool:
    """Whether it has a rule."""
    if isinstance(module, nn.LSTM):
        return simple(module)
    if isinstance(module, nn.Conv1d):
        plain = module.stride == (1,) and module.dilation == (1,) and module.groups == 1
        return plain and module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, nn.EmbeddingBag):
        return module.mode == "sum"
    if isinstance(module, nn.LayerNorm):
        return len(module.normalized_shape) == 1
    return type(module) in RULES or hasattr(module, "each_gradient")


def rule(call: ModuleCall, gradient: Tensor, grouping: Grouping) -> list[GradientPart]:
    """The parts of one call."""
    for kind, parts in RULES.items():
        if isinstance(call.module, kind):
            return parts(call, gradient, grouping)
    each: Mapping[str, Tensor] = cast("Any", call.module).each_gradient(call.inputs, call.output, gradient)
    return [_dense(cast("Tensor", getattr(call.module, name)), grouping.summed(rows)) for name, rows in each.items()]


def _grad(parameter: Tensor) -> Tensor:
    return cast("Tensor", parameter.grad)


def _dense(parameter: Tensor, units: Tensor) -> GradientPart:
    """The units' gradients (units, …) as they are."""
    flat = units.flatten(1)

    def add(factors: Tensor) -> None:
        _grad(parameter).add_((factors @ flat).view_as(parameter))

    return GradientPart(flat.square().sum(1), add)


def _product(weight: Tensor, inputs: Tensor, gradient: Tensor) -> GradientPart:
    """Of a weight (out, in): a unit's gradient is Σ_t gradient_t ⊗ inputs_t, from (units, T, out), (units, T, in)."""
    length, wide, narrow = inputs.shape[1], inputs.shape[2], gradient.shape[2]
    if length == 1:
        squares = inputs.square().sum((1, 2)) * gradient.square().sum((1, 2))
    elif length * (wide + narrow) < wide * narrow:  # ‖Σ g ⊗ a‖² = Σ_ts ⟨a_t, a_s⟩ ⟨g_t, g_s⟩
        ins, outs = inputs @ inputs.transpose(1, 2), gradient @ gradient.transpose(1, 2)  # (units, T, T)
        whole = (ins.diagonal(0, 1, 2) * outs.diagonal(0, 1, 2)).sqrt().sum(1)  # Σ_t ‖g_t‖ ‖a_t‖
        squares = (ins * outs).sum((1, 2)) + LOST * torch.finfo(whole.dtype).eps * whole.square()
    else:
        return _dense(weight, gradient.transpose(1, 2) @ inputs)

    def add(factors: Tensor) -> None:
        _grad(weight).view(narrow, wide).addmm_(
            (gradient * factors[:, None, None]).flatten(0, 1).T, inputs.flatten(0, 1)
        )

    return GradientPart(squares, add)


def _linear(call: ModuleCall, gradient: Tensor, grouping: Grouping) -> list[GradientPart]:
    module, rows = cast("nn.Linear", call.module), len(gradient)
    if gradient.dim() == 2 and grouping.owner is None:
        return [_head(module, call.inputs[0], gradient)]
    inputs = grouping.side_by_side(call.inputs[0].reshape(rows, -1, module.in_features))
    gradient = grouping.side_by_side(gradient.reshape(rows, -1, module.out_features))
    return _affine(module.weight, module.bias, inputs, gradient)


def _head(module: nn.Linear, inputs: Tensor, gradient: Tensor) -> GradientPart:
    """Of a layer that each unit passes once: ‖g ⊗ (a, 1)‖² = ‖g‖² (‖a‖² + 1), and a product for all of them."""
    weight, bias = module.weight, module.bias
    trained, shifted = weight.requires_grad, bias is not None and bias.requires_grad
    lengths = inputs.square().sum(1) if trained else inputs.new_zeros(len(inputs))
    squares = gradient.square().sum(1) * (lengths + 1 if shifted else lengths)

    def add(factors: Tensor) -> None:
        scaled = gradient * factors.unsqueeze(1)
        if trained:
            _grad(weight).addmm_(scaled.t(), inputs)
        if shifted:
            _grad(bias).add_(scaled.sum(0))

    return GradientPart(squares, add)


def _affine(weight: Tensor, bias: Tensor | None, inputs: Tensor, gradient: Tensor) -> list[GradientPart]:
    parts = [_product(weight, inputs, gradient)] if weight.requires_grad else []
    return [*parts, _dense(bias, gradient.sum(1))] if bias is not None and bias.requires_grad else parts


def _convolution(call: ModuleCall, gradient: Tensor, grouping: Grouping) -> list[GradientPart]:
    module = cast("nn.Conv1d", call.module)
    (size,), (pad,) = module.kernel_size, cast("tuple[int]", module.padding)
    windows = functional.pad(call.inputs[0], (pad, pad)).unfold(2, size, 1)  # (B, in, L, size)
    inputs = grouping.side_by_side(windows.permute(0, 2, 1, 3).flatten(2))  # (units, L, in · size)
    return _affine(module.weight, module.bias, inputs, grouping.side_by_side(gradient.transpose(1, 2)))


def _norm(call: ModuleCall, gradient: Tensor, grouping: Grouping) -> list[GradientPart]:
    module, rows = cast("nn.LayerNorm", call.module), len(gradient)
    scaled = functional.layer_norm(call.inputs[0], module.normalized_shape, None, None, module.eps) * gradient
    each = ((module.weight, scaled), (module.bias, gradient))
    return [
        _dense(parameter, grouping.summed(values.reshape(rows, -1, values.shape[-1]).sum(1)))
        for parameter, values in each
        if parameter is not None
    ]


def _table(weight: Tensor, ids: Tensor, gradient: Tensor, padding: int | None) -> GradientPart:
    """Of a table: rows ids (units, T) have gradients (units, T, D), which add up where a unit has a number twice."""
    units, length = ids.shape
    real = torch.ones_like(ids, dtype=torch.bool) if padding is None else ids != padding
    gradient = gradient * real[:, :, None]
    owner = torch.arange(units)[:, None].expand(units, length)
    keys, places = torch.unique(owner * len(weight) + ids, return_inverse=True)
    sums = gradient.new_zeros(len(keys), gradient.shape[2]).index_add_(0, places.flatten(), gradient.flatten(0, 1))
    squares = gradient.new_zeros(units).index_add_(0, keys // len(weight), sums.square().sum(1))

    def add(factors: Tensor) -> None:
        _grad(weight).index_add_(0, keys % len(weight), sums * factors[keys // len(weight)][:, None])

    return GradientPart(squares, add)


def _embedding(call: ModuleCall, gradient: Tensor, grouping: Grouping) -> list[GradientPart]:
    module, rows = cast("nn.Embedding", call.module), len(gradient)
    ids = grouping.side_by_side(call.inputs[0].reshape(rows, -1) + 1) - 1  # what fills up is -1, of gradient 0
    gradient = grouping.side_by_side(gradient.reshape(rows, -1, module.embedding_dim))
    return [_table(module.weight, ids.clamp(min=0), gradient, module.padding_idx)]


def _bag(call: ModuleCall, gradient: Tensor, grouping: Grouping) -> list[GradientPart]:
    """A sum of a table's rows, each with its weight: the gradient of a row is the bag's, times that weight."""
    module, ids = cast("nn.EmbeddingBag", call.module), call.inputs[0]
    shares = call.options.get("per_sample_weights")
    shares = torch.ones_like(ids, dtype=gradient.dtype) if shares is None else shares
    if module.padding_idx is not None:
        shares = shares * (ids != module.padding_idx)
    if grouping.owner is None and (len(ids) * len(module.weight) <= WIDE or ids.shape[1] <= SHORT):
        return [_rows_bag(module.weight, ids, shares, gradient)]
    each = grouping.side_by_side(shares[:, :, None] * gradient[:, None, :])  # (units, words, D)
    ids = grouping.side_by_side(ids + 1) - 1  # what fills up is -1, of gradient 0
    return [_table(module.weight, ids.clamp(min=0), each, module.padding_idx)]


def _rows_bag(weight: Tensor, ids: Tensor, shares: Tensor, gradient: Tensor) -> GradientPart:
    """The same for rows that are units each: ‖Σ_t s_t e_t‖² = Σ_t s_t x_t, where x_t is what t's word has in all."""
    if len(ids) * len(weight) <= WIDE:
        keys = (ids + torch.arange(0, len(ids) * len(weight), len(weight))[:, None]).flatten()  # (B · L,)
        whole = shares.new_zeros(len(ids) * len(weight)).index_add_(0, keys, shares.flatten())
        words = whole.index_select(0, keys).view_as(shares)  # (B, L)
    else:
        same = ids[:, :, None] == ids[:, None, :]  # (B, L, L)
        words = (same * shares[:, None, :]).sum(2)  # (B, L)
    lengths = (words * shares).sum(1)  # (B,)

    def add(factors: Tensor) -> None:
        scaled = gradient * factors[:, None]
        _grad(weight).index_add_(0, ids.flatten(), (shares[:, :, None] * scaled[:, None, :]).flatten(0, 1))

    return GradientPart(lengths * gradient.square().sum(1), add)


def _lstm(call: ModuleCall, gradient: Tensor, grouping: Grouping) -> list[GradientPart]:
    """The gates' gradients by hand, since they are nowhere to be seen; then two products."""
    module = cast("nn.LSTM", call.module)
    before, gates = gate_gradients(module, call.inputs[0], call.output.detach(), gradient)
    gates = grouping.side_by_side(gates)  # (units, T, 4 · hidden)
    inputs, before = grouping.side_by_side(call.inputs[0].detach()), grouping.side_by_side(before)
    own: Mapping[str, Tensor] = dict(module.named_parameters())
    parts = _affine(own["weight_ih_l0"], own.get("bias_ih_l0"), inputs, gates)
    return [*parts, *_affine(own["weight_hh_l0"], own.get("bias_hh_l0"), before, gates)]


RULES: dict[type[nn.Module], Callable[[ModuleCall, Tensor, Grouping], list[GradientPart]]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.LayerNorm: _norm,
    nn.EmbeddingBag: _bag,
    nn.Embedding: _embedding,
    nn.LSTM: _lstm,
}
