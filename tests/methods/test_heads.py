"""A classifier that is fitted anew under another method: at the start, at the end, every few steps."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

import oracle
from double import DoubleFeatures
from oracle import same
from quadratic import Trial, lonely, weights
from wardround.core.cohort import Cohort
from wardround.core.method import Global
from wardround.core.record import Message
from wardround.core.weights import Weights
from wardround.layers.bound import Bound
from wardround.methods import METHODS
from wardround.methods.fedavg import FedAvg, Update
from wardround.methods.heads import CCVR, Moments, gaussians, headed
from wardround.methods.ridge import ClosedForm
from wardround.methods.ridge_sgd import RidgeSGD, Stepped
from wardround.methods.sums import Sums, pooled_sums
from wardround.reports.read import read_runs
from wardround.runs.build import build_apart
from wardround.runs.checkpoint import load_newest
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsed
from wardround.runs.sweep import sweep
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks.classification import Classification, OneLabelTask
from wardround.tasks.features import FeatureRows
from wardround.text.document import Document
from wardround.text.texts import Texts
from wardround.trained.model import load


def study(method: str = "fedavg", settings: dict[str, Any] | None = None, **more: Any) -> Study:
    tables = {
        "name": "heads", "rounds": 2, "method": {"name": method, **(settings or {})}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40}, "evaluation": {"splits": ["test", "train"]},
    }  # fmt: skip
    return cells({**tables, **more})[0].study


def journal(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds")
        line.pop("ended")
    return lines


def digest(out: Path) -> str:
    return hashlib.sha256((out / "model" / "weights.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize("case", oracle.params("ccvr"))
def test_oracle_ccvr(case: oracle.Case, tmp_path: Path) -> None:
    """Class Gaussians from sums are those of the pooled rows."""
    inputs, expected = case["inputs"], case["expected"]
    pairs = zip(inputs["features"], inputs["labels"], strict=True)
    sites = {str(k): FeatureRows(weights(x)["w"], torch.tensor(y)) for k, (x, y) in enumerate(pairs)}
    width, classes = len(inputs["features"][0][0]), inputs["classes"]
    start = weights({"linear.weight": torch.zeros(classes, width), "linear.bias": torch.zeros(classes)})
    method = headed(FedAvg(), "ccvr")
    assert isinstance(method, CCVR)
    trial = Trial(method, DoubleFeatures(width, classes), sites, start, tmp_path)
    cohort = trial.cohort(trial.names)
    after = method.refit(start, cohort)
    assert start != after
    replies: list[Any] = [seen.reply for seen in trial.seen]
    total = replies[0]
    for reply in replies[1:]:
        total += reply
    assert expected["counts"] == total.counts.tolist()
    means, spreads = gaussians(total)
    same("ccvr", expected["means"], means)
    same("ccvr", expected["covariances"], spreads)

    features, labels = CCVR(virtual=60_000).drawn(total, torch.Generator().manual_seed(0))
    for label, (count, mean, spread) in enumerate(zip(total.counts.tolist(), means, spreads, strict=True)):
        mine = features[labels == label]
        assert len(mine) == pytest.approx(60_000 * count / sum(expected["counts"]), abs=1)
        if count:
            assert mine.mean(0).tolist() == pytest.approx(mean.tolist(), abs=0.05)
            assert mine.T.cov().flatten().tolist() == pytest.approx(spread.flatten().tolist(), abs=0.05)


def test_a_solved_end_is_ridge_where_features_are_fixed(tmp_path: Path) -> None:
    """Whatever the rounds did to the classifier; as a round of its own in the journal, with its bytes."""
    run(study("ridge", rounds=1), tmp_path / "ridge")
    run(study(finish={"head": "ridge"}), tmp_path / "finished")
    run(study(), tmp_path / "plain")
    assert digest(tmp_path / "ridge") == digest(tmp_path / "finished") != digest(tmp_path / "plain")
    lines = journal(tmp_path / "finished")
    assert [1, 2, 3] == [line["round"] for line in lines]
    assert journal(tmp_path / "plain") == lines[:2]
    assert lines[2]["up"] > lines[1]["up"]
    assert lines[2]["metrics"] == json.loads((tmp_path / "finished" / "metrics.json").read_text())["final"]


def test_a_run_with_an_end_of_its_own_is_finished_for_reports_and_grids(tmp_path: Path) -> None:
    """Though its journal has a line more than it has rounds; it is not once its rounds are raised."""
    early: dict[str, Any] = {"rounds": 9, "stop": {"metric": "train_accuracy", "target": 0.0}}
    for name, more in {"whole": {}, "early": early}.items():
        run(study(finish={"head": "ridge"}, **more), tmp_path / name)
        (record,) = read_runs([tmp_path / name])
        assert (True, 1 if more else 2) == (record.finished, record.rounds)

    def work(one: Study, out: Path, _: object) -> None:
        run(one, out, resume=True)

    watched: list[list[int]] = []
    tables = study(finish={"head": "ridge"}).resolved
    for rounds, lines in ((2, 3), (4, 5)):
        grid = cells({**tables, "rounds": rounds, "grid": {"seed": [1, 2]}})
        worked: list[int] = []
        watched.clear()
        for _ in range(2):
            states = sweep(
                grid, tmp_path / "grid", workers=1, resume=True, work=work,
                watch=lambda states: watched.append([state.round for state in states]),
            )  # fmt: skip
            worked.append(sum(state.began > 0 for state in states))
        assert [2, 0] == worked
        assert (3 if rounds == 4 else 0) == watched[0][1]  # what the second has done is known before it begins
        assert [(rounds, lines)] * 2 == [(state.round, state.line.round) for state in states]


def test_a_calibrated_end_learns_and_asks_for_moments_once(tmp_path: Path) -> None:
    result = run(study(finish={"head": "ccvr"}), tmp_path / "run")
    plain = run(study(), tmp_path / "plain")
    assert result.metrics["train_accuracy"] > plain.metrics["train_accuracy"]
    steps = [seen.step for seen in rehearsed(study(finish={"head": "ccvr"}))]
    assert 3 == steps.count("describe")


def test_a_solved_start_is_where_the_first_round_begins(tmp_path: Path) -> None:
    """FedAvg with steps too small to matter stays at ridge's classifier; what was asked for is counted."""
    run(study("ridge", rounds=1), tmp_path / "ridge")
    run(study(start="ridge", settings={"lr": 1e-30}), tmp_path / "begun")
    solved, begun = (load_file(tmp_path / name / "model" / "weights.safetensors") for name in ("ridge", "begun"))
    assert all(torch.allclose(solved[name], begun[name], rtol=0, atol=1e-6) for name in solved)
    lines = journal(tmp_path / "begun")
    assert lines[0]["up"] > 2 * lines[1]["up"]


