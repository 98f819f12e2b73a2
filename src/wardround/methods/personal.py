"""Models that are each site's own beside or inside the shared one: Ditto, FedRep, FineTune.

    Ditto       v_k ← v_k − η (∇F_k(v_k) + λ (v_k − θ)), beside FedAvg's θ          Li et al., ICML 2021, algorithm 1
    FedRep      the head first, then the body; heads stay at their sites           Collins et al., ICML 2021
    FineTune    FedAvg's θ, which each site trains on for itself before it is tried

What is tried at a site is its own model, so `[evaluation] each = true` beside a run of `fedavg` shows who gains.
What is sent is what FedAvg sends. Ditto's own models are kept at the sites; the model folder has the shared one.
Neither Ditto nor FineTune takes `[sites] private`: such parts would be trained with the shared model and with the own.

FedRep's heads are private parts (`[sites] private = ["classifier"]`, by module name): without any it is FedAvg. The
paper takes more steps with the head than with the body: `head_epochs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from wardround.core.record import Private
from wardround.core.site import Site
from wardround.core.training import Pull
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg


class PersonalModel(Private):
    """A site's own model beside the shared one, which stays there."""

    weights: Weights


@dataclass(frozen=True, kw_only=True)
class Ditto(FedAvg):
    """FedAvg, and beside it a model of each site's own that is pulled towards the shared one."""

    beyond_training: ClassVar[str] = ""

    apart: ClassVar[bool] = True
    twice: ClassVar[bool] = True
    refuses: ClassVar[Mapping[str, str]] = {"moments": "a site trains two models, and keeps one set; leave it out"}

    pull: Annotated[float, Ge(0)] = 0.1
    """λ: how hard a site's own model is pulled to the shared one; 0 is a site that trains alone."""

    def local(self, site: Site, weights: Weights) -> Weights:
        """Train the shared model for FedAvg, then the site's own, pulled to what was shared."""
        # Recalled first: both trainings are paid for at once, by all that they depend on.
        own = site.recall(PersonalModel, PersonalModel(weights)).weights
        trained = super().local(site, weights)
        site.keep(PersonalModel(self.train(site, own, [Pull(self.pull, weights)]).weights))
        return trained

    def steps_at_once(self, rate: float) -> int:
        """Both models'."""
        return 2 * self.private_steps(rate)

    def weights_at(self, site: Site, shared: Weights) -> Weights:
        """The site's own model, or the shared one before there is any."""
        return site.recall(PersonalModel, PersonalModel(shared)).weights


@dataclass(frozen=True, kw_only=True)
class FedRep(FedAvg):
    """FedAvg of the body alone; each site keeps a head, which it trains first."""

    beyond_training: ClassVar[str] = ""
    refuses: ClassVar[Mapping[str, str]] = {"moments": "head and body are trained by turns; leave it out"}

    head_epochs: Annotated[int, Ge(1)] = 5
    """Passes over the site's examples with the head alone, before those with the body alone."""

    def local(self, site: Site, weights: Weights) -> Weights:
        """The private part while the shared one stands still, then the other way round."""
        if not site.private:
            return super().local(site, weights)
        self._head().train(site, weights, moves="private")
        return self.train(site, weights, moves="shared").weights

    def _head(self) -> "FedRep":
        return replace(self, epochs=self.head_epochs, steps=0)

    def steps_at_once(self, rate: float) -> int:
        """Those with the head and those with the body; without a head, the former are paid for in vain."""
        return self._head().private_steps(rate) + self.private_steps(rate)


@dataclass(frozen=True, kw_only=True)
class FineTune(FedAvg):
    """FedAvg, whose model each site trains on for itself before it is tried there."""

    beyond_training: ClassVar[str] = ""

    twice: ClassVar[bool] = True
    refuses: ClassVar[Mapping[str, str]] = {"moments": "trying the model is training here, too; leave it out"}

    own_epochs: Annotated[int, Ge(1)] = 1
    """Passes over the site's examples that make the shared model its own."""

    def weights_at(self, site: Site, shared: Weights) -> Weights:
        """What the site's training makes of the shared model; it stays there."""
        return self._own().train(site, shared).weights

    def _own(self) -> "FineTune":
        return replace(self, epochs=self.own_epochs, steps=0)

    def steps_at_once(self, rate: float) -> int:
        """Of a round or of a trial, whichever has more: both cost the same, so that neither can stand for the other."""
        return max(self.private_steps(rate), self._own().private_steps(rate))

    def trainings(self, rounds: int, tried: int) -> int:
        """In each round, and before each trial."""
        return rounds + tried
