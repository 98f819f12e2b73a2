"""Methods for skewed labels: their losses are the oracles', and what they know of labels stays at the site."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import oracle
from double import DoubleFeatures
from oracle import same
from quadratic import Trial, lonely
from wardround.core.bench import Bench
from wardround.core.training import Loss
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg
from wardround.methods.fedcmc import FedCMC, similarity
from wardround.methods.fedlc import FedLC
from wardround.methods.fedrs import FedRS
from wardround.methods.moon import MOON, PreviousModel, contrast
from wardround.runs.loop import run
from wardround.runs.protocol import toy
from wardround.tasks.classification import Classification, OneLabelTask
from wardround.tasks.features import FeatureRows
from wardround.text.document import Document
from wardround.text.texts import Texts


def tensor(numbers: Any) -> Tensor:
    """Nested lists in double precision."""
    return torch.tensor(numbers, dtype=torch.float64)


def examples(labels: list[int], width: int) -> FeatureRows:
    """Rows that say nothing, with these labels."""
    return FeatureRows(torch.zeros(len(labels), width, dtype=torch.float64), torch.tensor(labels, dtype=torch.int64))


def unbiased(classifier: Tensor) -> Weights:
    """A logistic regression with these vectors."""
    return Weights({"linear.weight": classifier, "linear.bias": torch.zeros(len(classifier), dtype=torch.float64)})


class Judged:
    """A loss on one batch, and its gradients."""

    def __init__(self, task: DoubleFeatures, loss: Loss, classifier: Tensor, inputs: Any, labels: list[int]) -> None:
        model: nn.Module = Bench.of(task).load(unbiased(classifier))
        batch = FeatureRows(tensor(inputs).requires_grad_(), torch.tensor(labels))
        Bench.of(task).gradient.zero_()
        self.loss = loss(model, batch)
        self.loss.backward()  # type: ignore[no-untyped-call]
        self.inputs = batch.inputs.grad
        self.classifier = model.get_parameter("linear.weight").grad


def judged_at(method: FedAvg, classifier: Tensor, inputs: Any, labels: list[int], counts: list[int]) -> Judged:
    """A method's loss at a site with so many examples of each class."""
    classes, width = classifier.shape
    task = DoubleFeatures(width, classes)
    held = examples([label for label, count in enumerate(counts) for _ in range(count)], width)
    loss = method.loss(lonely(task, held, folder=None), unbiased(classifier))
    return Judged(task, loss, classifier, inputs, labels)


@pytest.mark.parametrize("reading", ["paper", "code"])
@pytest.mark.parametrize("case", oracle.params("fedrs"))
def test_oracle_fedrs(case: oracle.Case, reading: str) -> None:
    """Scores of missing classes are scaled down, or of all classes by their share as in the authors' code."""
    inputs, expected = case["inputs"], case["expected"][reading]
    method = FedRS(alpha=inputs["alpha"], by_share=reading == "code")
    same("fedrs", expected["scale"], method.scale(tensor(inputs["class_counts"])))
    features, labels, counts = inputs["features"], inputs["labels"], inputs["class_counts"]
    judged = judged_at(method, tensor(inputs["W"]), features, labels, counts)
    same("fedrs", expected["loss"], judged.loss.detach())
    same("fedrs", expected["grad_W"], judged.classifier)
    same("fedrs", expected["grad_h"], judged.inputs)


@pytest.mark.parametrize("case", oracle.params("fedlc"))
def test_oracle_fedlc(case: oracle.Case) -> None:
    """Scores are lowered by a margin that grows with rarity; absent classes are out of the softmax."""
    inputs, expected = case["inputs"], case["expected"]
    method = FedLC(tau=inputs["tau"])
    same("fedlc", expected["margin"], method.margin(tensor(inputs["class_counts"])))
    scores, labels, counts = inputs["logits"], inputs["labels"], inputs["class_counts"]
    judged = judged_at(method, torch.eye(len(counts), dtype=torch.float64), scores, labels, counts)
    same("fedlc", expected["loss_full_denominator"], judged.loss.detach())
    same("fedlc", expected["grad_logits_full"], judged.inputs)
    # loss_paper_excluding_target has no lower bound: nobody trains with it.


def test_an_absent_class_counts_as_many_examples_as_a_study_says() -> None:
    """With 1, its margin is that of a class with a single example; of the others nothing changes."""
    tally = torch.tensor([16.0, 1.0, 0.0])
    assert [0.5, 1.0, 100.0] == pytest.approx(FedLC(tau=1.0).margin(tally).tolist())
    assert [0.5, 1.0, 1.0] == pytest.approx(FedLC(tau=1.0, absent=1.0).margin(tally).tolist())


