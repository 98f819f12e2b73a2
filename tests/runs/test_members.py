"""A site leaves a finished run or joins it: exactly where sums allow it, and refused with a remedy elsewhere."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from loopback import Exchange as Sites
from study_files import cli, small_study
from wardround.consortium.submit import submit
from wardround.core.exchange import Exchange
from wardround.layers.ledger import verify
from wardround.methods.ridge import Solved
from wardround.methods.sums import System, pooled_sums
from wardround.reports.page import write_report
from wardround.reports.read import read_runs
from wardround.reports.statistics import Group, per_site
from wardround.runs.build import build
from wardround.runs.checkpoint import CheckpointError, load_newest, save
from wardround.runs.errors import RunError
from wardround.runs.files import DATA, MEMBERS
from wardround.runs.loop import run
from wardround.runs.members import amended
from wardround.study.load import Study, load_study

PART = """
from collections.abc import Sequence
from dataclasses import dataclass

from wardround.corpora.synthetic import Synthetic


@dataclass(frozen=True, kw_only=True)
class Part(Synthetic):
    \"\"\"Synthetic without some of its sites.\"\"\"

    without: tuple[str, ...] = ()

    def names(self) -> Sequence[str]:
        return tuple(name for name in super().names() if name not in self.without)
"""


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "part.py").write_text(PART, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def study(folder: Path, *without: str, **more: Any) -> Study:
    corpus = {"name": "part:Part", "sites": 4, "largest": 60, "without": list(without)}
    more = {"method": {"name": "ridge"}, "rounds": 1, "validation": {"share": 0.2}, **more}
    return load_study(small_study(folder, corpus=corpus, partition=None, **more))[0].study


def head(out: Path, made: Study) -> list[float]:
    """The classifier in double precision."""
    checkpoint = load_newest(out / "checkpoints", made.fingerprint, Solved)
    assert checkpoint is not None
    state = checkpoint.state
    assert isinstance(state, Solved)
    own, bias = System(state.sums).head(state.penalty)
    return [state.penalty, *own.flatten().tolist(), *bias.tolist()]


def test_a_forgotten_site_was_never_there(beside: Path) -> None:
    """The classifier, λ, the figures and what is told of the data are those of a run without it; the ledger has it."""
    whole, without = study(beside), study(beside, "site-01")
    run(whole, beside / "whole")
    reference = run(without, beside / "without")
    before = verify(beside / "whole" / "ledger" / "coordinator.jsonl")
    metrics = amended(beside / "whole", "site-01", "forget", beside)
    assert head(beside / "without", without) == pytest.approx(head(beside / "whole", whole), rel=0, abs=1e-10)
    stored, never = (load_file(beside / name / "model" / "weights.safetensors") for name in ("whole", "without"))
    assert all(torch.allclose(stored[part], never[part], rtol=1e-5, atol=1e-6) for part in never)
    assert reference.metrics == pytest.approx(metrics.final, abs=1e-6)
    assert before < verify(beside / "whole" / "ledger" / "coordinator.jsonl")
    data = DATA.read(beside / "whole")
    assert data is not None
    assert ["site-00", "site-02", "site-03"] == list(data.sites)
    card = (beside / "whole" / "model" / "README.md").read_text()
    assert "training examples left: the model is that of a run without it" in card
    assert "site-01" not in card
    assert 1 == len(list((beside / "whole" / "checkpoints").glob("round-*")))


@pytest.mark.parametrize("cut", ["MEMBERS.write", "write_model", "METRICS.write", "save"])
def test_a_change_that_is_cut_short_can_be_repeated(beside: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    whole, without = study(beside), study(beside, "site-01")
    run(whole, beside / "whole")
    run(without, beside / "without")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"wardround.runs.members.{cut}", stop)
        with pytest.raises(KeyboardInterrupt):
            amended(beside / "whole", "site-01", "forget", beside)
    amended(beside / "whole", "site-01", "forget", beside)
    assert head(beside / "without", without) == pytest.approx(head(beside / "whole", whole), rel=0, abs=1e-10)
    assert ["site-01"] == [change.site for change in MEMBERS.read(beside / "whole") or ()]
    with pytest.raises(RunError, match="there is nothing to forget"):
        amended(beside / "whole", "site-01", "forget", beside)


def test_all_that_is_told_of_the_model_is_told_without_the_site(beside: Path) -> None:
    """Counts, intervals, references and the report: as of a run that never had it."""
    run(study(beside, evaluation={"each": True}), beside / "whole")
    run(study(beside, "site-01", evaluation={"each": True}), beside / "without")
    metrics = amended(beside / "whole", "site-01", "forget", beside)
    one, other = read_runs([beside / "whole", beside / "without"])
    assert metrics.final == one.final == pytest.approx(other.final, abs=1e-6)
    assert one.tally is not None
    assert other.tally is not None
    assert sum(other.tally.hits) + sum(other.tally.misses) == sum(one.tally.hits) + sum(one.tally.misses)
    assert (other.tally.confusion, other.intervals, other.references, other.signs) == (
        one.tally.confusion, one.intervals, one.references, one.signs,
    )  # fmt: skip
    assert (None, 3) == (per_site(Group("", (one,)), "accuracy"), one.data and one.data.count)
    page = write_report([beside / "whole"], beside / "page.html").read_text()
    assert "Sites have left the model of ridge since, or joined it: the final figures are those of the model" in page
    amended(beside / "whole", "site-01", "add", beside)
    data = DATA.read(beside / "whole")
    assert data is not None
    assert 4 == data.count == len(data.sites)


def test_who_joins_again_was_never_away(beside: Path) -> None:
    whole = study(beside)
    run(whole, beside / "whole")
    before = head(beside / "whole", whole)
    amended(beside / "whole", "site-02", "forget", beside)
    assert before != head(beside / "whole", whole)
    amended(beside / "whole", "site-02", "add", beside)
    assert before == pytest.approx(head(beside / "whole", whole), rel=0, abs=1e-10)
    members = MEMBERS.read(beside / "whole") or []
    assert [("forget", "site-02"), ("add", "site-02")] == [(change.action, change.site) for change in members]


def test_a_run_that_a_site_has_left_does_not_go_on(beside: Path) -> None:
    """It would ask the site again; what is finished stays."""
    made = study(beside)
    run(made, beside / "whole")
    metrics = amended(beside / "whole", "site-01", "forget", beside)
    assert metrics.final == run(made, beside / "whole", resume=True).metrics
    with pytest.raises(RunError, match="sites have left its model or joined it since; run it anew with another --out"):
        run(study(beside, rounds=2), beside / "whole", resume=True)


def test_what_cannot_be_is_refused_and_changes_nothing(beside: Path) -> None:
    made = study(beside)
    run(made, beside / "whole")
    before = head(beside / "whole", made)
    for site, action, why in (
        ("site-04", "forget", "did you mean 'site-0"),
        ("nowhere", "add", "the study has no site 'nowhere'; it has site-00"),
        ("site-01", "add", "site-01 is in this model already"),
    ):
        with pytest.raises(RunError, match=why):
            amended(beside / "whole", site, action, beside)  # type: ignore[arg-type]
    amended(beside / "whole", "site-01", "forget", beside)
    with pytest.raises(RunError, match="site-01 is not in this model: there is nothing to forget; in it are site-00"):
        amended(beside / "whole", "site-01", "forget", beside)
    assert before != head(beside / "whole", made)
    with pytest.raises(RunError, match="holds no finished run"):
        amended(beside / "nothing", "site-01", "forget", beside)


def test_other_methods_say_from_which_round_to_train_again(beside: Path) -> None:
    made = study(beside, method={"name": "fedavg"}, rounds=3)
    run(made, beside / "run")
    again = "site-01 took part from round 1 on; train again without it from the start, or use ridge"
    with pytest.raises(RunError, match=again):
        amended(beside / "run", "site-01", "forget", beside)
    with pytest.raises(RunError, match="never took part in the training"):
        amended(beside / "run", "elsewhere", "forget", beside)
    with pytest.raises(RunError, match="a site cannot be added"):
        amended(beside / "run", "site-01", "add", beside)


def test_data_that_changed_cannot_be_subtracted(beside: Path) -> None:
    run(study(beside), beside / "whole")
    path = beside / "whole" / "data.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fingerprint": "other"}))
    with pytest.raises(RunError, match="the data are not those of the run any more"):
        amended(beside / "whole", "site-01", "forget", beside)


def test_nor_is_a_site_added_whose_data_changed(beside: Path) -> None:
    """If these were put back later, other sums would be subtracted than were added."""
    run(study(beside), beside / "whole")
    amended(beside / "whole", "site-01", "forget", beside)
    path = beside / "whole" / "data.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fingerprint": "other"}))
    with pytest.raises(RunError, match="the data are not those of the run any more, so site-01's sums are not of the"):
        amended(beside / "whole", "site-01", "add", beside)


def test_more_sites_than_are_described_are_forgotten_with_a_word(
    beside: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To look at each would make every start slow: no fingerprint is kept; rows that cannot be the run's are told."""
    for place in ("federation.describe", "runs.members", "trained.card", "trained.folder"):
        monkeypatch.setattr(f"wardround.{place}.MOST_SITES", 3)
    whole = study(beside)
    run(whole, beside / "whole")
    without = study(beside, "site-01")
    run(without, beside / "without")
    amended(beside / "whole", "site-01", "forget", beside)
    assert "of more than 3 sites no fingerprint is kept: that the data are still" in caplog.text
    assert head(beside / "without", without) == pytest.approx(head(beside / "whole", whole), rel=0, abs=1e-10)
    checkpoint = load_newest(beside / "whole" / "checkpoints", whole.fingerprint, Solved)
    assert checkpoint is not None
    state = checkpoint.state
    assert isinstance(state, Solved)
    fewer = replace(state, rows=1, labels=state.labels * 0)
    save(beside / "whole" / "checkpoints", replace(checkpoint, state=fewer))
    with pytest.raises(
        RunError, match=r"site-02 has more rows of a class now than all in the model together: .*; restore them"
    ):
        amended(beside / "whole", "site-02", "forget", beside)


