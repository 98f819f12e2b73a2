"""A run: its folder, its cohorts, its evaluation, when it stops, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from study_files import PAUSING, cli, journal, listing, paused, result_of, small_study, start, wait_for, write_module
from wardround.layers.ledger import verify
from wardround.methods import METHODS
from wardround.runs.build import build, drawn
from wardround.runs.fitting import taking_part
from wardround.runs.loop import run
from wardround.study.load import Study, load_study

SERIAL = ("--workers", 1, "--quiet")

SICK = """
from dataclasses import dataclass
from wardround.extend import FedAvg, Global, Site, Update, on_site

@dataclass(frozen=True, kw_only=True)
class Sick(FedAvg):
    "FedAvg with one site that goes wrong."
    harm: str = "nan"

    @on_site
    def fit(self, model: Global, site: Site) -> Update:
        update = FedAvg.fit.function(self, model, site)
        if (site.exchange.round, site.name) != (2, "site-01"):
            return update
        if self.harm == "raise":
            raise ValueError("Mrs Smith has a rash")
        if self.harm == "count":
            return Update(update.change, -1)
        return Update(update.change * float("nan"), update.weight)
"""
RAISED_AT = 1 + SICK.splitlines().index('            raise ValueError("Mrs Smith has a rash")')


def study_of(path: Path, *changes: str) -> Study:
    return load_study(path, changes)[0].study


def metrics_of(out: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    return told


# the folder


def test_a_run_folder_holds_study_journal_ledger_checkpoints_model_and_metrics(tmp_path: Path) -> None:
    path = small_study(tmp_path, method={"name": "scaffold"})
    ended = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    out = tmp_path / "run"
    assert (0, "") == (ended.code, ended.err)
    assert {"study.toml", "journal.jsonl", "ledger", "checkpoints", "memory", "model", "metrics.json"} <= {
        entry.name for entry in out.iterdir()
    }
    assert study_of(path).resolved == study_of(out / "study.toml").resolved
    assert study_of(path).resolved == study_of(out / "model" / "study.toml").resolved
    assert [1, 2, 3] == [line["round"] for line in journal(out)]
    sites = [f"site-0{number}" for number in range(3)]
    assert sites == sorted(file.stem for file in (out / "ledger" / "sites").iterdir())
    # Per round: training and evaluation.
    assert [6, 6, 6] == [verify(out / "ledger" / "sites" / f"{site}.jsonl") for site in sites]
    # Per exchange at the coordinator: one line for what goes to all, one for each reply.
    assert 3 * 2 * (1 + 3) == verify(out / "ledger" / "coordinator.jsonl")
    assert {"linear.weight", "linear.bias"} == set(load_file(out / "model" / "weights.safetensors"))
    assert sites == sorted(folder.name for folder in (out / "memory").iterdir())


def test_without_out_the_folder_is_runs_and_the_studys_name(tmp_path: Path) -> None:
    assert 0 == cli("run", small_study(tmp_path), *SERIAL, cwd=tmp_path).code
    assert (tmp_path / "runs" / "small" / "metrics.json").exists()


def test_the_journal_and_the_metrics_agree(tmp_path: Path) -> None:
    cli("run", small_study(tmp_path, rounds=5), "--out", "run", *SERIAL, cwd=tmp_path)
    ended, lines = metrics_of(tmp_path / "run"), journal(tmp_path / "run")
    assert ("small", "fedavg", 7, 5, "all rounds done", None) == tuple(
        ended[key] for key in ("study", "method", "seed", "rounds", "stopped", "rounds_to_target")
    )
    assert lines[-1]["metrics"] == ended["final"]
    for name, best in (("accuracy", max), ("macro_f1", max), ("loss", min)):
        values = [line["metrics"][name] for line in lines]
        expected = {"value": best(values), "round": 1 + values.index(best(values))}
        assert expected == ended["best"][name]
    for key in ("up", "down", "evaluation_up", "evaluation_down"):
        assert sum(line[key] for line in lines) == ended["bytes"][key]


def test_a_method_without_a_shared_model_leaves_none(tmp_path: Path) -> None:
    path = small_study(tmp_path, method={"name": "local"})
    ended = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    *_, ran, own = ended.out.splitlines()
    assert "the run is in run; sites keep their models" == ran
    assert "a site's own model: wardround model assemble run SITE --out DIR" == own
    assert not (tmp_path / "run" / "model").exists()


def test_encoding_every_message_changes_no_bit(tmp_path: Path) -> None:
    path = small_study(tmp_path, method={"name": "fedpap"})
    cli("run", path, "--out", "plain", *SERIAL, cwd=tmp_path)
    cli("run", path, "--out", "strict", "--strict", "--quiet", cwd=tmp_path)
    assert result_of(tmp_path / "plain") == result_of(tmp_path / "strict")


# cohorts


@pytest.mark.parametrize(
    ("fraction", "sites", "expected"),
    [(1.0, 3, 3), (0.29, 100, 29), (0.1, 30, 3), (0.001, 30, 1), (0.5, 3, 1), (0.999, 10, 9), (1e-300, 10_000, 1)],
)
def test_a_fraction_of_the_sites_is_rounded_down_to_at_least_one(fraction: float, sites: int, expected: int) -> None:
    assert expected == taking_part(fraction, sites)


@pytest.mark.parametrize(
    ("change", "size"),
    [("sites.fraction=1.0", 40), ("sites.fraction=0.25", 10), ("sites.per_round=7", 7), ("sites.per_round=40", 40)],
)
def test_a_cohort_is_drawn_without_replacement_and_has_the_asked_size(tmp_path: Path, change: str, size: int) -> None:
    study = study_of(small_study(tmp_path), "corpus.sites=40", change)
    names = tuple(study.corpus.names())
    for round_ in range(1, 20):
        cohort = drawn(study, names, round_)
        assert (size, sorted(set(cohort))) == (len(cohort), list(cohort))
        assert set(cohort) <= set(names)


def test_a_cohort_depends_on_seed_and_round_and_nothing_else(tmp_path: Path) -> None:
    path = small_study(tmp_path, corpus={"sites": 40}, sites={"per_round": 5})
    names = tuple(study_of(path).corpus.names())

    def cohorts(*changes: str) -> list[tuple[str, ...]]:
        return [drawn(study_of(path, *changes), names, round_) for round_ in range(1, 9)]

    assert cohorts() == cohorts("method.name=scaffold", "method.lr=0.5", "rounds=100", "name=other")
    assert 8 == len(set(cohorts()))
    assert cohorts() != cohorts("seed=8")


def test_every_site_has_its_turn(tmp_path: Path) -> None:
    study = study_of(small_study(tmp_path, corpus={"sites": 10}, sites={"per_round": 2}))
    names = tuple(study.corpus.names())
    turns = [name for round_ in range(1, 1001) for name in drawn(study, names, round_)]
    # 2000 draws among 10 sites: 200 each, with a standard deviation of about 13.
    assert all(140 < turns.count(name) < 260 for name in names)


def test_only_the_cohort_is_asked_to_train_and_all_are_asked_to_evaluate(tmp_path: Path) -> None:
    path = small_study(tmp_path, corpus={"sites": 6}, sites={"per_round": 2})
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    study, lines = study_of(path), (tmp_path / "run" / "ledger" / "coordinator.jsonl").read_text().splitlines()
    names = tuple(study.corpus.names())
    sent = [line for line in map(json.loads, lines) if "to" in line]
    assert [list(drawn(study, names, round_)) for round_ in (1, 2, 3)] == [
        line["to"] for line in sent if line["step"] == "fit"
    ]
    assert [list(names)] * 3 == [line["to"] for line in sent if line["step"] == "evaluate"]
    assert [2, 2, 2] == [line["sites"] for line in journal(tmp_path / "run")]


# evaluation and stopping


def test_evaluation_comes_every_n_rounds_and_after_the_last(tmp_path: Path) -> None:
    path = small_study(tmp_path, rounds=5, evaluation={"every": 2, "splits": ["test", "train"]})
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    lines = journal(tmp_path / "run")
    assert [2, 4, 5] == [line["round"] for line in lines if line["metrics"]]
    figures = ["accuracy", "macro_f1", "loss", "examples"]
    assert [*figures, *(f"train_{name}" for name in figures)] == list(lines[-1]["metrics"])


def test_evaluation_does_not_change_the_model(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "often", *SERIAL, cwd=tmp_path)
    cli("run", path, "--out", "once", "--set", "evaluation.every=3", *SERIAL, cwd=tmp_path)
    assert result_of(tmp_path / "often")["model"] == result_of(tmp_path / "once")["model"]


def test_each_sites_figures_are_there_if_asked_for_and_add_up_to_the_whole(tmp_path: Path) -> None:
    path = small_study(tmp_path, corpus={"largest": 60})
    cli("run", path, "--out", "sum", *SERIAL, cwd=tmp_path)
    cli("run", path, "--out", "each", "--set", "evaluation.each=true", *SERIAL, cwd=tmp_path)
    summed, each = journal(tmp_path / "sum")[-1], journal(tmp_path / "each")[-1]
    assert (summed["metrics"], {}) == (each["metrics"], summed["per_site"])
    own = each["per_site"]
    assert ["site-00", "site-01", "site-02"] == list(own)
    assert each["metrics"]["examples"] == sum(site["examples"] for site in own.values())
    hits = sum(site["accuracy"] * site["examples"] for site in own.values())
    assert each["metrics"]["accuracy"] == pytest.approx(hits / each["metrics"]["examples"])


def test_a_run_stops_at_its_target_or_only_notes_when_it_was_reached(tmp_path: Path) -> None:
    path = small_study(tmp_path, rounds=5)
    cli("run", path, "--out", "all", *SERIAL, cwd=tmp_path)
    cli("run", path, "--out", "three", "--set", "rounds=3", *SERIAL, cwd=tmp_path)
    losses = [line["metrics"]["loss"] for line in journal(tmp_path / "all")]
    assert sorted(losses, reverse=True) == losses
    target = ("--set", f"stop={{metric='loss', target={losses[2]!r}, on_test_figures=true}}")

    ended = cli("run", path, "--out", "early", *target, *SERIAL, cwd=tmp_path)
    actual = metrics_of(tmp_path / "early")
    said = "loss reached its target in round 3"
    assert (3, 3, said) == (actual["rounds"], actual["rounds_to_target"], actual["stopped"])
    assert ended.out.startswith(said)
    assert result_of(tmp_path / "three")["model"] == result_of(tmp_path / "early")["model"]
    before = listing(tmp_path / "early")
    again = cli("run", path, "--out", "early", *target, *SERIAL, "--resume", cwd=tmp_path)
    assert (ended.out, before) == (again.out, listing(tmp_path / "early"))

    cli("run", path, "--out", "noted", *target, "--set", "stop.early=false", *SERIAL, cwd=tmp_path)
    actual = metrics_of(tmp_path / "noted")
    assert (5, 3, "all rounds done") == (actual["rounds"], actual["rounds_to_target"], actual["stopped"])
    assert result_of(tmp_path / "all")["model"] == result_of(tmp_path / "noted")["model"]

    cli("run", path, "--out", "never", "--set", "stop={target=1.1, on_test_figures=true}", *SERIAL, cwd=tmp_path)
    actual = metrics_of(tmp_path / "never")
    assert (5, None) == (actual["rounds"], actual["rounds_to_target"])


def test_a_target_is_only_looked_for_where_there_is_a_figure(tmp_path: Path) -> None:
    path = small_study(tmp_path, rounds=5, evaluation={"every": 2}, stop={"target": 0.0, "on_test_figures": True})
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    assert 2 == metrics_of(tmp_path / "run")["rounds_to_target"]


# sites that go wrong


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("nan", "fit: invalid: Update.change holds NaN or infinity"),
        ("count", "fit: invalid: Update.weight is outside 0 … 1,000,000,000"),
    ],
)
def test_a_site_that_sends_nonsense_is_left_out_by_name_with_the_reason(tmp_path: Path, harm: str, reason: str) -> None:
    write_module(tmp_path, SICK)
    path = small_study(tmp_path, method={"name": "mine:Sick", "harm": harm}, sites={"quorum": 2})
    ended = cli("run", path, "--out", "run", "--workers", 1, cwd=tmp_path)
    assert 0 == ended.code
    assert [{}, {"site-01": reason}, {}] == [line["left_out"] for line in journal(tmp_path / "run")]
    assert f"round 2: site-01 left out ({reason})\n" in ended.err
    weights = load_file(tmp_path / "run" / "model" / "weights.safetensors")
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_below_the_quorum_the_run_stops_and_says_why(tmp_path: Path) -> None:
    write_module(tmp_path, SICK)
    path = small_study(tmp_path, method={"name": "mine:Sick"}, sites={"quorum": 3})
    ended = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    expected = (
        "round 2, fit: 2 of 3 sites gave a usable reply, the quorum is 3 "
        "(site-01: fit: invalid: Update.change holds NaN or infinity); training has run away: try a lower method.lr\n"
    )
    assert (1, expected) == (ended.code, ended.err)


@pytest.mark.parametrize("method", ["fedavg", "local"])
def test_a_model_that_runs_away_stops_the_run_and_says_why(method: str, tmp_path: Path) -> None:
    """Also one that stays at its site, and of which no reply shows it: the figures were those of the initial one."""
    path = small_study(tmp_path, rounds=50, method={"name": method, "lr": 3e38})
    ended = cli("run", path, *SERIAL, cwd=tmp_path)
    assert 1 == ended.code
    assert "0 of 3 sites gave a usable reply" in ended.err
    assert "holds NaN or infinity" in ended.err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_step_that_raises_stops_the_run_without_the_text_of_the_error(tmp_path: Path, workers: int) -> None:
    write_module(tmp_path, SICK)
    path = small_study(tmp_path, method={"name": "mine:Sick", "harm": "raise"})
    arguments = ("run", path, "--out", "run", "--workers", workers, "--quiet")
    ended = cli(*arguments, cwd=tmp_path)
    expected = (
        f"site-01 failed in step 'fit' of round 2: ValueError at mine.py:{RAISED_AT}; its text is not shown, since "
        "it could quote a note: wardround run --traceback shows it\n"
    )
    assert (1, "", expected) == (ended.code, ended.out, ended.err)


@pytest.mark.parametrize("workers", [1, 2])
def test_traceback_shows_the_error_in_full_and_once_it_is_mended_the_run_goes_on(tmp_path: Path, workers: int) -> None:
    write_module(tmp_path, SICK)
    path = small_study(tmp_path, method={"name": "mine:Sick", "harm": "raise"})
    ended = cli("run", path, "--out", "run", "--workers", workers, "--quiet", "--traceback", cwd=tmp_path)
    assert 1 == ended.code
    assert f'mine.py", line {RAISED_AT}, in fit\n' in ended.err
    assert "ValueError: Mrs Smith has a rash\n" in ended.err
    write_module(tmp_path, SICK.replace('"site-01"', '"nobody"'))
    assert 0 == cli("run", path, "--out", "run", *SERIAL, "--resume", cwd=tmp_path).code
    cli("run", path, "--out", "well", *SERIAL, cwd=tmp_path)
    assert result_of(tmp_path / "well") == result_of(tmp_path / "run")


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].kind.rehearsal == "features"])
def test_sites_without_examples_or_with_one_class_do_no_harm(tmp_path: Path, method: str) -> None:
    path = small_study(
        tmp_path,
        method={"name": method},
        public={"fraction": 0.2} if METHODS[method].kind.public else None,
        partition={"name": "dirichlet", "sites": 12, "alpha": 0.02},
        sites={"per_round": 1},
        rounds=6,
    )
    study = study_of(path)
    if not study.method.pooled:
        built = build(study, tmp_path / "unused")
        assert built.raw is not None
        held = {name: built.raw.raw(name)[0] for name in built.sites.names}
        kinds = {min(len(set(map(int, rows.classes))), 2) for rows in held.values()}
        assert {0, 1} <= kinds
        asked = {name for round_ in range(1, 7) for name in drawn(study, built.sites.names, round_)}
        assert any(not len(held[name]) for name in asked)
    run(study, tmp_path / "run")
    lines = journal(tmp_path / "run")
    assert [{}] * 6 == [line["left_out"] for line in lines]
    assert all(line["metrics"]["examples"] == 6 for line in lines)


# folders that are taken


def test_a_second_run_in_the_same_folder_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    before = listing(tmp_path / "run")
    ended = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    expected = "run holds a run already; go on with --resume, or choose another --out\n"
    assert (2, "", expected) == (ended.code, ended.out, ended.err)
    assert before == listing(tmp_path / "run")


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path, resume: list[str]) -> None:
    path = small_study(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("…")
    before = listing(tmp_path)
    ended = cli("run", path, "--out", "mine", *SERIAL, *resume, cwd=tmp_path)
    assert (2, "mine is not empty and holds no run; choose another --out\n") == (ended.code, ended.err)
    assert before == listing(tmp_path)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("study.toml", "study.toml is a file, not a folder; choose another --out\n"),
        ("study.toml/x", "study.toml/x cannot be made: Not a directory; choose another --out\n"),
    ],
)
@pytest.mark.parametrize("seeds", ["seeds=[1]", "seeds=[1,2]"])
def test_a_place_that_can_be_no_folder_is_refused(tmp_path: Path, out: str, message: str, seeds: str) -> None:
    small_study(tmp_path)
    before = listing(tmp_path)
    ended = cli("run", "study.toml", "--out", out, "--set", seeds, *SERIAL, cwd=tmp_path)
    assert (2, message) == (ended.code, ended.err)
    assert before == listing(tmp_path)


def test_two_processes_at_once_in_one_folder_are_one_too_many(tmp_path: Path) -> None:
    write_module(tmp_path, PAUSING)
    path = small_study(tmp_path, method={"name": "mine:PausingPA"})
    waits = paused(tmp_path, 2, "site-01")
    first = start("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    wait_for(waits.exists, first.pid)
    before = listing(tmp_path / "run")
    for resume in ([], ["--resume"]):
        second = cli("run", path, "--out", "run", *SERIAL, *resume, cwd=tmp_path)
        expected = "run is being worked in by another process; wait for it or stop it\n"
        assert (2, expected) == (second.code, second.err)
    assert before == listing(tmp_path / "run")
    first.kill()


# going on


@pytest.mark.parametrize("change", ["seed=8", "method.lr=0.2", "method.name=fedprox", "corpus.sites=4"])
def test_going_on_with_other_settings_is_refused_and_changes_nothing(tmp_path: Path, change: str) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    before = listing(tmp_path / "run")
    ended = cli("run", path, "--out", "run", *SERIAL, "--resume", "--set", change, cwd=tmp_path)
    expected = "run/study.toml: the run there has other settings than this study; choose another --out\n"
    assert (2, expected) == (ended.code, ended.err)
    assert before == listing(tmp_path / "run")


def test_going_on_with_a_finished_run_tells_its_result_and_changes_nothing(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    first = cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    before = listing(tmp_path / "run")
    again = cli("run", path, "--out", "run", *SERIAL, "--resume", cwd=tmp_path)
    assert (0, first.out) == (again.code, again.out)
    assert before == listing(tmp_path / "run")


def test_a_run_of_version_0_1_is_not_gone_on_with_and_left_alone(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    (tmp_path / "run" / "run.json").unlink()
    before = listing(tmp_path / "run")
    ended = cli("run", path, "--out", "run", *SERIAL, "--resume", "--set", "rounds=4", cwd=tmp_path)
    expected = "run: the run was made by wardround 0.1; use that version, or run the study again in another folder\n"
    assert (2, expected) == (ended.code, ended.err)
    assert before == listing(tmp_path / "run")


def test_a_run_says_what_kind_of_method_it_was(tmp_path: Path) -> None:
    kinds = {}
    for method in ("fedavg", "ditto", "local", "centralised", "public"):
        path = small_study(tmp_path, method={"name": method}, public={"fraction": 0.2}, rounds=1)
        run(study_of(path), tmp_path / method)
        started, ended = json.loads((tmp_path / method / "run.json").read_text()), metrics_of(tmp_path / method)
        kinds[method] = tuple(ended[key] for key in ("pooled", "shares", "trains", "personal"))
        assert kinds[method] == tuple(started[key] for key in ("pooled", "shares", "trains", "personal"))
    assert {
        "fedavg": (False, True, True, False), "ditto": (False, True, True, True), "local": (False, False, True, True),
        "centralised": (True, True, True, False), "public": (False, True, False, False),
    } == kinds  # fmt: skip


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "local"])
def test_raising_the_rounds_of_a_finished_run_gives_the_run_that_had_them_from_the_start(
    tmp_path: Path, method: str
) -> None:
    path = small_study(tmp_path, method={"name": method})
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=2", cwd=tmp_path)
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=4", "--resume", cwd=tmp_path)
    cli("run", path, "--out", "whole", *SERIAL, "--set", "rounds=4", cwd=tmp_path)
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "run")
    assert 4 == study_of(tmp_path / "run" / "study.toml").rounds


def test_old_metrics_are_not_taken_for_those_of_the_raised_rounds(tmp_path: Path) -> None:
    path, out = small_study(tmp_path), tmp_path / "run"
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=2", cwd=tmp_path)
    old = {name: (out / name).read_bytes() for name in ("metrics.json", "model/weights.safetensors")}
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=4", "--resume", cwd=tmp_path)
    expected = result_of(out)
    for name, data in old.items():  # as if killed after the last checkpoint, before the result was written
        (out / name).write_bytes(data)
    cli("run", path, "--out", "run", *SERIAL, "--set", "rounds=4", "--resume", cwd=tmp_path)
    assert expected == result_of(out)


def test_fewer_rounds_than_are_done_are_refused_and_change_nothing(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    before = listing(tmp_path / "run")
    ended = cli("run", path, "--out", "run", *SERIAL, "--resume", "--set", "rounds=2", cwd=tmp_path)
    expected = "run/study.toml: rounds = 2, but 3 are done already; raise it or choose another --out\n"
    assert (2, expected) == (ended.code, ended.err)
    assert before == listing(tmp_path / "run")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("", "run/journal.jsonl: 0 of 3 rounds are there; the journal was changed since the checkpoint\n"),
        ("[]\n{}\n3\n", "run/journal.jsonl: 0 of 3 rounds are there; the journal was changed since the checkpoint\n"),
    ],
)
def test_a_journal_that_does_not_fit_its_checkpoint_is_refused_and_left_alone(
    tmp_path: Path, harm: str, message: str
) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    (tmp_path / "run" / "journal.jsonl").write_text(harm)
    ended = cli("run", path, "--out", "run", *SERIAL, "--resume", "--set", "rounds=4", cwd=tmp_path)
    assert (2, message, harm) == (ended.code, ended.err, (tmp_path / "run" / "journal.jsonl").read_text())


def test_going_on_without_any_checkpoint_does_not_overwrite_the_journal(tmp_path: Path) -> None:
    path = small_study(tmp_path)
    cli("run", path, "--out", "run", *SERIAL, cwd=tmp_path)
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        checkpoint.unlink()
    before = listing(tmp_path / "run")
    ended = cli("run", path, "--out", "run", *SERIAL, "--resume", cwd=tmp_path)
    expected = "run/journal.jsonl tells of rounds, but there is no checkpoint; delete run to start anew\n"
    assert (2, expected) == (ended.code, ended.err)
    assert before == listing(tmp_path / "run")
