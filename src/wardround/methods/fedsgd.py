"""FedSGD: one full-batch gradient from each site, one step at the coordinator.

McMahan et al. 2017 (see `fedavg.py`); FLCMC eq. 3.

    θ ← θ − η Σ n_k/n · g_k
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.training import LocalTraining, one_step
from wardround.core.weights import Weights


class Gradient(Message):
    """The gradient of a site's loss, weighted, and the weight."""

    gradient: Weights = reveals("how the site's notes would move the model; can give away words and labels")
    examples: int = reveals("how many training examples the site has", weighs="train")


@dataclass(frozen=True, kw_only=True)
class FedSGD(LocalTraining, Method[Global]):
    """Sums the sites' gradients and takes one step; `batch` only bounds memory."""

    beyond_training: ClassVar[str] = ""
    means: ClassVar[Mapping[str, Mapping[str, str]]] = {"grade": {"gradient": "examples"}}
    suits: ClassVar[tuple[str, ...]] = ("sgd",)
    single_pass: ClassVar[bool] = True
    refuses: ClassVar[Mapping[str, str]] = one_step("the coordinator takes one plain step a round")

    batch: Annotated[int, Ge(0)] = 1024
    """Examples at a time; the gradient is the same whatever it is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer != "sgd" or self.epochs != 1 or self.steps:
            raise ValueError("fedsgd takes one full-batch SGD step a round; leave optimizer, epochs and steps out")

    @property
    def per_step(self) -> int:
        """All: under differential privacy, a gradient of all units is noised as it is."""
        return 0

    def start(self, weights: Weights, cohort: Cohort) -> Global:  # noqa: ARG002
        """The initial model."""
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        """θ − η Σ n_k g_k / Σ n_k; unchanged if nobody had an example."""
        total = cohort.total(self.grade, state)
        if total.examples == 0:
            return state
        return Global(state.weights - total.gradient * (self.lr_in(cohort.round) / total.examples))

    @on_site
    def grade(self, model: Global, site: Site) -> Gradient:
        """The gradient over all of the site's examples."""
        examples = site.size
        return Gradient(self.full_gradient(site, model.weights) * examples, examples)
