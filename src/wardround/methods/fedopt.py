"""FedAvgM, FedAdagrad, FedAdam, FedYogi: FedAvg whose coordinator takes the mean change for a gradient.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021, algorithm 2; FedAvgM: Hsu, Qi and Brown 2019.

    Δ mean of the sites' changes
    momentum: m ← β₁ m + Δ,              x ← x + η m
    others:   m ← β₁ m + (1 − β₁) Δ,     x ← x + η m / (√v + τ)
    adagrad   v ← v + Δ²
    adam      v ← β₂ v + (1 − β₂) Δ²
    yogi      v ← v − (1 − β₂) Δ² sign(v − Δ²)

m starts at 0 and v at τ²; there is no correction of either for that. The names are settings: `fedadam` is this with
`rule = "adam"`. Under the adaptive rules a weight moves by about η a round, however small its change is: η has to suit
the model's weights, and noise in weights that nobody needs moves them as far as the others.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Lt
from torch import Tensor

from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method
from wardround.core.record import Record
from wardround.core.weights import Weights
from wardround.methods.fedavg import Averaging


class Optimised(Record):
    """The shared model, and the coordinator's means of changes and of their squares."""

    weights: Weights
    first: Weights
    second: Weights


@dataclass(frozen=True, kw_only=True)
class FedOpt(Averaging, Method[Optimised]):
    """FedAvg with an optimiser of the coordinator's own."""

    beyond_training: ClassVar[str] = ""

    rule: Literal["momentum", "adagrad", "adam", "yogi"] = "adam"
    """How the coordinator steps."""
    server_lr: Annotated[float, Gt(0)] = 0.01
    """η: how far the coordinator goes along what it makes of the sites' mean change."""
    beta1: Annotated[float, Ge(0), Lt(1)] = 0.9
    """β₁: how long the mean of changes remembers."""
    beta2: Annotated[float, Ge(0), Lt(1)] = 0.99
    """β₂: how long the mean of squared changes remembers."""
    tau: Annotated[float, Gt(0)] = 1e-3
    """τ: what is added to the denominator; the larger, the less adaptive."""

    def start(self, weights: Weights, cohort: Cohort) -> Optimised:  # noqa: ARG002
        """The initial model, m = 0 and v = τ²."""
        zeros = weights.zeros()
        return Optimised(weights, zeros, Weights.of_flat(zeros.flat + self.tau**2, weights.layout))

    def round(self, state: Optimised, cohort: Cohort) -> Optimised:
        """One step along the mean change; none if nobody had an example."""
        total = cohort.total(self.fit, Global(state.weights))
        if total.weight == 0:
            return state
        change = total.change / total.weight
        if self.rule == "momentum":
            first = state.first * self.beta1 + change
            return Optimised(state.weights + first * self.server_lr, first, state.second)
        first = state.first * self.beta1 + change * (1 - self.beta1)
        second = self.squares(state.second.flat, change.flat.square())
        step = first.flat / (second.sqrt() + self.tau) * self.server_lr
        layout = state.weights.layout
        return Optimised(state.weights + Weights.of_flat(step, layout), first, Weights.of_flat(second, layout))

    def squares(self, before: Tensor, squared: Tensor) -> Tensor:
        """The new v."""
        if self.rule == "adagrad":
            return before + squared
        if self.rule == "adam":
            return before * self.beta2 + squared * (1 - self.beta2)
        return before - (1 - self.beta2) * squared * (before - squared).sign()
