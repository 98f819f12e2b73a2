"""Means, intervals, paired tests, Holm's correction, curves, targets and sites, against hand numbers and scipy."""

import importlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_folders import make_run, make_sweep
from wardround.metrics.defined import limits
from wardround.reports.figures import Spread
from wardround.reports.paired import Comparison, holm, pairs
from wardround.reports.read import read_runs
from wardround.reports.statistics import Group, Panel, curve, grouped, per_site, primary, spread, to_target


@pytest.fixture(scope="module")
def stats() -> Any:
    """scipy's, which takes a second: not every worker that collects this file needs it."""
    return importlib.import_module("scipy.stats")


def panel_of(*paths: Path) -> Panel:
    (panel,) = grouped(read_runs(paths))
    return panel


def pair_of(*paths: Path) -> Comparison:
    ((pair,),) = pairs([panel_of(*paths)])
    return pair


# mean, standard deviation, interval


def test_a_spread_is_the_mean_and_the_sample_standard_deviation() -> None:
    interval = spread([1.0, 2.0, 3.0, 4.0])
    assert interval is not None
    assert (4, 2.5) == (interval.n, interval.mean)
    assert math.sqrt(5 / 3) == pytest.approx(interval.sd)


def test_the_interval_is_students(stats: Any) -> None:
    values = [0.61, 0.64, 0.66, 0.7, 0.59]
    measured = spread(values)
    assert measured is not None
    low, high = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    assert pytest.approx(low) == measured.low
    assert pytest.approx(high) == measured.high
    by_hand = 2.776445105 * measured.sd / math.sqrt(5) if measured.sd else 0.0  # t(0.975, 4) from a table
    assert measured.mean + by_hand == pytest.approx(measured.high)


def test_an_interval_ends_where_the_figure_does() -> None:
    wide = spread([0.1, 0.9], limits("macro_f1"))
    assert wide is not None
    assert (0.0, 1.0) == (wide.low, wide.high)
    assert [(0.0, 1.0), (0.0, 1.0), (0.0, math.inf)] == [limits(name) for name in ("valid_f1[a]", "pr_auc", "loss")]
    assert (-math.inf, math.inf) == limits("a figure of one's own")


def test_one_value_has_no_spread_and_none_has_no_mean() -> None:
    assert Spread(1, 0.5) == spread([0.5])
    assert spread([]) is None


# groups


def test_runs_that_differ_only_in_the_seed_are_a_group_and_references_come_last(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"centralised": [0.9], "fedavg": [0.5, 0.6], "local": [0.7], "scaffold": [0.8]})
    panel = panel_of(sweep)
    assert ["fedavg", "scaffold", "local", "centralised"] == [group.label for group in panel.groups]
    assert [0, 1] == [run.seed for run in panel.groups[0].runs]


def test_only_federated_methods_are_ranked_the_best_first(tmp_path: Path) -> None:
    panel = panel_of(make_sweep(tmp_path, {"centralised": [0.9], "fedavg": [0.5, 0.6], "scaffold": [0.8]}))
    assert ["scaffold", "fedavg"] == [group.label for group in panel.ranked]


def test_other_corpora_are_other_panels(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"{alpha}", corpus={"alpha": alpha}) for alpha in (0.1, 1.0)]
    assert ["corpus.alpha = 0.1", "corpus.alpha = 1.0"] == [panel.label for panel in grouped(read_runs(runs))]


def test_unfinished_runs_do_not_count_beside_finished_ones(tmp_path: Path) -> None:
    done = make_run(tmp_path / "done", seed=0, values=[0.5, 0.6])
    going = make_run(tmp_path / "going", seed=1, values=[0.1], rounds=2, finished=False)
    (group,) = panel_of(done, going).groups
    assert [0] == [run.seed for run in group.counted]
    (alone,) = panel_of(going).groups
    assert (False, Spread(1, 0.1)) == (alone.finished, alone.final("accuracy"))


