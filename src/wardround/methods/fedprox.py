"""FedProx: FedAvg with a leash.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

    local loss F(θ) + μ/2 ‖θ − θ_global‖²
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from wardround.core.training import Pull, Term
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg

__all__ = ["FedProx", "Proximal"]


@dataclass(frozen=True, kw_only=True)
class Proximal:
    """The proximal term, for any method whose sites train."""

    mu: Annotated[float, Ge(0)] = 1.0

    def terms(self, weights: Weights) -> Sequence[Term]:
        """μ/2 ‖θ − θ_global‖²."""
        return [Pull(self.mu, weights)]


@dataclass(frozen=True, kw_only=True)
class FedProx(Proximal, FedAvg):
    """FedAvg whose sites are held near the shared model by a proximal term."""
