"""Methods for skewed labels: their losses are the oracles', and what they know of labels stays at the site."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import oracle
from double import DoubleFeatures
from oracle import same
from quadratic import lonely
from wardround.core.training import Bench
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg
from wardround.methods.fedlc import FedLC
from wardround.methods.fedrs import FedRS
from wardround.tasks.features import FeatureRows


def tensor(numbers: Any) -> Tensor:
    """Nested lists in double precision."""
    return torch.tensor(numbers, dtype=torch.float64)


def examples(labels: list[int], width: int) -> FeatureRows:
    """Rows that say nothing, with these labels."""
    return FeatureRows(torch.zeros(len(labels), width, dtype=torch.float64), torch.tensor(labels, dtype=torch.int64))


class Judged:
    """A method's loss on one batch at a site with so many examples of each class, and its gradients."""

    def __init__(self, method: FedAvg, classifier: Tensor, inputs: Any, labels: list[int], counts: list[int]) -> None:
        classes, width = classifier.shape
        task = DoubleFeatures(width, classes)
        held = examples([label for label, count in enumerate(counts) for _ in range(count)], width)
        site = lonely(task, held, folder=None)
        start = Weights({"linear.weight": classifier, "linear.bias": torch.zeros(classes, dtype=torch.float64)})
        loss = method.loss(site, start)
        model: nn.Module = Bench.of(task).load(start)
        batch = FeatureRows(tensor(inputs).requires_grad_(), torch.tensor(labels))
        Bench.of(task).gradient.zero_()
        self.loss = loss(model, batch)
        self.loss.backward()  # type: ignore[no-untyped-call]
        self.inputs = batch.inputs.grad
        self.classifier = model.get_parameter("linear.weight").grad


@pytest.mark.parametrize("reading", ["paper", "code"])
@pytest.mark.parametrize("case", oracle.params("fedrs"))
def test_oracle_fedrs(case: oracle.Case, reading: str) -> None:
    """Scores of missing classes are scaled down, or of all classes by their share as in the authors' code."""
    inputs, expected = case["inputs"], case["expected"][reading]
    method = FedRS(alpha=inputs["alpha"], by_share=reading == "code")
    same("fedrs", expected["scale"], method.scale(tensor(inputs["class_counts"])))
    features, labels, counts = inputs["features"], inputs["labels"], inputs["class_counts"]
    judged = Judged(method, tensor(inputs["W"]), features, labels, counts)
    same("fedrs", expected["loss"], judged.loss.detach())
    same("fedrs", expected["grad_W"], judged.classifier)
    same("fedrs", expected["grad_h"], judged.inputs)


@pytest.mark.parametrize("case", oracle.params("fedlc"))
def test_oracle_fedlc(case: oracle.Case) -> None:
    """Scores are lowered by a margin that grows with rarity; absent classes are out of the softmax."""
    inputs, expected = case["inputs"], case["expected"]
    method = FedLC(tau=inputs["tau"])
    same("fedlc", expected["margin"], method.margin(tensor(inputs["class_counts"])))
    scores, labels, counts = inputs["logits"], inputs["labels"], inputs["class_counts"]
    judged = Judged(method, torch.eye(len(counts), dtype=torch.float64), scores, labels, counts)
    same("fedlc", expected["loss_full_denominator"], judged.loss.detach())
    same("fedlc", expected["grad_logits_full"], judged.inputs)
    # loss_paper_excluding_target has no lower bound: nobody trains with it.


@pytest.mark.parametrize("kind", [FedRS, FedLC])
def test_the_count_of_labels_stays_at_the_site(kind: type[FedAvg]) -> None:
    """What leaves is what leaves in FedAvg: the loss is a site's own business."""
    assert FedAvg.declared() == kind.declared()
