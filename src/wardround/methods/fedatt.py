"""FedAtt: the farther a site has moved, the more it weighs.

Ji et al., "Learning Private Neural Language Modeling with Attentive Aggregation", IJCNN 2019.

    per tensor: a = softmax_k ‖Δ_k‖,  θ ← θ + ε Σ a_k Δ_k

The coordinator sees only sums. A softmax is a ratio of sums: a site sends e^(s−b)·Δ and e^(s−b) for its
distances s and a bound b that all are told, and the coordinator divides two totals. The bound follows the
distances from round to round; in a round whose distances it does not suit (they would overflow, or all vanish)
the exchange is repeated with a better one, which the sums themselves give.

Departures: Frobenius norms; the authors' code takes the spectral norm of matrices (`norm = "spectral"`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self, cast

import torch
from annotated_types import Gt, Le
from torch import Tensor

from wardround.core.cohort import Cohort
from wardround.core.method import Method, on_site
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.task import Task
from wardround.core.training import LocalTraining, Term
from wardround.core.weights import Weights

REACH = 60.0  # e^±60 times any change stays far within float32's range
NEAR = 12.0  # and e^±12 within what a sum in fixed point has room for
ATTEMPTS = 100
TINY = 1e-20  # a share that no sum would notice
NEARLY = 1e-3


class Bounded(Message):
    """The shared model, and the bound by which distances are shifted; also the state."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    bound: Tensor = reveals("nothing; an agreed shift of the distances", shape=("groups",), dtype=torch.float64)


class Attended(Message):
    """A site's change times its share of attention, and what the shares add up to."""

    change: Weights = reveals("how the site's notes move the model; can give away words whose weights are trained")
    attention: Tensor = reveals(
        "how far the site moved the model", shape=("groups",), dtype=torch.float64, weighs="attention"
    )
    distance: Tensor = reveals("how far the site moved the model", shape=("groups",), dtype=torch.float64)
    sites: int = reveals("nothing; counts the sites", weighs="sites")


class OwnChange(Private):
    """What a site's training has changed in a round, in case it is asked again."""

    round: int
    weights: Weights
    change: Weights


@dataclass(frozen=True, kw_only=True)
class FedAtt(LocalTraining, Method[Bounded]):
    """Weighs each site, tensor by tensor, by how far it has moved (softmax of distances)."""

    beyond_training: ClassVar[str] = ""

    repeats: ClassVar[int] = 3

    step: Annotated[float, Gt(0)] = 1.2
    """ε: how far to go along the attended change; above 1 extrapolates."""
    norm: Literal["frobenius", "spectral"] = "frobenius"
    """How the change of a matrix is measured; the authors' code has `spectral`."""
    per_tensor: bool = True
    """Whether each tensor has attention of its own, or one distance covers the whole model."""
    nearer: bool = False
    """Turns the attention around: nearer sites weigh more. From no paper."""
    reach: Annotated[float, Gt(1), Le(REACH)] = REACH
    """How far from the bound distances may lie before the exchange is repeated; 12 where a layer shows only sums."""

    def start(self, weights: Weights, cohort: Cohort) -> Bounded:  # noqa: ARG002
        """The initial model and no shift."""
        return Bounded(weights, torch.zeros(self._groups(weights), dtype=torch.float64))

    def round(self, state: Bounded, cohort: Cohort) -> Bounded:
        """θ + ε Σ e^s Δ / Σ e^s."""
        bound = state.bound
        reach = self.reach
        for _ in range(ATTEMPTS):
            total = cohort.total(self.fit, Bounded(state.weights, bound))
            level = total.attention.log()  # ≈ how far the largest distance lies above the bound
            if (level.abs() < reach - 1).all():  # a share that was cut off has level `reach`, but for rounding
                step = total.change.scaled(self._spread(self.step / total.attention, state.weights))
                return Bounded(state.weights + step, bound + level)
            mean = total.distance / total.sites
            higher, lower = torch.maximum(bound + reach, mean), torch.where(level.isinf(), mean, bound + level)
            bound = torch.where(level < reach - 1, lower, higher)
        raise ArithmeticError(f"the sites' distances lie more than {ATTEMPTS * reach:.0f} apart; lower lr or raise mu")

    def in_sums(self) -> Self:
        """With shares that fixed point has room for."""
        return replace(self, reach=min(self.reach, NEAR))

    def exchanges(self, examples: int) -> Mapping[str, int]:  # noqa: ARG002
        """One; another in the rare round whose distances lie beyond the shift that was agreed before."""
        return {"fit": 1}

    @on_site
    def fit(self, model: Bounded, site: Site) -> Attended:
        """Train on the site's own examples and measure how far that led."""
        change = self._change(site, model.weights)
        distance = self.distance(change) * (-1 if self.nearer else 1)
        attention = (distance - model.bound).clamp(max=self.reach).exp()
        return Attended(change.scaled(self._spread(attention, change)), attention, distance, 1)

    def _change(self, site: Site, weights: Weights) -> Weights:
        """What training makes of these weights; asked once more in a round, a site with a budget trains only once."""
        if site.guard and site.knows(OwnChange):
            known = site.recall(OwnChange)
            if known.round == site.exchange.round and known.weights == weights:
                site.stands_on(site.size)
                return known.change
        change = self.train(site, weights, self.terms(weights)).weights - weights
        if site.guard:
            site.keep(OwnChange(site.exchange.round, weights, change))
        return change

    def contradiction(self, sent: Message, reply: Message) -> str | None:
        """A site's attention follows from its change, and both are there to be seen."""
        if not (isinstance(sent, Bounded) and isinstance(reply, Attended)):
            return None
        shares = reply.attention.clamp(min=TINY)
        distance = self.distance(reply.change.scaled(self._spread(1 / shares, reply.change)))
        distance = distance * (-1 if self.nearer else 1)
        attention = (distance - sent.bound).clamp(max=self.reach).exp()
        slack = NEARLY * (1 + distance.abs())  # what single precision leaves of a distance is in the exponent
        seen = shares > TINY
        if ((attention / shares).log().abs() > slack)[seen].any() or ((distance - reply.distance).abs() > slack)[
            seen
        ].any():
            return "Attended.attention does not follow from its change"
        return None

    def unruled(self) -> str:
        """Attention is what a rule would take away."""
        return "weighs sites by how far they moved, where a rule has all weigh alike; take fedavg or fedprox"

    def distance(self, change: Weights) -> Tensor:
        """‖Δ‖ per tensor, or once over all."""
        if not self.per_tensor:
            whole: Tensor = change.flat.double().norm().reshape(1)
            return whole
        norms: Tensor = change.norms(_spectral if self.norm == "spectral" else torch.linalg.vector_norm).double()
        return norms

    def terms(self, weights: Weights) -> Sequence[Term]:  # noqa: ARG002
        """What the local loss has beyond the task's."""
        return ()

    def sizes(self, task: Task, weights: Weights) -> Mapping[str, int]:  # noqa: ARG002
        """As many distances as tensors, or one."""
        return {"groups": self._groups(weights)}

    def _groups(self, weights: Weights) -> int:
        return len(weights) if self.per_tensor else 1

    def _spread(self, factors: Tensor, weights: Weights) -> Tensor:
        return factors.expand(len(weights))


def _spectral(tensor: Tensor) -> Tensor:
    """The largest singular value of a matrix; of anything else, the Euclidean norm."""
    norm = torch.linalg.matrix_norm(tensor, 2) if tensor.dim() == 2 else torch.linalg.vector_norm(tensor)
    return cast("Tensor", norm)
