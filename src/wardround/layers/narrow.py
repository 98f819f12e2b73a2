"""Changes of weights leave a site in 8 or 16 bits each; what rounding loses is kept there, and goes with the next.

    [[layers]]
    name = "narrow"
    bits = 8              # or 16: bf16, half of the upload

    x = Δ + e,   q = round(127 x / max|x|) by blocks of 512,   e ← x − q̂                               (8 bits)

Error feedback: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; that it converges as without:
Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019. e is a site's own, and never leaves.

A reply keeps its kind: the same names and shapes in a narrower type; with 8 bits, one more tensor holds the length of
each block's unit. The coordinator widens each reply before anybody looks at it, so bounds and rules work as ever.
Messages to the sites are as they were, for a site that was not in a round could not make up for what was lost in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from wardround.core.codec import fields_of
from wardround.core.exchange import Exchange
from wardround.core.layer import Layer
from wardround.core.method import Method
from wardround.core.record import Message, Private, reveals_of
from wardround.core.site import Site
from wardround.core.weights import Layout, Weights

BLOCK = 512
LARGEST = 127
UNITS = "units of 8 bits"
"""The tensor of the blocks' units, each the four bytes of a number in single precision."""


class Residue(Private):
    """What rounding has kept back of a site's last reply, for its next."""

    step: str
    left: Tensor


@dataclass(frozen=True, kw_only=True)
class Narrow(Layer):
    """Sends changes of weights in fewer bits."""

    bits: Literal[8, 16] = 8
    """Per number: whole numbers by blocks of 512, or bf16."""

    @property
    def alone(self) -> bool:
        """Never: the coordinator has to widen what it gets."""
        return False

    def misfit(self, method: Method[Any], layers: Sequence[Layer]) -> str | None:
        """Why there is nothing to narrow, or it would not be understood."""
        name = type(method).__name__
        replies = [step.kinds()[1] for step in method.declared().values()]
        changes = [kind for kind in replies if any(_changes(kind))]
        if not changes:
            return f"layer narrow: {name} sends no changes of weights; take the layer out"
        tied = [kind for kind in changes if any(Tensor in kinds for kinds in fields_of(kind).values())]
        if tied:
            return f"layer narrow: what {name} sends with a change has to follow from it exactly; take the layer out"
        sums = next((layer for layer in layers if layer.only_sums), None)
        if sums is not None:
            return f"layer narrow: {sums.called} lets nobody widen a site's reply; take one of them out"
        return None

    def leave(self, reply: Message, site: Site) -> Message:
        """Narrower, with what was kept back the last time."""
        changes = {name: getattr(reply, name) for name in _changes(type(reply))}
        changes = {name: value for name, value in changes.items() if value.flat.dtype is torch.float32}
        if not changes:
            return reply
        whole = torch.cat([value.flat for value in changes.values()])
        before = site.recall(Residue) if site.knows(Residue) else None
        if before is not None and before.step == site.exchange.step and before.left.shape == whole.shape:
            whole = whole + before.left
        narrowed: dict[str, Weights] = {}
        kept, start = [], 0
        for name, value in changes.items():
            part = whole[start : start + value.layout.size]
            narrowed[name] = self.narrowed(part, value.layout)
            kept.append(part - widened(narrowed[name]).flat)
            start += value.layout.size
        site.keep(Residue(site.exchange.step, torch.cat(kept)))
        return replace(reply, **narrowed)

    def arrive(self, reply: Message, name: str, exchange: Exchange) -> Message:  # noqa: ARG002
        """As wide as it was; what is not as this layer makes it stays so, and does not fit the study."""
        changes = {field: getattr(reply, field) for field in _changes(type(reply))}
        return replace(reply, **{field: widened(value) for field, value in changes.items()}) if changes else reply

    def narrowed(self, flat: Tensor, layout: Layout) -> Weights:
        """Numbers of a layout in fewer bits."""
        if self.bits == 16:
            return Weights.of_flat(flat.bfloat16(), layout)
        blocks = functional.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)  # (blocks, 512)
        units = blocks.abs().amax(1) / LARGEST  # (blocks,)
        whole = (blocks / units.clamp(min=torch.finfo(torch.float32).tiny)[:, None]).round().to(torch.int8)
        longer = Layout([*layout.shapes.items(), (UNITS, (4 * len(units),))])
        return Weights.of_flat(torch.cat([whole.flatten()[: len(flat)], units.view(torch.int8)]), longer)


def widened(value: Weights) -> Weights:
    """The numbers that narrower ones stand for; others as they are."""
    if value.flat.dtype is torch.bfloat16:
        return Weights.of_flat(value.flat.float(), value.layout)
    shapes = dict(value.layout.shapes)
    if value.flat.dtype is not torch.int8 or UNITS not in shapes:
        return value
    units = value[UNITS].contiguous().flatten()
    del shapes[UNITS]
    layout = Layout(shapes.items())
    if len(units) != 4 * -(-layout.size // BLOCK) or list(value.layout.shapes)[-1] != UNITS:
        return value
    each = units.clone().view(torch.float32).repeat_interleave(BLOCK)[: layout.size]
    return Weights.of_flat(value.flat[: layout.size].float() * each, layout)


def _changes(kind: type[Message]) -> Iterator[str]:
    """The fields of a message that are like the model."""
    reveals = reveals_of(kind)
    return (name for name, kinds in fields_of(kind).items() if Weights in kinds and reveals[name].like == "model")
