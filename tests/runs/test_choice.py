"""The round that validation chooses: its model and its figures are kept, a run may end by it, and all that resumes."""

import json
import math
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from encoder_folders import tiny_encoder
from study_files import PAUSING, cli, journal, listing, paused, result_of, small_study, start, wait_for, write_module
from wardround.core.weights import Weights
from wardround.reports.page import write_report
from wardround.reports.read import read_runs
from wardround.runs.build import build
from wardround.runs.files import METRICS, Round
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal
from wardround.runs.rounds import Assessment, Rounds
from wardround.study.load import Study, cells, load_study
from wardround.tasks import TASKS
from wardround.trained.assemble import assembled_run

SERIAL = ("--workers", 1, "--quiet")
EAGER, LAZY = ("--checkpoint-seconds", 0), ("--checkpoint-seconds", 3600)
HASTY: dict[str, Any] = {
    "method": {"name": "fedavg", "lr": 3.0},
    "rounds": 12,
}  # a rate at which figures go up and down


def metrics_of(out: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    return read


def best_of(run: Path, metric: str) -> int:
    """The first round with the best value."""
    values = [(line["round"], line["metrics"][metric]) for line in journal(run) if metric in line["metrics"]]
    sign = -1 if metric.endswith("loss") else 1
    return int(max(values, key=lambda pair: (sign * pair[1], -pair[0]))[0])


@pytest.mark.parametrize(("chosen", "metric"), [({}, "valid_accuracy"), ({"metric": "loss"}, "valid_loss")])
def test_the_model_and_the_figures_are_those_of_the_best_round(
    tmp_path: Path, chosen: dict[str, str], metric: str
) -> None:
    path = small_study(tmp_path, validation={"share": 0.2, **chosen}, **HASTY)
    ended = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    run = tmp_path / "run"
    actual, best = metrics_of(run), best_of(run, metric)
    assert 12 != best
    assert (12, best, metric, False) == tuple(actual[key] for key in ("rounds", "chosen", "chosen_by", "exhausted"))
    assert journal(run)[best - 1]["metrics"] == actual["final"]
    assert f"round {best} of 12 is kept, the best by {metric}; the figures are those of that round" in ended.out
    # The same study that ends with this round has this model for its last.
    other = small_study(tmp_path, "until.toml", validation={"share": 0.2, **chosen}, **{**HASTY, "rounds": best})
    cli("run", other, "--out", "until", *SERIAL, cwd=tmp_path)
    assert result_of(tmp_path / "until")["model"] == result_of(run)["model"]
    about = json.loads((run / "model" / "model.json").read_text())
    assert (best, metric) == (about["rounds"], about["chosen_by"])
    assert f"chosen by `{metric}`" in (run / "model" / "README.md").read_text()


def test_after_enough_evaluations_without_a_better_one_a_run_stops(tmp_path: Path) -> None:
    changes = {**HASTY, "rounds": 40, "evaluation": {"every": 2}}
    path = small_study(tmp_path, validation={"share": 0.2, "patience": 3}, **changes)
    ended = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    run = tmp_path / "run"
    metrics, best = metrics_of(run), best_of(run, "valid_accuracy")
    assert (best + 6, best, True) == tuple(metrics[key] for key in ("rounds", "chosen", "exhausted"))
    said = f"no better valid_accuracy in 3 evaluations after round {best}"
    assert (said, True) == (metrics["stopped"], ended.out.startswith(said))
    before = listing(run)
    again = cli("run", path, "--out", "run", *SERIAL, "--resume", "--set", "rounds=60", cwd=tmp_path)
    assert (ended.out.splitlines()[:2], 0) == (again.out.splitlines()[:2], again.code)
    assert {name for name, file in listing(run).items() if file != before[name]} <= {"study.toml"}


def test_a_target_on_validation_examples_stops_a_run(tmp_path: Path) -> None:
    path = small_study(tmp_path, validation={"share": 0.2}, stop={"metric": "valid_accuracy", "target": 0.0}, **HASTY)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    told = metrics_of(tmp_path / "run")
    assert (1, 1, 1) == (told["rounds"], told["rounds_to_target"], told["chosen"])


def test_training_is_the_same_whether_or_not_validation_chooses(tmp_path: Path) -> None:
    """What is set aside is not trained on; what is given changes nothing but what is kept."""
    clinic = {"name": "clinic", "hospitals": 2, "documents": 20, "valid_documents": 10, "test_documents": 10}
    task = {"name": "classification", "hidden": 4}
    plain = small_study(tmp_path, corpus=clinic, task=task, method={"name": "fedavg"})
    cli("run", plain, "--out", "plain", *SERIAL, cwd=tmp_path)
    cli("run", plain, "--out", "chosen", "--set", "validation={}", *SERIAL, cwd=tmp_path)
    one, other = (
        [
            {key: value for key, value in line["metrics"].items() if "valid" not in key}
            for line in journal(tmp_path / at)
        ]
        for at in ("plain", "chosen")
    )
    assert one == other
    assert all("valid_accuracy" in line["metrics"] for line in journal(tmp_path / "chosen"))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_can_have_validation_examples_set_aside(tmp_path: Path, task: str) -> None:
    tables = rehearsal(task)
    for count in {"documents", "test_documents", "notes", "test_notes"} & tables["corpus"].keys():
        tables["corpus"][count] //= 2
    if task == "relation":
        tables["task"] |= {"encoder": str(tiny_encoder(tmp_path / "encoder")), "longest": 60}
    path = small_study(tmp_path, **tables, method={"name": "fedavg"}, validation={"share": 0.3})
    ended = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    told = metrics_of(tmp_path / "run")
    assert told["chosen"] == best_of(tmp_path / "run", told["chosen_by"])
    data = json.loads((tmp_path / "run" / "data.json").read_text())
    assert all({"train", "test", "valid"} == set(splits) for splits in data["sites"].values())
    study = load_study(path)[0].study
    built = build(study, tmp_path / "again")
    assert all(built.sites.open(name).valid is not None for name in built.sites.names)


@pytest.mark.parametrize("method", ["centralised", "local", "scaffold"])
def test_references_and_methods_with_memory_keep_the_best_round_too(tmp_path: Path, method: str) -> None:
    changes = {**HASTY, "method": {"name": method, "lr": 3.0}}
    path = small_study(tmp_path, validation={"share": 0.2}, **changes)
    cli("run", path, "--out", "run", *SERIAL, *EAGER, cwd=tmp_path)
    told, best = metrics_of(tmp_path / "run"), best_of(tmp_path / "run", "valid_accuracy")
    assert (best, journal(tmp_path / "run")[best - 1]["metrics"]) == (told["chosen"], told["final"])


def test_a_sites_own_model_is_that_of_the_best_round(tmp_path: Path) -> None:
    path = small_study(tmp_path, validation={"share": 0.2}, **{**HASTY, "method": {"name": "local", "lr": 3.0}})
    cli("run", path, "--out", "run", *SERIAL, *EAGER, cwd=tmp_path)
    best = metrics_of(tmp_path / "run")["chosen"]
    other = small_study(
        tmp_path, "until.toml", validation={"share": 0.2},
        **{**HASTY, "rounds": best, "method": {"name": "local", "lr": 3.0}},
    )  # fmt: skip
    cli("run", other, "--out", "until", *SERIAL, cwd=tmp_path)
    for name in ("run", "until"):
        ended = cli("model", "assemble", name, "site-01", "--out", f"{name}-own", cwd=tmp_path)
        assert (0, "") == (ended.code, ended.err)
    one, two = (load_file(tmp_path / f"{name}-own" / "weights.safetensors") for name in ("run", "until"))
    assert {name: tensor.tolist() for name, tensor in one.items()} == {n: t.tolist() for n, t in two.items()}


@pytest.mark.parametrize("pause", [EAGER, LAZY], ids=["after each round", "at the ends"])
@pytest.mark.parametrize("method", ["PausingScaffold", "PausingLocal"])
def test_killed_in_every_round_a_run_chooses_stops_and_keeps_the_same_bits(
    tmp_path: Path, method: str, pause: tuple[str, int]
) -> None:
    write_module(tmp_path, PAUSING)
    changes = {**HASTY, "rounds": 9, "method": {"name": f"mine:{method}", "lr": 3.0}}
    path = small_study(tmp_path, validation={"share": 0.2, "patience": 4}, **changes)
    assert 0 == cli("run", path, "--out", "whole", *SERIAL, *EAGER, cwd=tmp_path).code
    metrics = metrics_of(tmp_path / "whole")
    assert 1 < metrics["chosen"] < metrics["rounds"]
    for round_ in range(1, metrics["rounds"] + 1, 1 if pause == EAGER else 3):
        reached = paused(tmp_path, round_, "site-01")
        running = start("run", path, "--out", "run", *SERIAL, *pause, "--resume", cwd=tmp_path)
        wait_for(reached.exists, running.pid)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert 0 == cli("run", path, "--out", "run", *SERIAL, *pause, "--resume", cwd=tmp_path).code
    one, other = result_of(tmp_path / "whole"), result_of(tmp_path / "run")
    assert one == other
    weights = [file.name for file in (tmp_path / "run" / "checkpoints").glob("best-*")]
    assert [f"best-{metrics['chosen']:06d}.weights"] == weights


def test_a_resumed_run_without_the_weights_of_its_best_round_says_so(tmp_path: Path) -> None:
    path = small_study(tmp_path, validation={"share": 0.2}, **HASTY)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    best = metrics_of(tmp_path / "run")["chosen"]
    file = tmp_path / "run" / "checkpoints" / f"best-{best:06d}.weights"
    for harm in ("cut", "gone"):
        copy = tmp_path / harm
        shutil.copytree(tmp_path / "run", copy)
        place = copy / "checkpoints" / file.name
        place.unlink()
        if harm == "cut":
            place.write_bytes(file.read_bytes()[:-9])
        ended = cli("run", path, "--out", harm, *SERIAL, "--resume", "--set", "rounds=20", cwd=tmp_path)
        assert 1 <= ended.code <= 2
        assert "the weights of the best round so far cannot be read" in ended.err
        assert "restore the file, or delete the run folder to start anew" in ended.err


def test_the_report_says_how_the_round_was_chosen(tmp_path: Path) -> None:
    path = small_study(tmp_path, validation={"share": 0.2, "patience": 3}, **HASTY)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    metrics = metrics_of(tmp_path / "run")
    page = write_report([tmp_path / "run"], tmp_path / "page.html").read_text()
    which = f"fedavg {metrics['chosen']} of {metrics['rounds']}"
    assert f"the round with the best accuracy on the validation split counts, in every table: {which}." in page
    assert "in the round that validation chose" in page
    assert f"{metrics['final']['accuracy']:.3f}" in page

    forced = small_study(tmp_path, "forced.toml", stop={"target": 0.1, "on_test_figures": True}, **HASTY)
    ended = cli("run", forced, "--out", "forced", *SERIAL, cwd=tmp_path)
    too_good = "it ended when a figure of the test split met its target: these figures look better than they are"
    assert f"fedavg: {too_good}" in ended.out
    both = cli("run", forced, "--set", "seeds=[1, 2]", "--out", "grid", *SERIAL, cwd=tmp_path)
    assert [f"seed={seed}: {too_good}" for seed in (1, 2)] == [
        line for line in both.out.splitlines() if too_good in line
    ]
    late = cli("run", forced, "--set", "stop.target=1.1", "--out", "late", *SERIAL, cwd=tmp_path)
    assert too_good not in late.out
    page = write_report([tmp_path / "forced"], tmp_path / "page.html").read_text()
    assert "Runs ended when a figure of the test split met its target: these figures look better than they are." in page


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """What the validation loss of each round is made to be; of others it is 0.4."""
    table: dict[int, float] = {}
    measured = Rounds.evaluate

    def evaluate(self: Rounds, round_: int, weights: Weights) -> Assessment:
        assessment = measured(self, round_, weights)
        assessment.metrics["valid_loss"] = table.get(round_, 0.4)
        return assessment

    monkeypatch.setattr(Rounds, "evaluate", evaluate)
    return table


def study_of(rounds: int, patience: int | None = None, **more: Any) -> Study:
    validation = {"share": 0.2, "metric": "loss", **({"patience": patience} if patience else {})}
    tables = {"name": "x", "rounds": rounds, "method": {"name": "fedavg"}, **rehearsal("features")}
    return cells({**tables, "validation": validation, **more})[0].study


def test_a_model_that_has_not_begun_to_learn_does_not_use_up_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tagger finds something by chance, then nothing for some rounds, and only then what it has learnt."""
    found = {1: 0.03, 2: 0.0, 3: 0.0, 4: 0.0, 5: 0.2, 6: 0.1, 7: 0.1}
    measured = Rounds.evaluate

    def evaluate(self: Rounds, round_: int, weights: Weights) -> Assessment:
        assessment = measured(self, round_, weights)
        assessment.metrics["valid_accuracy"] = found.get(round_, 0.9)
        return assessment

    monkeypatch.setattr(Rounds, "evaluate", evaluate)
    study = study_of(9, validation={"share": 0.2, "metric": "accuracy", "patience": 2})
    stopped = run(study, tmp_path / "run")
    assert (7, 5) == (stopped.rounds, stopped.chosen)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_can_no_longer_be_measured_uses_up_patience(
    value: float, tmp_path: Path, losses: dict[int, float]
) -> None:
    losses |= dict.fromkeys(range(3, 10), value)
    stopped = run(study_of(9, patience=2), tmp_path / "run")
    assert (3, 1) == (stopped.rounds, stopped.chosen)


def test_what_is_done_after_the_last_round_does_not_count_for_patience(
    tmp_path: Path, losses: dict[int, float]
) -> None:
    """A run whose rounds are raised goes on, and one that had stopped has stopped, however good the end is."""
    losses[2] = 0.3
    run(study_of(4, 3, finish={"head": "ridge"}), tmp_path / "raised")
    metrics = METRICS.read(tmp_path / "raised")
    assert metrics is not None
    assert ("all rounds done", False) == (metrics.stopped, metrics.exhausted)
    losses[5] = 0.1
    raised = run(study_of(8, 3, finish={"head": "ridge"}), tmp_path / "raised", resume=True)
    assert (8, 5) == (raised.rounds, raised.chosen)

    losses.update({5: 0.4, 6: 0.1})
    stopped = run(study_of(8, 3, finish={"head": "ridge"}), tmp_path / "stopped")
    metrics = METRICS.read(tmp_path / "stopped")
    assert metrics is not None
    assert (5, 6, True) == (stopped.rounds, stopped.chosen, metrics.exhausted)


def test_counts_and_intervals_are_of_the_chosen_round_wherever_a_run_was_killed(
    tmp_path: Path, losses: dict[int, float]
) -> None:
    """Round 7 was the best, but is not in the run any more: its counts are not, either."""
    losses.update({2: 0.3, 7: 0.1})

    class KilledError(Exception):
        pass

    def kill(line: Round) -> None:
        if line.round == 7:
            raise KilledError

    run(study_of(4), tmp_path / "run")
    with pytest.raises(KilledError):
        run(study_of(10), tmp_path / "run", resume=True, progress=kill, checkpoint_seconds=1e9)
    run(study_of(5), tmp_path / "run", resume=True)
    run(study_of(5), tmp_path / "whole")
    for name in ("counts.json", "intervals.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    assert '"round": 2,' in (tmp_path / "run" / "counts.json").read_text()


def test_a_report_shows_no_counts_of_another_round_than_its_figures(tmp_path: Path, losses: dict[int, float]) -> None:
    """A run whose rounds were raised, and which is not at its end yet, has intervals of before."""
    losses[2] = 0.3
    run(study_of(4), tmp_path / "run")
    (done,) = read_runs([tmp_path / "run"])
    assert done.tally is not None
    assert done.intervals is not None
    assert 2 == done.tally.round == done.intervals.round
    metrics = tmp_path / "run" / "metrics.json"
    metrics.write_text(metrics.read_text().replace('"rounds": 4', '"rounds": 3'))
    (raised,) = read_runs([tmp_path / "run"])
    assert (False, 4, None, None) == (
        raised.finished,
        raised.last and raised.last.round,
        raised.tally,
        raised.intervals,
    )


@pytest.mark.parametrize("method", ["ditto", "finetune"])
def test_a_personal_model_beside_the_shared_one_is_that_of_the_best_round(
    tmp_path: Path, losses: dict[int, float], method: str
) -> None:
    """It can be put together afterwards, and the shared model's card says that the figures are not its own."""
    losses[2] = 0.3
    study = study_of(6, method={"name": method, "lr": 1.0}, evaluation={"each": True})
    run(study, tmp_path / "run", checkpoint_seconds=0)
    site, figures = next(iter(journal(tmp_path / "run")[1]["per_site"].items()))
    assembled_run(tmp_path / "run", site, tmp_path / "own")
    card = (tmp_path / "own" / "README.md").read_text()
    assert f"| loss | {figures['loss']:.4f} |" in card
    assert "Each site tried a model of its own" not in card
    assert "Each site tried a model of its own" in (tmp_path / "run" / "model" / "README.md").read_text()
