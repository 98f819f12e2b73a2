"""Robust means against formulas that share nothing with ours: numpy's own, and the conditions that define them."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from wardround.layers import rules


def drawn(count: int, width: int, seed: int = 0) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, width, generator=rng, dtype=torch.float64)
    rows[-1] *= 30
    return list(rows)


def stacked(rows: Sequence[Tensor]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    return np.stack([row.numpy() for row in rows])


@pytest.fixture(params=[1 << 20, 7], ids=["at once", "in pieces"])
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "AT_ONCE", request.param)


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 10])
def test_the_median_is_numpys(count: int) -> None:
    rows = drawn(count, 23)
    np.testing.assert_allclose(rules.middle(rows).numpy(), np.median(stacked(rows), axis=0), rtol=1e-14)


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize(("count", "cut"), [(3, 1), (9, 2), (10, 1), (10, 4)])
def test_the_trimmed_mean_is_that_of_what_lies_between(count: int, cut: int) -> None:
    rows = drawn(count, 23, seed=count)
    expected = [
        np.mean([x for at, x in enumerate(sorted(column)) if cut <= at < count - cut]) for column in stacked(rows).T
    ]
    np.testing.assert_allclose(rules.middle(rows, cut).numpy(), expected, rtol=1e-13)


@pytest.mark.usefixtures("_pieces")
def test_distances_are_those_of_each_two_rows() -> None:
    rows = drawn(5, 23)
    squared = rules.apart(rows).numpy()
    for i, j in combinations(range(5), 2):
        expected = np.linalg.norm(rows[i].numpy() - rows[j].numpy()) ** 2
        assert expected == pytest.approx(squared[i, j], rel=1e-12) == pytest.approx(squared[j, i], rel=1e-12)


@pytest.mark.parametrize("count", [3, 4, 7, 10])
@pytest.mark.parametrize("seed", range(3))
def test_at_the_geometric_median_the_directions_to_all_rows_cancel_out(count: int, seed: int) -> None:
    """Its definition: the gradient of Σ‖x − z‖ is zero there, or z is a row and the others' pull is at most 1."""
    rows = drawn(count, 6, seed)
    point = rules.mixed(rows, rules.geometric(rules.apart(rows))).numpy()
    ways = stacked(rows) - point
    lengths = np.linalg.norm(ways, axis=1)
    others = lengths > 1e-6
    pull = np.linalg.norm((ways[others] / lengths[others, None]).sum(0))
    assert pull < 1e-6 if others.all() else pull <= 1 + 1e-6


def test_the_geometric_median_of_a_majority_that_agrees_is_what_it_agrees_on() -> None:
    rows = [torch.zeros(4).double()] * 3 + [torch.full((4,), 1e6).double(), torch.full((4,), -5.0).double()]
    assert rules.mixed(rows, rules.geometric(rules.apart(rows))).norm() < 1e-3
    assert [1 / 3] * 3 == pytest.approx(rules.geometric(rules.apart(rows[:3])).tolist())


def chosen(rows: Sequence[Tensor], liars: int, keep: int) -> set[int]:
    """Whom Krum keeps, by the text of the papers, in plain Python."""
    count, scores = len(rows), []
    for one in rows:
        distances = sorted(
            sum((a - b) ** 2 for a, b in zip(one.tolist(), other.tolist(), strict=True)) for other in rows
        )
        scores.append(sum(distances[: count - liars]))  # the nearest is the row itself, at 0
    return set(sorted(range(count), key=lambda at: scores[at])[:keep])


@pytest.mark.parametrize(
    ("count", "liars", "keep"), [(3, 1, None), (10, 1, None), (10, 3, None), (10, 3, 1), (7, 2, 4)]
)
def test_krum_keeps_those_whose_neighbours_are_nearest(count: int, liars: int, keep: int | None) -> None:
    rows = drawn(count, 6, seed=count + liars)
    shares = rules.krum(rules.apart(rows), liars, keep)
    many = keep or count - liars
    assert chosen(rows, liars, many) == set(torch.nonzero(shares).flatten().tolist())
    expected = stacked([rows[at] for at in sorted(chosen(rows, liars, many))]).mean(0)
    np.testing.assert_allclose(rules.mixed(rows, shares).numpy(), expected, rtol=1e-12)
