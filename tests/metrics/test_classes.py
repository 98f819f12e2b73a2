"""Counts of right and wrong add up over sites, and the figures made of them are the usual ones."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from wardround.metrics.classes import class_counts, class_layout, class_metrics

CLASSES = 4
EXAMPLES = st.lists(st.tuples(st.integers(0, CLASSES - 1), st.integers(0, CLASSES - 1)), max_size=40)


def counts(examples: list[tuple[int, int]]) -> dict[str, Tensor]:
    """Counts of (true, predicted) pairs; each example costs a loss of 1/4 more than the class's number."""
    labels = torch.tensor([true for true, _ in examples], dtype=torch.int64)
    predicted = torch.tensor([guess for _, guess in examples], dtype=torch.int64)
    scores = torch.nn.functional.one_hot(predicted, CLASSES).double()  # (B, classes)
    return class_counts(scores, labels, (labels + 0.25).double().sum())


def added(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    layout = class_layout(CLASSES).shapes
    return {name: sum((part[name] for part in parts), torch.zeros(shape).double()) for name, shape in layout.items()}


def plain(numbers: dict[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.tolist() for name, tensor in numbers.items()}


def reference(examples: list[tuple[int, int]]) -> dict[str, float]:
    """The figures by their definitions, example by example."""
    if not examples:
        return {}
    scores = []
    for c in {c for pair in examples for c in pair}:
        hits = sum(true == guess == c for true, guess in examples)
        precision = hits / max(sum(guess == c for _, guess in examples), 1)
        recall = hits / max(sum(true == c for true, _ in examples), 1)
        scores.append(2 * precision * recall / (precision + recall) if hits else 0.0)
    return {
        "accuracy": sum(true == guess for true, guess in examples) / len(examples),
        "macro_f1": math.fsum(scores) / len(scores),
        "loss": math.fsum(true + 0.25 for true, _ in examples) / len(examples),
        "examples": float(len(examples)),
    }


@given(sites=st.lists(EXAMPLES, min_size=1, max_size=6))
def test_counts_add_over_any_split(sites: list[list[tuple[int, int]]]) -> None:
    """However examples lie on sites, the sum of the sites' counts is the counts of all."""
    pooled = [example for site in sites for example in site]
    assert plain(counts(pooled)) == plain(added([counts(site) for site in sites]))


@given(examples=EXAMPLES)
def test_figures_are_the_definitions(examples: list[tuple[int, int]]) -> None:
    """Accuracy, macro-F1 over the classes that occur, and mean loss, as worked out example by example."""
    assert reference(examples) == pytest.approx(class_metrics(counts(examples)), abs=1e-12)


def test_figures_of_a_small_case() -> None:
    """By hand: F1 of class 0 is 2/3, of class 1 is 1/2, of class 2 (only ever guessed) 0; class 3 does not occur."""
    examples = [(0, 0), (0, 2), (1, 1), (1, 2), (1, 2)]
    figures = class_metrics(counts(examples))
    assert {"accuracy": 2 / 5, "macro_f1": (2 / 3 + 1 / 2 + 0) / 3, "loss": 0.85, "examples": 5} == pytest.approx(
        figures
    )


def test_without_examples_there_are_no_figures() -> None:
    """Nothing, rather than zero or NaN."""
    assert {} == class_metrics(counts([]))
    assert {} == class_metrics(added([]))


def test_counts_have_the_declared_layout_and_are_double() -> None:
    """Names, shapes and dtype are those that the manifest checks on arrival; doubles add exactly."""
    made = counts([(0, 1)])
    assert class_layout(CLASSES).shapes == {name: tuple(tensor.shape) for name, tensor in made.items()}
    assert {torch.float64} == {tensor.dtype for tensor in made.values()}
