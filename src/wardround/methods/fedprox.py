"""FedProx: FedAvg with a leash.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

    local loss F(θ) + μ/2 ‖θ − θ_global‖²

μ is 0.03 unless a study says otherwise: with 1, FedPA and FedPAP on Chinese dialogues stayed at the majority class, and
with 0.03 they did not. Under SGD a step of rate η multiplies the distance to θ_global by 1 − ημ: from ημ = 2 on it
grows without end, whatever the data, which is refused. Below that a large ημ makes a site forget: what a step has
learnt is gone after 1 / ημ more, so that a round ends with what its last batches say. So where a study leaves the rate
open, ημ is at most 0.1: a step then lasts for ten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from wardround.core.training import LocalTraining, Pull, Term
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg

DIVERGES = 2.0
STEADY = 0.1  # η μ: a round's end stands on its last ten batches, not on one


@dataclass(frozen=True, kw_only=True)
class Proximal(LocalTraining):
    """The proximal term, for any method whose sites train."""

    mu: Annotated[float, Ge(0)] = 0.03
    """μ: how hard a site is pulled back to the shared model; 0 is not at all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = self.lr
        if self.optimizer == "sgd" and rate * self.mu >= DIVERGES:
            raise ValueError(
                f"mu = {self.mu:g} with lr = {rate:g} diverges whatever the data: lr · mu is {DIVERGES:g} or more; "
                f"set mu below {DIVERGES / rate:g}, or lower lr"
            )

    def steady(self, lr: float) -> float:
        """A rate at which the leash does not undo each step at once."""
        return min(lr, STEADY / self.mu) if self.mu else lr

    def terms(self, weights: Weights) -> Sequence[Term]:
        """μ/2 ‖θ − θ_global‖²."""
        return [Pull(self.mu, weights)]


@dataclass(frozen=True, kw_only=True)
class FedProx(Proximal, FedAvg):
    """FedAvg whose sites are held near the shared model by a proximal term."""

    beyond_training: ClassVar[str] = ""
