"""FedRS: classes that a site does not have are held back in its softmax.

Li and Zhan, "FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID Data", KDD 2021.

    local loss CE(a ⊙ scores, y),   a_c = α for classes without a local example, else 1

Without its examples a class's vector is only ever pushed away; α < 1 makes the push weaker. The count of labels
stays at the site, and evaluation is by the plain scores.

The authors' code restricts every class by its share: a_c = (n_c / max n)(1 − α) + α (`by_share`). Both are meant for
a classifier without bias; where a task has one, it is scaled too.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.site import Site
from wardround.core.task import Batch
from wardround.core.training import Loss
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedRS(FedAvg):
    """FedAvg whose sites hold back, in their softmax, the classes that they do not have."""

    beyond_training: ClassVar[str] = "its loss is scaled by which classes a site has notes of"

    classifier: ClassVar[bool] = True

    alpha: Annotated[float, Ge(0), Le(1)] = 0.5
    """α: what the scores of classes without a local example are multiplied by."""
    by_share: bool = False
    """Whether all classes are restricted, each by its share, as in the authors' code."""

    def loss(self, site: Site, weights: Weights) -> Loss:
        """Cross-entropy of the restricted scores."""
        task = site.class_task
        scale = self.scale(task.tally(site.data.train).to(weights.flat.dtype))

        def restricted(model: nn.Module, batch: Batch) -> Tensor:
            scores = task.scores(model, task.features(model, batch))  # (B, classes)
            return functional.cross_entropy(scores * scale, task.targets(batch))

        return restricted

    def scale(self, tally: Tensor) -> Tensor:
        """What each class's score is multiplied by (classes,)."""
        share = tally / tally.max().clamp(min=1) if self.by_share else (tally > 0).to(tally.dtype)
        return share * (1 - self.alpha) + self.alpha
