"""FedCMC: sites contrast their features with the best classifier vector that any site has for each class.

Du, He and Jin, "Contrast with Major Classifier Vectors for Federated Medical Relation Extraction with Heterogeneous
Label Distribution".

    site:   CE + μ · mean_i CE(h_i · majorᵀ, y_i)                                   (eqs. 14–15)
    server: θ as FedAvg;  d_{k,c} = mean_{i≠c} cos(Θ_{k,c}, Θ_{k,i})                (eq. 10)
            major_c = Θ_{k,c} of the site k with the smallest d_{k,c}               (eq. 12)

A class that a site has many examples of is little alike the site's other classes, so a small d tells who knows the
class best. Majors stand still during the local work; at first they are the shared classifier. Weights are totalled.
The classifier vectors are asked for one by one, in a second exchange. With `buckets` nobody's are seen: sites say
in which of so many buckets from −1 to 1 their d_{k,c} falls, as a row of zeros with a one; of the sum, the lowest
bucket that somebody is in is announced, and whoever is in it adds its vector and a count to a further sum. Those who
share it are averaged. Where a layer shows only sums (secure aggregation) there are buckets in any case. The ablations
take the vector with the largest similarity (`minor`, eq. 18) or of any site (`random`; in buckets, of who draws the
lowest).

With two classes d_{k,1} = d_{k,2}, so both majors come from one site; FedCMC was no better than FedAvg there
(studies/fedcmc), so a run warns. The similarities of every round, by site and class, are in the run's journal
(figure 1).

A dot product can be raised by longer features, which the next round's majors then follow: with three local epochs
and SGD this ran to infinity. So the default is not the paper's: with `temperature = 0.1` the contrast is by cosine,
which ran to infinity less often, and had the higher mean F1 under strong skew (studies/fedcmc); `temperature = 0` is
eq. 14.

Departures: eq. 10 prints Θ_{k,c} twice; eq. 14 sums over examples, and here it is the mean, as the cross-entropy of
eq. 3 is; eq. 11 is not needed. The paper's classifier has no bias; where a task has one, the contrast leaves it out.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self, cast

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.cohort import Cohort
from wardround.core.method import Method, on_site
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.task import Batch, ClassTask, Task
from wardround.core.training import LocalTraining, Loss
from wardround.core.weights import Weights
from wardround.methods.buckets import bucket, highest, lowest, one_hot, proper
from wardround.methods.fedavg import Update

TOO_FEW = 2
BUCKETS = 1024

log = logging.getLogger(__name__)


class Guided(Message):
    """The shared model and the vectors to contrast with; also the state."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    majors: Tensor | None = reveals(
        "for each class, the classifier vector of one site, which is not named: not an average over sites",
        shape=("classes", "features"),
        bounded=True,
    )


class Wanted(Message):
    """That the classifier vectors of the site's own model are wanted."""


class Vectors(Message):
    """The classifier vectors of one site's own model, which the coordinator sees by themselves."""

    vectors: Tensor = reveals(
        "which classes the site has many or few examples of: by how alike its vectors are",
        shape=("classes", "features"),
        bounded=True,
    )


class Ranks(Message):
    """For each class, how alike the classifier vectors of a site's own model are, as one of some buckets."""

    buckets: Tensor = reveals(
        "which classes the site has many or few examples of: by how alike its vectors are",
        shape=("classes", "buckets"),
        dtype=torch.int8,
    )


class Leading(Message):
    """For each class, the bucket of those whose vectors are wanted."""

    buckets: Tensor = reveals(
        "how alike the vectors of a site are that is not named", shape=("classes",), dtype=torch.int64
    )


class Led(Message):
    """The classifier vectors of a site's own model for the classes that it leads in, and zeros for the others."""

    vectors: Tensor = reveals(
        "for a class that the site leads in, its classifier vector", shape=("classes", "features")
    )
    sites: Tensor = reveals("which classes the site leads in", shape=("classes",), dtype=torch.int64)


class OwnRanks(Private):
    """The bucket of each class that a site has reported in this round."""

    buckets: Tensor


