"""The area under the ROC curve is the one of all pairs, whether scores are tiny or huge, and adds over sites."""

import pytest
import torch

from wardround.metrics.classes import class_counts, class_layout, class_metrics
from wardround.metrics.constant import class_chance, class_constant
from wardround.metrics.ranking import area, ranking_counts


def of_pairs(odds: torch.Tensor, labels: torch.Tensor) -> float:
    """How often an example of class 1 stands above one of class 0, ties half."""
    above = odds[labels == 1][:, None] - odds[labels == 0][None]
    return float(((above > 0).double() + (above == 0).double() / 2).mean())


@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_the_area_is_that_of_all_pairs_at_any_scale(scale: float) -> None:
    rng = torch.Generator().manual_seed(3)
    labels = (torch.rand(800, generator=rng) < 0.3).long()
    odds = scale * (torch.randn(800, generator=rng) + 0.8 * labels)
    scores = torch.stack([-odds / 2, odds / 2], 1)
    halves = [ranking_counts(scores[part], labels[part]) for part in (slice(0, 300), slice(300, None))]
    assert of_pairs(odds, labels) == pytest.approx(area(halves[0] + halves[1]), abs=0.002)


def test_a_perfect_order_is_one_and_all_alike_a_half() -> None:
    labels = torch.tensor([0, 0, 1])
    assert 1.0 == area(ranking_counts(torch.tensor([[0.0, -1], [0, 0], [0, 1]]), labels))
    assert 0.5 == area(ranking_counts(torch.zeros(3, 2), labels))
    assert area(ranking_counts(torch.zeros(2, 2), torch.tensor([1, 1]))) is None
    assert 0.5 == area(ranking_counts(torch.full((3, 2), torch.nan), labels))


def test_two_classes_have_an_area_and_more_have_none() -> None:
    labels = torch.tensor([0, 1, 1, 0])
    two = class_counts(torch.eye(2)[labels] * 3, labels, torch.tensor(1.0))
    assert 1.0 == class_metrics(two)["auc"]
    assert 0.5 == class_metrics(class_constant(two))["auc"] == class_metrics(class_chance(two))["auc"]
    assert {name: tuple(value.shape) for name, value in two.items()} == class_layout(2).shapes
    assert "auc" not in class_metrics(class_counts(torch.eye(3)[labels], labels, torch.tensor(1.0)))


def test_of_very_many_classes_no_matrix_is_sent() -> None:
    assert "confusion" in class_layout(100).shapes
    assert "confusion" not in class_layout(101).shapes
    counts = class_counts(torch.eye(101)[:5], torch.arange(5), torch.tensor(0.0))
    assert class_layout(101).shapes == {name: tuple(value.shape) for name, value in counts.items()}
