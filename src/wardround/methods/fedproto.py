"""FedProto: sites agree on where each class lies among the features, and on nothing else.

Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI 2022.

    site:   CE + λ · mean_i ‖h_i − p_{y_i}‖² / features,   then for each class the sum of h and the count
    server: p_c = Σ_k Σ_i h_i / Σ_k n_{k,c}                                                        (eq. 6)

Each site has a model of its own, which never leaves: there is no shared one, and what is tried is the site's own. A
class without a prototype yet is not pulled; one of which a site has fewer examples than it lets leave is not sent. The
distance is the mean over features, as in the authors' code.

Departures:
- eq. 6 has a stray 1/|N_c|, and the authors' code takes the mean of sites' means; with sums every example counts once,
  and the coordinator needs no site's own.
- The paper pulls a site's class means to the prototypes; here, as in the authors' code, each example's features are
  pulled, which also shrinks the spread within a class.
- The paper predicts by the nearest prototype; here a site is tried with its own classifier, as every other model is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.cohort import Cohort
from wardround.core.method import Method, on_site
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.task import Batch, ClassTask, Task
from wardround.core.training import LocalTraining, Loss, outputs
from wardround.core.weights import Weights
from wardround.methods.references import OwnModel


class Prototypes(Message):
    """The model that all began with, and where each class lies among the features; also the state."""

    weights: Weights = reveals("nothing; the model before anybody trained")
    places: Tensor = reveals(
        "the mean features of each class over all sites: of a class that one other site has, that site's",
        shape=("classes", "features"),
    )
    known: Tensor = reveals("which classes anybody has", shape=("classes",), dtype=torch.bool)


class ClassSums(Message):
    """For each class, the sum of a site's features and the number of its examples."""

    features: Tensor = reveals(
        "what the site's model makes of each class; of a class with one example, of that example",
        shape=("classes", "features"),
    )
    counts: Tensor = reveals("how many examples of each class the site has", shape=("classes",), dtype=torch.int64)


@dataclass(frozen=True, kw_only=True)
class FedProto(LocalTraining, Method[Prototypes]):
    """Sites share the mean features of each class, and keep their models to themselves."""

    beyond_training: ClassVar[str] = "it sends the mean features of each class, and how many notes there are of it"

    classifier: ClassVar[bool] = True
    shares: ClassVar[bool] = False

    pull: Annotated[float, Ge(0)] = 1.0
    """λ: how hard features are pulled to the mean of their class; 0 is a site that trains alone."""

    def start(self, weights: Weights, cohort: Cohort) -> Prototypes:
        """The initial model and no prototypes."""
        places = torch.zeros_like(weights[cohort.hub.class_task.classifier])
        return Prototypes(weights, places, torch.zeros(len(places), dtype=torch.bool))

    def round(self, state: Prototypes, cohort: Cohort) -> Prototypes:
        """The mean features of each class; of one that nobody had this time, those of before."""
        total = cohort.total(self.fit, state)
        there = total.counts > 0
        means = total.features / total.counts.clamp(min=1)[:, None].to(total.features.dtype)
        return Prototypes(state.weights, torch.where(there[:, None], means, state.places), state.known | there)

    @on_site
    def fit(self, state: Prototypes, site: Site) -> ClassSums:
        """Train the site's own model, then add up its features by class."""
        task, train = site.class_task, site.data.train
        own = site.recall(OwnModel, OwnModel(state.weights)).weights
        trained = self.train(site, own, loss=self.loss(task, state)).weights
        site.keep(OwnModel(trained))
        sums, counts = torch.zeros_like(state.places), task.tally(train)
        if len(train):
            labels = outputs(site, trained, train, lambda _, batch: task.targets(batch))
            sums.index_add_(0, labels, outputs(site, trained, train, task.features))
        enough = counts >= max(site.least, 1)  # the sum of few examples is these examples
        site.stands_on(int(counts[enough].min()) if enough.any() else 0)
        return ClassSums(sums * enough[:, None], counts * enough)

    def loss(self, task: ClassTask, state: Prototypes) -> Loss:
        """Cross-entropy, and λ times the squared distance to the mean of the example's class."""

        def pulled(model: nn.Module, batch: Batch) -> Tensor:
            features, targets = task.features(model, batch), task.targets(batch)  # (B, features), (B,)
            entropy = functional.cross_entropy(task.scores(model, features), targets)
            apart = (features - state.places[targets]).square().mean(1)  # (B,)
            return entropy + self.pull * (apart * state.known[targets]).mean()

        return pulled

    def unruled(self) -> str:
        """A class may be one site's alone."""
        return (
            "adds up features class by class, and what one site alone has of a class no rule would believe; "
            'set robust.rule = "bound"'
        )

    def weights_at(self, site: Site, shared: Weights) -> Weights:
        """The site's own, or the initial ones before it has trained."""
        return site.recall(OwnModel, OwnModel(shared)).weights

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:
        """The length of a prototype."""
        return {"features": weights[cast("ClassTask", task).classifier].shape[1]}
