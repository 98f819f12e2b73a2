"""SCAFFOLD: control variates against the drift of sites.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020, option II.

    y ← y − η (g − c_i + c),   c_i⁺ = c_i − c + (x − y)/(steps·η)
    x ← x + η_g mean Δ,        c ← c + Σ_S Δc_i / K

The paper's mean is uniform: a site with one example moves the model as far as one with 840. `mean = "weighted"` goes by
the sites' numbers of examples, as NIID-Bench does; the controls are added up as before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt

from wardround.core.cohort import Cohort
from wardround.core.method import Method, on_site
from wardround.core.record import Message, Private, reveals
from wardround.core.site import Site
from wardround.core.training import LocalTraining, Tilt
from wardround.core.weights import Weights


class Controlled(Message):
    """The shared model and the shared control; also the state."""

    weights: Weights = reveals("nothing about the receiver; what all sites together have taught the model")
    control: Weights = reveals("nothing about the receiver; the mean drift of all sites")


class ScaffoldUpdate(Message):
    """What a site's training changed in the model and in its control."""

    change: Weights = reveals("how the site's notes move the model; can give away words whose weights are trained")
    control: Weights = reveals("how the site's drift changed; as telling as a mean gradient")
    weight: int = reveals("how many training examples the site has (or 1 under a uniform mean)", weighs="train")


class OwnControl(Private):
    """A site's control: its own mean gradient, which stays there."""

    control: Weights


@dataclass(frozen=True, kw_only=True)
class Scaffold(LocalTraining, Method[Controlled]):
    """Corrects each site's drift by control variates that the sites keep."""

    beyond_training: ClassVar[str] = ""
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"fit": {"change": "weight", "control": ""}}
    suits: ClassVar[tuple[str, ...]] = ("sgd",)
    refuses: ClassVar[Mapping[str, str]] = {"momentum": "its controls are mean gradients of plain steps; leave it out"}

    server_lr: Annotated[float, Gt(0)] = 1.0
    """How far the coordinator goes along the sites' mean change."""
    mean: Literal["weighted", "uniform"] = "uniform"
    """Whether a site counts by its number of examples, or all sites count alike as in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer != "sgd":
            raise ValueError('scaffold\'s controls are mean gradients of SGD steps; set optimizer = "sgd"')

    def start(self, weights: Weights, cohort: Cohort) -> Controlled:  # noqa: ARG002
        """The initial model and a control of zero."""
        return Controlled(weights, weights.zeros())

    def round(self, state: Controlled, cohort: Cohort) -> Controlled:
        """`x` + η_g mean Δ, c + Σ Δc / K."""
        total = cohort.total(self.fit, state)
        return Controlled(
            state.weights + total.change * (self.server_lr / max(total.weight, 1)),
            state.control + total.control / cohort.sites,
        )

    @on_site
    def fit(self, model: Controlled, site: Site) -> ScaffoldUpdate:
        """Train against the difference of the controls, then renew the site's own."""
        own = site.recall(OwnControl, OwnControl(model.control.zeros())).control
        trained = self.train(site, model.weights, [Tilt(model.control - own)])
        change = trained.weights - model.weights
        weight = site.size if self.mean == "weighted" else 1
        if trained.steps == 0:
            return ScaffoldUpdate(change, change, weight)
        renewed = own - model.control - change / (trained.steps * trained.lr)
        site.keep(OwnControl(renewed))
        return ScaffoldUpdate(change * weight, renewed - own, weight)

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- it says the same of all
        """Under a uniform mean every site weighs 1."""
        if self.mean == "uniform" and isinstance(reply, ScaffoldUpdate) and reply.weight != 1:
            return "ScaffoldUpdate.weight should be 1"
        return None
