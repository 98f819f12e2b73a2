"""The section on precision and recall: there if a run has a curve, means over seeds, and nothing else changes."""

import json
from pathlib import Path

import pytest

from run_folders import make_run
from wardround.reports.page import page
from wardround.reports.read import read_runs
from wardround.reports.sections.recall import _at, _mean
from wardround.runs.errors import RunError

CURVE = [(0.1, 1.0), (0.2, 0.9), (0.2, 0.8), (0.6, 0.5)]


def with_curve(folder: Path, points: object, **options: object) -> Path:
    made = make_run(folder, **options)  # type: ignore[arg-type]
    (made / "curve.json").write_text(json.dumps({"round": 2, "points": points}))
    return made


def test_a_run_without_a_curve_has_no_such_section(tmp_path: Path) -> None:
    told = page(read_runs([make_run(tmp_path / "a")]))
    assert "Precision and recall" not in told
    assert 'href="#precision-recall"' not in told


def test_a_run_with_a_curve_has_it_drawn_and_in_the_contents(tmp_path: Path) -> None:
    markup = page(read_runs([with_curve(tmp_path / "a", CURVE)]))
    assert 'href="#precision-recall"' in markup
    assert "precision over recall; it begins with fedavg 1.0000 at recall 0.1000" in markup
    assert "means over seeds at equal recall" not in markup


def test_seeds_are_averaged_at_equal_recall_as_far_as_all_reach(tmp_path: Path) -> None:
    runs = [
        with_curve(tmp_path / str(seed), points, seed=seed) for seed, points in enumerate((CURVE, [(0, 0.8), (1, 0.2)]))
    ]
    assert "means over seeds at equal recall" in page(read_runs(runs))
    mean = _mean([CURVE, [(0.0, 0.8), (1.0, 0.2)]])
    assert [0.1, (1.0 + 0.74) / 2] == pytest.approx(list(mean[0][:2]))
    assert [0.6, (0.5 + 0.44) / 2] == pytest.approx(list(mean[-1][:2]))


@pytest.mark.parametrize(("recall", "precision"), [(0.1, 1.0), (0.15, 0.95), (0.4, 0.65), (0.6, 0.5), (0.7, 0.425)])
def test_between_two_points_the_curve_is_straight(recall: float, precision: float) -> None:
    assert precision == pytest.approx(_at(CURVE, recall))


def test_a_broken_curve_is_an_error_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"curve\.json: does not hold points of recall and precision"):
        read_runs([with_curve(tmp_path / "a", [[1]])])
