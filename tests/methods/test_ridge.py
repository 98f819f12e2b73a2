"""Ridge: the oracle's head, the same for any partition, λ by counts or by the sums, and what it refuses."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
from double import DoubleFeatures
from oracle import same
from quadratic import Trial, lonely, weights
from wardround.core.cohort import BelowQuorum, Engine
from wardround.core.exchange import Exchange, Fault
from wardround.core.method import Step
from wardround.core.record import Message
from wardround.core.refusal import Misfit
from wardround.core.task import SiteData
from wardround.core.weights import Weights
from wardround.layers.least import LeastExamples
from wardround.methods.ridge import Heads, Ridge, Solved, Unsolved
from wardround.methods.sums import Sums, System, pooled_sums
from wardround.runs.loop import run
from wardround.study.load import cells
from wardround.study.settings import StudyError
from wardround.tasks.features import FeatureRows

ONE = Ridge(penalties=(2.0,), sharpness=1.0)


def rows(inputs: Any, labels: Any) -> FeatureRows:
    return FeatureRows(torch.as_tensor(inputs, dtype=torch.float64), torch.as_tensor(labels, dtype=torch.int64))


def beginning(width: int, classes: int) -> Weights:
    return weights({"linear.weight": np.zeros((classes, width)), "linear.bias": np.zeros(classes)})


def trial(method: Ridge, sites: Mapping[str, FeatureRows], folder: Path, classes: int, **more: Any) -> Trial[Solved]:
    width = next(iter(sites.values())).inputs.shape[1]
    return Trial(method, DoubleFeatures(width, classes), sites, beginning(width, classes), folder, **more)


@pytest.mark.parametrize("case", oracle.params("ridge"))
def test_oracle_ridge(case: oracle.Case, tmp_path: Path) -> None:
    """W, b and scores from sums, and again without the first site's; through real rounds and by subtraction."""
    inputs, expected = case["inputs"], case["expected"]
    classes = inputs["classes"]
    pairs = zip(inputs["features"], inputs["labels"], strict=True)
    sites = {str(k): rows(x, y) for k, (x, y) in enumerate(pairs)}
    method = Ridge(penalties=(inputs["lambda"],), sharpness=1.0)
    begun = trial(method, sites, tmp_path / "all", classes)
    state = begun.round()
    same("ridge", expected["W"], state.weights["linear.weight"].T)
    same("ridge", expected["b"], state.weights["linear.bias"])
    scores = sites["0"].inputs @ state.weights["linear.weight"].T + state.weights["linear.bias"]
    same("ridge", expected["scores_first_site"], scores)

    first: Sums = begun.replies["0"]
    own, bias = System(state.sums - first).head(inputs["lambda"])
    same("ridge", expected["without_first_site"]["W"], own)
    same("ridge", expected["without_first_site"]["b"], bias)
    others = {name: site for name, site in sites.items() if name != "0"}
    left = trial(method, others, tmp_path / "left", classes).round()
    same("ridge", expected["without_first_site"]["W"], left.weights["linear.weight"].T)


