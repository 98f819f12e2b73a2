"""MOON: a site's features stay near the shared model's and move away from those it had last.

Li, He and Song, "Model-Contrastive Federated Learning", CVPR 2021.

    local loss CE + μ · mean −log( e^{cos(z, z_glob)/T} / (e^{cos(z, z_glob)/T} + e^{cos(z, z_prev)/T}) )

z is what the classifier sees of an example: in the paper the output of a projection head of two layers, which is a
setting of the task. z_glob and z_prev are those of the shared model and of the site's own model of its last round;
both stand still during the local work, so they are computed once per round, without dropout as in the authors'
code. The previous model is the site's own memory and never leaves it.

In its first round a site has no previous model. The authors' code then leaves the contrast out; with previous =
global, which the paper's algorithm has, its gradient is zero. Both are FedAvg, and so is this.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.record import Private
from wardround.core.site import Site
from wardround.core.task import Batch
from wardround.core.training import Loss, outputs
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg


class PreviousModel(Private):
    """The model in which a site's last training ended, which stays there."""

    weights: Weights


@dataclass(frozen=True, kw_only=True)
class MOON(FedAvg):
    """FedAvg whose sites keep their features near the shared model's and away from their last."""

    beyond_training: ClassVar[str] = ""

    classifier: ClassVar[bool] = True

    mu: Annotated[float, Ge(0)] = 1.0
    """μ: the weight of the contrast beside the task's loss."""
    temperature: Annotated[float, Gt(0)] = 0.5
    """τ of the contrast: the smaller, the more the nearest features count."""

    def local(self, site: Site, weights: Weights) -> Weights:
        """Train, and remember where that led."""
        trained = super().local(site, weights)
        site.keep(PreviousModel(trained))
        return trained

    def loss(self, site: Site, weights: Weights) -> Loss:
        """Cross-entropy and μ times the contrast of the two models' features."""
        task, train = site.class_task, site.data.train
        previous = site.recall(PreviousModel, PreviousModel(weights)).weights
        if previous == weights or not len(train):
            return task.loss
        near = outputs(site, weights, train, task.features)  # (examples, features)
        far = outputs(site, previous, train, task.features)  # (examples, features)

        def contrasted(model: nn.Module, batch: Batch) -> Tensor:
            features, rows = task.features(model, batch), task.rows(batch)
            entropy = functional.cross_entropy(task.scores(model, features), task.targets(batch))
            return entropy + self.mu * contrast(features, near[rows], far[rows], temperature=self.temperature)

        return contrasted


def contrast(features: Tensor, near: Tensor, *far: Tensor, temperature: float) -> Tensor:
    """How hard it is to tell, by cosine, that features (B, D) belong to `near` and not to any of `far`."""
    cosines = torch.stack([functional.cosine_similarity(features, other) for other in (near, *far)], 1)  # (B, 1 + far)
    return functional.cross_entropy(cosines / temperature, torch.zeros(len(features), dtype=torch.int64))
