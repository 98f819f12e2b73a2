"""Server optimisers, normalised averaging and personal models give the oracles' numbers, through real rounds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import oracle
from double import DoubleFeatures
from oracle import same
from quadratic import LANDS, Quadratic, Trial, bowl, landing, lonely, weights
from wardround.core.bench import Bench, OwnPart
from wardround.core.weights import Layout, Weights
from wardround.methods import METHODS
from wardround.methods.fedavg import FedAvg
from wardround.methods.fednova import FedNova, Normalised
from wardround.methods.fedopt import FedOpt
from wardround.methods.fedproto import FedProto, Prototypes
from wardround.methods.personal import Ditto, FedRep, FineTune, PersonalModel
from wardround.methods.references import Local, OwnModel
from wardround.methods.scaffold import Controlled, OwnControl, Scaffold
from wardround.runs.loop import run
from wardround.study.load import cells
from wardround.study.settings import StudyError
from wardround.tasks.features import FeatureRows


@pytest.mark.parametrize("name", ["fedavgm", "fedadagrad", "fedadam", "fedyogi"])
@pytest.mark.parametrize("case", oracle.params("fedopt"))
def test_oracle_fedopt(case: oracle.Case, name: str, tmp_path: Path) -> None:
    """The coordinator's optimiser goes along the mean change, round after round; its names are its rules."""
    inputs = case["inputs"]
    start = weights(inputs["x"])
    chosen = {**METHODS[name].settings, "server_lr": inputs["eta"], "tau": inputs["tau"]}
    method = FedOpt(mean="uniform", beta1=inputs["beta1"], beta2=inputs["beta2"], **chosen, **LANDS)
    assert inputs["v0"] == pytest.approx(inputs["tau"] ** 2)
    state: Any = None
    for changes, wanted in zip(inputs["changes_by_round"], case["expected"][name], strict=True):
        before = start if state is None else state.weights
        sites = {str(k): landing(before + weights(change)) for k, change in enumerate(changes)}
        trial = Trial(method, Quadratic(start), sites, start, tmp_path)
        trial.state = trial.state if state is None else state
        state = trial.round()
        same("fedopt", wanted, state.weights)


@pytest.mark.parametrize("case", oracle.params("fednova"))
def test_oracle_fednova(case: oracle.Case, tmp_path: Path) -> None:
    """A site's change counts per step; two sums suffice."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights(inputs["x"])
    replies = []
    for k, (model, steps, samples) in enumerate(
        zip(inputs["local_models"], inputs["local_steps"], inputs["num_samples"], strict=True)
    ):
        # One step of size 1 - (1 - 1)^steps lands at once; the rest of the steps stay there.
        alone = Trial(FedNova(lr=1.0, steps=steps), Quadratic(start), {"k": landing(weights(model), samples)}, start,
                      tmp_path / str(k))  # fmt: skip
        alone.round()
        replies.append(alone.replies["k"])
    total = replies[0]
    for reply in replies[1:]:
        total += reply
    same("fednova", expected["tau_eff"], total.steps / total.examples)
    same("fednova", expected["x_new"], start + total.change * (total.steps / total.examples**2))


def test_fednova_weighs_sites_that_take_different_numbers_of_steps(tmp_path: Path) -> None:
    """Through a whole round over sites of one and of three batches, by the paper's formula."""
    task = DoubleFeatures(2, 2)
    start = weights({"linear.weight": [[0.1, 0.2], [0.0, -0.1]], "linear.bias": [0.0, 0.0]})
    rows = {"a": [[1.0, 2.0], [0.5, -1.0]], "b": [[0.3, 1.0], [2.0, 0.1], [-1.0, 0.4], [0.2, 0.2], [1.5, -2.0]]}
    sites = {name: FeatureRows(weights(x)["w"], torch.arange(len(x)) % 2) for name, x in rows.items()}
    local: dict[str, Any] = {"lr": 0.5, "batch": 2}
    changes = {}
    for name, site in sites.items():
        alone = Trial(FedAvg(**local), task, {name: site}, start, tmp_path / name)
        changes[name] = alone.round().weights - start
    effective = 2 / 7 * 1 + 5 / 7 * 3
    expected = start + (changes["a"] * (2 / 7 / 1) + changes["b"] * (5 / 7 / 3)) * effective
    actual = Trial(FedNova(**local), task, sites, start, tmp_path / "both").round().weights
    assert expected.flat.tolist() == pytest.approx(actual.flat.tolist(), rel=1e-12)
    assert actual != Trial(FedAvg(**local), task, sites, start, tmp_path / "plain").round().weights


