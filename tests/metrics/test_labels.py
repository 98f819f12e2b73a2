"""Counts and figures of texts with several labels."""

import pytest
import torch

from wardround.metrics.labels import label_counts, label_layout, label_metrics


def test_counts_and_figures_of_a_small_case_by_hand() -> None:
    scores = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-1.0, -2.0]])
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    counts = label_counts(scores, labels, torch.tensor(1.5))
    assert [1.0, 1.0] == counts["hits"].tolist()
    assert [1.0, 0.0] == counts["false_alarms"].tolist()
    assert [0.0, 1.0] == counts["misses"].tolist()
    figures = label_metrics(counts)
    assert pytest.approx(2 * 2 / (2 * 2 + 1 + 1)) == figures["micro_f1"]
    assert pytest.approx((2 / 3 + 2 / 3) / 2) == figures["macro_f1"]
    assert pytest.approx(1 / 3) == figures["exact"]
    assert pytest.approx(0.5) == figures["loss"]


def test_counts_have_the_declared_layout_and_no_text_gives_no_figure() -> None:
    counts = label_counts(torch.empty(0, 3), torch.empty(0, 3), torch.tensor(0.0))
    assert {name: tuple(tensor.shape) for name, tensor in counts.items()} == label_layout(3).shapes
    assert label_metrics(counts) == {}