def drawn(seed: int, examples: int, width: int, classes: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(2.0, 3.0, (examples, width))), torch.from_numpy(
        rng.integers(0, classes, examples)
    )


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 40), max_size=6), order=st.randoms(), by_label=st.booleans(), seed=st.integers(0, 99)
)
def test_the_partition_does_not_matter(
    cuts: list[int], order: Any, by_label: bool, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whoever holds which rows, down to one class each, the head is the pooled one to 1e-10."""
    inputs, labels = drawn(seed, 40, 6, 3)
    chosen = list(range(40))
    order.shuffle(chosen)
    if by_label:
        chosen.sort(key=lambda row: int(labels[row]))
    edges = [0, *sorted(cuts), 40]
    sites = {f"s{at}": rows(inputs[chosen[a:b]], labels[chosen[a:b]]) for at, (a, b) in enumerate(pairwise(edges))}
    folder = tmp_path_factory.getbasetemp()
    spread = trial(ONE, sites, folder, 3).round()
    pooled = trial(ONE, {"pool": rows(inputs, labels)}, folder, 3).round()
    assert pooled.weights.flat.tolist() == pytest.approx(spread.weights.flat.tolist(), rel=0, abs=1e-10)


def test_it_is_least_squares_with_a_penalty(tmp_path: Path) -> None:
    """Of the standardised, augmented problem, by an ordinary solver."""
    inputs, labels = drawn(5, 30, 4, 3)
    state = trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 3).round()
    x = inputs.numpy()
    spread = x.std(0)
    z = (x - x.mean(0)) / spread
    wide = np.block([[z, np.ones((30, 1))], [np.sqrt(2.0) * np.eye(5)]])
    targets = np.vstack([np.eye(3)[labels.numpy()], np.zeros((5, 3))])
    answer = np.linalg.lstsq(wide, targets, rcond=None)[0]
    own = answer[:4] / spread[:, None]
    assert own.T.ravel().tolist() == pytest.approx(state.weights["linear.weight"].flatten().tolist(), abs=1e-10)
    bias = answer[4] - x.mean(0) @ own
    assert bias.tolist() == pytest.approx(state.weights["linear.bias"].tolist(), abs=1e-10)


def test_sites_that_come_later_add_their_sums(tmp_path: Path) -> None:
    """Drawn one by one, each is asked once; in the end the head is that of all."""
    inputs, labels = drawn(1, 24, 3, 2)
    sites = {name: rows(inputs[at::3], labels[at::3]) for at, name in enumerate("abc")}
    slow, fast = trial(ONE, sites, tmp_path / "slow", 2), trial(ONE, sites, tmp_path / "fast", 2)
    for names in (("a",), ("a", "b"), ("c",), ("a", "b", "c")):
        slow.round(*names)
    assert ["gather"] * 3 == [seen.step for seen in slow.seen]
    assert ("a", "b", "c") == slow.state.names
    expected = fast.round().weights.flat
    assert expected.tolist() == pytest.approx(slow.state.weights.flat.tolist(), abs=1e-12)


def test_validation_counts_choose_the_penalty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The λ under which most validation rows of all sites are right; and without any, the sums decide."""
    inputs, labels = drawn(3, 60, 12, 3)
    valid, truth = drawn(4, 40, 12, 3)
    sites = {name: rows(inputs[at::2], labels[at::2]) for at, name in enumerate("ab")}
    held = {name: rows(valid[at::2], truth[at::2]) for at, name in enumerate("ab")}
    method = Ridge(sharpness=1.0)
    begun = trial(method, sites, tmp_path / "blind", 3)
    state = begun.round()
    doubts = [System(state.sums).doubt(penalty) for penalty in method.penalties]
    assert method.penalties[int(np.argmin(doubts))] == state.penalty

    begun = trial(method, sites, tmp_path / "seen", 3)
    monkeypatch.setattr(begun.host, "opened", lambda name: SiteData(sites[name], sites[name], held[name]))
    state = begun.round()
    hits = []
    for penalty in method.penalties:
        own, bias = System(state.sums).head(penalty)
        hits.append(int(((valid @ own + bias).argmax(1) == truth).sum()))
    assert method.penalties[int(np.argmax(hits))] == state.penalty
    replies: list[Any] = [seen.reply for seen in begun.seen if seen.step == "choose"]
    assert hits == (replies[0] + replies[1]).hits.tolist()


def test_doubt_is_generalised_cross_validation() -> None:
    """By the definition: mean squared residual over (1 − degrees of freedom / n)²; the bias counts as one."""
    inputs, labels = drawn(8, 25, 5, 3)
    site = lonely(DoubleFeatures(5, 3), rows(inputs, labels), None)
    system = System(pooled_sums(site, beginning(5, 3)))
    x = inputs.numpy()
    z = (x - x.mean(0)) / x.std(0)
    y = np.eye(3)[labels.numpy()]
    y = y - y.mean(0)
    for penalty in (0.1, 3.0, 50.0):
        hat = z @ np.linalg.solve(z.T @ z + penalty * np.eye(5), z.T)
        error = ((y - hat @ y) ** 2).sum() / 25 / (1 - (np.trace(hat) + 1) / 25) ** 2
        assert error == pytest.approx(system.doubt(penalty), rel=1e-9)


def test_features_that_say_nothing_have_no_weight(tmp_path: Path) -> None:
    """A constant or a doubled feature makes the sums singular, and does no harm."""
    inputs, labels = drawn(2, 20, 3, 2)
    inputs[:, 1] = 1e4
    inputs[:, 2] = inputs[:, 0]
    state = trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2).round()
    assert state.weights.flat.isfinite().all()
    assert [0.0, 0.0] == state.weights["linear.weight"][:, 1].tolist()


