"""Strict and relaxed figures of entities, against the oracle and by hand."""

from typing import Any

import pytest
import torch

import oracle
from wardround.metrics.entities import DEFINITIONS, entity_classes, entity_counts, entity_layout, entity_metrics
from wardround.text.tags import spans

TYPES = ["DRUG", "ADE", "DISEASE"]


def figures(case: oracle.Case, *, scheme_only: bool) -> tuple[dict[str, Any], dict[str, float]]:
    """Counts and figures of an oracle's tags."""
    inputs = case["inputs"]

    def numbered(tags: list[str]) -> list[tuple[int, int, int]]:
        found, _ = spans(tags, inputs["scheme"], scheme_only=scheme_only)
        return [(TYPES.index(kind), start, end) for kind, start, end in found]

    pairs = [(numbered(g), numbered(p)) for g, p in zip(inputs["gold"], inputs["pred"], strict=True)]
    counts = entity_counts(pairs, len(TYPES), 0, torch.tensor(1.0))
    return counts, entity_metrics(counts, TYPES)


@pytest.mark.parametrize("case", oracle.params("ner_f1"))
@pytest.mark.parametrize("mode", ["lenient", "scheme"])
def test_oracle_ner_f1(case: oracle.Case, mode: str) -> None:
    counts, actual = figures(case, scheme_only=mode == "scheme")
    for how, prefix in (("strict", ""), ("relaxed", "relaxed_")):
        expected = case["expected"][mode][how]
        assert expected["num_pred"] == counts["predicted"].sum()
        assert expected["num_gold"] == counts["true"].sum()
        assert expected["tp_pred"] == counts[f"{how}_predicted"].sum()
        assert expected["tp_gold"] == counts[f"{how}_true"].sum()
        for name in ("precision", "recall", "f1"):
            assert expected[name] == pytest.approx(actual[prefix + name], abs=1e-9)


def test_each_type_has_figures_of_its_own_and_counts_add_over_sites() -> None:
    one = entity_counts([([(0, 0, 2)], [(0, 0, 2), (1, 3, 4)])], 3, 1, torch.tensor(2.0))
    two = entity_counts([([(1, 0, 3)], [(1, 1, 2)]), ([], [])], 3, 0, torch.tensor(4.0))
    actual = entity_metrics({name: one[name] + two[name] for name in one}, ["drug", "effect", "dose"])
    assert (1.0, 0.0) == (actual["f1[drug]"], actual["f1[effect]"])
    assert 2 / 3 == pytest.approx(actual["relaxed_f1[effect]"])  # one of two predictions, the one entity found
    assert not any(name.endswith("[dose]") for name in actual)
    assert (2.0, 1 / 3, 3.0) == (actual["loss"], actual["repaired"], actual["examples"])
    assert 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2) == pytest.approx(actual["f1"])


def test_counts_have_the_declared_layout_and_no_sentence_gives_no_figure() -> None:
    counts = entity_counts([], 2, 0, torch.tensor(0.0))
    assert {name: tuple(tensor.shape) for name, tensor in counts.items()} == entity_layout(2).shapes
    assert {} == entity_metrics(counts, ["a", "b"])


def test_counts_with_noise_make_no_share_of_more_than_all() -> None:
    counts = {name: torch.full(shape, 2.0) for name, shape in entity_layout(1).shapes.items()}
    noisy = {**counts, "predicted": torch.tensor([1.0]), "true": torch.tensor([1.0])}
    figures = entity_metrics(noisy, ["a"])
    assert {1.0} == {figures[name] for name in ("precision", "recall", "f1", "relaxed_precision", "relaxed_f1[a]")}
    assert (0.0, 0.0) == tuple(float(entity_classes(noisy)[name]) for name in ("false_alarms", "misses"))


def test_every_overall_figure_is_defined() -> None:
    told = entity_metrics(entity_counts([([], [])], 1, 0, torch.tensor(0.0)), ["a"])
    assert set(told) - {"examples"} == set(DEFINITIONS)
