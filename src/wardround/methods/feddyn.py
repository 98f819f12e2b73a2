"""FedDyn: a regulariser that remembers, so that local optima agree with the global one.

Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021.

    site:   min F_k(θ) − ⟨g_k, θ⟩ + α/2 ‖θ − θ_s‖²,   g_k ← g_k − α (θ_k − θ_s)
    server: h ← h − α/K Σ_S (θ_k − θ_s),              θ_s = mean_S θ_k − h/α

`by_size` is the authors' code in place of the paper: site k uses α·n/(K·n_k), so that large sites are held less.
The coordinator then asks once for the sum of the sites' sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt

from wardround.core.cohort import Cohort
from wardround.core.method import Method, on_site
from wardround.core.record import Message, Private, Record, reveals
from wardround.core.site import Site
from wardround.core.training import LocalTraining, Pull, Tilt
from wardround.core.weights import Weights


class Dynamic(Message):
    """The shared model, and the mean size of sites if strength goes by size."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    mean_size: float = reveals("how many training examples the sites have on average, or 0")


class DynamicState(Record):
    """The shared model, the running mean of all changes and the mean size of sites."""

    weights: Weights
    drift: Weights
    mean_size: float


class Sizes(Message):
    """How many training examples a site has."""

    examples: int = reveals("how many training examples the site has", weighs="train")
    sites: int = reveals("nothing; counts the sites", weighs="sites")


class DynamicUpdate(Message):
    """What a site's training changed."""

    change: Weights = reveals("how the site's notes move the model; can give away words whose weights are trained")
    sites: int = reveals("nothing; counts the sites", weighs="sites")


class OwnGradient(Private):
    """A site's remembered gradient, which stays there."""

    gradient: Weights


@dataclass(frozen=True, kw_only=True)
class FedDyn(LocalTraining, Method[DynamicState]):
    """Bends each site's loss by what it remembers, until local and global optimum agree."""

    beyond_training: ClassVar[str] = ""
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"fit": {"change": "sites"}}

    alpha: Annotated[float, Gt(0)] = 0.01
    """α: how hard a site is held near the shared model, and how much it remembers."""
    by_size: bool = False
    """Whether large sites are held less (α·n/(K·n_k)), as in the authors' code."""

    def start(self, weights: Weights, cohort: Cohort) -> DynamicState:
        """The initial model and no drift."""
        if not self.by_size:
            return DynamicState(weights, weights.zeros(), 0.0)
        total = cohort.total(self.measure, Dynamic(weights, 0.0))
        return DynamicState(weights, weights.zeros(), total.examples / total.sites)

    def round(self, state: DynamicState, cohort: Cohort) -> DynamicState:
        """`h` − α/K Σ Δ, then mean θ_k − h/α."""
        total = cohort.total(self.fit, Dynamic(state.weights, state.mean_size))
        drift = state.drift - total.change * (self.alpha / cohort.sites)
        mean = state.weights + total.change / total.sites
        return DynamicState(mean - drift / self.alpha, drift, state.mean_size)

    def opening(self) -> tuple[str, ...]:
        """By size, sites are asked for theirs first."""
        return ("measure",) if self.by_size else ()

    def exchanges(self, examples: int) -> Mapping[str, int]:  # noqa: ARG002
        """One."""
        return {"fit": 1}

    @on_site
    def measure(self, model: Dynamic, site: Site) -> Sizes:  # noqa: ARG002
        """The site's number of training examples."""
        site.stands_on(site.size)
        return Sizes(site.size, 1)

    @on_site
    def fit(self, model: Dynamic, site: Site) -> DynamicUpdate:
        """Train on the bent loss, then remember."""
        own = site.recall(OwnGradient, OwnGradient(model.weights.zeros())).gradient
        size = max(site.size, 1)
        alpha = self.alpha * max(model.mean_size, 0.0) / size if self.by_size and model.mean_size else self.alpha
        trained = self.train(site, model.weights, [Tilt(-own), Pull(alpha, model.weights)])
        change = trained.weights - model.weights
        site.keep(OwnGradient(own - change * alpha))
        return DynamicUpdate(change, 1)
