"""FedPA: FedProx at the sites, attention at the coordinator (FLCMC).

Hu and Fang, "FLCMC: Federated Learning Approach for Chinese Medicinal Text Classification", Entropy 2024.

    s_k = ‖θ_k − θ‖ over all parameters (eq. 11),  a = softmax s (eq. 12)
    θ ← θ − λ Σ a_k (θ − θ_k)                     (eqs. 13–14)

As printed, farther sites weigh more; `nearer` turns that round, `per_tensor` measures layer by layer. The Adam
names of the paper (FedAvgS, FedAvgT, FedProxP, FedAttS, FedPAP) are settings: see `wardround methods`. With Adam,
the gradient is ∇F + μ(θ − θ_global) (eq. 22 omits the ∇) and the moments start anew each round.
"""

from dataclasses import dataclass
from typing import ClassVar

from wardround.methods.fedatt import FedAtt
from wardround.methods.fedprox import Proximal


@dataclass(frozen=True, kw_only=True)
class FedPA(Proximal, FedAtt):
    """FedProx at the sites, attention over whole models at the coordinator."""

    beyond_training: ClassVar[str] = ""

    per_tensor: bool = False