@pytest.mark.parametrize("case", oracle.params("moon"))
def test_oracle_moon(case: oracle.Case) -> None:
    """The contrast by cosine and temperature, with its gradient; of one previous model or several."""
    inputs, expected = case["inputs"], case["expected"]
    features = tensor(inputs["z"]).requires_grad_()
    far = [tensor(previous) for previous in inputs["z_previous"]]
    scores = contrast(features, tensor(inputs["z_global"]), *far, temperature=inputs["temperature"])
    same("moon", expected["con_mean"], scores.detach())
    entropy = functional.cross_entropy(tensor(inputs["logits"]), torch.tensor(inputs["labels"]))
    same("moon", expected["total"], (entropy + inputs["mu"] * scores).detach())
    scores.backward()  # type: ignore[no-untyped-call]
    same("moon", expected["grad_con_wrt_z"], features.grad)


def lstm(folder: Path, method: FedAvg) -> Trial[Any]:
    """Two sites of a few texts, whose features are learnt, under a method."""
    torch.manual_seed(0)
    chosen = Classification(model="lstm", buckets=50, embedding=4, hidden=3)
    task = OneLabelTask(chosen, ("a", "b", "c"))
    actual = {"x": ["fever ab", "cough bc b", "chest a"], "y": ["pain", "film ca", "rash and fever b", "none c"]}
    sites = {
        name: task.examples(
            Texts(tuple(Document(text, text, (text[-1] if text[-1] in "abc" else "a",)) for text in own))
        )
        for name, own in actual.items()
    }
    return Trial(method, task, sites, Weights.of_model(task.model()), folder)


def test_moon_contrasts_with_the_shared_and_the_sites_own_last_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round is FedAvg's, bit for bit; in the second, one step goes down the gradient of both terms."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))
    step: dict[str, Any] = {"lr": 0.5, "batch": 0, "steps": 1}
    trial, plain = lstm(tmp_path / "moon", MOON(mu=3.0, **step)), lstm(tmp_path / "plain", FedAvg(**step))
    first = trial.round()
    assert plain.round() == first
    previous = {name: trial.kept(name, PreviousModel).weights for name in ("x", "y")}
    assert previous["x"] != previous["y"]
    trial.round()
    task: Any = trial.host.task
    for name, own in previous.items():
        examples: Any = trial.host.opened(name).train
        batch = examples.batch(torch.arange(len(examples)))
        bench = Bench.of(task)
        with torch.no_grad():
            near, far = (task.features(bench.load(weights), batch) for weights in (first.weights, own))
        model = bench.load(first.weights)
        bench.gradient.zero_()
        features = task.features(model, batch)
        entropy = functional.cross_entropy(task.scores(model, features), batch.labels)
        pair = torch.stack([torch.cosine_similarity(features, other, dim=1) for other in (near, far)])
        (entropy - 3.0 * (pair / 0.5).log_softmax(0)[0].mean()).backward()  # type: ignore[no-untyped-call]
        change = trial.replies[name].change / len(examples)
        torch.testing.assert_close(-0.5 * bench.gradient, change.flat)


