"""The methods give the oracles' numbers, in double precision and through real rounds.

Server rules see the oracle's client models: one SGD step of size 1 on a quadratic of curvature 1 ends in its
minimum, so each site's training lands where the oracle says. Tolerances are those of the oracle files.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import oracle
from double import DoubleFeatures
from oracle import same
from quadratic import LANDS, Quadratic, Trial, bowl, landing, lonely, weights
from wardround.core.optimizer import Adam
from wardround.core.training import LocalTraining, Pull, Term
from wardround.core.weights import Weights
from wardround.methods.fedatt import FedAtt
from wardround.methods.fedavg import FedAvg
from wardround.methods.feddyn import DynamicState, FedDyn, OwnGradient
from wardround.methods.fedpa import FedPA
from wardround.methods.fedprox import FedProx
from wardround.methods.fedsgd import FedSGD
from wardround.methods.scaffold import Controlled, OwnControl, Scaffold
from wardround.runs.fitting import taking_part
from wardround.tasks.features import FeatureRows


class Noted:
    """A term of the loss that adds nothing and notes the gradient so far."""

    def __init__(self) -> None:
        self.gradients: list[Tensor] = []

    def add_gradient(self, flat: Tensor, gradient: Tensor) -> None:  # noqa: ARG002
        self.gradients.append(gradient.clone())


@pytest.mark.parametrize("case", oracle.params("client_sampling"))
def test_oracle_client_sampling(case: oracle.Case) -> None:
    """M = max(C·K, 1) sites take part, whatever binary fractions make of C·K."""
    inputs = case["inputs"]
    assert case["expected"]["m_round_safe"] == taking_part(inputs["fraction"], inputs["num_clients"])
    # m_int_floor is what public code gives where a binary fraction loses a site; we do not.


@pytest.mark.parametrize("case", oracle.params("fedavg"))
def test_oracle_fedavg(case: oracle.Case, tmp_path: Path) -> None:
    """The mean of the sites' models, weighted by examples or uniform."""
    inputs, expected = case["inputs"], case["expected"]
    models = [weights(model) for model in inputs["clients"]]
    start = models[0].zeros()

    sites = {str(k): landing(m, n) for k, (m, n) in enumerate(zip(models, inputs["num_samples"], strict=True))}
    weighted = Trial(FedAvg(**LANDS), Quadratic(start), sites, start, tmp_path)
    same("fedavg", expected["weighted_mean"], weighted.round().weights)
    sizes = [reply.weight for reply in weighted.replies.values()]
    same("fedavg", expected["weights"], [size / sum(sizes) for size in sizes])

    # A site without examples cannot move; here it has one, since a uniform mean looks at no sizes.
    sites = {str(k): landing(model, max(n, 1)) for k, (model, n) in enumerate(zip(models, sizes, strict=True))}
    uniform = Trial(FedAvg(mean="uniform", **LANDS), Quadratic(start), sites, start, tmp_path)
    same("fedavg", expected["uniform_mean"], uniform.round().weights)


