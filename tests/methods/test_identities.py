"""Where two methods must coincide, they do: bit for bit where the arithmetic is the same, else to rounding."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from double import DoubleFeatures
from quadratic import LANDS, Bowl, Quadratic, Trial, bowl, landing, weights
from wardround.core.method import Method
from wardround.core.weights import Weights
from wardround.corpora.synthetic import Rows
from wardround.methods import METHODS
from wardround.methods.fedatt import FedAtt
from wardround.methods.fedavg import FedAvg
from wardround.methods.feddyn import FedDyn
from wardround.methods.fedpa import FedPA
from wardround.methods.fedprox import FedProx
from wardround.methods.fedsgd import FedSGD
from wardround.methods.references import Centralised, Local, OwnModel
from wardround.methods.scaffold import Scaffold
from wardround.runs.build import build
from wardround.runs.protocol import toy
from wardround.tasks.features import FeatureRows

CLASSES, FEATURES = 4, 5
LOCAL: dict[str, Any] = {"lr": 0.1, "batch": 4, "epochs": 2}
ON_FEATURES = [name for name, known in METHODS.items() if known.kind.rehearsal == "features"]


TASK = DoubleFeatures(FEATURES, CLASSES)


def rows(examples: int, seed: int = 0, labels: list[int] | None = None) -> FeatureRows:
    """Random examples; their labels are random too unless given."""
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, FEATURES, generator=rng, dtype=torch.float64)
    drawn = torch.randint(CLASSES, (examples,), generator=rng)
    return FeatureRows(inputs, drawn if labels is None else torch.tensor(labels, dtype=torch.int64))


def beginning() -> Weights:
    rng = torch.Generator().manual_seed(99)
    weight = torch.randn(CLASSES, FEATURES, generator=rng, dtype=torch.float64)
    return weights({"linear.weight": weight, "linear.bias": torch.zeros(CLASSES)})


SITES = {"a": rows(11, 1), "b": rows(7, 2), "c": rows(24, 3)}


def trial(method: Method[Any], folder: Path, sites: Mapping[str, FeatureRows] = SITES, **options: Any) -> Trial[Any]:
    return Trial(method, TASK, sites, beginning(), folder, public=rows(8, 9), **options)


def near(expected: Weights, actual: Weights, tolerance: float = 1e-12) -> None:
    assert expected.layout == actual.layout
    assert expected.flat.tolist() == pytest.approx(actual.flat.tolist(), rel=tolerance, abs=tolerance)


def test_fedprox_without_mu_is_fedavg(tmp_path: Path) -> None:
    """μ = 0 takes the leash off: the same bits, round after round."""
    plain, leashed = trial(FedAvg(**LOCAL), tmp_path), trial(FedProx(mu=0, **LOCAL), tmp_path)
    for _ in range(3):
        assert plain.round() == leashed.round()


def test_fedpa_without_mu_is_attention_over_whole_models(tmp_path: Path) -> None:
    """μ = 0 leaves of FedPA its server half, which is FedAtt with one distance per site."""
    server, both = trial(FedAtt(per_tensor=False, **LOCAL), tmp_path), trial(FedPA(mu=0, **LOCAL), tmp_path)
    for _ in range(3):
        assert server.round() == both.round()


def test_scaffolds_first_round_is_uniform_fedavg(tmp_path: Path) -> None:
    """While all controls are zero nothing is corrected; sites send the same bits, the mean is the uniform one."""
    plain, controlled = trial(FedAvg(mean="uniform", **LOCAL), tmp_path), trial(Scaffold(**LOCAL), tmp_path)
    near(plain.round().weights, controlled.round().weights)
    assert [r.change for r in plain.replies.values()] == [r.change for r in controlled.replies.values()]


def test_feddyns_first_round_is_fedprox_with_twice_the_step(tmp_path: Path) -> None:
    """Locally FedProx(μ = α); at the coordinator, if all K sites take part, θ + 2 · mean Δ.

    At first g_k = 0, so the local loss is F + α/2 ‖θ − θ_s‖², which is FedProx's. The drift becomes
    h = −α/K Σ Δ_k, and θ_s⁺ = θ_s + mean Δ − h/α = θ_s + mean Δ + 1/K Σ Δ_k = θ_s + 2 · mean Δ.
    """
    alpha = 0.3
    prox = trial(FedProx(mu=alpha, mean="uniform", **LOCAL), tmp_path)
    dynamic = trial(FedDyn(alpha=alpha, **LOCAL), tmp_path)
    start = dynamic.state.weights
    moved = prox.round().weights - start
    near(start + moved * 2, dynamic.round().weights)
    assert [r.change for r in prox.replies.values()] == [r.change for r in dynamic.replies.values()]


def test_fedavg_on_one_site_is_centralised(tmp_path: Path) -> None:
    """A study's centralised run is FedAvg over one site called "pooled" that has everybody's examples."""
    study = toy("centralised")
    study = replace(study, method=Centralised(**LOCAL))
    built = build(study, tmp_path / "study")
    parts = [study.corpus.open(name)[0] for name in study.corpus.names()]
    pool = {"pooled": built.task.examples(Rows.joined(parts))}
    alone = Trial(FedAvg(**LOCAL), built.task, pool, built.weights, tmp_path / "alone", seed=study.seed)
    central = Trial(study.method, built.task, {"pooled": built.sites.open("pooled").train}, built.weights,
                    tmp_path / "central", seed=study.seed)  # fmt: skip
    assert ("pooled",) == built.sites.names
    for _ in range(2):
        assert central.round() == alone.round()


def test_fedsgd_is_full_batch_sgd_on_pooled_data(tmp_path: Path) -> None:
    """The weighted mean of the sites' mean gradients is the pooled examples' mean gradient."""
    pool = FeatureRows(*(torch.cat([getattr(s, f) for s in SITES.values()]) for f in ("inputs", "labels")))
    spread = trial(FedSGD(lr=0.5, decay=0.9), tmp_path)
    central = trial(Centralised(lr=0.5, decay=0.9, batch=0), tmp_path, {"pooled": pool})
    for _ in range(3):
        near(central.round().weights, spread.round().weights)


def test_fedsgd_is_fedavg_with_one_full_batch_step(tmp_path: Path) -> None:
    """One step from the same point: averaging models or gradients is the same, in chunks or whole."""
    models = trial(FedAvg(lr=0.5, batch=0, epochs=1), tmp_path)
    gradients, chunks = trial(FedSGD(lr=0.5), tmp_path), trial(FedSGD(lr=0.5, batch=3), tmp_path)
    for _ in range(3):
        expected = models.round().weights
        near(expected, gradients.round().weights)
        near(expected, chunks.round().weights)


@pytest.mark.parametrize("name", ON_FEATURES)
def test_the_order_of_sites_cannot_matter(name: str, tmp_path: Path) -> None:
    """Sites listed, asked and answering in another order give the same bits, in state and site memory."""
    method = METHODS[name].kind(**METHODS[name].settings)
    forwards = trial(method, tmp_path / "forwards")
    backwards = trial(method, tmp_path / "backwards", dict(reversed(SITES.items())), backwards=True)
    for names in (("a", "b", "c"), ("a", "c"), ("a", "b", "c")):
        assert forwards.round(*names) == backwards.round(*reversed(names))
    assert memory(tmp_path / "forwards") == memory(tmp_path / "backwards")


def memory(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.kept")}


@pytest.mark.parametrize("options", [{}, {"per_tensor": False}, {"norm": "spectral"}, {"nearer": True}])
def test_attention_over_one_site_is_a_longer_fedavg_step(options: dict[str, Any], tmp_path: Path) -> None:
    """A softmax over one site is 1: θ + ε Δ."""
    one = {"a": SITES["a"]}
    start = beginning()
    change = trial(FedAvg(**LOCAL), tmp_path, one).round().weights - start
    attended = trial(FedAtt(step=1.7, **options, **LOCAL), tmp_path, one)
    near(start + change * 1.7, attended.round().weights)


def attended(method: FedAtt, start: Weights, sites: Mapping[str, Bowl], folder: Path) -> Weights:
    """What attention must give, by a softmax over site changes that are all in sight."""
    looked_at = Trial(FedAvg(mean="uniform", **LANDS), Quadratic(start), sites, start, folder)
    looked_at.round()
    changes = [reply.change for reply in looked_at.replies.values()]
    sign = -1 if method.nearer else 1
    shares = torch.softmax(sign * torch.stack([method.distance(change) for change in changes]), 0)  # (sites, groups)
    step = start.zeros()
    for change, share in zip(changes, shares, strict=True):
        step += change.scaled(share.expand(len(start)))
    return start + step * method.step


def spread(start: Weights, distances: list[list[float]], seed: int) -> dict[str, Bowl]:
    """Sites that land so far from the start, per tensor, in random directions."""
    rng = torch.Generator().manual_seed(seed)
    sites = {}
    for index, per_tensor in enumerate(distances):
        ways = Weights.of_flat(torch.randn(start.layout.size, generator=rng).to(start.flat), start.layout)
        factors = torch.tensor(per_tensor, dtype=torch.float64) / ways.norms().double()
        sites[f"site-{index}"] = landing(start + ways.scaled(factors))
    return sites


LIKE = weights({"big": torch.zeros(3, 4), "small": torch.zeros(2)})
DISTANCES = st.lists(st.tuples(st.floats(0, 900), st.floats(0, 3)).map(list), min_size=2, max_size=5)


def carried(
    method: FedAtt, start: Weights, sites: Mapping[str, Bowl], bound: Tensor | None, folder: Path
) -> Trial[Any]:
    """One round over these sites, with the bound that the round before has left."""
    trial = Trial(method, Quadratic(start), sites, start, folder)
    if bound is not None:
        trial.state = replace(trial.state, bound=bound)
    trial.round()
    return trial


@settings(max_examples=40)
@given(
    rounds=st.lists(DISTANCES, min_size=1, max_size=3),
    per_tensor=st.booleans(),
    nearer=st.booleans(),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    seed=st.integers(0, 999),
)
@example(rounds=[[[0, 0], [90, 0]], [[0, 0], [0, 0]]], per_tensor=False, nearer=False, dtype=torch.float32, seed=0)
@example(rounds=[[[200, 1], [210, 2]]], per_tensor=True, nearer=True, dtype=torch.float32, seed=0)
@example(rounds=[[[0, 0.1], [10, 0.1], [900, 0.2]]], per_tensor=True, nearer=False, dtype=torch.float32, seed=0)
def test_attention_through_sums_is_a_softmax(
    rounds: list[list[list[float]]],
    per_tensor: bool,
    nearer: bool,
    dtype: torch.dtype,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Two sums give what a softmax over visible changes gives, however far apart the sites and the rounds are."""
    folder = tmp_path_factory.getbasetemp()  # FedAtt's sites keep nothing
    start = weights(LIKE, dtype)
    method = FedAtt(per_tensor=per_tensor, nearer=nearer, **LANDS)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    bound = None
    for distances in rounds:
        sites = spread(start, distances, seed)
        state = carried(method, start, sites, bound, folder).state
        bound = state.bound
        expected = attended(method, start, sites, folder).flat
        scale = max(float(expected.abs().max()), 1.0)
        assert expected.tolist() == pytest.approx(state.weights.flat.tolist(), rel=0, abs=tolerance * scale)


