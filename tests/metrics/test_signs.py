"""A model that has collapsed or diverges is noticed, said, and never the best of a table."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from wardround.cli.app import main
from wardround.core.weights import Weights
from wardround.layers.small_counts import SmallCounts
from wardround.metrics.classes import class_counts
from wardround.metrics.constant import class_constant
from wardround.metrics.entities import entity_counts
from wardround.metrics.facts import fact_layout
from wardround.metrics.labels import label_counts
from wardround.metrics.relations import relation_metrics
from wardround.metrics.signs import (
    ABOVE,
    FALLING,
    FAR,
    NOT_FINITE,
    NOTHING,
    ONE_CLASS,
    RISING,
    STILL,
    TOO_SLOW,
    WORSE,
    collapsed,
    remedy,
    signs,
)
from wardround.reports.page import page
from wardround.reports.read import read_runs
from wardround.reports.statistics import grouped
from wardround.runs.files import Round
from wardround.runs.loop import run
from wardround.study.load import cells
from wardround.study.settings import StudyError
from wardround.tasks.bags import Bags
from wardround.tasks.classification import Classification, ClassificationTask
from wardround.tasks.tagging import Tagging

TASK = ClassificationTask(Classification(tokens="words"), ("a", "b", "c"))
LABELS = torch.tensor([0, 0, 0, 1, 1, 2])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is remembered out of the home folder."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))


def counts(answers: list[int], loss: float) -> dict[str, Tensor]:
    scores = torch.nn.functional.one_hot(torch.tensor(answers), 3).float()
    return class_counts(scores, LABELS, torch.tensor(loss * len(LABELS)))


@pytest.mark.parametrize(
    ("answers", "loss", "before", "expected"),
    [
        ([0, 0, 0, 1, 1, 2], 0.1, [], []),
        ([0] * 6, 0.5, [], [ONE_CLASS]),
        ([1, 1, 1, 0, 0, 0], 1.2, [], [WORSE]),
        ([1, 1, 1, 0, 0, 0], 5.0, [], [WORSE, FAR]),
        ([0] * 6, 32.0, [30.0], [ONE_CLASS, WORSE, FAR]),
        ([0, 0, 0, 1, 1, 0], 1.2, [], [ABOVE]),
        ([0, 0, 0, 1, 1, 0], 1.2, [1.4], [FALLING]),
        ([0, 0, 0, 1, 1, 0], 5.0, [], [FAR]),
        ([0, 0, 0, 1, 1, 2], float("nan"), [], [NOT_FINITE]),
        ([0, 0, 0, 1, 1, 2], 0.9, [0.5, 0.6, 0.7], [RISING]),
        ([0, 0, 0, 1, 1, 2], 0.9, [0.5, 0.4, 0.7], []),
        ([0, 0, 0, 1, 1, 2], 0.56, [0.5, 0.52, 0.54], []),
    ],
)
def test_signs_are_read_off_the_counts(
    answers: list[int], loss: float, before: list[float], expected: list[str]
) -> None:
    assert expected == signs(TASK, counts(answers, loss), before)


@pytest.mark.parametrize(("accuracy", "expected"), [(0.63, [ABOVE]), (0.5, [WORSE])])
def test_below_always_yes_in_f1_and_above_it_in_accuracy_is_no_collapse(accuracy: float, expected: list[str]) -> None:
    constant = {"positive_f1": 0.69, "accuracy": 0.53, "loss": 0.69}
    task = SimpleNamespace(metrics=lambda figures: figures, constant=lambda _: constant)
    assert expected == signs(task, {"positive_f1": 0.63, "accuracy": accuracy, "loss": 1.04})  # type: ignore[dict-item]  # figures, for counts


def test_a_loss_of_all_classes_is_not_held_against_a_constant_of_those_that_sites_told() -> None:
    told = counts([0, 0, 0, 1, 1, 0], 5.0)
    assert [FAR] == signs(TASK, told)
    kept = SmallCounts(2)._without(Weights(told))
    assert [] == signs(TASK, kept)


def test_of_several_labels_never_naming_one_is_the_sign() -> None:
    task = ClassificationTask(Classification(tokens="words", several=True), ("a", "b"))
    truth = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    silent, fair = (label_counts(torch.full((3, 2), score), truth, torch.tensor(0.3)) for score in (-1.0, 1.0))
    assert ([ONE_CLASS], []) == (signs(task, silent), signs(task, fair))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [([], [NOTHING]), ([(0, 5, 6)], [WORSE]), ([(0, 0, 2)], [])],
    ids=["finds nothing", "finds nothing that is there", "finds what is there"],
)
def test_a_tagger_that_finds_nothing_has_collapsed(spans: list[tuple[int, int, int]], expected: list[str]) -> None:
    task = Tagging(tokens="words").bind(SimpleNamespace(types=("drug",), labels=()))
    there: list[tuple[int, int, int]] = [(0, 0, 2)]
    numbers = entity_counts([(there, spans)], 1, 0, torch.tensor(3.0))
    assert expected == signs(task, numbers)
    assert bool(expected) == collapsed(signs(task, numbers))


@pytest.mark.parametrize(("right", "expected"), [(10, []), (2000, [WORSE])], ids=["facts first", "all alike"])
def test_bags_that_are_ranked_at_random_have_collapsed(right: int, expected: list[str]) -> None:
    task = Bags().bind(SimpleNamespace(labels=("NA", "treats")))
    numbers = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in fact_layout(2).shapes.items()}
    numbers["right"][right] = numbers["wrong"][2000] = 50.0  # by band of score
    numbers |= {name: torch.tensor(value) for name, value in (("facts", 50.0), ("bags", 100.0), ("loss", 60.0))}
    assert expected == signs(task, numbers)


def test_a_classifier_of_relations_that_relates_nothing_has_collapsed() -> None:
    numbers = class_counts(torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 1, 1]), torch.tensor(2.0))

    class Related:
        def metrics(self, counts: dict[str, Tensor]) -> dict[str, float]:
            return relation_metrics(counts, ("none", "treats"), "none")

        def constant(self, counts: dict[str, Tensor]) -> dict[str, Tensor]:
            return class_constant(counts)

    assert [ONE_CLASS] == signs(Related(), numbers)


@pytest.mark.parametrize(
    ("answers", "loss", "before", "words"),
    [
        ([0] * 6, 1.0, [1.01, 1.0], "try a higher method.lr, or more rounds or epochs"),
        ([0] * 6, 0.8, [1.3, 1.0], "try more rounds or epochs, or another method.lr"),
        ([0] * 6, 1.0, [], "try more rounds or epochs, or another method.lr"),
        ([0, 0, 0, 1, 1, 0], 5.0, [5.0], "try a lower method.lr, or fewer rounds"),
        ([0, 0, 0, 1, 1, 0], 5.0, [], "try a lower method.lr"),
        ([0] * 6, 32.0, [33.0], "try a lower method.lr"),
        ([0, 0, 0, 1, 1, 0], 1.2, [1.1], "try a lower method.lr, or fewer rounds"),
        ([0, 0, 0, 1, 1, 0], 1.2, [], "try more rounds or epochs, or another method.lr"),
        ([0, 0, 0, 1, 1, 0], 1.2, [1.4], "try more rounds or epochs, or another method.lr"),
        ([0, 0, 0, 1, 1, 2], 0.9, [0.5, 0.6, 0.7], "try a lower method.lr, or fewer rounds"),
        ([0] * 6, float("nan"), [1.0], "try a lower method.lr, or fewer rounds"),
    ],
    ids=[
        "has not moved",
        "falls",
        "not known",
        "much too sure",
        "far at once",
        "far and falling",
        "too sure",
        "just begun",
        "above and falling",
        "rises",
        "not a number",
    ],
)
def test_what_to_try_follows_from_what_the_loss_has_done(
    answers: list[int], loss: float, before: list[float], words: str
) -> None:
    """A lower rate was the advice for a model that had hardly moved, and fewer rounds where there had been one."""
    assert words == remedy(signs(TASK, counts(answers, loss), before), len(before) + 1).partition(";")[0]


def test_a_loss_of_equal_odds_among_many_classes_is_a_beginning_though_a_constant_has_far_less() -> None:
    labels = torch.tensor([0] * 95 + [1] * 5)
    scores = torch.nn.functional.one_hot(torch.zeros_like(labels), 36).float()
    untrained = class_counts(scores, labels, torch.tensor(3.6 * 100))
    assert FAR not in signs(TASK, untrained)
    assert TOO_SLOW == remedy(signs(TASK, untrained, [3.6]), 2)


def test_what_is_too_sure_of_itself_has_not_collapsed() -> None:
    assert [True, True, True, False, False, False] == [
        collapsed([s]) for s in (ONE_CLASS, NOT_FINITE, WORSE, ABOVE, FAR, RISING)
    ]


def tables(folder: Path, lr: float) -> dict[str, Any]:
    words = {"a": "fever", "b": "rash"}
    rows = "".join(f"the patient has {words[label]} for {i} days,{label}\n" for i, label in enumerate("aaaabb" * 4))
    for split in ("train", "test"):
        (folder / f"{split}.csv").write_text(f"text,label\n{rows}")
    return {
        "name": "small",
        "rounds": 3,
        "corpus": {"format": "csv", "train": str(folder / "train.csv"), "test": str(folder / "test.csv")},
        "partition": {"name": "iid", "sites": 2},
        "task": {"name": "classification", "class_weights": "none"},
        "method": {"name": "fedavg", "lr": lr},
    }


def test_a_collapsed_run_says_so_in_progress_journal_summary_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Round] = []
    study = cells(tables(tmp_path, 1e-6))[0].study
    run(study, tmp_path / "run", progress=seen.append)
    still = (ONE_CLASS, WORSE, STILL)
    assert [(ONE_CLASS, WORSE), still, still] == [line.signs for line in seen]
    assert [*still] == json.loads((tmp_path / "run" / "metrics.json").read_text())["signs"]
    (tmp_path / "study.toml").write_text(study.toml())
    with pytest.raises(SystemExit):
        main(["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "again"), "--workers", "1"])
    output = capsys.readouterr()
    words = "one class predicted; no better than a constant answer; loss as at the first evaluation"
    assert f"the model has collapsed: {words}; try a higher method.lr, or more rounds" in output.out
    assert f"({words})" in output.err
    page = (tmp_path / "again" / "report.html").read_text()
    assert "collapsed: one class predicted" in page
    assert "Test examples whose text is also in training: 24. " in page, "the same rows to train and to test"
    assert "In the data: test text that is also in training: 24 of 24 (test.csv:" in page


def test_one_class_in_all_training_texts_is_refused_though_more_are_declared(tmp_path: Path) -> None:
    study = tables(tmp_path, 1.0)
    names = [line.rpartition(",")[2] for line in (tmp_path / "train.csv").read_text().splitlines()[1:]]
    study["corpus"]["labels"] = [*dict.fromkeys(names)]
    rows = [line for line in (tmp_path / "train.csv").read_text().splitlines() if line.endswith((names[0], "label"))]
    (tmp_path / "train.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(StudyError, match="have 1 label of the declared 2, so that there is nothing to tell apart; add"):
        run(cells(study)[0].study, tmp_path / "run")


def test_a_collapsed_model_is_never_the_best(tmp_path: Path) -> None:
    for name, lr in (("good", 8.0), ("bad", 1e-6)):
        run(cells(tables(tmp_path, lr))[0].study, tmp_path / "runs" / name)
    (panel,) = grouped(read_runs([tmp_path / "runs"]))
    assert [False, True] == [group.collapsed for group in panel.ranked]
    assert "bold: the best" not in page(read_runs([tmp_path / "runs"]))  # of one that is left none is


def test_a_task_without_counts_by_class_has_no_signs() -> None:
    class Other:
        def metrics(self, counts: dict[str, Tensor]) -> dict[str, float]:
            return {"f1": float(counts["right"])}

    assert [] == signs(Other(), {"right": torch.tensor(1.0)})
