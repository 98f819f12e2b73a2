"""Settings of local training that some methods take and others cannot, and what becomes of them in a study."""

import re
from pathlib import Path
from typing import Any

import pytest

from wardround.core.training import LocalTraining
from wardround.methods import METHODS
from wardround.runs.errors import RunError
from wardround.runs.loop import run
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError

TRAINING = {name for name, entry in METHODS.items() if issubclass(entry.kind, LocalTraining)}
STEPS = {"fedsgd", "fedner", "ridge-sgd"}
REFUSED = {
    "momentum": STEPS | {"scaffold", "fednova"},
    "weight_decay": STEPS,
    "moments": STEPS | {"ditto", "fedrep", "finetune"},
    "clip": STEPS,
    "accumulate": STEPS,
    "warmup": set[str](),
    "schedule": set[str](),
}
GIVEN: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9, "optimizer": "sgd"}, "weight_decay": {"weight_decay": 0.1},
    "moments": {"moments": "kept", "optimizer": "adam"}, "clip": {"clip": 1.0}, "accumulate": {"accumulate": 2},
    "warmup": {"warmup": 1}, "schedule": {"schedule": "linear"},
}  # fmt: skip


def study(method: str, rounds: int = 4, **settings: Any) -> Study:
    tables = {
        "name": "local", "rounds": rounds, "method": {"name": method, **settings}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40},
    }  # fmt: skip
    return cells(tables)[0].study


@pytest.mark.parametrize("setting", GIVEN)
@pytest.mark.parametrize("name", sorted(TRAINING))
def test_a_method_takes_a_setting_or_says_why_not(name: str, setting: str) -> None:
    given = dict(GIVEN[setting])
    fixed = {"fedsgd", "scaffold", "fednova"} if setting == "moments" else {"ridge-sgd"}
    if name in fixed:
        given.pop("optimizer", None)
    if name in fixed and setting == "moments":  # plain SGD has none to keep, whatever the method
        expected = "moments = kept"
    elif name in REFUSED[setting]:
        expected = f"{setting} = {given[setting]} does not go with {METHODS[name].kind.__name__}: "
    else:
        assert given[setting] == getattr(study(name, **given).method, setting)
        return
    with pytest.raises(StudyError, match=re.escape(f"method: {expected}")) as refused:
        study(name, **given)
    assert "leave it out" in str(refused.value) or "nothing to keep" in str(refused.value)


def test_a_schedule_ends_with_the_study_unless_it_says_otherwise() -> None:
    ended: Any = study("fedavg", rounds=7, schedule="cosine")
    assert 7 == ended.method.horizon == ended.resolved["method"]["horizon"]
    longer: Any = study("fedavg", rounds=7, schedule="cosine", horizon=20)
    assert 20 == longer.method.horizon
    assert ended.fingerprint != study("fedavg", rounds=8, schedule="cosine").fingerprint  # other rates in each round
    with pytest.raises(StudyError, match="warmup = 9 leaves no round to the schedule, which ends with round 7"):
        study("fedavg", rounds=7, schedule="linear", warmup=9)


def test_a_run_with_a_schedule_goes_on_for_more_rounds_if_its_end_is_named(tmp_path: Path) -> None:
    run(study("fedavg", rounds=2, schedule="cosine"), tmp_path)
    with pytest.raises(RunError, match=r"to go on with its schedule, set method\.horizon = 2, or choose another --out"):
        run(study("fedavg", rounds=3, schedule="cosine"), tmp_path, resume=True)
    assert 3 == run(study("fedavg", rounds=3, schedule="cosine", horizon=2), tmp_path, resume=True).rounds


def test_what_a_study_does_not_say_is_not_in_its_fingerprint() -> None:
    """Runs that were begun before there were such settings go on."""
    assert not set(GIVEN) & study("fedavg").resolved["method"].keys()


def test_adamw_has_the_rate_that_suits_adam() -> None:
    tables = {"name": "open", "rounds": 1, "corpus": {"name": "clinic"}, "task": {"name": "classification"}}
    method = cells({**tables, "method": {"name": "fedavg", "optimizer": "adamw"}})[0].study.resolved["method"]
    assert ("adamw", 0.02, 16) == (method["optimizer"], method["lr"], method["batch"])


def test_moments_that_sites_keep_come_back_with_resume_and_are_the_same_in_every_engine(tmp_path: Path) -> None:
    made = study("fedavgt", moments="kept", schedule="linear", warmup=1, clip=0.5, accumulate=2)

    def killed(line: Any) -> None:
        if line.round == 3:
            raise KeyboardInterrupt

    def model(name: str) -> bytes:
        return (tmp_path / name / "model" / "weights.safetensors").read_bytes()

    run(made, tmp_path / "whole", checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "killed", checkpoint_seconds=0, progress=killed)
    run(made, tmp_path / "killed", checkpoint_seconds=0, resume=True)
    run(made, tmp_path / "strict", strict=True)
    run(made, tmp_path / "pool", workers=2)
    assert [model("whole")] * 3 == [model(name) for name in ("killed", "strict", "pool")]
    run(study("fedavgt", schedule="linear", warmup=1, clip=0.5, accumulate=2), tmp_path / "anew")
    assert model("whole") != model("anew")