def test_attention_takes_few_exchanges(tmp_path: Path) -> None:
    """While the bound suits the distances a round is one exchange; where it suits no more, one more."""
    start = weights(LIKE)
    far, close = spread(start, [[500, 1], [450, 2]], 0), spread(start, [[0.1, 1], [0.2, 2]], 0)
    exchanges, bound = [], None
    for sites in (far, far, close, close):
        trial = carried(FedAtt(**LANDS), start, sites, bound, tmp_path)
        bound = trial.state.bound
        exchanges.append(len(trial.seen) // len(sites))
    assert [2, 1, 2, 1] == exchanges


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sites_thousands_apart_are_told_what_to_do(dtype: torch.dtype, tmp_path: Path) -> None:
    """Distances that no shift can reconcile end with a remedy, never with a wrong mean."""
    start = weights({"w": [0.0, 0.0]}, dtype)
    sites = {"far": landing(weights({"w": [3e4, 0.0]}, dtype)), "near": landing(weights({"w": [0.0, 1.0]}, dtype))}
    with pytest.raises(ArithmeticError, match="lower lr or raise mu"):
        Trial(FedAtt(**LANDS), Quadratic(start), sites, start, tmp_path).round()


@pytest.mark.parametrize("name", ON_FEATURES)
def test_empty_and_one_class_sites_work_in_every_method(name: str, tmp_path: Path) -> None:
    """A site without examples and one that knows a single class take part, train and are tried."""
    sites = {"empty": rows(0), "mixed": rows(9, 4), "single": rows(6, 5, [1] * 6)}
    begun = trial(METHODS[name].kind(**METHODS[name].settings), tmp_path, sites)
    for names in (("empty", "mixed", "single"), ("empty", "single"), ("empty", "mixed", "single")):
        assert begun.round(*names).weights.flat.isfinite().all()
    assert 15 == begun.tried()["examples"]
    assert {} == begun.tried("empty")
    changed = begun.state.weights if METHODS[name].kind.shares else begun.kept("single", OwnModel).weights
    assert beginning() != changed


@pytest.mark.parametrize("name", [name for name in ON_FEATURES if not METHODS[name].kind.public])
def test_a_site_without_examples_moves_nothing(name: str, tmp_path: Path) -> None:
    """Alone in the first round, it leaves the shared model as it is; where there is no public example to learn from."""
    begun = trial(METHODS[name].kind(**METHODS[name].settings), tmp_path, {"empty": rows(0)})
    assert beginning() == begun.round().weights


def test_local_sites_train_on_alone(tmp_path: Path) -> None:
    """A site's own model after two rounds is that of a federation of this one site."""
    alone = {name: trial(FedAvg(**LOCAL), tmp_path, {name: SITES[name]}) for name in SITES}
    local = trial(Local(**LOCAL), tmp_path)
    for _ in range(2):
        local.round()
        for name, single in alone.items():
            near(single.round().weights, local.kept(name, OwnModel).weights)
    assert beginning() == local.state.weights


def test_feddyn_by_size_holds_equal_sites_as_the_paper_does(tmp_path: Path) -> None:
    """Among sites of one size, α·n/(K·n_k) is α."""
    start, sizes = weights({"w": [1.0, -2.0]}), {"a": 12, "b": 12}
    sites = {name: bowl([1.0, 0.5], [0.3, float(len(name))], size) for name, size in sizes.items()}
    paper, code = (
        Trial(FedDyn(alpha=0.2, by_size=by_size, lr=0.1), Quadratic(start), sites, start, tmp_path / str(by_size))
        for by_size in (False, True)
    )
    for _ in range(3):
        near(paper.round().weights, code.round().weights)
