"""FedLC: rare classes get a larger margin in a site's softmax.

Zhang et al., "Federated Learning with Label Distribution Skew via Logits Calibration", ICML 2022.

    local loss CE(scores − τ n_c^(−1/4), y),   n_c how many examples of class c the site has

Absent classes count as 1e-8 examples, which takes them out of the softmax: a site that has only one class then learns
nothing. With `absent = 1` they stay in it. The count of labels stays at the site, and evaluation is by the plain
scores.

Departure: the printed loss leaves the example's own class out of the denominator, and then has no lower bound;
this is the cross-entropy over all classes that public code trains with.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.site import Site
from wardround.core.task import Batch
from wardround.core.training import Loss
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedLC(FedAvg):
    """FedAvg whose sites lower each class's score by a margin, the larger the rarer it is."""

    beyond_training: ClassVar[str] = "its loss is shifted by how many notes of each class a site has"

    classifier: ClassVar[bool] = True

    tau: Annotated[float, Ge(0)] = 1.0
    """τ: how large the margin is; 0 is FedAvg."""
    absent: Annotated[float, Gt(0)] = 1e-8
    """As how many examples a class counts that the site has none of; 1 keeps it in the softmax."""

    def loss(self, site: Site, weights: Weights) -> Loss:
        """Cross-entropy of the calibrated scores."""
        task = site.class_task
        margin = self.margin(task.tally(site.data.train).to(weights.flat.dtype))

        def calibrated(model: nn.Module, batch: Batch) -> Tensor:
            scores = task.scores(model, task.features(model, batch))  # (B, classes)
            return functional.cross_entropy(scores - margin, task.targets(batch))

        return calibrated

    def margin(self, tally: Tensor) -> Tensor:
        """What each class's score is lowered by (classes,)."""
        margin: Tensor = self.tau * tally.clamp(min=self.absent) ** -0.25
        return margin