def test_features_that_are_switched_off_have_no_weight(tmp_path: Path) -> None:
    """MiniLM has three, which its last layer multiplies by 1e-9 and 1e-33: standardised, their weights were 1e30."""
    inputs, labels = drawn(2, 20, 4, 2)
    inputs[:, 1] *= 1e-33
    inputs[:, 2] *= 1e-9
    inputs[:, 3] *= 1e-6
    state = trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2).round()
    assert [False, True, True, False] == (state.weights["linear.weight"] == 0).all(0).tolist()


def test_a_penalty_that_leaves_the_sums_singular_is_named(tmp_path: Path) -> None:
    inputs, labels = drawn(2, 4, 9, 2)
    with pytest.raises(Misfit, match=r"penalties has 1e-300, too small for these sums: 4 rows do not tell 9 features"):
        trial(Ridge(penalties=(1e-300, 1.0)), {"a": rows(inputs, labels)}, tmp_path, 2).round()


def test_few_rows_leave_a_site_out_by_name(tmp_path: Path) -> None:
    inputs, labels = drawn(2, 20, 3, 2)
    sites = {"big": rows(inputs[:15], labels[:15]), "small": rows(inputs[15:], labels[15:])}
    begun = trial(Ridge(least_rows=6, penalties=(1.0,)), sites, tmp_path, 2)
    cohort = begun.cohort(sites)
    state = begun.method.round(begun.state, cohort)
    assert ("big",) == state.names
    assert ["small"] == list(cohort.left_out)
    assert cohort.left_out["small"].startswith("gather: refused: it has fewer training rows")


LONE = {"a": ([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0, 1, 2]), "b": ([[1.0, 1.0], [0.5, 2.0]], [0, 1])}


def test_a_class_of_one_site_alone_is_refused_or_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sites = {name: rows(*pair) for name, pair in LONE.items()}
    with pytest.raises(Misfit, match=r'one site alone has 2: .* set lone = "drop"'):
        trial(Ridge(lone="refuse"), sites, tmp_path / "refuse", 3).round()
    dropped = trial(Ridge(lone="drop", penalties=(1.0,)), sites, tmp_path / "drop", 3).round()
    assert 'one site alone has 2: learnt without, as lone = "drop" says' in caplog.messages
    kept = {name: rows(*([row for row, label in zip(*pair, strict=True) if label < 2],
                         [label for label in pair[1] if label < 2])) for name, pair in LONE.items()}  # fmt: skip
    assert trial(Ridge(penalties=(1.0,)), kept, tmp_path / "kept", 3).round().weights == dropped.weights


def test_features_wider_than_rows_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inputs, labels = drawn(2, 6, 9, 2)
    trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2).round()
    assert ["6 rows at all sites together for 9 features"] == [
        record.getMessage().partition(":")[0] for record in caplog.records
    ]