def test_by_cosine_the_contrast_does_not_grow_with_the_features() -> None:
    """Of vectors of length 1 it is the dot product over the temperature, whatever the length of the features."""
    task = DoubleFeatures(2, 2)
    majors, classifier = torch.eye(2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
    inputs, labels = tensor([[0.6, 0.8], [1.0, 0.0]]), [0, 0]
    actual = [
        Judged(task, FedCMC(temperature=0.5).loss(task, 7 * majors), classifier, (size * inputs).tolist(), labels).loss
        for size in (1.0, 9.0)
    ]
    expected = functional.cross_entropy(inputs / 0.5, torch.tensor(labels)) + torch.log(torch.tensor(2.0).double())
    torch.testing.assert_close(expected, actual[0])
    torch.testing.assert_close(expected, actual[1])


@pytest.mark.parametrize("case", oracle.params("fedcmc"))
def test_oracle_fedcmc(case: oracle.Case) -> None:
    """Similarities, whose vector is chosen for each class, and the loss with its gradients."""
    inputs, expected = case["inputs"], case["expected"]
    vectors, rng = tensor(inputs["client_classifiers"]), torch.Generator()
    scores = similarity(vectors)
    same("fedcmc", expected["local_average_similarity"], scores)
    classes = torch.arange(vectors.shape[1])
    major, minor = (FedCMC(contrast=which).chosen(scores, rng) for which in ("major", "minor"))
    assert expected["selected_client_per_class"] == major.tolist()
    assert expected["minor_client_per_class"] == minor.tolist()
    same("fedcmc", expected["minor_vectors"], vectors[minor, classes])
    majors = vectors[major, classes]
    same("fedcmc", expected["major_vectors"], majors)

    features, labels = inputs["features"], inputs["labels"]
    local = tensor(inputs["local_classifier"])
    task = DoubleFeatures(local.shape[1], len(local))
    judged = Judged(task, FedCMC(mu=inputs["mu"], temperature=0.0).loss(task, majors), local, features, labels)
    same("fedcmc", expected["total_mean"], judged.loss.detach())
    same("fedcmc", expected["grad_features"], judged.inputs)
    same("fedcmc", expected["grad_local_classifier"], judged.classifier)
    # global_average_similarity is for the paper's figure 1; con_sum and total_printed_sum are eq. 14 as printed.


def spread(folder: Path, **settings: Any) -> Trial[Any]:
    """Three sites, each with another class in plenty, under FedCMC."""
    rng = torch.Generator().manual_seed(5)
    sites = {}
    for index, name in enumerate("abc"):
        labels = torch.tensor([index] * 12 + [0, 1, 2, 3])
        inputs = torch.randn(len(labels), 6, generator=rng, dtype=torch.float64)
        inputs[torch.arange(len(labels)), labels] += 2
        sites[name] = FeatureRows(inputs, labels)
    weight = torch.randn(4, 6, generator=rng, dtype=torch.float64) / 100
    start = Weights({"linear.weight": weight, "linear.bias": torch.zeros(4, dtype=torch.float64)})
    return Trial(FedCMC(lr=0.5, epochs=5, **settings), DoubleFeatures(6, 4), sites, start, folder)


@pytest.mark.parametrize("contrast", ["major", "minor"])
def test_fedcmc_hands_on_the_vectors_of_chosen_sites(contrast: str, tmp_path: Path) -> None:
    """Per class the least (or most) alike of what the sites' own training ended in; the weights are FedAvg's."""
    trial = spread(tmp_path, contrast=contrast)
    before = trial.state
    assert torch.equal(before.weights["linear.weight"], before.majors)
    after = trial.round()
    changes: list[Any] = [seen.reply for seen in trial.seen if seen.step == "fit"]
    assert ["total"] * 3 + ["ask"] * 3 == [seen.verb for seen in trial.seen]
    own = torch.stack([before.weights["linear.weight"] + c.change["linear.weight"] / c.weight for c in changes])
    torch.testing.assert_close(own, torch.stack([reply.vectors for reply in trial.replies.values()]))
    found = similarity(own)
    pick = found.argmin(0) if contrast == "major" else found.argmax(0)
    torch.testing.assert_close(own[pick, torch.arange(4)], after.majors)
    total = changes[0] + changes[1] + changes[2]
    assert before.weights + total.change / total.weight == after.weights
    if contrast == "major":
        assert [0, 1, 2] == pick[:3].tolist()  # who has most of a class


def test_fedcmc_without_contrast_is_fedavg_and_asks_nothing(tmp_path: Path) -> None:
    """The ablation sends what FedAvg sends, and ends where FedAvg ends."""
    trial = spread(tmp_path, contrast="none")
    start, sites = trial.state.weights, {name: trial.host.opened(name).train for name in "abc"}
    plain = Trial(FedAvg(lr=0.5, epochs=5), trial.host.task, sites, start, tmp_path)
    for _ in range(2):
        assert plain.round().weights == trial.round().weights
    assert {"total"} == {seen.verb for seen in trial.seen}


def test_the_journal_tells_how_alike_the_vectors_of_each_site_are(tmp_path: Path) -> None:
    """Figure 1 of the paper: by round, site and class."""
    study = toy("fedcmc")
    run(study, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    for line in lines:
        actual = line["noted"]["similarity"]
        assert ["site-00", "site-01", "site-02"] == list(actual)
        assert [[str(label) for label in range(10)]] * 3 == [list(row) for row in actual.values()]
        assert all(-1 <= value <= 1 for row in actual.values() for value in row.values())


@pytest.mark.parametrize(("classes", "expected"), [(2, 1), (3, 0)])
def test_fedcmc_warns_where_two_classes_leave_nothing_to_choose(
    classes: int, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Both majors then come from one site, and it has diverged."""
    task = DoubleFeatures(2, classes)
    cohort: Any = SimpleNamespace(hub=SimpleNamespace(class_task=task))
    FedCMC().start(Bench.of(task).weights(), cohort)
    assert expected == sum("two classes" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("kind", [FedRS, FedLC, MOON])
def test_what_a_site_knows_of_its_labels_and_its_past_stays_there(kind: type[FedAvg]) -> None:
    """What leaves is what leaves in FedAvg: the loss is a site's own business."""
    assert FedAvg.declared() == kind.declared()
