"""Counts drawn anew have the size of those they are drawn from, and for single examples it is a bootstrap of these."""

import numpy as np
import pytest
import torch

from wardround.metrics.classes import class_counts, class_metrics
from wardround.metrics.entities import entity_counts, entity_metrics
from wardround.metrics.facts import fact_layout, fact_metrics
from wardround.metrics.labels import label_counts, label_metrics
from wardround.metrics.redrawn import class_redrawn, entity_redrawn, fact_redrawn, label_redrawn, one_by_one


def spread(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values))


def test_of_single_examples_it_is_the_bootstrap_over_them() -> None:
    rng, chance = np.random.default_rng(1), torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (90,), generator=chance)
    scores = torch.randn(90, 3, generator=chance) + 1.5 * torch.eye(3)[labels]
    counts = class_counts(scores, labels, torch.tensor(9.0))
    drawn = [class_metrics(one) for one in one_by_one(class_redrawn(counts, rng, 600))]
    again = []
    for _ in range(600):
        rows = torch.from_numpy(rng.integers(0, 90, 90))
        again.append(class_metrics(class_counts(scores[rows], labels[rows], torch.tensor(9.0))))
    for name in ("accuracy", "macro_f1"):
        expected, actual = spread([one[name] for one in again]), spread([one[name] for one in drawn])
        assert expected == pytest.approx(actual, rel=0.12)
    assert all(np.isnan(one["loss"]) for one in drawn)


def test_a_matrix_that_lacks_examples_is_not_drawn_from() -> None:
    """As of a site that leaves small counts out of it."""
    labels = torch.tensor([0, 1, 2] * 10)
    counts = class_counts(torch.eye(3)[labels], labels, torch.tensor(9.0))
    counts["confusion"] = counts["confusion"] * 0
    drawn = class_redrawn(counts, np.random.default_rng(0), 1)
    assert 30 == int(sum(drawn[name].sum() for name in ("hits", "false_alarms", "misses")))


def test_labels_entities_and_facts_are_drawn_by_their_shares() -> None:
    rng = np.random.default_rng(2)
    truth = (torch.rand(200, 3, generator=torch.Generator().manual_seed(0)) < 0.4).float()
    several = label_counts(truth * 2 - 1 + torch.tensor([0.0, 0.0, 1.5]), truth, torch.tensor(1.0))
    pairs = [([(0, 0, 2), (1, 3, 4)], [(0, 0, 2), (0, 3, 4)]), ([(1, 0, 1)], [(1, 0, 1)])] * 30
    actual = entity_counts(pairs, 2, 0, torch.tensor(1.0))
    facts = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in fact_layout(2).shapes.items()}
    facts["right"][100:140] = 5.0
    facts["wrong"][120:200] = 3.0
    facts["facts"] += 200
    drawn = {
        "micro_f1": [label_metrics(one)["micro_f1"] for one in one_by_one(label_redrawn(several, rng, 60))],
        "f1": [entity_metrics(one, ["a", "b"])["f1"] for one in one_by_one(entity_redrawn(actual, rng, 60))],
        "pr_auc": [fact_metrics(one)["pr_auc"] for one in one_by_one(fact_redrawn(facts, rng, 60))],
    }
    figures = {**label_metrics(several), **entity_metrics(actual, ["a", "b"]), **fact_metrics(facts)}
    for name, values in drawn.items():
        assert figures[name] == pytest.approx(np.mean(values), abs=0.02)
        assert 0.001 < np.std(values) < 0.1
    (one,) = one_by_one(entity_redrawn(actual, rng, 1))
    assert np.isnan(entity_metrics(one, ["a", "b"])["relaxed_f1"])
