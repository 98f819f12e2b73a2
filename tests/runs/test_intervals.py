"""Intervals of the final figures: over whole documents in a simulation, over answers where only sums are known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wardround.core.weights import Weights
from wardround.runs import intervals
from wardround.runs.build import build
from wardround.runs.files import COUNTS, INTERVALS, METRICS, Tally
from wardround.runs.intervals import over_answers, over_documents
from wardround.runs.loop import run
from wardround.study.load import Study, cells


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is remembered out of the home folder."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw as often as a run does."""
    monkeypatch.setattr(intervals, "DRAWS", 1000)


CORPUS = {"name": "clinic", "hospitals": 2, "documents": 24, "test_documents": 12}
TAGGING = {"name": "tagging", "embedding": 8, "hidden": 8, "character": 4}


def study_of(task: dict[str, Any], **changes: Any) -> Study:
    tables = {"name": "small", "rounds": 2, "corpus": CORPUS, "task": task, "method": {"name": "fedavg"}, **changes}
    return cells(tables)[0].study


def numbers(counted: Tally | None) -> dict[str, torch.Tensor]:
    assert counted is not None
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in counted.counts.items()}


@pytest.mark.usefixtures("many")
def test_the_final_figures_lie_in_their_intervals_and_the_file_says_what_was_drawn(tmp_path: Path) -> None:
    run(study_of({"name": "classification"}), tmp_path / "run")
    actual, metrics = INTERVALS.read(tmp_path / "run"), METRICS.read(tmp_path / "run")
    assert actual is not None
    assert metrics is not None
    assert ("documents", 24, 1000) == (actual.way, actual.count, actual.draws)
    assert {"accuracy", "macro_f1"} == set(actual.figures)
    for name, (low, high) in actual.figures.items():
        assert low <= metrics.final[name] <= high
    counts = COUNTS.read(tmp_path / "run")
    assert counts is not None
    assert 24 == sum(map(sum, counts.confusion)) == sum(counts.hits) + sum(counts.misses)


@pytest.mark.usefixtures("many")
def test_several_answers_on_a_document_are_drawn_together(tmp_path: Path) -> None:
    """And have intervals for all figures; from sums alone there are none for losses and relaxed matches."""
    study = study_of(TAGGING, rounds=3)
    run(study, tmp_path / "run")
    actual, counts = INTERVALS.read(tmp_path / "run"), numbers(COUNTS.read(tmp_path / "run"))
    assert actual is not None
    assert ("documents", 24) == (actual.way, actual.count)
    assert {"f1", "precision", "recall", "relaxed_f1", "loss"} < set(actual.figures)
    answers = over_answers(build(study, tmp_path / "built").task, 3, counts, study.seed)
    assert answers is not None
    assert "answers" == answers.way
    assert {"f1", "precision", "recall"} <= set(answers.figures)
    assert {"relaxed_f1", "loss"}.isdisjoint(answers.figures)


def test_the_same_run_gives_the_same_intervals_and_so_does_one_that_is_taken_up_at_its_end(tmp_path: Path) -> None:
    study = study_of({"name": "classification"})
    for name in ("one", "two"):
        run(study, tmp_path / name)
    kept = (tmp_path / "one" / "intervals.json").read_bytes()
    assert kept == (tmp_path / "two" / "intervals.json").read_bytes()
    for name in ("intervals.json", "metrics.json"):  # killed before it could write them
        (tmp_path / "one" / name).unlink()
    run(study, tmp_path / "one", resume=True)
    assert kept == (tmp_path / "one" / "intervals.json").read_bytes()


@pytest.mark.parametrize(
    ("task", "method"),
    [
        ({"name": "classification", "several": True}, "fedavg"),
        (TAGGING, "local"),
        (TAGGING, "fedavg"),
        ({"name": "classification"}, "centralised"),
    ],
)
def test_documents_add_up_to_what_was_counted(task: dict[str, Any], method: str, tmp_path: Path) -> None:
    """For sites' own models too; else intervals would silently be those over answers."""
    run(study_of(task, method={"name": method, "steps": 2}), tmp_path / "run")
    told = INTERVALS.read(tmp_path / "run")
    assert told is not None
    assert "documents" == told.way


def test_what_does_not_add_up_to_the_counts_is_drawn_by_answers(tmp_path: Path) -> None:
    study = study_of(TAGGING, method={"name": "fedavg", "steps": 2})
    run(study, tmp_path / "run")
    built = build(study, tmp_path / "built")
    other = Weights({name: torch.zeros_like(value) for name, value in built.weights.items()})
    told = over_documents(built, other, 2, numbers(COUNTS.read(tmp_path / "run")))
    assert told is None or "answers" == told.way


@pytest.mark.parametrize(
    "task", [TAGGING, {"name": "classification"}, {"name": "classification", "several": True}], ids=str
)
def test_without_a_test_document_there_is_no_interval_and_the_run_ends_well(
    task: dict[str, Any], tmp_path: Path
) -> None:
    run(
        study_of(task, corpus={**CORPUS, "test_documents": 0}, rounds=1, evaluation={"splits": ["train"]}),
        tmp_path / "run",
    )
    assert METRICS.exists(tmp_path / "run")
    assert not INTERVALS.exists(tmp_path / "run")


def test_pairs_of_one_note_are_drawn_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten notes with the same outcome for all their rows: the interval is that of ten, not of a hundred."""
    study = study_of({"name": "classification"}, rounds=1)
    built = build(study, tmp_path / "built")
    rows = sum(len(built.sites.raw(name)[1]) for name in built.sites.names)
    notes: Callable[[Any], list[str]] = lambda texts: [f"n{at // 6}" for at in range(len(texts))]  # noqa: E731
    run(study, tmp_path / "run")
    alone = INTERVALS.read(tmp_path / "run")
    monkeypatch.setattr(intervals, "_notes", notes)
    run(study, tmp_path / "together")
    together = INTERVALS.read(tmp_path / "together")
    assert alone is not None
    assert together is not None
    assert (rows, rows // 6) == (alone.count, together.count)


def test_nothing_of_a_document_is_kept(tmp_path: Path) -> None:
    """Only numbers and the study's own labels."""
    run(study_of({"name": "classification"}), tmp_path / "run")
    for name in ("counts.json", "intervals.json"):
        told = json.loads((tmp_path / "run" / name).read_text())
        words = set(told.get("names", []))
        assert words <= {*json.loads((tmp_path / "run" / "data.json").read_text())["sites"].popitem()[1]["train"]}
    assert np.isfinite(COUNTS.read(tmp_path / "run").counts["loss"])  # type: ignore[union-attr]
