"""Figures over facts: exact against the oracle, and within the bands' resolution when they are made of sums."""

from typing import Any

import pytest
import torch
from torch import Tensor

import oracle
from wardround.core.codec import decode
from wardround.core.method import Counts
from wardround.core.weights import Weights
from wardround.metrics.facts import DEFINITIONS, EDGE, Curve, curve_of, fact_layout, fact_metrics, log_odds, score_bands


def inputs_of(case: oracle.Case) -> tuple[Tensor, Tensor, int]:
    """Scores, whether each is right, and how many facts there are."""
    given = case["inputs"]
    facts = {tuple(fact) for fact in given["facts"]}
    rows = given["predictions"]
    right = torch.tensor([(row["head"], row["tail"], row["relation"]) in facts for row in rows])
    return torch.tensor([row["score"] for row in rows], dtype=torch.float64), right, len(facts)


def counts(scores: Tensor, right: Tensor, facts: int) -> dict[str, Tensor]:
    """What a site with these predictions counts."""
    found = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in fact_layout(3).shapes.items()}
    return {**found, **score_bands(scores.logit(), right), "facts": torch.tensor(float(facts)).double()}


@pytest.mark.parametrize("case", oracle.params("re_pr_curve"))
def test_the_curve_is_the_oracles(case: oracle.Case) -> None:
    """With a band for each prediction, in stable order."""
    scores, right, facts = inputs_of(case)
    order = torch.argsort(scores, descending=True, stable=True)
    hits = right[order].double()
    curve, expected = Curve(hits, 1 - hits, facts), case["expected"]
    assert expected["order"] == order.tolist()
    torch.testing.assert_close(
        torch.tensor(expected["precision"], dtype=torch.float64), curve.precision, atol=1e-9, rtol=0
    )
    torch.testing.assert_close(torch.tensor(expected["recall"], dtype=torch.float64), curve.recall, atol=1e-9, rtol=0)
    assert expected["auc"] == pytest.approx(curve.area(), abs=1e-9)
    assert expected["max_f1"] == pytest.approx(curve.max_f1, abs=1e-9)
    for top, area in expected["auc_top"].items():
        assert area == pytest.approx(curve.area(int(top)), abs=1e-9)
    for rank, precision in expected["p_at_n"].items():
        assert precision == pytest.approx(curve.at(int(rank)), abs=1e-9)


def test_a_curve_made_of_bands_is_the_exact_one_within_their_resolution() -> None:
    case = next(case for case in oracle.cases("re_pr_curve") if case["id"] == "p_at_100_200_300")
    curve, expected = curve_of(counts(*inputs_of(case))), case["expected"]
    assert expected["auc"] == pytest.approx(curve.area(), abs=5e-4)
    assert expected["max_f1"] == pytest.approx(curve.max_f1, abs=5e-3)
    for rank, precision in expected["p_at_n"].items():
        assert precision == pytest.approx(curve.at(int(rank)), abs=0.7 / int(rank))  # less than one prediction


def test_counts_add_over_sites_to_those_of_all_pairs() -> None:
    scores, right, facts = inputs_of(oracle.cases("re_pr_curve")[-1])
    whole = counts(scores, right, facts)
    half = len(scores) // 2
    parts = [Weights(counts(scores[:half], right[:half], 3)), Weights(counts(scores[half:], right[half:], facts - 3))]
    assert Weights(whole) == parts[0] + parts[1]
    assert fact_metrics(whole) == fact_metrics(parts[0] + parts[1])


def test_within_a_band_the_right_ones_are_evenly_spread() -> None:
    curve = Curve(torch.tensor([1.0, 0.0]).double(), torch.tensor([3.0, 1.0]).double(), 2)
    assert [0.25, 0.25, 0.25, 0.25, 0.2] == pytest.approx(curve.precision.tolist())
    assert [0.125, 0.25, 0.375, 0.5, 0.5] == pytest.approx(curve.recall.tolist())


def test_figures_for_which_there_is_too_little_are_left_out() -> None:
    nothing = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in fact_layout(3).shapes.items()}
    assert {} == fact_metrics(nothing)
    few = counts(torch.rand(150).double(), torch.arange(150) % 3 == 0, 50)
    assert ["pr_auc", "p_100", "max_f1"] == list(fact_metrics(few))
    many = counts(torch.rand(2100).double(), torch.arange(2100) % 3 == 0, 700)
    assert {"pr_auc", "pr_auc_2000", "p_100", "p_200", "p_300", "p_mean", "max_f1"} == set(fact_metrics(many))


def test_every_figure_has_a_definition() -> None:
    full = counts(torch.rand(2100).double(), torch.arange(2100) % 3 == 0, 700)
    full |= {name: torch.tensor(7.0).double() for name in ("pairs", "loss", "bags", "chosen", "expressed")}
    assert set(DEFINITIONS) == set(fact_metrics(full)) - {"examples"}


def test_what_a_site_counts_takes_66_kilobytes_on_the_wire() -> None:
    message = Counts(Weights(counts(torch.rand(10).double(), torch.ones(10).bool(), 10)))
    assert 66_496 == len(message.encode()) == decode(Counts, message.encode()).nbytes


@pytest.mark.parametrize("value", [0.0, -50.0, 50.0, 1000.0])
def test_log_odds_are_exact_where_probabilities_are_not(value: float) -> None:
    """For two relations the log-odds are the difference of their scores."""
    actual = log_odds(torch.tensor([value, 0.0]).double())
    expected: Any = [value, -value]
    assert (
        expected == pytest.approx(actual.clamp(-EDGE, EDGE).tolist()) if abs(value) <= EDGE else actual[0] * value > 0
    )
    assert actual.isfinite().all()
