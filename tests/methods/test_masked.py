"""Every method works where the coordinator sees only masked sums, and comes to the same model but for rounding."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from wardround.engines.inline import Serial
from wardround.methods import METHODS
from wardround.runs.build import build
from wardround.runs.loop import one_thread
from wardround.runs.protocol import rehearsal
from wardround.runs.rounds import Rounds
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError

CASES = [(name, entry.kind.rehearsal) for name, entry in METHODS.items() if not entry.kind.pooled]
CASES += [("fedavg", "bags"), ("scaffold", "bags"), ("fedner", "tagging"), ("fedavg", "classification")]


def study_of(name: str, task: str, **changes: Any) -> Study:
    tables: dict[str, Any] = {"name": "masked", "rounds": 2, "method": {"name": name}, **rehearsal(task)}
    if task == "tagging":
        tables["task"]["dropout"] = 0.0  # FedNER draws it anew in each exchange, by the exchange's number
    if METHODS[name].kind.public:
        tables["public"] = {"fraction": 0.3}
    return cells(tables | changes)[0].study


def outcome(study: Study) -> tuple[torch.Tensor, dict[str, float]]:
    """The weights and figures after two rounds, every message encoded."""
    with tempfile.TemporaryDirectory() as folder, one_thread():
        built = build(study, Path(folder))
        rounds = Rounds(built, Serial(built.host, strict=True))
        state = rounds.start()
        for round_ in (1, 2):
            state, _ = rounds.train(round_, state)
        return state.weights.flat, rounds.evaluate(2, state.weights).metrics


@pytest.mark.parametrize(("method", "task"), sorted({*CASES}))
def test_a_method_comes_to_the_same_model_behind_masks(method: str, task: str) -> None:
    masked = study_of(method, task, privacy={"secure_aggregation": True})
    settings = {"method": masked.resolved["method"]}  # in the form that needs only sums
    plain, expected = outcome(study_of(method, task, **settings))
    weights, metrics = outcome(masked)
    adam = method == "fedner"  # whose steps make much of gradients that are next to nothing
    assert float((plain - weights).norm()) <= (1e-4 if adam else 1e-5) * float(plain.norm())
    assert expected["loss"] == pytest.approx(metrics["loss"], rel=1e-5)


def test_what_shows_a_single_reply_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        StudyError, match=r"method\.ask_sizes = true .* privacy\.secure_aggregation shows only sums; .* set it to false"
    ):
        study_of(
            "fedner", "tagging", method={"name": "fedner", "ask_sizes": True}, privacy={"secure_aggregation": True}
        )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"privacy": {"secure_aggregation": True, "fewest": 4}}, "privacy.fewest = 4, but 3 of 3 sites take part"),
        ({"privacy": {"secure_aggregation": True}, "sites": {"per_round": 2}}, "privacy.fewest = 3, but 2 of 3 sites"),
        (
            {"privacy": {"secure_aggregation": True, "fewest": 2, "same_members": True}, "sites": {"per_round": 2}},
            "privacy.same_members wants all sites in every round, but 2 of 3 take part",
        ),
        ({"privacy": {"same_members": True}}, "privacy.same_members is about masked sums"),
        ({"privacy": {"secure_aggregation": True}, "evaluation": {"each": True}}, "evaluation.each shows each site's"),
        ({"privacy": {"secure_aggregation": True}, "method": {"name": "centralised"}}, "there is nothing to mask"),
    ],
)
def test_a_study_that_masks_cannot_serve_is_refused_before_the_run(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError) as error:
        build(study_of("fedavg", "features", **changes), tmp_path)
    assert [True] == [given.startswith(problem) or problem in given for given in error.value.problems]
