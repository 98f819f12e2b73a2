"""A site's own model, put together from what is shared and what the site kept, predicts what the run counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import trained_models
import wardround
from loopback import Exchange
from wardround.cli.app import app
from wardround.clinic import Clinic
from wardround.consortium.submit import submit
from wardround.study.load import cells
from wardround.text.document import Document, Entity
from wardround.text.reading import Problems
from wardround.text.tokens import tokenised
from wardround.trained.about import ModelError
from wardround.trained.assemble import assembled_run

SITES = ("hospital-0", "hospital-1")
TASK = {"name": "tagging", "model": "lstm-crf", **trained_models.SMALL, "schemes": {"hospital-1": "BIOES"}}
FEDNER: dict[str, Any] = {
    "task": TASK, "sites": {"private": ["lstm", "crf"]}, "evaluation": {"each": True},
    "method": {"name": "fedner", "lr": 0.05, "batch": 8, "epochs": 3},
}  # fmt: skip
LOCAL: dict[str, Any] = {
    "evaluation": {"each": True},
    "method": {"name": "local", "optimizer": "adam", "lr": 0.02, "batch": 8, "epochs": 3},
}


def strict_f1(model: wardround.Model, site: str) -> float:
    """Of predictions on the site's test notes, by the tokens that evaluation counts in."""
    clinic = Clinic(hospitals=2, documents=30, test_documents=10)
    right = total = 0
    for document in clinic.stream(site, "test"):
        actual = tuple(
            Entity(str(at), one.type, one.start, one.end) for at, one in enumerate(model(document.text).entities)
        )
        true, result = (
            {
                (kind, one.places[start][0], one.places[end - 1][1])
                for one in tokenised(Document("", document.text, entities=entities), Problems())
                for kind, start, end in one.spans
            }
            for entities in (document.entities, actual)
        )
        right += len(true & result)
        total += len(true) + len(result)
    return 2 * right / total


def per_site(run: Path) -> dict[str, float]:
    line = json.loads((run / "journal.jsonl").read_text().splitlines()[-1])
    return {name: figures["f1"] for name, figures in line["per_site"].items()}


@pytest.mark.parametrize("tables", [FEDNER, LOCAL], ids=["private parts", "local"])
def test_an_assembled_model_has_the_figures_of_its_site(tmp_path: Path, tables: dict[str, Any]) -> None:
    run = trained_models.tagger(tmp_path / "run", **tables)
    for site, expected in per_site(run).items():
        about = assembled_run(run, site, tmp_path / site)
        model = wardround.load(tmp_path / site)
        assert expected > 0.1
        assert expected == pytest.approx(strict_f1(model, site), abs=1e-9)
        assert (site, ()) == (about.site, about.missing)
        card = (tmp_path / site / "README.md").read_text()
        assert f"The model of {site} alone" in card
        assert f"| f1 | {expected:.4f} |" in card
    schemes = [wardround.load(tmp_path / site).about[0].scheme for site in SITES]
    assert (["BIO", "BIOES"] if tables is FEDNER else ["BIO", "BIO"]) == schemes


def test_what_cannot_be_assembled_is_told(tmp_path: Path) -> None:
    method = {**FEDNER["method"], "epochs": 1}
    run = trained_models.tagger(tmp_path / "run", **FEDNER | {"method": method}, rounds=1)
    with pytest.raises(ModelError, match="each site keeps its own lstm, crf; put them together with wardround model"):
        wardround.load(run)
    with pytest.raises(ModelError, match="there is no site 'hospital1'; did you mean 'hospital-1'"):
        assembled_run(run, "hospital1", tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ModelError, match="exists already"):
        assembled_run(run, "hospital-0", tmp_path / "full")
    for kept in (run / "memory" / "hospital-0").iterdir():
        kept.unlink()
    with pytest.raises(ModelError, match="hospital-0 has kept nothing of its own"):
        assembled_run(run, "hospital-0", tmp_path / "out")
    (run / "metrics.json").unlink()
    with pytest.raises(ModelError, match="the run is not finished"):
        assembled_run(run, "hospital-0", tmp_path / "out")
    shared = trained_models.sorter(tmp_path / "shared")
    with pytest.raises(ModelError, match="all sites of 'small' have the same model; use the run's model/"):
        assembled_run(shared, "hospital-0", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_real_site_puts_its_own_model_together(tmp_path: Path) -> None:
    tables = {"name": "small", "rounds": 2, "corpus": trained_models.CLINIC, **FEDNER}
    study = cells(tables, folder=tmp_path)[0].study
    with Exchange(tmp_path, study, SITES) as exchange:
        submit(study, tmp_path / "run", exchange.over)
    (tmp_path / "study.toml").write_text(study.toml(), encoding="utf-8")
    for site, expected in per_site(tmp_path / "run").items():
        out = tmp_path / f"{site}-model"
        arguments = ["site", "model", tmp_path / site, tmp_path / "study.toml", "--out", out]
        ended = CliRunner().invoke(app, [*map(str, arguments), "--shared", str(tmp_path / "run" / "model")])
        assert 0 == ended.exit_code, ended.output
        assert expected == pytest.approx(strict_f1(wardround.load(out), site), abs=1e-9)
        assert "wardround ledger show" in (out / "README.md").read_text()