@pytest.mark.parametrize(
    ("metrics", "stop", "expected"),
    [
        (["loss", "accuracy", "macro_f1"], None, "accuracy"),
        (["train_accuracy", "loss"], None, "loss"),
        (["accuracy", "macro_f1"], {"metric": "macro_f1", "target": 0.5}, "macro_f1"),
        (["accuracy", "loss", "train_loss"], {"metric": "train_loss", "target": 0.5}, "loss"),
        (["accuracy"], {"metric": "gone", "target": 0.5}, "accuracy"),
        ([], None, ""),
    ],
)
def test_methods_are_ranked_by_the_target_or_the_first_test_figure_that_is_no_loss(
    metrics: Sequence[str], stop: dict[str, object] | None, expected: str
) -> None:
    assert expected == primary(metrics, stop)


# paired tests


def test_a_pair_is_scipys_paired_t_test_over_common_seeds(tmp_path: Path, stats: Any) -> None:
    better, worse = [0.70, 0.74, 0.71, 0.80], [0.65, 0.70, 0.69, 0.71, 0.1]  # seed 4 is not common
    pair = pair_of(make_sweep(tmp_path, {"fedavg": worse, "scaffold": better}))
    assert ("scaffold", "fedavg", (0, 1, 2, 3)) == (pair.first.label, pair.second.label, pair.seeds)
    assert pytest.approx(stats.ttest_rel(better, worse[:4]).pvalue) == pair.p
    assert pair.p == pair.adjusted  # one comparison: nothing to correct
    assert pair.difference is not None
    assert pytest.approx(0.05) == pair.difference.mean


def test_the_t_test_agrees_with_a_calculation_by_hand(tmp_path: Path) -> None:
    pair = pair_of(make_sweep(tmp_path, {"a": [0.51, 0.62, 0.73], "b": [0.5, 0.6, 0.7]}))
    # differences 0.01, 0.02, 0.03: mean 0.02, sd 0.01, t = 0.02 / (0.01 / √3) = 2√3; for 2 degrees of freedom
    # p = 1 − t / √(t² + 2)
    t = 2 * math.sqrt(3)
    assert pytest.approx(1 - t / math.sqrt(t * t + 2)) == pair.p


def test_fewer_than_three_common_seeds_are_not_tested(tmp_path: Path) -> None:
    pair = pair_of(make_sweep(tmp_path, {"fedavg": [0.5, 0.6], "scaffold": [0.7, 0.9, 0.8]}))
    assert (None, "needs at least 3 common seeds, there are 2") == (pair.p, pair.why)
    assert not pair.significant


def test_other_data_under_the_same_seed_are_not_tested(tmp_path: Path) -> None:
    ours = [make_run(tmp_path / f"a{seed}", "fedavg", seed) for seed in range(3)]
    theirs = [make_run(tmp_path / f"b{seed}", "scaffold", seed, data="changed") for seed in range(3)]
    pair = pair_of(*ours, *theirs)
    assert (None, "the data of seed 0 are not the same (fingerprints differ)") == (pair.p, pair.why)


def test_equal_differences_are_not_tested(tmp_path: Path) -> None:
    pair = pair_of(make_sweep(tmp_path, {"a": [0.5, 0.6, 0.7], "b": [0.5, 0.6, 0.7]}))
    assert (None, "the difference is the same for every seed") == (pair.p, pair.why)


def test_wilcoxons_test_stands_beside_it_from_six_seeds_on(tmp_path: Path, stats: Any) -> None:
    a, b = [0.71, 0.74, 0.73, 0.8, 0.77, 0.79], [0.7, 0.71, 0.75, 0.71, 0.7, 0.73]
    pair = pair_of(make_sweep(tmp_path / "six", {"a": a, "b": b}))
    assert pytest.approx(stats.wilcoxon(a, b).pvalue) == pair.ranks
    assert pair_of(make_sweep(tmp_path / "five", {"a": a[:5], "b": b[:5]})).ranks is None


def test_for_a_loss_less_is_better(tmp_path: Path) -> None:
    stop = {"metric": "loss", "target": 0.1, "early": False}
    pair = pair_of(make_sweep(tmp_path, {"a": [0.5, 0.6, 0.8], "b": [0.6, 0.65, 0.9]}, stop=stop))
    assert "b" == pair.first.label  # its accuracy is higher, so the made-up loss is lower
    assert pair.difference is not None
    assert pair.difference.mean < 0


