"""Validation over real sites: their own files or a share of their own, counted in the budget, and checked before."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loopback import Exchange
from wardround.cli.app import app
from wardround.cli.site.leaving import show_leaving
from wardround.consortium.approval import approve, budget, data_fingerprint
from wardround.consortium.check import checked
from wardround.consortium.exchanges import expected_exchanges
from wardround.consortium.settings import read_site
from wardround.consortium.submit import submit
from wardround.core.exchange import EVALUATION
from wardround.core.exchange import Exchange as Asked
from wardround.core.weights import Weights
from wardround.runs.errors import RunError
from wardround.runs.files import read_journal
from wardround.runs.rounds import Assessment, Rounds
from wardround.study.load import Study, cells

SITES = ("site-0", "site-1")
STUDY = {
    "name": "s", "rounds": 4, "method": {"name": "fedavg"},
    "corpus": {"format": "csv", "train": "x", "test": "x", "labels": ["causes", "stops"]},
    "task": {"name": "classification", "tokens": "words", "buckets": 50},
}  # fmt: skip
DATA = ('format = "csv"', 'train = "train.csv"', 'test = "test.csv"')


def study_of(**validation: object) -> Study:
    return cells({**STUDY, "validation": validation})[0].study


def write(folder: Path, split: str, first: int, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"rash {n} a,{('causes', 'stops')[n % 2]},p{n % 7}\n" for n in range(first, first + count))
    (folder / f"{split}.csv").write_text(f"text,label,patient\n{rows}", encoding="utf-8")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    for name, first in zip(SITES, (0, 1000), strict=True):
        write(tmp_path / name, "train", first, 30)
        write(tmp_path / name, "test", first + 100, 8)
    write(tmp_path / SITES[1], "own", 2000, 9)
    return tmp_path


def data_lines(folder: Path, study: Study) -> list[str]:
    return [f"{one.mark} {one.detail}" for one in checked(folder, study, online=False) if one.what == "data"]


def site(folder: Path, *data: str, least: int = 5) -> Path:
    text = ['name = "site-0"', "[data]", *DATA, *data, "[consent]", f"least_examples = {least}"]
    (folder / "site.toml").write_text("\n".join(text), encoding="utf-8")
    return folder


def test_sites_choose_together_by_their_own_files_or_a_share(notes: Path) -> None:
    study = study_of(share=0.2, patience=1)
    with Exchange(notes, study, SITES, DATA) as exchange:
        place = notes / "site-1" / "site.toml"
        place.write_text(place.read_text().replace("[data]", '[data]\nvalid = "own.csv"'), encoding="utf-8")
        approve(notes / "site-1", study, again=True)
        result = submit(study, notes / "run", exchange.over, wait=1.0)
        assert result.chosen
        sizes = {name: len(one.studies.settings.parts(study)) for name, one in exchange.sites.items()}
        assert {"site-0": 2, "site-1": 3} == sizes
        assert 6 + 9 == result.metrics["valid_examples"]


def test_a_run_that_nobody_has_a_validation_example_for_ends_when_the_model_is_first_tried(notes: Path) -> None:
    """It would choose nothing, and stop as if it had."""
    study = study_of(share=0.01, patience=1)
    with Exchange(notes, study, SITES, DATA) as exchange, pytest.raises(RunError, match="valid_accuracy cannot be"):
        submit(study, notes / "run", exchange.over, wait=1.0)
    assert not (notes / "run" / "metrics.json").exists()


def test_a_site_that_trains_alone_takes_its_model_of_the_chosen_round(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sends it a shared model that says which: the coordinator's summary does."""
    measured = Rounds.evaluate

    def evaluate(self: Rounds, round_: int, weights: Weights) -> Assessment:
        assessment = measured(self, round_, weights)
        assessment.metrics["valid_loss"] = 0.1 if round_ == 2 else 0.2
        return assessment

    monkeypatch.setattr(Rounds, "evaluate", evaluate)
    tables = {**STUDY, "method": {"name": "local", "lr": 1.0}, "evaluation": {"each": True}}
    study = cells({**tables, "validation": {"share": 0.2, "metric": "loss"}})[0].study
    with Exchange(notes, study, SITES, DATA) as exchange:
        assert 2 == submit(study, notes / "run", exchange.over, wait=1.0).chosen
    (notes / "study.toml").write_text(study.toml(), encoding="utf-8")
    arguments = ["site", "model", notes / "site-0", notes / "study.toml", "--round", 2, "--out", notes / "own"]
    ended = CliRunner().invoke(app, list(map(str, arguments)))
    assert 0 == ended.exit_code, ended.output
    figure = read_journal(notes / "run")[1].per_site["site-0"]["loss"]
    assert f"| loss | {figure:.4f} |" in (notes / "own" / "README.md").read_text()


def test_an_approval_counts_the_second_exchange_of_each_evaluation(notes: Path) -> None:
    plain, asked = cells(STUDY)[0].study, study_of(share=0.2)
    folder = site(notes / "site-0")
    one, two = (expected_exchanges(study, 30, 2) for study in (plain, asked))
    assert (1, 2) == (one.evaluation, two.evaluation)
    second = Asked("evaluate", 1, EVALUATION + 2, 0, 0)
    assert [False, True] == [expected.has(second) for expected in (one, two)]
    settings = read_site(folder)
    assert 4 * 1 + 1 == budget(folder, settings, asked).exchanges - budget(folder, settings, plain).exchanges


def test_the_fingerprint_of_approved_data_has_the_validation_file_in_it(notes: Path) -> None:
    study = study_of(share=0.2)
    folder = site(notes / "site-1", 'valid = "own.csv"')

    def mark() -> str:
        settings = read_site(folder)
        return data_fingerprint(settings, settings.parts(study))

    before = mark()
    write(folder, "own", 3000, 9)
    assert before != mark()


def test_check_says_what_is_set_aside_and_whether_answers_on_it_leave(notes: Path) -> None:
    folder = site(notes / "site-0")
    assert "ok  6 validation examples, set aside by document; 24 to train on" in data_lines(folder, study_of(share=0.2))
    few = data_lines(folder, study_of(share=0.1))
    too_few = "BAD 3 validation examples, and consent.least_examples = 5: no answer would leave; add notes, or lower it"
    assert f"{too_few} in site.toml" in few
    (none,) = [line for line in data_lines(folder, study_of(share=0.01)) if line.startswith("??")]
    assert none.startswith("??  there are no validation examples: the other sites choose the round whose model is kept")
    assert "ok  4 validation examples, set aside by patient; 26 to train on" in data_lines(
        site(folder, least=0), study_of(share=0.2, by="patient")
    )
    own = site(notes / "site-1", 'valid = "own.csv"')
    assert "ok  9 validation examples, as [data] names them; 30 to train on" in data_lines(own, study_of())


def test_a_site_is_shown_both_exchanges_of_an_evaluation(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_leaving(site(notes / "site-0"), study_of(share=0.2))
    assert "when the model is tried: 2 exchanges" in " ".join(capsys.readouterr().out.split())
