"""Small counts stay at home: of a label with few examples nothing is told, in the matrix and the ranks as well."""

from typing import Any, cast

import torch

from wardround.core.method import Counts
from wardround.core.weights import Weights
from wardround.layers.small_counts import SmallCounts
from wardround.metrics.classes import class_counts, class_metrics

NOBODY = cast("Any", None)


def counts(labels: torch.Tensor, classes: int) -> tuple[Weights, Weights]:
    """Counts before and after; each third answer is the next class."""
    answers = (labels + (torch.arange(len(labels)) % 3 == 0).long()) % classes
    before = Weights(class_counts(torch.eye(classes)[answers], labels, torch.tensor(10.0)))
    after = cast("Counts", SmallCounts(10).leave(Counts(before), NOBODY)).numbers
    return before, after


def test_a_label_with_few_examples_is_in_no_count() -> None:
    before, after = counts(torch.tensor([0] * 20 + [1] * 4 + [2] * 30), 3)
    for name in ("hits", "misses"):
        assert 0 == after[name][1]
        assert before[name][[0, 2]].tolist() == after[name][[0, 2]].tolist()
    assert [float(before["confusion"][2, 0]), 0, 0] == after["false_alarms"].tolist()
    assert 0 == after["confusion"][1].sum() == after["confusion"][:, 1].sum()
    assert before["confusion"][2][[0, 2]].tolist() == after["confusion"][2][[0, 2]].tolist()
    assert float(before["loss"]) * 50 / 54 == float(after["loss"])


def test_the_matrix_does_not_give_away_what_a_small_label_was_taken_for() -> None:
    """False alarms less the matrix would be its misses, answer by answer."""
    before, after = counts(torch.tensor([0] * 20 + [1] * 4 + [2] * 30), 3)
    assert 0 < before["confusion"][1, 2]
    matrix = after["confusion"]
    assert (matrix.sum(0) - matrix.diagonal()).tolist() == after["false_alarms"].tolist()


def test_of_two_classes_the_ranks_of_the_small_one_stay_and_with_them_the_area() -> None:
    _, after = counts(torch.tensor([0] * 20 + [1] * 4), 2)
    assert (20, 0) == tuple(after["ranking"].sum(1).int().tolist())
    assert "auc" not in class_metrics(after)


def test_enough_of_all_changes_nothing() -> None:
    before, after = counts(torch.tensor([0, 1] * 20), 2)
    assert {name: value.tolist() for name, value in before.items()} == {n: v.tolist() for n, v in after.items()}