@pytest.mark.parametrize(("field", "why"), [("labels", "do not add up"), ("gram", "is no Gram matrix")])
def test_sums_that_cannot_be_are_found_out(field: str, why: str, tmp_path: Path) -> None:
    inputs, labels = drawn(2, 12, 4, 2)
    begun = trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2)
    begun.round()
    honest: Sums = begun.replies["a"]
    assert begun.method.contradiction(honest, honest) is None
    lie = replace(honest, **{field: getattr(honest, field) * 0.5})
    assert why in str(begun.method.contradiction(honest, lie))


def turned(honest: Sums) -> Tensor:
    """Products that each keep to their factors, and together belong to no rows: of the first three, two go together."""
    gram, width = honest.gram.clone(), len(honest.inputs)
    lengths, places = honest.squares.sqrt(), {pair: at for at, pair in enumerate(upper(width))}
    for (one, two), sign in {(0, 1): 1.0, (1, 2): 1.0, (0, 2): -1.0}.items():
        gram[places[one, two]] = sign * lengths[one] * lengths[two]
    return gram


def upper(width: int) -> list[tuple[int, int]]:
    one, two = torch.triu_indices(width, width).tolist()
    return list(zip(one, two, strict=True))


def lied(honest: Sums) -> dict[str, Sums]:
    """What no rows add up to, each with one thing wrong."""
    nothing, product = torch.zeros_like(honest.labels), honest.gram.clone()
    product[1] = 10 * honest.gram.max()
    return {
        "negative labels": replace(honest, labels=honest.labels + torch.tensor([-50.0, 50.0])),
        "no rows": replace(honest, rows=0, labels=nothing, inputs=honest.inputs * 0, targets=honest.targets * 0),
        "no rows, and targets": replace(honest, rows=0, labels=nothing, inputs=honest.inputs * 0, gram=product * 0),
        "a product larger than its factors": replace(honest, gram=product),
        "less than nothing in one direction": replace(honest, gram=turned(honest)),
        "targets too large": replace(honest, targets=honest.targets * 1e6),
        "targets of other rows": replace(honest, targets=honest.targets.flip(0)),
        "targets that add up, and are too large": replace(
            honest, targets=honest.targets + torch.tensor([1e3, -1e3]).double()
        ),
    }


@pytest.mark.parametrize("lie", lied(Sums(1, *(torch.zeros(size).double() for size in (4, 10, (4, 2), 2)))))
def test_no_rows_have_sums_like_these(lie: str, tmp_path: Path) -> None:
    inputs, labels = drawn(2, 12, 4, 2)
    begun = trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2)
    begun.round()
    assert begun.method.contradiction(begun.replies["a"], lied(begun.replies["a"])[lie]) is not None


def test_targets_along_a_direction_in_which_no_rows_vary_are_found_out(tmp_path: Path) -> None:
    """Two features that are all but the same: each by itself could have such sums, both together cannot."""
    inputs, labels = drawn(2, 60, 4, 2)
    inputs[:, 1] = inputs[:, 0] + 1e-3 * inputs[:, 1]
    begun = trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2)
    begun.round()
    honest: Sums = begun.replies["a"]
    along = torch.tensor([1.0, -1.0, 0.0, 0.0]).double()[:, None] * torch.tensor([1.0, -1.0]).double()
    lie = replace(honest, targets=honest.targets + 10 * along)
    assert (lie.targets.abs() < lie.squares.sqrt()[:, None] * lie.labels.sqrt()).all()
    assert System(lie).head(1.0)[0].norm() > 10 * System(honest).head(1.0)[0].norm()  # what it would have done
    assert "Sums.gram is no Gram matrix of its rows" == begun.method.contradiction(honest, lie)
    assert begun.method.contradiction(honest, honest) is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_honest_sums_are_not_doubted(scale: float, tmp_path: Path) -> None:
    """Constant, doubled and empty features, one class, one row, none."""
    inputs, labels = drawn(2, 3000, 5, 3)
    inputs[:, 1], inputs[:, 2], inputs[:, 3] = 7.1, inputs[:, 0], 0.0
    for count in (0, 1, 2, 3000):
        for mine in (labels, labels * 0):
            begun = trial(ONE, {"a": rows(inputs[:count] * scale, mine[:count])}, tmp_path, 3)
            begun.round()
            assert begun.method.contradiction(begun.replies["a"], begun.replies["a"]) is None


