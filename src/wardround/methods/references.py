"""What federated methods are measured against: each site or the coordinator alone, and all data in one place."""

from dataclasses import dataclass
from typing import ClassVar

from wardround.core.bench import weighed_alone
from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.training import LocalTraining
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg


class Done(Message):
    """That a site has trained by itself; nothing it learnt."""

    sites: int = reveals("nothing; counts the sites", weighs="sites")


class OwnModel(Private):
    """The model of a site that trains alone."""

    weights: Weights


@dataclass(frozen=True, kw_only=True)
class Local(LocalTraining, Method[Global]):
    """Each site alone: nothing learnt leaves, and there is no shared model."""

    beyond_training: ClassVar[str] = ""

    shares: ClassVar[bool] = False

    def start(self, weights: Weights, cohort: Cohort) -> Global:  # noqa: ARG002
        """The initial model, from which all begin."""
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """Every site trains on; the shared state stays the initial model."""
        cohort.total(self.fit, state)
        return state

    def unruled(self) -> str:
        """Nothing is shared."""
        return "has each site train alone; take [robust] out"

    @on_site
    def fit(self, model: Global, site: Site) -> Done:
        """Train on from the site's own model."""
        own = self.weights_at(site, model.weights)
        site.keep(OwnModel(self.train(site, own).weights))
        return Done(1)

    def weights_at(self, site: Site, shared: Weights) -> Weights:
        """The site's own, or the initial ones before it has trained."""
        return site.recall(OwnModel).weights if site.knows(OwnModel) else weighed_alone(site, shared)


@dataclass(frozen=True, kw_only=True)
class PublicOnly(LocalTraining, Method[Global]):
    """The coordinator alone, on the public examples: what it could do without any site."""

    beyond_training: ClassVar[str] = ""

    public: ClassVar[bool] = True

    def start(self, weights: Weights, cohort: Cohort) -> Global:
        """The initial model."""
        return Global(weighed_alone(cohort.hub, weights))

    def round(self, state: Global, cohort: Cohort) -> Global:
        """Train on; no site is asked for anything."""
        return Global(self.train(cohort.hub, state.weights).weights)

    def unruled(self) -> str:
        """Nobody is asked."""
        return "asks no site for anything; take [robust] out"


@dataclass(frozen=True, kw_only=True)
class Centralised(FedAvg):
    """All examples pooled in one place: the upper bound, possible only in a simulation."""

    beyond_training: ClassVar[str] = ""

    pooled: ClassVar[bool] = True
    single_pass: ClassVar[bool] = True  # over all notes: as many steps as all sites take in one

    def unruled(self) -> str:
        """There is one site."""
        return "has all notes in one place; take [robust] out"