@pytest.mark.parametrize("more", [{"finish": {"head": "ridge"}}, {"finish": {"head": "ccvr"}}, {"start": "ridge"}])
def test_a_run_whose_rounds_are_raised_goes_on_from_before_the_end(more: dict[str, Any], tmp_path: Path) -> None:
    short, long = study(**more), study(**more, rounds=3)
    run(short, tmp_path / "raised", checkpoint_seconds=0)
    run(long, tmp_path / "raised", resume=True, checkpoint_seconds=0)
    run(long, tmp_path / "whole", checkpoint_seconds=0, strict=True)
    assert journal(tmp_path / "whole") == journal(tmp_path / "raised")
    assert digest(tmp_path / "whole") == digest(tmp_path / "raised")


def test_a_run_with_a_solved_start_that_is_killed_in_its_first_round_is_the_same(tmp_path: Path) -> None:
    """What the start sent is counted, and its λ is noted, in the first round's line, whenever that is run."""

    def killed(_line: Any) -> None:
        raise KeyboardInterrupt

    made = study(start="ridge")
    run(made, tmp_path / "whole", checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "killed", checkpoint_seconds=0, progress=killed)
    run(made, tmp_path / "killed", checkpoint_seconds=0, resume=True)
    assert journal(tmp_path / "whole") == journal(tmp_path / "killed")
    assert digest(tmp_path / "whole") == digest(tmp_path / "killed")
    first, second = journal(tmp_path / "whole")
    assert 0 < first["noted"]["ridge"]["penalty"]["chosen"]
    assert "ridge" not in second["noted"]


SHARING = [name for name, known in METHODS.items() if known.kind.rehearsal == "features" and known.kind.shares
           and name != "ditto"]  # fmt: skip