def test_a_feature_that_only_those_who_left_had_has_no_weight(tmp_path: Path) -> None:
    """Of a sum less its parts rounding is left, which would be taken for a feature that varies."""
    inputs, labels = drawn(1, 60, 4, 3)
    inputs[40:, 3] = 0.0
    parts = {name: rows(inputs[at : at + 20], labels[at : at + 20]) for name, at in {"a": 0, "b": 20, "c": 40}.items()}
    begun = trial(ONE, parts, tmp_path / "all", 3)
    left = begun.round().sums - begun.replies["a"] - begun.replies["b"]
    never = trial(ONE, {"c": parts["c"]}, tmp_path / "c", 3).round()
    own, bias = System(left).head(2.0)
    assert never.weights["linear.weight"].flatten().tolist() == pytest.approx(own.T.flatten().tolist(), abs=1e-10)
    assert never.weights["linear.bias"].tolist() == pytest.approx(bias.tolist(), abs=1e-10)
    assert [0.0] * 3 == own[3].tolist()


def test_a_classifier_without_bias_is_solved_without_one(tmp_path: Path) -> None:
    """Nothing is centred then: W = D⁻¹ (D⁻¹ G D⁻¹ + λ I)⁻¹ D⁻¹ B."""
    inputs, labels = drawn(6, 15, 3, 2)
    site = lonely(DoubleFeatures(3, 2), rows(inputs, labels), tmp_path)
    own, bias = System(pooled_sums(site, beginning(3, 2)), centred=False).head(2.0)
    x, y = inputs.numpy(), np.eye(2)[labels.numpy()]
    scale = np.sqrt((x**2).mean(0))
    z = x / scale
    expected = np.linalg.solve(z.T @ z + 2.0 * np.eye(3), z.T @ y) / scale[:, None]
    assert expected.ravel().tolist() == pytest.approx(own.flatten().tolist(), abs=1e-12)
    assert [0.0, 0.0] == bias.tolist()


def test_one_round_is_enough_and_its_bytes_are_counted(tmp_path: Path) -> None:
    """A study's later rounds ask nobody; the journal has λ."""
    tables = {
        "name": "r", "rounds": 3, "method": {"name": "ridge"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40},
    }  # fmt: skip
    lines: list[Any] = []
    result = run(cells(tables)[0].study, tmp_path / "run", progress=lines.append)
    assert [True, False, False] == [line.up > 0 for line in lines]
    assert lines[0].metrics == lines[2].metrics == result.metrics
    assert 0 < lines[0].noted["ridge"]["penalty"]["chosen"]
    assert 0 == lines[0].noted["ridge"]["penalty"]["validation_rows"]


class Losing:
    """Delivers, but loses a site's reply to one step while there are losses left."""

    def __init__(self, engine: Engine, name: str, step: str, times: int = 1) -> None:
        self.engine, self.name, self.step, self.times = engine, name, step, times

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any | Fault]]:
        for name, reply in self.engine.deliver(exchange, step, messages):
            if (name, step.name) == (self.name, self.step) and self.times:
                self.times -= 1
                yield name, Fault("late", "no reply in 60 s")
            else:
                yield name, reply


def a_round(begun: Trial[Solved], *names: str, quorum: int = 1) -> dict[str, str]:
    """One round in which sites may be left out: who, and why."""
    begun.rounds += 1
    cohort = begun.cohort(names or begun.names)
    cohort.quorum = quorum
    begun.state = begun.method.round(begun.state, cohort)
    return cohort.left_out


