"""Figures of relations: the oracle's numbers, and which there are."""

import math

import pytest
import torch
from torch import Tensor

import oracle
from wardround.metrics.classes import class_counts
from wardround.metrics.relations import DEFINITIONS, relation_metrics


def counted(gold: list[int], predicted: list[int], classes: int) -> dict[str, Tensor]:
    scores = torch.nn.functional.one_hot(torch.tensor(predicted), classes).float()
    return class_counts(scores, torch.tensor(gold), torch.tensor(3.0))


@pytest.mark.parametrize("case", oracle.params("re_micro_f1"))
def test_figures_are_those_of_opennre_and_scikit_learn(case: oracle.Case) -> None:
    given, expected = case["inputs"], case["expected"]
    labels = [str(number) for number in range(given["num_classes"])]
    negative = given["negative_class"]
    actual = relation_metrics(
        counted(given["gold"], given["pred"], len(labels)), labels, labels[negative] if negative >= 0 else ""
    )

    def same(ours: str, theirs: float) -> None:
        assert math.isclose(theirs, actual[ours], rel_tol=0, abs_tol=1e-12), ours

    same("accuracy", expected["accuracy"])
    same("macro_f1", expected["macro_f1_all"])
    for label, figures in expected["per_class"].items():
        same(f"f1[{label}]", figures["f1"])
    if negative < 0:
        same("micro_f1", expected["micro_f1"])
        return
    several = len(labels) > 2
    for name in ("f1", "precision", "recall"):
        same(f"micro_{name}_without_negative" if several else f"positive_{name}", expected[f"micro_{name}"])
    if several:
        same("macro_f1_without_negative", expected["macro_f1_without_negative"])
    else:
        same("positive_f1", expected["per_class"][str(1 - negative)]["f1"])


def test_a_figure_says_in_its_name_what_it_leaves_out() -> None:
    counts = counted([0, 1, 2], [0, 1, 1], 3)
    with_negative, without = (list(relation_metrics(counts, ("none", "a", "b"), which)) for which in ("none", ""))
    assert ["micro_f1_without_negative", "micro_precision_without_negative"] == with_negative[:2]
    assert "micro_f1" not in with_negative
    assert ["micro_f1", "macro_f1", "accuracy", "loss", "examples", "f1[none]", "f1[a]", "f1[b]"] == without
    binary = relation_metrics(counted([0, 1], [1, 1], 2), ("0", "1"), "0")
    assert ["positive_f1", "positive_precision", "positive_recall"] == list(binary)[:3]
    for name in {*with_negative, *without, *binary} - {"examples"}:
        assert name.partition("[")[0] in DEFINITIONS


def test_without_examples_there_is_no_figure() -> None:
    empty = {"hits": torch.zeros(2), "false_alarms": torch.zeros(2), "misses": torch.zeros(2), "loss": torch.zeros(())}
    assert {} == relation_metrics(empty, ("a", "b"))