class OwnVectors(Private):
    """The classifier vectors that a site's training ended in, until they are asked for."""

    vectors: Tensor


@dataclass(frozen=True, kw_only=True)
class FedCMC(LocalTraining, Method[Guided]):
    """FedAvg whose sites contrast their features with the best classifier vectors of all sites."""

    beyond_training: ClassVar[str] = ""
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"fit": {"change": "weight"}}
    classifier: ClassVar[bool] = True

    mu: Annotated[float, Ge(0)] = 1.0
    """μ: the weight of the contrast beside the task's loss."""
    contrast: Literal["major", "minor", "random", "none"] = "major"
    """Whose vectors to contrast with: per class the least or most similar, any site's, or without contrast."""
    temperature: Annotated[float, Ge(0)] = 0.1
    """If not 0: the contrast is by cosine, divided by this, and not by eq. 14's dot product, which ran to infinity."""

    buckets: Annotated[int, Ge(2), Le(65536)] | None = None
    """If given, the coordinator finds out from sums alone whose vectors to take, by similarity in this many buckets; if
    not, it sees each site's vectors, or there are 1024 where a layer shows only sums."""

    def start(self, weights: Weights, cohort: Cohort) -> Guided:
        """The initial model and its own classifier."""
        task = cohort.hub.class_task
        if self.contrast == "none":
            return Guided(weights, None)
        if len(task.labels) == TOO_FEW:
            log.warning("FedCMC with two classes takes both majors from one site, and was no better than FedAvg")
        return Guided(weights, weights[task.classifier].clone())

    def round(self, state: Guided, cohort: Cohort) -> Guided:
        """θ + Σ n_k Δ_k / Σ n_k, then per class the chosen site's vector."""
        total = cohort.total(self.fit, state)
        weights = state.weights + total.change / total.weight if total.weight else state.weights
        if self.contrast == "none":
            return Guided(weights, None)
        if self.buckets:
            return Guided(weights, self.led(cast("Tensor", state.majors), cohort))
        replies = cohort.ask(self.show, Wanted())
        vectors = torch.stack([reply.vectors for reply in replies.values()])  # (sites, classes, features)
        similarities = similarity(vectors)  # (sites, classes)
        labels = cohort.hub.class_task.labels
        cohort.noted["similarity"] = {
            name: dict(zip(labels, row, strict=True)) for name, row in zip(replies, similarities.tolist(), strict=True)
        }
        chosen = self.chosen(similarities, cohort.hub.rng)  # (classes,)
        return Guided(weights, vectors[chosen, torch.arange(len(labels))])

    def exchanges(self, examples: int) -> Mapping[str, int]:  # noqa: ARG002
        """One, and one for the vectors if there is a contrast; by sums two."""
        if self.contrast == "none":
            return {"fit": 1}
        return {"fit": 1, "rank": 1, "lead": 1} if self.buckets else {"fit": 1, "show": 1}

    def in_sums(self) -> Self:
        """By buckets."""
        return self if self.contrast == "none" else replace(self, buckets=self.buckets or BUCKETS)

    def led(self, majors: Tensor, cohort: Cohort) -> Tensor:
        """For each class the mean vector of those in the outermost bucket; as before, if they are gone meanwhile."""
        histogram = cohort.total(self.rank, Wanted()).buckets  # (classes, buckets)
        chosen = highest(histogram) if self.contrast == "minor" else lowest(histogram)  # (classes,)
        labels, width = cohort.hub.class_task.labels, 2 / histogram.shape[1]
        total = cohort.total(self.lead, Leading(chosen))
        values = {"bucket": (chosen + 0.5) * width - 1, "sites": total.sites.double()}
        cohort.noted["leading"] = {name: dict(zip(labels, row.tolist(), strict=True)) for name, row in values.items()}
        means = total.vectors / total.sites.clamp(min=1)[:, None].to(total.vectors.dtype)
        return torch.where((total.sites > 0)[:, None], means, majors)

    def unruled(self) -> str:
        """One site is believed for each class, unless there is no contrast."""
        if self.contrast == "none":
            return super().unruled()
        return (
            "takes for each class the vector of one site, who may be the one that lies; "
            'set contrast = "none", or take fedavg'
        )

    def chosen(self, similarity: Tensor, rng: torch.Generator) -> Tensor:
        """For each class, the row of the site whose vector is taken (classes,); of equals, the first."""
        if self.contrast == "random":
            return torch.randint(len(similarity), similarity.shape[1:], generator=rng)
        return similarity.argmax(0) if self.contrast == "minor" else similarity.argmin(0)

    @on_site
    def fit(self, model: Guided, site: Site) -> Update:
        """Train on the site's own examples, in contrast with the majors."""
        weight = site.size
        loss = site.task.loss if model.majors is None else self.loss(site.class_task, model.majors)
        trained = self.train(site, model.weights, loss=loss).weights
        if model.majors is not None:
            site.keep(OwnVectors(trained[site.class_task.classifier]))
        return Update((trained - model.weights) * weight, weight)

    @on_site
    def show(self, wanted: Wanted, site: Site) -> Vectors:  # noqa: ARG002
        """The vectors that the site's training has just ended in."""
        site.stands_on(site.size)
        return Vectors(site.recall(OwnVectors).vectors)

    @on_site
    def rank(self, wanted: Wanted, site: Site) -> Ranks:  # noqa: ARG002
        """How alike the vectors of each class are that the site's training has just ended in."""
        site.stands_on(site.size)
        vectors, buckets = site.recall(OwnVectors).vectors, cast("int", self.buckets)
        if self.contrast == "random":
            shares = torch.rand(len(vectors), generator=site.rng)
        else:
            shares = (similarity(vectors[None])[0] + 1) / 2  # (classes,)
        own = bucket(shares, buckets)
        site.keep(OwnRanks(own))
        return Ranks(one_hot(own, buckets))

    @on_site
    def lead(self, leading: Leading, site: Site) -> Led:
        """The vectors of the classes that the site leads in."""
        site.stands_on(site.size)
        mine = site.recall(OwnRanks).buckets == leading.buckets  # (classes,)
        return Led(site.recall(OwnVectors).vectors * mine[:, None], mine.long())

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- it says the same of all
        """A site is in one bucket of each class, and counts once."""
        if isinstance(reply, Ranks) and not proper(reply.buckets):
            return "Ranks.buckets has more than a one in a row"
        if isinstance(reply, Led) and not proper(reply.sites[:, None]):
            return "Led.sites counts the site more than once"
        return None

    def loss(self, task: ClassTask, majors: Tensor) -> Loss:
        """Cross-entropy by the site's own classifier, and μ times that by the majors."""

        def contrasted(model: nn.Module, batch: Batch) -> Tensor:
            features, targets = task.features(model, batch), task.targets(batch)  # (B, features), (B,)
            entropy = functional.cross_entropy(task.scores(model, features), targets)
            alike = features @ majors.T  # (B, classes)
            if self.temperature:
                lengths = features.norm(dim=-1, keepdim=True) * majors.norm(dim=-1)  # (B, classes)
                alike = alike / (lengths.clamp(min=1e-6) * self.temperature)
            return entropy + self.mu * functional.cross_entropy(alike, targets)  # eq. 15

        return contrasted

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:
        """The length of a classifier vector, and how many buckets there are."""
        return {"features": weights[cast("ClassTask", task).classifier].shape[1], "buckets": self.buckets or 0}


def similarity(vectors: Tensor) -> Tensor:
    """For each site and class, the mean cosine of its vector with the site's other vectors (sites, classes)."""
    directions = functional.normalize(vectors, dim=-1)  # (sites, classes, features)
    cosines = directions @ directions.transpose(1, 2)  # (sites, classes, classes)
    others = cosines.masked_fill(torch.eye(vectors.shape[1], dtype=torch.bool), 0)  # (sites, classes, classes)
    return others.sum(-1) / (vectors.shape[1] - 1)  # eq. 10