def three() -> dict[str, FeatureRows]:
    inputs, labels = drawn(1, 60, 3, 2)
    return {name: rows(inputs[at::3], labels[at::3]) for at, name in enumerate("abc")}


def test_a_site_that_leaves_after_its_sums_is_in_the_model_once(tmp_path: Path) -> None:
    """Its sums are in, so is its name; λ is chosen without it."""
    begun = trial(Ridge(), three(), tmp_path / "lost", 2)
    begun.engine = Losing(begun.engine, "b", "choose")
    assert {"b": "choose: late: no reply in 60 s"} == a_round(begun)
    assert ("a", "b", "c") == begun.state.names
    assert {} == a_round(begun)
    assert 60 == begun.state.rows


def test_a_classifier_that_was_made_up_counts_the_validation_rows_of_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What docs/threats.md says is not defended; but no more of them are answered than the study has λ."""
    sites = three()
    method = Ridge(penalties=(1.0, 3.0))
    begun = trial(method, sites, tmp_path, 2)
    monkeypatch.setattr(begun.host, "opened", lambda name: SiteData(sites[name], sites[name], sites[name]))
    begun.rounds = 1
    cohort = begun.cohort(begun.names)
    made_up = Heads(begun.state.weights, torch.zeros(5, 2, 3).double(), torch.eye(5, 2).double())
    total = cohort.total(method.choose, dict.fromkeys(begun.names, made_up))
    labels = torch.cat([one.labels for one in sites.values()])
    assert torch.bincount(labels).tolist() == total.hits.tolist()


def test_few_validation_rows_have_no_vote_and_leave_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = three()
    begun = trial(Ridge(), sites, tmp_path, 2)
    held = {"a": 8, "b": 3, "c": 5}
    monkeypatch.setattr(
        begun.host, "opened",
        lambda name: SiteData(sites[name], sites[name], rows(sites[name].inputs[: held[name]],
                                                             sites[name].labels[: held[name]])),
    )  # fmt: skip
    begun.host.layers, begun.host.least = (LeastExamples(5),), 5
    begun.rounds = 1
    cohort = begun.cohort(begun.names)
    state = begun.method.round(begun.state, cohort)
    assert {} == cohort.left_out
    assert ("a", "b", "c") == state.names
    assert 13 == cohort.noted["ridge"]["penalty"]["validation_rows"]


def test_who_refuses_once_does_not_stop_later_rounds(tmp_path: Path) -> None:
    inputs, labels = drawn(2, 20, 3, 2)
    sites = {"big": rows(inputs[:15], labels[:15]), "small": rows(inputs[15:], labels[15:])}
    begun = trial(Ridge(least_rows=6), sites, tmp_path, 2)
    for _ in range(2):
        assert ["small"] == list(a_round(begun))
        assert (("big",), 15) == (begun.state.names, begun.state.rows)
    with pytest.raises(BelowQuorum, match="0 of 1 sites gave a usable reply"):
        a_round(trial(Ridge(least_rows=6), {"small": sites["small"]}, tmp_path / "alone", 2))


def test_newcomers_fewer_than_the_quorum_wait(tmp_path: Path) -> None:
    """Nobody's sums are seen by themselves because the others were there first."""
    begun = trial(ONE, three(), tmp_path, 2)
    assert {} == a_round(begun, "a", "b", quorum=2)
    assert {"c": "gather: not asked: 1 new, and the quorum is 2"} == a_round(begun, "b", "c", quorum=2)
    assert ["a", "b"] == list(begun.state.names)
    assert {} == a_round(begun, "b", "c")
    assert ["a", "b", "c"] == list(begun.state.names)


