"""What takes the steps of local training, and the size of a step from round to round.

    optimizer = Adam(0.001, (0.9, 0.999), 1e-8, flat)
    optimizer.step(flat, gradient)                         # in place, on all weights at once

Equations and defaults are those of torch's optimisers; a step over one buffer is many times as fast as one over a list
of tensors. Rates change from round to round and not within one: sites take different numbers of steps.
"""

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from wardround.core.record import Private

WEIGHT_DECAY = 0.01
"""AdamW's, where a study does not say."""

PIECE = 2**20  # weights

Moments = tuple[int, Tensor, Tensor]
"""Where an Adam stands: its steps so far, and its first and second moments."""


class OwnMoments(Private):
    """Where the optimiser of a site stood after its last training: steps, and means of gradients and of squares."""

    steps: int
    first: Tensor
    second: Tensor | None = None


class SGD:
    """θ ← θ − η b with b ← β b + g + λ θ; without momentum (β = 0) and weight decay (λ = 0), θ − η g."""

    def __init__(
        self, lr: float, momentum: float = 0.0, weight_decay: float = 0.0, moments: OwnMoments | None = None
    ) -> None:
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.steps = moments.steps if moments else 0
        self.first = moments.first if moments else None

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        """One step, in place."""
        if self.weight_decay:
            gradient = gradient.add(flat, alpha=self.weight_decay)
        if self.momentum:
            self.steps += 1
            before = gradient.new_zeros(()) if self.first is None else self.first.to(gradient.device)
            self.first = before * self.momentum + gradient
            gradient = self.first
        flat.add_(gradient, alpha=-self.lr)

    def kept(self) -> OwnMoments | None:
        """Where it stands, if it remembers anything."""
        return None if self.first is None else OwnMoments(self.steps, self.first.cpu())


class Adam:
    """Adam (Kingma and Ba 2015) with ε outside the root; its moments start at zero, or go on from given ones.

    Weight decay is in the gradient, or `apart` from it as in AdamW (Loshchilov and Hutter 2019): θ ← (1 − η λ) θ.
    """

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        like: Tensor,
        moments: Moments | None = None,
        *,
        weight_decay: float = 0.0,
        apart: bool = False,
    ) -> None:
        self.lr, self.betas, self.eps = lr, betas, eps
        self.weight_decay, self.apart = weight_decay, apart
        self.lent = moments is not None
        """Whether the moments are still the given ones, which stay as they are."""
        steps, *means = moments or (0, torch.zeros_like(like), torch.zeros_like(like))
        self.steps, (self.first, self.second) = steps, (mean.to(like.device) for mean in means)

    def step(self, flat: Tensor, gradient: Tensor) -> None:
        """One step, in place."""
        beta1, beta2 = self.betas
        self.steps += 1
        if self.weight_decay and self.apart:
            flat.mul_(1 - self.lr * self.weight_decay)
        elif self.weight_decay:
            gradient = gradient.add(flat, alpha=self.weight_decay)
        if self.lent:
            self.first, self.second, self.lent = self.first.clone(), self.second.clone(), False
        unbias1, unbias2 = 1 - beta1**self.steps, 1 - beta2**self.steps
        room = torch.empty_like(flat[:PIECE])
        tiny = torch.finfo(flat.dtype).tiny  # the root of 0 takes seven times as long
        for weights, slope, first, second in _pieces(flat, gradient, self.first, self.second):
            first.mul_(beta1).add_(slope, alpha=1 - beta1)
            second.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
            below = torch.div(second, unbias2, out=room[: len(second)]).clamp_min_(tiny).sqrt_().add_(self.eps)
            weights.addcdiv_(first, below, value=-self.lr / unbias1)

    def kept(self) -> OwnMoments | None:
        """Where it stands, once it has taken a step."""
        return OwnMoments(self.steps, self.first.cpu(), self.second.cpu()) if self.steps else None


def _pieces(*buffers: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """The buffers piece by piece, so that what is read once and again in a step is still near."""
    return zip(*(torch.split(buffer, PIECE) for buffer in buffers), strict=True)


def clip(gradient: Tensor, longest: float) -> None:
    """Shorten a gradient in place to this length, if it is longer."""
    length = torch.linalg.vector_norm(gradient)
    gradient.mul_((longest / (length + 1e-6)).clamp(max=1.0))  # as torch's clip_grad_norm_


def scheduled(round_: int, schedule: Literal["linear", "cosine"] | None, warmup: int, horizon: int) -> float:
    """By what the rate is multiplied in this round, the first being 1; after the horizon, as in the last round before.

    Warm-up: r/(w+1) in rounds 1 to w. Then, with i rounds of n behind it: 1 − i/n, or ½ (1 + cos π i/n); never 0.
    """
    if round_ <= warmup:
        return max(round_, 1) / (warmup + 1)
    if schedule is None:
        return 1.0
    done = (min(round_, horizon) - 1 - warmup) / (horizon - warmup)
    return 1 - done if schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