def test_steps_that_no_site_can_take_are_found_out() -> None:
    """By the passes that the study has, or exactly where it counts steps."""
    change = weights([1.0])
    honest = Normalised(change, 25, 25 * 3.0)
    for method, most in ((FedNova(batch=10), 3), (FedNova(batch=10, epochs=2), 6), (FedNova(steps=4), 4)):
        assert method.contradiction(honest, Normalised(change, 25, 25.0 * most)) is None
        for steps in (25.0 * (most + 1), -25.0):
            assert "Normalised.steps" in str(method.contradiction(honest, Normalised(change, 25, steps)))


def test_fednova_with_equal_steps_is_fedavg(tmp_path: Path) -> None:
    """Through whole rounds: where every site takes as many steps, dividing by them changes nothing."""
    start = weights([0.5, -1.0, 2.0])
    sites = {"a": bowl([1.0, 0.5, 0.2], [0.0, 1.0, 2.0], 3), "b": bowl([0.3, 0.9, 1.1], [4.0, 1.0, -2.0], 11)}
    local: dict[str, Any] = {"lr": 0.1, "steps": 4}
    nova = Trial(FedNova(**local), Quadratic(start), sites, start, tmp_path / "nova")
    plain = Trial(FedAvg(**local), Quadratic(start), sites, start, tmp_path / "plain")
    for _ in range(3):
        expected = plain.round().weights.flat
        assert expected.tolist() == pytest.approx(nova.round().weights.flat.tolist(), rel=1e-12)


@pytest.mark.parametrize("case", [case for case in oracle.cases("scaffold") if "rounds" not in case["expected"]])
def test_oracle_scaffold_weighted(case: oracle.Case, tmp_path: Path) -> None:
    """By size, the shared model is the mean of the local ones weighted by samples; controls are the paper's."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights(inputs["x"])
    pairs = zip(inputs["curvature"], inputs["minimum"], inputs["num_samples"], strict=True)
    sites = {str(k): bowl(*pair) for k, pair in enumerate(pairs)}
    method = Scaffold(mean="weighted", lr=inputs["lr"], steps=inputs["local_steps"])
    trial = Trial(method, Quadratic(start), sites, start, tmp_path)
    trial.state = Controlled(start, weights(inputs["c"]))
    for name, control in zip(sites, inputs["c_i"], strict=True):
        trial.keep(name, OwnControl(weights(control)))
    state = trial.round(*(str(k) for k in inputs["selected"]))
    same("scaffold", expected["x_new_sample_weighted_glr1"], state.weights)
    same("scaffold", expected["c_new"], state.control)


@pytest.mark.parametrize("case", oracle.params("ditto"))
def test_oracle_ditto(case: oracle.Case, tmp_path: Path) -> None:
    """A site's own model steps along its loss and a pull to the shared model, which moves as FedAvg's."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights(inputs["global"])
    sites = {"a": bowl(inputs["curvature"], inputs["minimum"])}
    for steps, wanted in enumerate(expected["personal_trace"], 1):
        local: dict[str, Any] = {"lr": inputs["lr"], "steps": steps}
        trial = Trial(Ditto(pull=inputs["lambda"], **local), Quadratic(start), sites, start, tmp_path / str(steps))
        trial.keep("a", PersonalModel(weights(inputs["personal"])))
        shared = Trial(FedAvg(**local), Quadratic(start), sites, start, tmp_path / f"{steps}-shared").round()
        assert shared == trial.round()
        same("ditto", wanted, trial.kept("a", PersonalModel).weights)