def test_all_who_are_in_the_model_choose_the_penalty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the newcomers alone: drawn one after the other or at once, λ is the same."""
    sites = three()
    slow, fast = (trial(Ridge(), sites, tmp_path / name, 2) for name in ("slow", "fast"))
    for begun in (slow, fast):
        monkeypatch.setattr(begun.host, "opened", lambda name: SiteData(sites[name], sites[name], sites[name]))
    a_round(slow, "a", "b")
    slow.rounds += 1
    cohort = slow.cohort(slow.names)
    slow.state = slow.method.round(slow.state, cohort)
    assert 60 == cohort.noted["ridge"]["penalty"]["validation_rows"]
    a_round(fast)
    assert fast.state.penalty == slow.state.penalty


def test_a_class_is_lone_among_those_who_give_sums(tmp_path: Path) -> None:
    """A site too small to give its own does not make another's class common."""
    inputs, _ = drawn(4, 20, 3, 2)
    sites = {"a": rows(inputs[:8], [0, 1] * 4), "b": rows(inputs[8:18], [0] * 10), "c": rows(inputs[18:], [0, 1])}
    begun = trial(Ridge(lone="drop", least_rows=4, penalties=(1.0,)), sites, tmp_path, 2)
    assert {"c": "roll: refused: it has fewer"} == {name: why[:27] for name, why in a_round(begun).items()}
    assert [14.0, 0.0] == begun.state.labels.tolist()

    begun = trial(Ridge(lone="drop", least_rows=6, penalties=(1.0,)), sites, tmp_path / "dropped", 2)
    with pytest.raises(BelowQuorum, match=r"1 of the sites in a sum did not stay to its end \(a: gather: refused"):
        a_round(begun)  # which has four rows of a class that others have, too


def test_a_site_lost_between_roll_and_sums_stops_the_round(tmp_path: Path) -> None:
    inputs, _ = drawn(4, 16, 3, 2)
    sites = {"a": rows(inputs[:8], [0, 1] * 4), "b": rows(inputs[8:], [0, 1] * 4), "c": rows(inputs[:4], [0] * 4)}
    begun = trial(Ridge(lone="drop"), sites, tmp_path, 2)
    begun.engine = Losing(begun.engine, "b", "gather")
    with pytest.raises(BelowQuorum, match="did not stay to its end"):
        a_round(begun)
    assert {} == a_round(begun)
    assert 20 == begun.state.rows


def test_nobody_joins_later_where_lone_classes_are_looked_after(tmp_path: Path) -> None:
    begun = trial(Ridge(lone="drop"), three(), tmp_path, 2)
    a_round(begun, "a", "b")
    assert ["c"] == list(a_round(begun, "a", "c"))
    assert (("a", "b"), 40) == (begun.state.names, begun.state.rows)


def test_a_class_with_too_few_rows_to_leave_is_not_in_the_sums(tmp_path: Path) -> None:
    """Of a class with one row the sum would be that row."""
    inputs, _ = drawn(4, 17, 3, 2)
    begun = trial(ONE, {"a": rows(inputs[:11], [0] * 10 + [1]), "b": rows(inputs[11:], [1] * 6)}, tmp_path, 2)
    begun.host.layers, begun.host.least = (LeastExamples(5),), 5
    state = begun.round()
    assert [10.0, 6.0] == state.labels.tolist()
    sums: Sums = begun.seen[0].reply  # type: ignore[assignment]
    assert not sums.targets[:, 1].any()
    begun = trial(ONE, {"a": rows(inputs[:8], [0, 1] * 4)}, tmp_path / "none", 2)
    begun.host.layers, begun.host.least = (LeastExamples(5),), 5
    assert 0 == begun.round().rows


def test_rows_of_a_class_left_out_are_found_out(tmp_path: Path) -> None:
    inputs, labels = drawn(2, 12, 4, 2)
    begun = trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2)
    begun.round()
    lie: Sums = begun.replies["a"]
    wrong = begun.method.contradiction(Unsolved(begun.state.weights, (1,)), lie)
    assert "Sums.labels has rows of a class that is left out" == wrong


