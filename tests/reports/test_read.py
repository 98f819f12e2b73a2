"""Run folders read back: what tells runs apart, what an unfinished one says, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from run_folders import make_run, make_sweep
from wardround.reports.apart import differing
from wardround.reports.read import natural, read_runs
from wardround.runs.errors import RunError


def refused(path: Path) -> str:
    with pytest.raises(RunError) as caught:
        read_runs([path])
    return str(caught.value)


# what tells runs apart


def test_a_run_has_what_its_folder_tells(tmp_path: Path) -> None:
    (run,) = read_runs([make_run(tmp_path / "a", values=[0.5, 0.75], up=1000)])
    assert ("fedavg", "", 0, 2) == (run.label, run.measured_on, run.seed, run.rounds)
    assert {"accuracy": 0.75, "loss": 1.25, "examples": 10.0} == run.final
    assert [(1000, 900), (1000, 900)] == [(line.up, line.down) for line in run.lines]
    assert run.data is not None
    assert {"dose": 3, "drug": 4} == run.data.sites["north"]["train"]
    assert [2440, 2440, 0, 216, 32] == [row.bytes for row in run.wire]
    assert run.finished
    assert run.generated


def test_a_sweep_is_all_its_runs_in_the_order_a_person_would_count(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"fedavg": [0.5] * 11})
    assert list(range(11)) == [run.seed for run in read_runs([sweep])]


def test_the_same_run_given_twice_is_read_once(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"fedavg": [0.5, 0.6]})
    assert 2 == len(read_runs([sweep, sweep / "fedavg,seed=1"]))


def test_a_label_is_the_method_if_that_is_enough(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", "fedavg", using={"lr": 0.1})
    b = make_run(tmp_path / "b", "fedprox", using={"lr": 0.2, "mu": 0.1})
    assert ["fedavg", "fedprox"] == [run.label for run in read_runs([a, b])]


def test_a_label_names_the_settings_in_which_runs_of_one_method_differ(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"{mu}", "fedprox", using={"mu": mu}) for mu in (0.1, 0.2)]
    other = make_run(tmp_path / "c", "fedavg")
    told = read_runs([*runs, other])
    assert ["fedprox, mu = 0.1", "fedprox, mu = 0.2", "fedavg"] == [run.label for run in told]
    assert ["method.name", "method.mu"] == differing(run.study for run in told)


def test_runs_on_other_data_say_on_which(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"{alpha}", corpus={"alpha": alpha}) for alpha in (0.1, 1.0)]
    cut = make_run(tmp_path / "cut", corpus={"alpha": 1.0}, partition={"name": "iid", "sites": 5})
    actual = [(run.label, run.measured_on) for run in read_runs([*runs, cut])]
    assert [
        ("fedavg", "corpus.alpha = 0.1, partition = none"),
        ("fedavg", "corpus.alpha = 1.0, partition = none"),
        ("fedavg", "corpus.alpha = 1.0, partition = iid"),
    ] == actual


def test_a_label_names_nothing_in_which_only_runs_on_other_data_differ(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"{n}", rounds=2 + n, finished=False, corpus={"alpha": n}) for n in range(2)]
    assert ["fedavg", "fedavg"] == [run.label for run in read_runs(runs)]


def test_a_seed_that_the_corpus_takes_from_the_study_is_no_difference(tmp_path: Path) -> None:
    told = read_runs([make_run(tmp_path / f"{seed}", seed=seed) for seed in (0, 1)])
    assert [("fedavg", ""), ("fedavg", "")] == [(run.label, run.measured_on) for run in told]
    assert [] == differing(run.study for run in told)


def test_the_same_settings_and_seed_twice_are_told_by_where_they_lie(tmp_path: Path) -> None:
    told = read_runs([make_run(tmp_path / "before"), make_run(tmp_path / "after")])
    assert ["fedavg, small, before", "fedavg, small, after"] == [run.label for run in told]


def test_site_2_comes_before_site_10() -> None:
    assert ["site-2", "site-10", "ward"] == sorted(["ward", "site-10", "site-2"], key=natural)


@pytest.mark.parametrize("finished", [True, False])
def test_references_are_known_by_what_they_do(tmp_path: Path, finished: bool) -> None:
    names = ("local", "centralised", "public", "fedavg")
    told = read_runs([make_run(tmp_path / name, name, finished=finished) for name in names])
    assert ["alone", "pooled", "public", ""] == [run.start.reference for run in told]


def test_looking_into_a_run_loads_no_torch() -> None:
    """So that whatever shows runs starts at once."""
    code = "import sys; from wardround.reports.read import read_runs; print('torch' in sys.modules)"
    assert "False\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


# unfinished


def test_a_run_without_metrics_is_not_finished_and_told_by_its_journal(tmp_path: Path) -> None:
    (run,) = read_runs([make_run(tmp_path / "a", values=[0.5, 0.6], finished=False, rounds=5)])
    assert (False, 2, 0.6) == (run.finished, run.rounds, run.final["accuracy"])


def test_a_run_that_has_been_taken_further_is_not_finished(tmp_path: Path) -> None:
    (run,) = read_runs([make_run(tmp_path / "a", values=[0.5, 0.6], rounds=5)])
    assert not run.finished


def test_a_run_that_reached_its_target_is_finished(tmp_path: Path) -> None:
    stop = {"metric": "accuracy", "target": 0.55, "early": True}
    folder = make_run(tmp_path / "a", values=[0.5, 0.6], rounds=5, stop=stop)
    told = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps({**told, "rounds_to_target": 2}))
    (run,) = read_runs([folder])
    assert run.finished


def test_a_last_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", finished=False)
    with (folder / "journal.jsonl").open("a") as file:
        file.write('{"round": 3, "met')
    (run,) = read_runs([folder])
    assert 2 == run.rounds


def test_a_run_that_has_only_just_begun_can_be_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", finished=False)
    for name in ("journal.jsonl", "data.json", "wire.json", "fingerprint"):
        (folder / name).unlink()
    (run,) = read_runs([folder])
    assert (0, {}, None, ()) == (run.rounds, run.final, run.data, run.wire)


def test_a_figure_that_is_no_number_was_not_measured(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", finished=False)
    (folder / "journal.jsonl").write_text('{"round": 1, "metrics": {"accuracy": null, "loss": NaN, "exact": 0.5}}\n')
    (run,) = read_runs([folder])
    assert {"exact": 0.5} == run.final


# refused


def test_no_folder_a_file_and_an_empty_folder_are_refused_with_a_remedy(tmp_path: Path) -> None:
    assert f"{tmp_path / 'no'}: there is no such folder; check the path" == refused(tmp_path / "no")
    (tmp_path / "file").touch()
    assert "is a file; give the run folder" in refused(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert "holds no run: neither study.toml nor folders with one; give a folder" in refused(tmp_path / "empty")
    with pytest.raises(RunError, match="no run is given"):
        read_runs([])


def test_a_folder_above_a_sweep_says_which_was_meant(tmp_path: Path) -> None:
    make_sweep(tmp_path / "runs" / "demo", {"fedavg": [0.5]})
    assert f"did you mean {tmp_path / 'runs' / 'demo'}?" in refused(tmp_path / "runs")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("journal.jsonl", "{}\n", "journal.jsonl:1: is not a line of a journal (round: Field required); restore it"),
        (
            "journal.jsonl",
            '{"round": 1}\nnonsense\n{"round": 3}\n',
            "journal.jsonl:2: is not a line of a journal (not valid",
        ),
        ("journal.jsonl", '{"round": 1, "up": "2,440"}\n', "journal.jsonl:1: is not a line of a journal (up: Input"),
        ("journal.jsonl", '{"round": 1, "upp": 1}\n', "journal.jsonl:1: is not a line of a journal (upp: Extra"),
        ("journal.jsonl", "[1]\n", "journal.jsonl:1: is not a line of a journal"),
        ("journal.jsonl", "", "journal.jsonl: is missing or empty, though the run finished"),
        ("metrics.json", "{\n", "metrics.json:2: is not valid JSON"),
        ("metrics.json", "[]", "metrics.json: does not hold how a run ended (Input should be a valid dictionary"),
        ("metrics.json", '{"format": 2, "rounds": 2}', "metrics.json: does not hold how a run ended (study: Field req"),
        (
            "run.json",
            '{"format": 2, "resumed": 1}',
            "run.json: does not hold what is known when a run begins (resumed:",
        ),
        (
            "data.json",
            "{}",
            "data.json: does not hold counts by site, split and label (count: Field required); restore",
        ),
        ("data.json", "{", "data.json:1: is not valid JSON"),
        ("references.json", '{"majority": [0.5]}', "references.json: does not hold figures by name (majority: Input"),
        ("wire.json", '[{"step": "fit"}]', "wire.json: does not hold rows of a manifest (0.direction: Field required)"),
        ("study.toml", "name = ", "study.toml: is not valid TOML"),
        ("study.toml", "name = 'x'", "study.toml: has no [method] with a name"),
        ("study.toml", "\xff", "study.toml: cannot be read"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, file: str, content: str, message: str) -> None:
    folder = make_run(tmp_path / "a")
    (folder / file).write_bytes(content.encode("latin-1"))
    assert message in refused(folder)


def test_a_run_of_another_version_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """Version 0.1 had no number: neither when a run was finished nor before."""
    remedy = "use that version, or run the study again in another folder"
    folder = make_run(tmp_path / "a")
    metrics = json.loads((folder / "metrics.json").read_text())
    for name, rest in (("metrics.json", metrics), ("run.json", {"format": 2})):
        (folder / name).write_text(json.dumps({**rest, "format": 3}))
        assert f"{folder}: the run was made in format 3, and this wardround reads format 2; {remedy}" == refused(folder)
        del rest["format"]
        (folder / name).write_text(json.dumps(rest))
        assert f"{folder}: the run was made by wardround 0.1; {remedy}" == refused(folder)
        (folder / name).unlink()
    assert f"{folder}: the run was made by wardround 0.1; {remedy}" == refused(folder)