@dataclass(frozen=True, eq=False)
class Scaled:
    """Rows and numbers to be met."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)


class Product:
    """f(x) = Σ head · body · x, and half its mean squared error."""

    def __init__(self, width: int) -> None:
        self.width = width

    def model(self) -> nn.Module:
        model = nn.Module()
        for part in ("body", "head"):
            model.add_module(part, nn.Module())
            tensor = torch.zeros(self.width, dtype=torch.float64)
            model.get_submodule(part).register_parameter("w", nn.Parameter(tensor))
        return model

    def batches(self, examples: Scaled, size: int, rng: Any) -> Iterator[Scaled]:  # noqa: ARG002
        yield examples

    def loss(self, model: nn.Module, batch: Scaled) -> Tensor:
        product = model.get_parameter("head.w") * model.get_parameter("body.w")
        loss: Tensor = 0.5 * (batch.x @ product - batch.y).square().mean()
        return loss

    def count(self, model: nn.Module, examples: Scaled) -> Mapping[str, Tensor]:
        return {"loss": self.loss(model, examples).detach()}

    def counts(self) -> Layout:
        return Layout([("loss", ())])

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        return {"loss": float(counts["loss"])}

    def sizes(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize("case", oracle.params("fedrep"))
def test_oracle_fedrep(case: oracle.Case, tmp_path: Path) -> None:
    """Heads step first and stay, bodies step then and are averaged by rows."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights({"body.w": inputs["body"]})
    rows = zip(inputs["x"], inputs["y"], strict=True)
    sites = {str(k): Scaled(weights(x)["w"], weights(y)["w"]) for k, (x, y) in enumerate(rows)}
    method = FedRep(lr=inputs["lr"], epochs=inputs["body_steps"], head_epochs=inputs["head_steps"])
    trial = Trial(method, Product(len(inputs["body"])), sites, start, tmp_path, private=("head",))
    for name, head in zip(sites, inputs["heads"], strict=True):
        trial.keep(name, OwnPart(weights({"head.w": head})))
    same("fedrep", expected["body_next"], trial.round().weights)
    heads = [trial.kept(name, OwnPart).weights.flat.tolist() for name in sites]
    same("fedrep", expected["heads"], heads)
    bodies = [(start + reply.change / reply.weight).flat.tolist() for reply in trial.replies.values()]
    same("fedrep", expected["bodies"], bodies)


def test_fedrep_without_a_private_head_is_fedavg(tmp_path: Path) -> None:
    start = weights([0.5, -1.0])
    sites = {"a": bowl([1.0, 0.5], [0.0, 1.0], 3), "b": bowl([0.3, 0.9], [4.0, 1.0], 11)}
    plain = Trial(FedAvg(lr=0.1), Quadratic(start), sites, start, tmp_path / "plain")
    assert plain.round() == Trial(FedRep(lr=0.1), Quadratic(start), sites, start, tmp_path / "rep").round()