def test_a_small_site_does_not_take_an_honest_classifier_for_too_far(tmp_path: Path) -> None:
    """With one row there is nothing to judge by; with a few, the sums are still those of many sites."""
    inputs, _ = drawn(2, 3000, 30, 2)
    labels = (inputs[:, 0] > 2.0).long()
    inputs = inputs * torch.logspace(-2, 1, 30, dtype=torch.float64)
    method = Ridge()
    honest = trial(method, {"all": rows(inputs, labels)}, tmp_path, 2).round()
    for count in (1, 2, 5, 20, 300):
        site = lonely(DoubleFeatures(30, 2), rows(inputs[:count], labels[:count]), tmp_path)
        assert honest.weights["linear.weight"].norm() < method.farthest(site, beginning(30, 2))


@pytest.mark.parametrize("method", ["ridge", "ridge-sgd"])
@pytest.mark.parametrize("some", [{"fraction": 0.5}, {"per_round": 1}])
def test_lone_classes_cannot_be_told_by_some_of_the_sites(method: str, some: dict[str, Any], tmp_path: Path) -> None:
    tables = {
        "name": "r", "rounds": 1, "method": {"name": method, "lone": "drop"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40}, "sites": some,
    }  # fmt: skip
    with pytest.raises(StudyError, match=r"method\.lone looks for classes that one site alone has"):
        run(cells(tables)[0].study, tmp_path / "run")


@pytest.mark.parametrize("some", [{}, {"model": "encoder", "several": True}])
def test_a_bag_of_words_is_told_what_to_set(some: dict[str, Any], tmp_path: Path) -> None:
    tables = {
        "name": "r", "rounds": 1, "method": {"name": "ridge"}, "task": {"name": "classification", **some},
        "corpus": {"name": "clinic", "hospitals": 2, "documents": 10, "test_documents": 5},
    }  # fmt: skip
    remedy = r'set task\.model = "encoder" or task\.vectors, and leave task\.several out, or choose another method'
    with pytest.raises(StudyError, match=remedy):
        run(cells(tables)[0].study, tmp_path / "run")


def test_without_validation_rows_it_says_what_decides(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inputs, labels = drawn(3, 600, 6, 3)
    state = trial(Ridge(), {"a": rows(inputs, labels)}, tmp_path, 3).round()
    expected = (
        f"no validation rows: λ = {state.penalty:g} is chosen from the sums alone; [validation] takes those of "
        "corpus.valid, or sets some aside: share = 0.1"
    )
    assert [expected] == caplog.messages


@pytest.mark.parametrize("model", ["lstm", "features"])
def test_what_travels_though_nothing_of_it_is_solved_is_told(
    model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {
        "task": {"name": "classification", "model": "lstm", "buckets": 16},
        "corpus": {"name": "clinic", "hospitals": 2, "documents": 20, "test_documents": 5},
    }
    numbers = {"task": {"name": "features"}, "corpus": {"name": "synthetic", "sites": 3, "largest": 40}}
    tables = {"name": "r", "rounds": 1, "method": {"name": "ridge"}, **(texts if model == "lstm" else numbers)}
    run(cells(tables)[0].study, tmp_path / "run")
    told = [line for line in caplog.messages if "travel to every site all the same" in line]
    assert (model == "lstm") == bool(told)
    assert all("set task.freeze to all its layers" in line for line in told)


def test_features_that_are_no_numbers_are_not_blamed_on_a_rate(tmp_path: Path) -> None:
    inputs, labels = drawn(2, 20, 3, 2)
    inputs[0, 0] = float("nan")
    with pytest.raises(BelowQuorum, match=r"holds NaN or infinity.*; look at the model's weights or vectors$"):
        trial(ONE, {"a": rows(inputs, labels)}, tmp_path, 2).round()