@pytest.mark.parametrize("case", oracle.params("fedsgd"))
def test_oracle_fedsgd(case: oracle.Case, tmp_path: Path) -> None:
    """One step along the mean of the sites' gradients, weighted by examples."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights(inputs["theta"])
    pairs = zip(inputs["client_grads"], inputs["num_samples"], strict=True)
    sites = {str(k): landing(start - weights(gradient), n) for k, (gradient, n) in enumerate(pairs)}
    trial = Trial(FedSGD(lr=inputs["lr"]), Quadratic(start), sites, start, tmp_path)
    same("fedsgd", expected["theta_next"], trial.round().weights)
    gradient = sum((reply.gradient for reply in trial.replies.values()), start.zeros())
    same("fedsgd", expected["grad"], gradient / sum(inputs["num_samples"]))


@pytest.mark.parametrize("norm", ["spectral", "frobenius"])
@pytest.mark.parametrize("case", oracle.params("fedatt"))
def test_oracle_fedatt(case: oracle.Case, norm: Any, tmp_path: Path) -> None:
    """Per tensor, a softmax of distances weighs the sites; sums suffice to compute it."""
    inputs, expected = case["inputs"], case["expected"][norm]
    start = weights(inputs["server"])
    sites = {str(k): landing(weights(model)) for k, model in enumerate(inputs["clients"])}
    method = FedAtt(step=inputs["stepsize"], norm=norm, **LANDS)
    trial = Trial(method, Quadratic(start), sites, start, tmp_path)
    same("fedatt", expected["server_next"], trial.round().weights)
    same("fedatt", expected["distances"], by_tensor(start, [reply.distance for reply in trial.replies.values()]))
    same("fedatt", expected["attention"], by_tensor(start, attention(trial)))


@pytest.mark.parametrize(
    ("reading", "options"),
    [
        ("global_norm", {}),
        ("layer_wise", {"per_tensor": True}),
        ("global_norm_inverted", {"nearer": True}),
    ],
)
@pytest.mark.parametrize("case", oracle.params("fedpa_aggregation"))
def test_oracle_fedpa_aggregation(case: oracle.Case, reading: str, options: Any, tmp_path: Path) -> None:
    """One distance over all parameters weighs the sites, as printed, layer by layer or turned round."""
    inputs, expected = case["inputs"], case["expected"][reading]
    start = weights(inputs["server"])
    sites = {str(k): landing(weights(model)) for k, model in enumerate(inputs["clients"])}
    trial = Trial(FedPA(step=inputs["stepsize"], **options, **LANDS), Quadratic(start), sites, start, tmp_path)
    after = trial.round().weights
    same("fedpa_aggregation", expected["server_next"], after)
    if reading == "layer_wise":
        same("fedpa_aggregation", expected["attention"], by_tensor(start, attention(trial)))
    else:
        same("fedpa_aggregation", expected["attention"], [float(share) for share in attention(trial)])
    if reading == "global_norm":
        distances = [float(reply.distance) for reply in trial.replies.values()]
        same("fedpa_aggregation", expected["distances"], distances)
        same("fedpa_aggregation", expected["gradient"], (start - after) / inputs["stepsize"])  # eq. 14 read backwards


@pytest.mark.parametrize("case", oracle.params("padam"))
def test_oracle_padam(case: oracle.Case, tmp_path: Path) -> None:
    """Local Adam and plain SGD under a pull towards the global model follow the oracle step by step."""
    inputs, expected = case["inputs"], case["expected"]
    start, centre = weights(inputs["theta0"]), weights(inputs["theta_global"])
    site = lonely(Quadratic(start), bowl(inputs["curvature"], inputs["minimum"]), tmp_path)
    betas, steps = (inputs["beta1"], inputs["beta2"]), inputs["steps"]
    noted = Noted()
    adam = Adam(inputs["lr"], betas, inputs["eps"], start.flat)
    for step in range(1, steps + 1):
        terms: list[Term] = [Pull(inputs["mu"], centre), noted]
        plain = LocalTraining(lr=inputs["lr"], steps=step)
        same("padam", expected["pgd_theta"][step - 1], plain.train(site, start, terms[:1]).weights)
        own = LocalTraining(lr=inputs["lr"], steps=step, optimizer="adam", betas=betas, eps=inputs["eps"])
        same("padam", expected["padam"][step - 1]["theta"], own.train(site, start, terms).weights)
        same("padam", expected["padam"][step - 1]["grad"], noted.gradients[-1])
        adam.step(start.flat.clone(), noted.gradients[-1])
        same("padam", expected["padam"][step - 1]["m"], adam.first)
        same("padam", expected["padam"][step - 1]["v"], adam.second)
        # m_hat and v_hat exist only inside Adam's one expression.
    # objective0: the value of the pull is never computed, only its gradient.


@pytest.mark.parametrize("case", oracle.params("fedprox"))
def test_oracle_fedprox(case: oracle.Case, tmp_path: Path) -> None:
    """The proximal term adds μ(θ − θ_global) to the gradient of every step."""
    inputs, expected = case["inputs"], case["expected"]
    start, centre = weights(inputs["params"]), weights(inputs["global"])
    site = lonely(Quadratic(start), bowl(inputs["curvature"], inputs["minimum"]), tmp_path)
    method = FedProx(mu=inputs["mu"], lr=inputs["lr"], steps=inputs["steps"])
    noted = Noted()
    same("fedprox", expected["params_after"], method.train(site, start, [*method.terms(centre), noted]).weights)
    total = Weights.of_flat(noted.gradients[0], start.layout)
    same("fedprox", expected["total_grad"], total)
    same("fedprox", expected["loss_grad"], method.full_gradient(site, start))
    # prox_term: the value of the term is never computed, only its gradient.


@pytest.mark.parametrize("case", oracle.params("scaffold"))
def test_oracle_scaffold(case: oracle.Case, tmp_path: Path) -> None:
    """Option II: local models step by step, both controls and the shared model, with idle sites, round after round."""
    inputs, expected = case["inputs"], case["expected"]
    rounds = expected.get("rounds", [expected])
    chosen = inputs["selected"] if "rounds" in expected else [inputs["selected"]]
    start = weights(inputs["x"])
    pairs = zip(inputs["curvature"], inputs["minimum"], inputs["num_samples"], strict=True)
    sites = {str(k): bowl(*pair) for k, pair in enumerate(pairs)}

    def trial(steps: int, state: Controlled, controls: list[list[float]], folder: Path) -> Trial[Controlled]:
        method = Scaffold(lr=inputs["lr"], steps=steps, server_lr=inputs["global_lr"])
        begun = Trial(method, Quadratic(start), sites, start, folder)
        begun.state = state
        for name, control in zip(sites, controls, strict=True):
            begun.keep(name, OwnControl(weights(control)))
        return begun

    state, controls = Controlled(start, weights(inputs["c"])), inputs["c_i"]
    whole = trial(inputs["local_steps"], state, controls, tmp_path / "whole")
    for number, (selected, wanted) in enumerate(zip(chosen, rounds, strict=True)):
        names = [str(k) for k in selected]
        for steps in range(1, inputs["local_steps"]):  # the way to the local models
            short = trial(steps, state, controls, tmp_path / f"{number}-{steps}")
            short.round(*names)
            for name in names:
                same("scaffold", wanted["y_trace"][name][steps - 1], state.weights + short.replies[name].change)
        before, state = state, whole.round(*names)
        for name in names:
            same("scaffold", wanted["y_trace"][name][-1], before.weights + whole.replies[name].change)
        controls = [whole.kept(name, OwnControl).control.flat.tolist() for name in sites]
        same("scaffold", wanted["c_i_new"], controls)
        same("scaffold", wanted["x_new"], state.weights)
        same("scaffold", wanted["c_new"], state.control)
    # x_new_sample_weighted_glr1 is NIID-Bench's rule; ours is the paper's uniform mean.


@pytest.mark.parametrize("case", oracle.params("feddyn"))
def test_oracle_feddyn(case: oracle.Case, tmp_path: Path) -> None:
    """Site models and gradients, drift and shared model agree in every round; idle sites keep what they have."""
    inputs, expected = case["inputs"], case["expected"]
    start, alpha = weights(inputs["server"]), inputs["alpha"]
    pairs = zip(inputs["curvature"], inputs["minimum"], strict=True)
    sites = {str(k): bowl(*pair) for k, pair in enumerate(pairs)}
    method = FedDyn(lr=inputs["lr"], steps=inputs["local_steps"], alpha=alpha)
    trial = Trial(method, Quadratic(start), sites, start, tmp_path)
    for selected, wanted in zip(inputs["selected_per_round"], expected["rounds"], strict=True):
        before = trial.state.weights
        state: DynamicState = trial.round(*map(str, selected))
        models = {name: (before + reply.change).flat.tolist() for name, reply in trial.replies.items()}
        same("feddyn", wanted["client_models"], models)
        none = OwnGradient(start.zeros())
        gradients = [trial.kept(name, OwnGradient, none).gradient.flat.tolist() for name in sites]
        same("feddyn", wanted["client_grads"], gradients)
        same("feddyn", wanted["h"], state.drift)
        same("feddyn", wanted["server"], state.weights)
        same("feddyn", wanted["mean_selected"], state.weights + state.drift / alpha)  # θ_s = mean − h/α, turned round


@pytest.mark.parametrize("case", oracle.params("feddyn_authors_logreg"))
def test_oracle_feddyn_authors_logreg(case: oracle.Case, tmp_path: Path) -> None:
    """With `by_size`, logistic regression at sites of unequal sizes goes as in the authors' code."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights({"linear.weight": inputs["weight0"], "linear.bias": inputs["bias0"]})
    sites = {
        str(k): FeatureRows(torch.tensor(x, dtype=torch.float64), torch.tensor(y))
        for k, (x, y) in enumerate(zip(inputs["X"], inputs["Y"], strict=True))
    }
    classes, features = start["linear.weight"].shape
    steps = inputs["local_steps"]
    method = FedDyn(by_size=True, alpha=inputs["alpha"], lr=inputs["lr"], batch=0, steps=steps)
    trial = Trial(method, DoubleFeatures(features, classes), sites, start, tmp_path)
    state = trial.round()
    changes = [reply.change for reply in trial.replies.values()]
    name = "feddyn_authors_logreg"
    same(name, expected["client_params"], [(start + change).flat.tolist() for change in changes])
    same(name, expected["history"], [change.flat.tolist() for change in changes])
    same(name, expected["server_params"], state.weights.flat)
    # A site remembers −α_k · history_k: what it keeps shows the α that it used.
    pairs = zip(expected["alpha_per_client"], expected["history"], strict=True)
    for site, (alpha, history) in zip(sites, pairs, strict=True):
        same(name, [-alpha * number for number in history], trial.kept(site, OwnGradient).gradient.flat)


def attention(trial: Trial[Any]) -> list[Tensor]:
    """Each site's share of the last round's attention."""
    unnormalised = [reply.attention for reply in trial.replies.values()]
    return [share / torch.stack(unnormalised).sum(0) for share in unnormalised]


def by_tensor(like: Weights, per_site: list[Tensor]) -> dict[str, list[float]]:
    """One number per site and tensor, turned to one list of sites per tensor."""
    return {name: [float(numbers[index]) for numbers in per_site] for index, name in enumerate(like)}