@pytest.mark.parametrize("case", oracle.params("finetune"))
def test_oracle_finetune(case: oracle.Case, tmp_path: Path) -> None:
    """The shared model is FedAvg's; each site is tried with what its own training makes of it."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights(inputs["x"])
    pairs = zip(inputs["curvature"], inputs["minimum"], inputs["num_samples"], strict=True)
    sites = {str(k): bowl(*pair) for k, pair in enumerate(pairs)}
    method = FineTune(lr=inputs["lr"], epochs=inputs["local_steps"], own_epochs=inputs["own_steps"])
    trial = Trial(method, Quadratic(start), sites, start, tmp_path)
    plain = Trial(FedAvg(lr=inputs["lr"], epochs=inputs["local_steps"]), Quadratic(start), sites, start, tmp_path)
    same("finetune", expected["x_new"], trial.round().weights)
    assert trial.state == plain.round()
    for name, own, shared in zip(sites, expected["own_loss"], expected["shared_loss"], strict=True):
        same("finetune", own, trial.tried(name)["loss"])
        same("finetune", shared, plain.tried(name)["loss"])
    site = lonely(Quadratic(start), sites["0"], tmp_path)
    same("finetune", expected["own"][0], method.weights_at(site, trial.state.weights))


@pytest.mark.parametrize("case", oracle.params("fedproto"))
def test_oracle_fedproto(case: oracle.Case, tmp_path: Path) -> None:
    """Prototypes are means over all sites' rows; the loss pulls features to those of their class."""
    inputs, expected = case["inputs"], case["expected"]
    classifier = weights(inputs["W"])["w"]
    classes, width = classifier.shape
    task = DoubleFeatures(width, classes)
    start = Weights({"linear.weight": classifier, "linear.bias": torch.zeros(classes, dtype=torch.float64)})
    rows = zip(inputs["features"], inputs["labels"], strict=True)
    sites = {str(k): FeatureRows(weights(x)["w"], torch.tensor(y)) for k, (x, y) in enumerate(rows)}
    method = FedProto(pull=inputs["lambda"], lr=0.1)
    trial = Trial(method, task, sites, start, tmp_path)
    state: Prototypes = trial.round()
    same("fedproto", expected["prototypes"], state.places)
    assert expected["known"] == state.known.tolist()
    assert start == state.weights

    bench = Bench.of(task)
    batch = FeatureRows(weights(inputs["batch"])["w"].requires_grad_(), torch.tensor(inputs["targets"]))
    bench.gradient.zero_()
    loss = method.loss(task, state)(bench.load(start), batch)
    loss.backward()  # type: ignore[no-untyped-call]
    same("fedproto", expected["loss"], loss.detach())
    same("fedproto", expected["grad_features"], batch.inputs.grad)
    same("fedproto", expected["grad_W"], bench.model.get_parameter("linear.weight").grad)


def test_sites_without_a_pull_train_alone(tmp_path: Path) -> None:
    """Ditto's and FedProto's own models are then those of `local`, but for the order of the batches."""
    task = DoubleFeatures(2, 2)
    start = weights({"linear.weight": [[0.1, 0.2], [0.0, -0.1]], "linear.bias": [0.0, 0.0]})
    sites = {"a": FeatureRows(weights([[1.0, 2.0], [0.5, -1.0]])["w"], torch.tensor([0, 1]))}
    local: dict[str, Any] = {"lr": 0.5, "batch": 0}
    trials = [
        Trial(method, task, sites, start, tmp_path / type(method).__name__)
        for method in (Local(**local), FedProto(pull=0, **local), Ditto(pull=0, **local))
    ]
    for trial in trials:
        trial.round()
        trial.round()
    alone, proto, ditto = trials
    own = alone.kept("a", OwnModel).weights
    assert own == proto.kept("a", OwnModel).weights
    assert own.flat.tolist() == pytest.approx(ditto.kept("a", PersonalModel).weights.flat.tolist(), rel=1e-12)


@pytest.mark.parametrize("name", ["ditto", "finetune"])
def test_a_second_model_beside_private_parts_is_refused(name: str, tmp_path: Path) -> None:
    """It would train them twice a round, or whenever the model is tried."""
    tables = {
        "name": "twice", "rounds": 1, "method": {"name": name}, "task": {"name": "tagging"},
        "corpus": {"name": "clinic", "documents": 3, "test_documents": 1}, "sites": {"private": ["crf"]},
    }  # fmt: skip
    with pytest.raises(StudyError, match=f"method '{name}' has each site train a second model"):
        run(cells(tables)[0].study, tmp_path / "run")