@pytest.mark.parametrize("name", SHARING)
def test_any_method_can_end_with_a_solved_head(name: str, tmp_path: Path) -> None:
    """The steps are there under every method, and the end is ridge's, where the classifier is all there is."""
    public = {"public": {"fraction": 0.3}} if METHODS[name].kind.public else {}
    made = study(name, rounds=1, finish={"head": "ridge"}, **public)
    assert isinstance(made.method, ClosedForm)
    run(made, tmp_path / "run")
    run(study("ridge", rounds=1, **public), tmp_path / "ridge")
    own, solved = (load_file(tmp_path / which / "model" / "weights.safetensors") for which in ("run", "ridge"))
    assert all(torch.allclose(own[part], solved[part], rtol=1e-5, atol=1e-6) for part in solved)


def test_what_has_no_classifier_is_refused_and_so_are_real_sites(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="finish looks into the linear classifier"):
        run(study(task={"name": "tagging"}, corpus={"name": "clinic", "documents": 3, "test_documents": 1},
                  finish={"head": "ridge"}), tmp_path / "run")  # fmt: skip
    with pytest.raises(StudyError, match="'local' has no shared model; take it out"):
        run(study("local", finish={"head": "ridge"}), tmp_path / "run")
    with pytest.raises(StudyError, match="'ditto' tries others; take it out"):
        run(study("ditto", finish={"head": "ridge"}), tmp_path / "run")
    with pytest.raises(StudyError, match="finish is only for simulations for now"):
        build_apart(study(finish={"head": "ridge"}), tmp_path, ["a", "b"])


def lstm(sites: dict[str, list[tuple[str, str]]], folder: Path, method: RidgeSGD) -> Trial[Any]:
    """Sites of texts and labels, whose features are learnt."""
    torch.manual_seed(0)
    task = OneLabelTask(Classification(tokens="words", model="lstm", buckets=50, embedding=4, hidden=3), ("a", "b"))
    examples = {
        name: task.examples(Texts(tuple(Document(text, text, (label,)) for text, label in rows)))
        for name, rows in sites.items()
    }
    return Trial(method, task, examples, Weights.of_model(task.model()), folder)


def test_ridge_sgd_does_not_mind_who_holds_which_labels(tmp_path: Path) -> None:
    """With all rows in every step: one place or one class each, the same model to rounding; features move."""
    rows = [("fever and cough", "a"), ("rash", "b"), ("no pain", "a"), ("film on chest", "b"), ("cough again", "a")]
    method = RidgeSGD(share=1.0, batch=0, every=2, penalties=(1.0,), lr=0.01)
    pooled = lstm({"pool": rows}, tmp_path / "pool", method)
    apart = lstm({name: [row for row in rows if row[1] == name] for name in "ab"}, tmp_path / "apart", method)
    start = pooled.state.weights
    for _ in range(5):
        expected, actual = pooled.round().weights, apart.round().weights
        assert expected.flat.tolist() == pytest.approx(actual.flat.tolist(), abs=2e-4)
    assert ["gather", "grade", "grade", "gather", "grade"] == [seen.step for seen in pooled.seen]
    moved = pooled.state.weights - start
    assert all(float(part.abs().max()) > 1e-3 for part in moved.values())


def test_a_gradient_leaves_the_classifier_alone(tmp_path: Path) -> None:
    rows = [("fever and cough", "a"), ("rash", "b"), ("no pain", "a")]
    trial = lstm({"x": rows}, tmp_path, RidgeSGD(every=1, penalties=(1.0,)))
    trial.round()
    trial.round()
    gradient = trial.replies["x"].gradient
    assert not gradient["linear.weight"].any()
    assert not gradient["linear.bias"].any()
    assert all(part.any() for name, part in gradient.items() if not name.startswith("linear."))


