"""Low-rank adapters: of an encoder, only small matrices beside its own are trained, sent and stored.

    adapt(encoder, Adapter(rank=8))      # in place: W x becomes W x + α/r · B A x, and only A and B are trained
    merge(encoder)                       # in place: W becomes W + α/r · B A, and nothing is slower than before

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022. B begins at zero, so that an adapted encoder
begins as it was. A mean of products is not the product of means, so averaging A and B is not averaging what they do.
With `fixed`, A stays as it was drawn, the same everywhere and for ever, and averages are exact (Sun et al., "Improving
LoRA in Privacy-preserving Federated Learning", ICLR 2024); half as much is sent.

Adapters want a larger rate than the head beside them, which answers the commonest class only where it moves as fast. So
A and B are held as a tenth of themselves, and with Adam move ten times as fast as the rate says.

Linear layers are known by the last part of their name, in our encoder and in those of transformers alike.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.exchange import seeded

SPEED = 10
"""How many times as fast Adam moves A and B as what is trained beside them, at the same rate."""

ATTENTION = frozenset({
    "query", "value", "q_lin", "v_lin", "query_proj", "value_proj", "q_proj", "v_proj", "q", "v", "Wqkv",
})  # fmt: skip
"""What layers of queries and values are called, which the paper adapts."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """The settings of adapters."""

    rank: Annotated[int, Ge(1)]
    """r: how many directions an adapter has; more of them learn more, and weigh more."""
    alpha: Annotated[float, Gt(0)] = 64.0
    """α: what an adapter adds is multiplied by α/r."""
    fixed: bool = False
    """Whether A stays as it was drawn, so that the mean of sites' adapters is the mean of what they changed."""
    layers: tuple[str, ...] = ()
    """Linear layers to adapt, by the last part of their name; if not given, those of queries and values."""


class Adapted(nn.Module):
    """A linear layer as it was, and what an adapter adds to it."""

    down: Tensor

    def __init__(self, base: nn.Linear, adapter: Adapter, name: str) -> None:
        super().__init__()
        self.base = base.requires_grad_(requires_grad=False)
        self.scale = adapter.alpha / adapter.rank * SPEED**2
        chance = torch.Generator().manual_seed(seeded("adapter", name)) if adapter.fixed else None
        down = torch.empty(adapter.rank, base.in_features).uniform_(-1, 1, generator=chance)
        down *= base.in_features**-0.5 / SPEED
        if adapter.fixed:
            self.register_buffer("down", down, persistent=False)
        else:
            self.down = nn.Parameter(down)  # (rank, in)
        self.up = nn.Parameter(torch.zeros(base.out_features, adapter.rank))  # (out, rank)

    def forward(self, inputs: Tensor) -> Tensor:
        """What the layer makes of the inputs (…, in), and the adapter of them (…, out)."""
        added = functional.linear(functional.linear(inputs, self.down), self.up)  # (…, out)
        whole: Tensor = self.base(inputs) + self.scale * added
        return whole

    @property
    def weight(self) -> Tensor:
        """What the layer's own would be (out, in)."""
        return self.base.weight + self.scale * (self.up @ self.down)

    @property
    def bias(self) -> Tensor | None:
        """The layer's own."""
        return self.base.bias

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """One linear layer that does the same."""
        self.base.weight = nn.Parameter(self.weight, requires_grad=False)
        return self.base


def adapt(encoder: nn.Module, adapter: Adapter) -> None:
    """Freeze an encoder, and put adapters beside the linear layers that are named."""
    linear = {name: module for name, module in encoder.named_modules() if type(module) is nn.Linear}
    if not linear:
        raise ValueError(
            "adapter: what is trained of the encoder has no linear layer to adapt; lower freeze, or take adapter out"
        )
    kinds = {name.rpartition(".")[2] for name in linear}
    wanted = {*adapter.layers} or (ATTENTION & kinds) or kinds
    if unknown := sorted(wanted - kinds):
        raise ValueError(f"adapter.layers names {unknown[0]!r}, and the encoder has {', '.join(sorted(kinds))}")
    chosen = {name: module for name, module in linear.items() if name.rpartition(".")[2] in wanted}
    narrow = min(min(module.in_features, module.out_features) for module in chosen.values())
    if adapter.rank > narrow:
        raise ValueError(f"adapter.rank = {adapter.rank} is above the encoder's width, {narrow}; lower it: 8 is usual")
    encoder.requires_grad_(requires_grad=False)
    for name, module in chosen.items():
        _put(encoder, name, Adapted(module, adapter, name))


def merge(model: nn.Module) -> nn.Module:
    """Have every adapter in a model become a part of the layer beside it."""
    for name, module in [*model.named_modules()]:
        if isinstance(module, Adapted):
            _put(model, name, module.merged())
    return model


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    """Put a module in the place of the one of this name."""
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
