"""Gradients of single units, clipped and added up: Σ_u g_u · min(1, C / ‖g_u‖), where g_u is unit u's own gradient.

    parts = unit_parts(model, loss, batch, grouping)   # by layer; None if this model's cannot be had so
    clipped(parts, limit)                              # adds to every parameter's .grad

One backward pass gives, for each module, what went in and the gradient of what came out; a unit's gradient of a layer's
weights is a product of the two, and its norm often needs not even that ("ghost" norms, Goodfellow 2015; Li et al. 2022;
one pass instead of two: Bu et al. 2022). A unit is one example, or all examples of a document or patient: these are
then laid side by side, as if they were one longer text. A model whose scores are linear in its weights needs no
backward pass if its task knows the slopes of its loss (`score_parts`).

Rules of this file:
1. The result is exact up to rounding, whichever way it was computed: tests compare it with a loop of single units.
2. A module of a kind that is not known here says itself what its own parameters' gradients are (`each_gradient`); if
   one does not, or one is called twice, the caller has a loop of single units do the work.
3. A weight that is used behind its module's back is not seen here: `private_steps` compares both ways once.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wardround.core.layer_gradients import GradientPart, Grouping, ModuleCall, known, rule


def clipped(parts: Sequence[GradientPart], limit: float) -> bool:
    """Add the clipped sum of the units' gradients to the parameters' `.grad`; whether that can be done."""
    with torch.no_grad():
        squares = _squares(parts)
        if not math.isfinite(squares.sum().item()):  # 0 times what is no number is none: one unit would be seen in all
            return False
        factors = squares.clamp(min=0).sqrt_().clamp_(min=limit).reciprocal_().mul_(limit)
        for part in parts:
            part.add(factors)
    return True


def norms(parts: Sequence[GradientPart]) -> Tensor:
    """The length of each unit's gradient (units,)."""
    return _squares(parts).clamp(min=0).sqrt()  # rounding may leave a little less than nothing


def _squares(parts: Sequence[GradientPart]) -> Tensor:
    squares = parts[0].squares
    for part in parts[1:]:
        squares = squares + part.squares
    return squares


def unit_parts(
    model: nn.Module, loss: Callable[[nn.Module, Any], Tensor], batch: Any, grouping: Grouping
) -> list[GradientPart] | None:
    """The units' gradients in parts, by layer; None if this model's cannot be had so."""
    calls = _recorded(model)
    if calls is None:
        return None
    with calls:
        total = loss(model, batch) * len(batch)
    modules = [call.module for call in calls.calls]
    if len({*modules}) < len(modules) or not modules:  # of one called twice, the parts would not be apart
        return None
    gradients: Sequence[Tensor | None] = torch.autograd.grad(
        total, [call.output for call in calls.calls], allow_unused=True
    )
    with torch.no_grad():
        parts: list[GradientPart] = []
        for call, gradient in zip(calls.calls, gradients, strict=True):
            if gradient is None:
                continue
            mine = _grouped(grouping, batch, len(gradient))
            if mine is None:
                return None
            parts += rule(call, gradient, mine)
        return parts


def score_parts(
    model: nn.Module, slopes: Callable[[Any, Any], tuple[Tensor, Tensor] | None], batch: Any, grouping: Grouping
) -> list[GradientPart] | None:
    """The same without a backward pass, where every trained module's output is the scores, or is only added to them."""
    with torch.no_grad():
        calls = _recorded(model)
        if calls is None:
            return None
        with calls:
            pair = slopes(model, batch)
        if pair is None or len(calls.calls) != len(calls.modules) or not calls.modules:
            return None
        scores, slope = pair
        if not (all(call.output is scores for call in calls.calls) or getattr(model, "adds_up", False)):
            return None
        return [part for call in calls.calls for part in rule(call, slope, grouping)]


def factor(norms: Tensor, limit: float) -> Tensor:
    """What shortens each gradient to at most the limit."""
    return (limit / norms.clamp(min=limit)).nan_to_num(0.0)  # a gradient that is not a number has no say


def _grouped(grouping: Grouping, batch: Any, rows: int) -> Grouping | None:
    """The grouping of a module's rows: the batch's examples, or the sentences that its bags are made of."""
    if rows == len(batch):
        return grouping
    owner = getattr(batch, "owner", None)
    if owner is None or rows != len(owner):
        return None
    return Grouping(owner if grouping.owner is None else grouping.owner[owner], grouping.count)


class _Calls:
    """Notes what goes through the modules that have parameters of their own.

    Meanwhile each has another `forward`: hooks do the same, and take as long as a small layer itself.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules, self.calls = modules, list[ModuleCall]()
        self.all = not torch.is_grad_enabled()
        """Whether calls without a gradient count, which a model may make to choose what it learns from."""

    def __enter__(self) -> None:
        for module in self.modules:
            module.__dict__["forward"] = self._noting(module, module.forward)

    def __exit__(self, *_: object) -> None:
        for module in self.modules:
            del module.__dict__["forward"]

    def _noting(self, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*inputs: Any, **options: Any) -> Any:
            output = forward(*inputs, **options)
            first: Tensor = output[0] if isinstance(output, tuple) else output
            if self.all or first.requires_grad:
                self.calls.append(ModuleCall(module, inputs, options, first))
            return output

        return noted


def _recorded(model: nn.Module) -> _Calls | None:
    """The modules with trained parameters of their own, if each has a rule."""
    # `parameters(recurse=False)` is the same by way of two generators, which show in the profile of a small step.
    tables = ((one, one.__dict__["_parameters"].values()) for one in model.modules())
    own = [one for one, mine in tables if any(p is not None and p.requires_grad for p in mine)]
    return _Calls(own) if all(map(known, own)) else None