@pytest.mark.parametrize(("action", "what"), [("forget", "subtracted"), ("add", "added")])
def test_under_masks_nobody_has_what_to_subtract(beside: Path, action: Any, what: str) -> None:
    run(study(beside, privacy={"secure_aggregation": True}), beside / "whole")
    before = (beside / "whole" / "model" / "weights.safetensors").read_bytes()
    why = (
        f"under secure aggregation nobody but site-01 has its own sums, and to be {what} .* run the study again "
        f"with.* site-01, which takes one exchange; or, .* without privacy.secure_aggregation, and {action} works"
    )
    with pytest.raises(RunError, match=why):
        amended(beside / "whole", "site-01", action, beside)
    assert before == (beside / "whole" / "model" / "weights.safetensors").read_bytes()


def test_a_run_whose_files_lie_elsewhere_says_how_to_name_the_place(tmp_path: Path) -> None:
    rows = [f"{'aspirin' if at % 2 else 'fever'} {at},{'drug' if at % 2 else 'illness'}\n" for at in range(60)]
    (tmp_path / "here").mkdir()
    for name, part in {"train": rows[:48], "test": rows[48:]}.items():
        (tmp_path / "here" / f"{name}.csv").write_text("text,label\n" + "".join(part), encoding="utf-8")
    corpus = {"format": "csv", "train": "train.csv", "test": "test.csv", "labels": ["drug", "illness"]}
    task = {"name": "classification", "model": "lstm", "buckets": 16}
    tables: dict[str, Any] = {"corpus": corpus, "task": task, "partition": {"name": "iid", "sites": 3}}
    path = small_study(tmp_path / "here", method={"name": "ridge"}, rounds=1, **tables)
    run(load_study(path)[0].study, tmp_path / "elsewhere" / "run")
    for given, hint in ((None, True), (tmp_path, False)):
        with pytest.raises(RunError, match=r"train\.csv: no such file") as refused:
            amended(tmp_path / "elsewhere" / "run", "site-1", "forget", given)
        assert hint == ("--beside FOLDER says where the study lay" in str(refused.value))
    amended(tmp_path / "elsewhere" / "run", "site-1", "forget", tmp_path / "here")
    assert ["site-1"] == [change.site for change in MEMBERS.read(tmp_path / "elsewhere" / "run") or ()]