def test_holms_correction_agrees_with_a_calculation_by_hand() -> None:
    assert [0.03, 0.06, 0.06, 0.02] == pytest.approx(holm([0.01, 0.04, 0.03, 0.005]))
    assert [1.0, 1.0] == holm([0.6, 0.9])
    assert [] == holm([])


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holms_correction_keeps_the_order_and_only_raises(values: list[float]) -> None:
    corrected = holm(values)
    for value, after in zip(values, corrected, strict=True):
        assert value <= after <= 1
    order = sorted(range(len(values)), key=lambda index: values[index])
    assert sorted(corrected) == [corrected[index] for index in order]


def test_all_pairs_of_a_report_are_corrected_together(tmp_path: Path) -> None:
    finals = {"a": [0.5, 0.61, 0.7], "b": [0.6, 0.64, 0.78], "c": [0.9, 0.95, 0.91]}
    (told,) = pairs([panel_of(make_sweep(tmp_path, finals))])
    raw = [pair.p for pair in told if pair.p is not None]
    assert pytest.approx(holm(raw)) == [pair.adjusted for pair in told]


# curves, targets, sites


def test_a_curve_has_the_rounds_that_all_seeds_have_and_the_bytes_until_then(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", seed=0, values=[0.1, 0.2, 0.3], up=1000)
    b = make_run(tmp_path / "b", seed=1, values=[0.3, 0.4], rounds=2, up=3000)
    told = [run for panel in grouped(read_runs([a, b])) for group in panel.groups for run in group.runs]
    points = curve(Group("both", tuple(told)), "accuracy")
    assert [(1, 2000.0), (2, 4000.0)] == [(point.round, point.up) for point in points]
    assert [pytest.approx(0.2), pytest.approx(0.3)] == [point.mean for point in points]
    assert pytest.approx(math.sqrt(0.02)) == points[0].sd


def test_the_target_is_met_in_the_first_round_that_reaches_it(tmp_path: Path) -> None:
    stop = {"metric": "accuracy", "target": 0.6, "early": False}
    (run,) = read_runs([make_run(tmp_path / "a", values=[0.5, 0.6, 0.9], stop=stop)])
    found = to_target(run)
    assert found is not None
    assert (2, 2000) == (found.round, found.up)


def test_a_target_may_never_be_met_or_not_be_set(tmp_path: Path) -> None:
    stop = {"metric": "accuracy", "target": 0.95, "early": False}
    never, unset = read_runs([make_run(tmp_path / "a", stop=stop), make_run(tmp_path / "b")])
    found = to_target(never)
    assert found is not None
    assert (None, None) == (found.round, found.up)
    assert to_target(unset) is None


def test_sites_are_averaged_over_seeds_only_if_their_data_are_the_same(tmp_path: Path) -> None:
    def runs(folder: str, data: str | None) -> list[Path]:
        values = ({"north": 0.2, "south": 0.8}, {"north": 0.4, "south": 0.6})
        return [make_run(tmp_path / folder / f"{n}", seed=n, each=each, data=data) for n, each in enumerate(values)]

    (same,), (other,) = panel_of(*runs("same", "one")).groups, panel_of(*runs("other", None)).groups
    both, first = per_site(same, "accuracy"), per_site(other, "accuracy")
    assert both is not None
    assert first is not None
    assert pytest.approx({"north": 0.3, "south": 0.7}) == both.values
    assert (0, 1) == both.seeds
    assert ({"north": 0.2, "south": 0.8}, (0,)) == (first.values, first.seeds)


def test_without_each_there_are_no_results_by_site(tmp_path: Path) -> None:
    (group,) = panel_of(make_run(tmp_path / "a")).groups
    assert per_site(group, "accuracy") is None


def test_a_run_of_which_nothing_was_evaluated_has_no_figures(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", finished=False)
    (folder / "journal.jsonl").write_text(json.dumps({"round": 1, "metrics": {}}) + "\n")
    panel = panel_of(folder)
    assert ((), (), ()) == (panel.metrics, panel.ranked, curve(panel.groups[0], "accuracy"))
    assert ((),) == pairs([panel])