def test_the_model_of_a_finished_run_predicts(tmp_path: Path) -> None:
    """A folder like any other's."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("fever 1 0 0\ncough 0.9 0.1 0\nrash 0 1 0.2\nitch 0.1 0.9 0\nwas 0.1 0.1 0.1\n")
    rows = "".join(f"fever cough was,lung\nrash itch was,skin\ncough was n{n},lung\nitch n{n},skin\n" for n in range(6))
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text("text,label\n" + rows)
    made = study(
        "ridge", rounds=1, task={"name": "classification", "tokens": "words", "vectors": str(vectors)},
        corpus={"format": "csv", "train": str(tmp_path / "train.csv"), "test": str(tmp_path / "test.csv"),
                "labels": ["lung", "skin"]}, partition={"name": "iid", "sites": 2},
    )  # fmt: skip
    result = run(made, tmp_path / "run")
    assert 1.0 == result.metrics["accuracy"]
    answer = load(tmp_path / "run" / "model")("itch and rash")
    assert "skin" == answer.labels[0].name
    assert answer.labels[0].confidence > 0.8


def test_a_head_has_settings_under_finish(tmp_path: Path) -> None:
    """They are the method's own where that is a class of ridge's itself, and nothing is taken that has no effect."""
    given: dict[str, dict[str, Any]] = {
        "ridge": {"penalties": (2.0,), "sharpness": 1.0, "least_rows": 3, "lone": "drop"},
        "ccvr": {"virtual": 10, "virtual_steps": 2, "virtual_lr": 0.5},
    }
    for name, settings in given.items():
        made = study(finish={"head": name, **settings})
        assert settings == {key: getattr(made.method, key) for key in settings}
        assert {"head", *settings} == {*made.resolved["finish"]}
    assert study(finish={"head": "ridge"}).fingerprint != study(finish={"head": "ridge", "sharpness": 1}).fingerprint
    run(study("ridge", {"penalties": [2.0]}, rounds=1), tmp_path / "ridge")
    run(study(finish={"head": "ridge", "penalties": [2.0]}), tmp_path / "finished")
    assert digest(tmp_path / "ridge") == digest(tmp_path / "finished")
    with pytest.raises(StudyError, match=r"finish\.virtual is not a setting of ridge; take it out"):
        study(finish={"head": "ridge", "virtual": 3})
    with pytest.raises(StudyError, match=r"finish\.lone is a setting of the method here; write method\.lone"):
        study("ridge-sgd", finish={"head": "ridge", "lone": "drop"})


def test_sums_at_the_end_are_checked_as_ridges_are() -> None:
    """Whatever the method's own replies are checked for."""
    made = study(settings={"mean": "uniform"}, finish={"head": "ridge"}).method
    wide = torch.zeros(2, dtype=torch.float64)
    lie = Sums(5, wide, torch.zeros(3, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64), wide)
    for method in (made, RidgeSGD()):
        assert "Sums.labels do not add up to its rows" == method.contradiction(lie, lie)
    change = Update(weights([1.0]), 2)
    assert "Update.weight should be 1" == made.contradiction(change, change)


def moments(tmp_path: Path, scale: float = 1.0) -> Moments:
    rng = torch.Generator().manual_seed(0)
    sites = {"a": FeatureRows(torch.randn(30, 4, generator=rng, dtype=torch.float64) * scale, torch.arange(30) % 2)}
    method = headed(FedAvg(), "ccvr")
    start = weights({"linear.weight": torch.zeros(3, 4), "linear.bias": torch.zeros(3)})
    trial = Trial(method, DoubleFeatures(4, 3), sites, start, tmp_path)
    cast("CCVR", method).refit(start, trial.cohort(trial.names))
    reply = trial.seen[0].reply
    assert isinstance(reply, Moments)
    return reply


def test_moments_that_cannot_be_are_found_out(tmp_path: Path) -> None:
    """By the same code as ridge's sums: fewer rows than none, means of no rows, products that no rows have."""
    honest = moments(tmp_path)
    method, sent = headed(FedAvg(), "ccvr"), Global(weights({"w": [0.0]}))
    assert method.contradiction(sent, honest) is None
    assert [15, 15, 0] == honest.counts.tolist()
    one = torch.zeros_like(honest.features)
    one[2] = 1.0
    curved = honest.products.clone()
    curved[0, 1:3] *= 1e3
    lies = {
        "Moments.counts are fewer than none": replace(honest, counts=honest.counts * torch.tensor([1, -1, 1])),
        "Moments.products is no Gram matrix of its rows": replace(honest, features=honest.features + one),
        "Moments.products is of more rows than there are": replace(honest, products=honest.products[[0, 1, 0]]),
    }
    assert list(lies) == [method.contradiction(sent, lie) for lie in lies.values()]
    assert "is no Gram matrix" in str(method.contradiction(sent, replace(honest, products=curved)))
    assert "is no Gram matrix" in str(method.contradiction(sent, replace(honest, products=-honest.products)))


