"""FedAvg: sites train, the coordinator averages.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017.

    θ ← θ + Σ n_k/n · Δ_k
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.training import LocalTraining, Loss, Term
from wardround.core.weights import Weights


class Update(Message):
    """What a site's own training changed, weighted, and the weight."""

    change: Weights = reveals("how the site's notes move the model; can give away words whose weights are trained")
    weight: int = reveals("how many training examples the site has (or 1 under a uniform mean)", weighs="train")


def uneven(reply: Message) -> str | None:
    """Why an update is not one of a mean in which every site weighs 1."""
    return "Update.weight should be 1" if isinstance(reply, Update) and reply.weight != 1 else None


@dataclass(frozen=True, kw_only=True)
class Averaging(LocalTraining):
    """What averaging methods have in common: sites train from the shared model and send their weighted change."""

    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"fit": {"change": "weight"}}

    mean: Literal["weighted", "uniform"] = "weighted"
    """Whether a site counts by its number of examples, or all sites count alike."""

    @on_site
    def fit(self, model: Global, site: Site) -> Update:
        """Train on the site's own examples."""
        weight = site.size if self.mean == "weighted" else 1
        return Update((self.local(site, model.weights) - model.weights) * weight, weight)

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- it says the same of all
        """Under a uniform mean every site weighs 1."""
        return uneven(reply) if self.mean == "uniform" else None

    def local(self, site: Site, weights: Weights) -> Weights:
        """The site's own model: what its training makes of the shared one."""
        return self.train(site, weights, self.terms(weights), self.loss(site, weights)).weights

    def terms(self, weights: Weights) -> Sequence[Term]:  # noqa: ARG002
        """What the local loss has beyond the task's."""
        return ()

    def loss(self, site: Site, weights: Weights) -> Loss:  # noqa: ARG002
        """The loss at this site, whose training starts from these weights."""
        return site.task.loss


@dataclass(frozen=True, kw_only=True)
class FedAvg(Averaging, Method[Global]):
    """Averages the sites' changes, weighted by their numbers of examples."""

    beyond_training: ClassVar[str] = ""

    def start(self, weights: Weights, cohort: Cohort) -> Global:  # noqa: ARG002
        """The initial model."""
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """θ + Σ n_k Δ_k / Σ n_k; unchanged if nobody had an example."""
        total = cohort.total(self.fit, state)
        if total.weight == 0:
            return state
        return Global(state.weights + total.change / total.weight)
