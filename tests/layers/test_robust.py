"""A rule in place of the mean: what each method makes of it, whom it is refused to, and that lies keep their names."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

import pytest
import torch

from double import DoubleFeatures
from layers.test_bound import LAYOUT, MODEL, cohort, honest, step_of, update
from loopback import Exchange as Sites
from quadratic import LANDS, Quadratic, Trial, landing, weights
from study_files import small_study
from wardround.consortium.submit import submit
from wardround.core.cohort import BelowQuorum
from wardround.core.layer import Layer
from wardround.core.method import Global, Method
from wardround.core.record import Message
from wardround.core.weights import Weights
from wardround.layers.bound import Bound
from wardround.layers.robust import Robust, Rule
from wardround.layers.rules import apart, geometric, krum, middle, mixed
from wardround.methods import METHODS
from wardround.methods.fedavg import FedAvg, Update
from wardround.methods.fedcmc import FedCMC
from wardround.methods.fedner import FedNER
from wardround.methods.scaffold import Scaffold
from wardround.runs.build import build
from wardround.runs.guards import guards
from wardround.runs.loop import run
from wardround.runs.protocol import toy
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError
from wardround.tasks.features import FeatureRows

RULES: tuple[Rule, ...] = get_args(Rule)
REFUSED = {
    "fedatt", "fedatts", "fedpa", "fedpap", "fedcmc", "lazy-mil", "fedproto", "ridge", "ridge-sgd", "local", "public",
    "centralised",
}  # fmt: skip
PLACES = ([0.0, 1.0], [0.5, 1.5], [1.0, 0.0], [0.25, 0.5], [90.0, -90.0])


def ruled(rule: Rule, rows: list[torch.Tensor]) -> torch.Tensor:
    if rule in ("median", "trimmed"):
        return middle(rows, 1 if rule == "trimmed" else None)
    squared = apart(rows)
    return mixed(rows, geometric(squared) if rule == "geometric" else krum(squared, 1))


@pytest.mark.parametrize("rule", RULES)
def test_the_model_goes_where_the_rule_says_whatever_the_sites_weigh(rule: Rule, tmp_path: Path) -> None:
    start = weights([0.0, 0.0])
    sites = {f"s{at}": landing(weights(place), examples=at + 1) for at, place in enumerate(PLACES)}
    layers = (Robust(rule, FedAvg.means), Bound(1e6))
    trial = Trial(FedAvg(**LANDS), Quadratic(start), sites, start, tmp_path, layers=layers)
    expected = ruled(rule, [torch.tensor(place).double() for place in PLACES])
    torch.testing.assert_close(trial.round().weights.flat, expected)
    assert expected.norm() < 2


def test_a_site_without_examples_has_no_say(tmp_path: Path) -> None:
    start = weights([0.0])
    sites = {name: landing(weights([place]), many) for name, place, many in (
        ("a", 1.0, 1), ("b", 2.0, 5), ("c", 4.0, 2), ("d", -9.0, 0), ("e", -9.0, 0), ("f", -9.0, 0))}  # fmt: skip
    trial = Trial(FedAvg(**LANDS), Quadratic(start), sites, start, tmp_path, layers=(Robust("median", FedAvg.means),))
    torch.testing.assert_close(trial.round().weights.flat, torch.tensor([2.0]).double())
    alone = {name: landing(weights([1.0]), 0) for name in "abc"}
    idle = Trial(
        FedAvg(**LANDS), Quadratic(start), alone, start, tmp_path / "i", layers=(Robust("krum", FedAvg.means),)
    )
    assert start == idle.round().weights


def methods() -> list[Any]:
    allowed = [pytest.param(toy(name).method, id=name) for name in METHODS if name not in REFUSED]
    more = {"scaffold by size": Scaffold(mean="weighted"), "fedner by sums": FedNER(ask_sizes=False),
            "fedcmc without contrast": FedCMC(contrast="none")}  # fmt: skip
    return [*allowed, *(pytest.param(method, id=label) for label, method in more.items())]


@pytest.mark.parametrize("method", methods())
def test_where_all_sites_are_alike_a_rule_changes_nothing(method: Method[Any], tmp_path: Path) -> None:
    """So each method divides what it is given by what it must, and no sum is left where a mean should be."""
    assert "" == method.unruled()
    task = DoubleFeatures(2, 3)
    start = weights({"linear.weight": [[1.0, 2.0], [0.0, -1.0], [0.5, 0.0]], "linear.bias": [0.0, 0.0, 0.0]})
    rows = FeatureRows(torch.tensor([[3.0, 1.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64), torch.tensor([0, 2, 1]))
    method = dataclasses.replace(cast("Any", method), batch=0 if not isinstance(method, FedNER) else 12)
    sites = dict.fromkeys("abcd", rows)
    states = [
        Trial(method, task, sites, start, tmp_path / rule, layers=layers, public=rows)
        for rule, layers in (("mean", ()), *((rule, (Robust(rule, method.means), Bound())) for rule in RULES))
    ]
    for _ in range(2):
        free, *others = [trial.round().weights.flat for trial in states]
        assert not torch.equal(free, start.flat)
        for other in others:
            torch.testing.assert_close(free, other)


def test_every_method_takes_a_rule_or_says_why_not() -> None:
    refusals = {name: toy(name).method.unruled() for name in METHODS}
    assert {name for name, why in refusals.items() if why} == REFUSED
    for name in METHODS.keys() - REFUSED:
        method = toy(name).method
        for step, fields in method.means.items():
            known = {field.name for field in dataclasses.fields(method.declared()[step].kinds()[1])}
            assert known >= {*fields, *filter(None, fields.values())}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (Update(Weights.of_flat(torch.full((10,), float("nan")), LAYOUT), 9), "Update.change holds NaN or infinity"),
        (
            dataclasses.replace(update(1.2), change=update(1.2).change * 1e30),
            "Update.change is 1.09e+30 times the median",
        ),
        (Update(Weights({"a": torch.ones(2, 3), "b": torch.ones(3)}), 9), "Update.change does not fit: b has shape"),
        (Update(MODEL.weights * 0.1, 10**10), "Update.weight is outside 0"),
    ],
)
def test_lies_that_show_are_named_before_the_rule(rule: Rule, lie: Message, reason: str) -> None:
    replies = honest(dan=update(1.1, seed=9), eve=lie)
    asked = cohort(replies, None)
    asked.layers = (Robust(rule, FedAvg.means), Bound())
    total = asked.total(step_of(Global, Update), MODEL)
    assert ["eve"] == list(asked.left_out)
    assert asked.left_out["eve"].startswith(f"fit: invalid: {reason}")
    assert total.change.flat.isfinite().all()
    assert 400 == total.weight


def test_too_few_replies_for_the_rule_stop_the_round_and_say_so() -> None:
    asked = cohort(honest(), None)
    asked.layers = (Robust("trimmed", FedAvg.means, liars=2),)
    with pytest.raises(BelowQuorum, match=r"3 sites .* 'trimmed' with liars = 2 needs at least 5"):
        asked.total(step_of(Global, Update), MODEL)


@pytest.mark.parametrize("rule", ["geometric", "krum"])
def test_whom_a_rule_listens_to_is_noted(rule: Rule) -> None:
    asked = cohort(honest(dan=update(-4.0, seed=9)), None)
    asked.layers = (Robust(rule, FedAvg.means),)
    asked.total(step_of(Global, Update), MODEL)
    shares = {name: noted["share"] for name, noted in asked.noted["robust"].items()}
    assert 1.0 == pytest.approx(sum(shares.values()))
    assert "dan" == min(shares, key=lambda name: shares[name])


def study_with(folder: Path, **changes: Any) -> Study:
    return load_study(small_study(folder, **{"partition": {"name": "iid", "sites": 3}, **changes}))[0].study


def outcome(out: Path) -> tuple[bytes, str]:
    lines = (out / "journal.jsonl").read_text().splitlines()
    return (out / "model" / "weights.safetensors").read_bytes(), "\n".join(
        line.partition('"seconds"')[0] for line in lines
    )


@pytest.mark.parametrize("rule", RULES)
def test_serial_pooled_strict_real_and_resumed_runs_give_the_same_bits(rule: Rule, tmp_path: Path) -> None:
    study = study_with(tmp_path, robust={"rule": rule})
    run(study, tmp_path / "serial")
    run(study, tmp_path / "strict", strict=True)
    run(study, tmp_path / "pooled", workers=2)
    run(dataclasses.replace(study, rounds=2), tmp_path / "resumed", checkpoint_seconds=0)
    run(study, tmp_path / "resumed", resume=True)
    with Sites(tmp_path / "sites", study, ("site-0", "site-1", "site-2")) as sites:
        submit(study, tmp_path / "real", sites.over)
    whole = outcome(tmp_path / "serial")
    assert [whole] * 4 == [outcome(tmp_path / other) for other in ("strict", "pooled", "resumed", "real")]
    run(study_with(tmp_path), tmp_path / "mean")
    assert outcome(tmp_path / "mean")[0] != whole[0]


def test_the_bound_is_there_over_real_sites_and_where_a_study_has_a_table(tmp_path: Path) -> None:
    def kinds(study: Study, **options: Any) -> list[str]:
        return [type(layer).__name__ for layer in guards(study, **options)]

    plain, bounded = study_with(tmp_path), study_with(tmp_path, robust={})
    assert [[], ["Bound"], ["Bound"]] == [kinds(plain), kinds(plain, always=True), kinds(bounded)]
    assert ["Robust", "Bound"] == kinds(study_with(tmp_path, robust={"rule": "krum", "keep": 2}))
    layer = guards(study_with(tmp_path, robust={"bound": 7.5}))[0]
    assert isinstance(layer, Bound)
    assert 7.5 == layer.factor
    assert "robust" not in plain.resolved
    assert {"rule": "bound", "liars": 1} == bounded.resolved["robust"]


class SumOnly(Layer):
    """Secure aggregation as a study meets it."""

    only_sums = "a test says so"


def problems_of(study: Study, out: Path) -> list[str]:
    with pytest.raises(StudyError) as refused:
        build(study, out)
    return refused.value.problems


@pytest.mark.parametrize("rule", ["bound", *RULES])
def test_where_only_sums_are_seen_a_study_has_to_choose(rule: str, tmp_path: Path) -> None:
    study = dataclasses.replace(study_with(tmp_path, robust={"rule": rule}), layers=(SumOnly(),))
    [problem] = problems_of(study, tmp_path / "out")
    assert problem == (
        f"robust.rule = {rule!r} compares the sites' replies, and SumOnly shows only their sum, in which nobody can "
        "tell a lie; choose: take [robust] out and rely on the sites, or take SumOnly out and let the coordinator's "
        "machine see each reply"
    )


@pytest.mark.parametrize("name", ["fedatt", "ridge", "local", "fedcmc"])
def test_a_method_without_a_mean_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    study = study_with(tmp_path, method={"name": name}, robust={"rule": "median"})
    [problem] = problems_of(study, tmp_path / "out")
    why = study.method.unruled()
    assert problem == f"robust.rule = 'median' takes the place of a mean over sites, and method {name!r} {why}"
    build(study_with(tmp_path, method={"name": name}, robust={"rule": "bound"}), tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"robust": {"rule": "trimmed", "liars": 2}}, "robust.rule = 'trimmed' with liars = 2 needs at least 5 sites"),
        ({"robust": {"rule": "median"}, "sites": {"per_round": 2}}, "robust.rule = 'median' with liars = 1 needs at"),
        ({"robust": {"rule": "krum", "keep": 4}}, "robust.keep = 4, but 3 sites take part in a round; lower it"),
        ({"robust": {"rule": "krum"}, "finish": {"head": "ridge"}}, "finish solves a classifier from sums"),
        ({"sites": {"bound": 5.0}}, "sites.bound is now bound in [robust]; move it there"),
        ({"robust": {"keep": 2}}, "robust.keep is a setting of krum, and robust.rule = 'bound'; take it out"),
        ({"robust": {"liars": 2}}, "robust.liars is a setting of geometric and krum and median and trimmed, and"),
        ({"robust": {"rule": "medain"}}, "robust.rule = 'medain'"),
        ({"robust": {"bound": 1.0}}, "robust.bound = 1"),
        ({"robust": {"ruel": "krum"}}, "robust.ruel is unknown; did you mean 'rule'?"),
    ],
)
def test_what_is_wrong_with_a_rule_is_told_by_name(changes: Mapping[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError) as refused:
        build(study_with(tmp_path, **changes), tmp_path / "out")
    assert [True] == [given.startswith(problem) for given in refused.value.problems]


@pytest.mark.parametrize("robust", [{"rule": "bound"}, {"bound": 4.0}, {"rule": "krum"}])
def test_a_runs_own_copy_of_its_study_can_be_read_again(robust: Mapping[str, Any], tmp_path: Path) -> None:
    """It has every setting, those of other rules among them."""
    study = study_with(tmp_path, rounds=1, robust=robust)
    run(study, tmp_path / "run")
    assert study.fingerprint == load_study(tmp_path / "run" / "study.toml")[0].study.fingerprint