@pytest.mark.parametrize("kind", ["Sums", "Moments"])
def test_rows_far_longer_than_the_others_are_left_out_by_name(kind: str, tmp_path: Path) -> None:
    """Features of one site made a thousand times as large would be all that the sums of all know."""
    longer = {"ann": 1.0, "bob": 1000.0, "cyd": 1.2, "dan": 0.5}

    def made(scale: float) -> Message:
        if kind == "Moments":
            return moments(tmp_path, scale)
        one = lonely(DoubleFeatures(4, 2), FeatureRows(torch.randn(30, 4).double() * scale, torch.arange(30) % 2), None)
        return pooled_sums(one, weights({"linear.weight": torch.zeros(2, 4), "linear.bias": torch.zeros(2)}))

    replies = {name: made(scale) for name, scale in longer.items()}
    asked = cast("Cohort", SimpleNamespace(round=1, noted={}))
    sent: dict[str, Message] = dict.fromkeys(replies, Global(weights({"w": [0.0]})))
    wrong = Bound().judge(replies, sent, "gather", asked)
    assert ["bob"] == list(wrong)
    assert wrong["bob"].startswith(f"{kind} is of rows ")
    two = {name: replies[name] for name in ("ann", "bob")}
    assert {} == Bound().judge(two, sent, "gather", asked)  # either of them may be the one who lies


def test_ridge_sgd_takes_no_settings_of_local_training() -> None:
    """Its rate is the coordinator's, whatever suits the task's model at a site; passes over the data there are none."""
    task = {"name": "classification", "model": "lstm", "tokens": "words"}
    corpus = {"name": "clinic", "documents": 3, "test_documents": 1}
    made: Any = study("ridge-sgd", task=task, corpus=corpus).method
    assert (0.001, 16) == (made.lr, made.batch)
    for settings in ({"epochs": 2}, {"steps": 3}):
        with pytest.raises(StudyError, match="ridge-sgd takes one step a round"):
            study("ridge-sgd", settings)


@pytest.mark.parametrize("name", ["scaffold", "fednova", "fedsgd"])
def test_what_needs_sgd_gets_the_rate_that_suits_it(name: str) -> None:
    """A task that prefers Adam does not make it refuse."""
    task = {"name": "classification", "model": "lstm", "tokens": "words"}
    made: Any = study(name, task=task, corpus={"name": "clinic", "documents": 3, "test_documents": 1}).method
    assert ("sgd", 0.5) == (made.optimizer, made.lr)


def test_ridge_sgd_is_the_same_in_every_engine_and_resumed_between_two_solutions(tmp_path: Path) -> None:
    """With features that are learnt: the coordinator's Adam is stored, resumed and used as it was."""
    task = {"name": "classification", "model": "lstm", "tokens": "words", "buckets": 50, "embedding": 4, "hidden": 3}
    corpus = {"name": "clinic", "hospitals": 3, "documents": 8, "test_documents": 2}
    made = study("ridge-sgd", {"every": 3, "penalties": [1.0], "lr": 0.01}, task=task, corpus=corpus, rounds=6)
    rounds: list[int] = []

    def killed(line: Any) -> None:
        rounds.append(line.round)
        if line.round == 4:
            raise KeyboardInterrupt

    run(made, tmp_path / "whole", checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "killed", checkpoint_seconds=0, progress=killed)
    checkpoint = load_newest(tmp_path / "killed" / "checkpoints", made.fingerprint, Stepped)
    assert checkpoint is not None
    state: Any = checkpoint.state
    assert (3, 2) == (checkpoint.round, state.steps)
    assert all(state.second[name].any() for name in state.second if not name.startswith("linear."))
    run(made, tmp_path / "killed", checkpoint_seconds=0, resume=True, progress=lambda line: rounds.append(line.round))
    assert [1, 2, 3, 4, 4, 5, 6] == rounds
    run(made, tmp_path / "strict", strict=True)
    run(made, tmp_path / "pool", workers=2)
    for name in ("killed", "strict", "pool"):
        assert journal(tmp_path / "whole") == journal(tmp_path / name)
        assert digest(tmp_path / "whole") == digest(tmp_path / name)
    losses = [line["metrics"]["train_loss"] for line in journal(tmp_path / "whole")]
    assert losses[1] != losses[0]
