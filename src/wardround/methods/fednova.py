"""FedNova: a site's change counts per step, so that sites which take many steps do not pull the model to themselves.

Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization", NeurIPS 2020.

    θ ← θ + τ_eff Σ p_k Δ_k / a_k,   τ_eff = Σ p_k a_k,   p_k = n_k / n                    (eqs. 6–7)

a_k is the number of local SGD steps. Where all sites take the same number (`steps`), this is FedAvg.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.training import LocalTraining
from wardround.core.weights import Weights


class Normalised(Message):
    """What a site's training changed per step, weighted, the weight, and the weighted steps."""

    change: Weights = reveals("how the site's notes move the model; can give away words whose weights are trained")
    examples: int = reveals("how many training examples the site has", weighs="train")
    steps: float = reveals("how many training examples the site has, times its number of steps")


@dataclass(frozen=True, kw_only=True)
class FedNova(LocalTraining, Method[Global]):
    """FedAvg in which a site's change counts per step, however many it took."""

    beyond_training: ClassVar[str] = ""
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"fit": {"change": "examples"}}
    suits: ClassVar[tuple[str, ...]] = ("sgd",)
    refuses: ClassVar[Mapping[str, str]] = {"momentum": "it makes later steps longer than earlier ones; leave it out"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer != "sgd":
            raise ValueError('fednova divides a change by its SGD steps, which are alike; set optimizer = "sgd"')

    def start(self, weights: Weights, cohort: Cohort) -> Global:  # noqa: ARG002
        """The initial model."""
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """θ + τ_eff Σ p_k Δ_k / a_k; unchanged if nobody had an example."""
        total = cohort.total(self.fit, state)
        if total.examples == 0:
            return state
        return Global(state.weights + total.change * (total.steps / total.examples**2))

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- it says the same of all
        """Nobody takes more steps than its examples have batches, in so many passes."""
        if not isinstance(reply, Normalised):
            return None
        per_pass = -(-reply.examples // (self.batch or max(reply.examples, 1)))
        most = reply.examples * (self.steps or self.epochs * per_pass)
        return None if 0 <= reply.steps <= most else f"Normalised.steps is not between 0 and {most:,}"

    @on_site
    def fit(self, model: Global, site: Site) -> Normalised:
        """Train on the site's own examples, and divide by the steps that it took."""
        trained, examples = self.train(site, model.weights), site.size
        change = trained.weights - model.weights
        return Normalised(change * (examples / max(trained.steps, 1)), examples, float(examples * trained.steps))