def test_all_but_the_last_can_be_forgotten_one_after_the_other(beside: Path) -> None:
    """What is left is the model of a run with that one alone; the last is forgotten by deleting the run."""
    whole, alone = study(beside), study(beside, "site-00", "site-01", "site-03")
    run(whole, beside / "whole")
    run(alone, beside / "alone")
    for name in ("site-00", "site-03", "site-01"):
        amended(beside / "whole", name, "forget", beside)
    assert head(beside / "alone", alone) == pytest.approx(head(beside / "whole", whole), rel=0, abs=1e-8)
    with pytest.raises(RunError, match=r"site-02 is the only one in this model; delete .*whole to forget it"):
        amended(beside / "whole", "site-02", "forget", beside)


def test_sums_of_which_one_byte_was_changed_are_not_subtracted_from(beside: Path) -> None:
    run(study(beside), beside / "whole")
    path = max((beside / "whole" / "checkpoints").glob("round-*"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    model = (beside / "whole" / "model" / "weights.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match=r"round-000001\.checkpoint"):
        amended(beside / "whole", "site-01", "forget", beside)
    assert (None, model) == (
        MEMBERS.read(beside / "whole"),
        (beside / "whole" / "model" / "weights.safetensors").read_bytes(),
    )


def test_a_run_over_real_sites_is_not_taken_for_a_simulation(beside: Path) -> None:
    tables: dict[str, Any] = {"method": {"name": "ridge"}, "rounds": 1, "partition": {"name": "iid", "sites": 3}}
    made = load_study(small_study(beside, **tables))[0].study
    with Sites(beside / "sites", made, ("site-0", "site-1", "site-2")) as sites:
        submit(made, beside / "real", sites.over)
    with pytest.raises(RunError, match="was run over real sites, whose notes are not here; run the study again"):
        amended(beside / "real", "site-1", "forget")


def test_who_has_all_the_rows_is_not_forgotten_by_keeping_its_classifier(beside: Path) -> None:
    made = study(beside, method={"name": "ridge"})
    run(made, beside / "whole")
    checkpoint = load_newest(beside / "whole" / "checkpoints", made.fingerprint, Solved)
    assert checkpoint is not None
    state = checkpoint.state
    assert isinstance(state, Solved)
    built = build(made, beside / "one")
    own = pooled_sums(built.host.site("site-01", Exchange("gather", 1, 1, 0, made.seed)), state.weights)
    one = Solved(
        state.weights, own.rows, own.inputs, own.gram, own.targets, own.labels, ("site-00", "site-01"), state.penalty
    )
    save(beside / "whole" / "checkpoints", replace(checkpoint, state=one))  # as if site-00 had no rows
    with pytest.raises(RunError, match=r"nobody else in this model has any row; delete .*whole to forget site-01"):
        amended(beside / "whole", "site-01", "forget", beside)


@pytest.mark.parametrize("head", ["ridge", "ccvr"])
def test_a_classifier_that_was_fitted_once_more_cannot_be_taken_apart(beside: Path, head: str) -> None:
    run(study(beside, finish={"head": head}), beside / "whole")
    with pytest.raises(RunError, match=r"\[finish\] has fitted the classifier once more"):
        amended(beside / "whole", "site-01", "forget", beside)


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    path = small_study(tmp_path, method={"name": "ridge"}, rounds=1)
    assert 0 == cli("run", path, "--out", "run", "--workers", 1, "--quiet", cwd=tmp_path).code
    names = sorted(json.loads((tmp_path / "run" / "data.json").read_text())["sites"])
    ended = cli("model", "forget", "run", names[0], cwd=tmp_path)
    assert (0, f"{names[0]} is out of the model in run/model: accuracy ") == (
        ended.code,
        ended.out[: len(names[0]) + 44],
    )
    data = json.loads((tmp_path / "run" / "data.json").read_text())["sites"]
    left = sum(sum(one["test"].values()) for name, one in data.items() if name != names[0])
    assert f", on the {left:,} test examples of who is in it now" in ended.out
    ended = cli("model", "add", "run", names[0], cwd=tmp_path)
    assert (0, True) == (ended.code, ended.out.startswith(f"{names[0]} is in the model in run/model: accuracy "))
    ended = cli("model", "forget", "run", "nobody", cwd=tmp_path)
    assert 2 == ended.code
    assert "has no site 'nobody'" in ended.err
