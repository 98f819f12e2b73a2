"""The scripts of studies/skew on made-up run folders: which rate counts, what a solved end has, the pictures."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from run_folders import make_run

FOLDER = Path(__file__).parents[1] / "studies" / "skew"


def cell(folder: Path, figures: dict[str, float], using: dict[str, Any], **more: Any) -> None:
    """A run of one round, and of a solved end if that has figures."""
    given = {"partition": {"alpha": 0.05}, **more.pop("changes", {})}
    run = make_run(folder, more.pop("method", "fedavg"), values=[0.5], using=using, more=figures, **given)
    asks = [
        {"round": 1, "exchange": 1, "step": "fit", "to": ["a"]},
        {"round": 1, "exchange": 2, "step": "evaluate", "to": ["a"]},
    ]
    if solved := more.pop("solved", None):
        line = json.loads((run / "journal.jsonl").read_text())
        again = {**line, "round": 2, "metrics": {**line["metrics"], **solved}, "up": 500}
        (run / "journal.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(again) + "\n")
        asks.append({"round": 2, "exchange": 1, "step": "gather", "to": ["a"]})
    (run / "ledger").mkdir()
    (run / "ledger" / "coordinator.jsonl").write_text("".join(json.dumps(ask) + "\n" for ask in asks))
    (run / "references.json").write_text(json.dumps({"majority": {"macro_f1": 0.1, "accuracy": 0.4}}))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """FedAvg at two rates, the better on validation rows being the worse on test rows, run twice; ridge at two α."""
    finish = {"changes": {"finish": {"head": "ridge"}}, "solved": {"macro_f1": 0.7, "valid_macro_f1": 0.1}}
    cell(tmp_path / "a", {"macro_f1": 0.6, "valid_macro_f1": 0.2}, {"lr": 0.1}, **finish)
    for name in ("b", "b-again"):
        cell(tmp_path / name, {"macro_f1": 0.4, "valid_macro_f1": 0.3}, {"lr": 1.0}, **finish)
    cell(tmp_path / "all", {"macro_f1": 0.5, "valid_macro_f1": 0.3}, {}, method="centralised")
    for alpha in (0.05, 0.5):
        more = {"method": "ridge", "changes": {"partition": {"alpha": alpha}}}
        cell(tmp_path / f"ridge-{alpha}", {"macro_f1": 0.8, "valid_macro_f1": 0.3}, {}, **more)
    return tmp_path


def script(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["table.py", *arguments])
    runpy.run_path(str(FOLDER / "table.py"), run_name="__main__")


def test_the_rate_counts_that_is_best_on_validation_rows(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script(str(runs), monkeypatch=monkeypatch)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [
        "| `ridge` | 0.01 | 0.800 / 0.500 (seed 0) | 0.800 / 0.500 (seed 0) | +60.0 % / +0.0 % | 1 | 0.0 MB |",
        "| `fedavg`, then solved end | 1 |  | 0.700 / 0.500 (seed 0) | +40.0 % / +0.0 % | 2 | 0.0 MB |",
        "| `centralised` | 0.01 |  | 0.500 / 0.500 (seed 0) | – | – | – |",
        "| `fedavg` | 1 |  | 0.400 / 0.500 (seed 0) | -20.0 % / +0.0 % | 1 | 0.0 MB |",
        "| majority | – | 0.100 / 0.400 | the same | – | – | – |",
    ] == lines


def test_kept_figures_stand_for_their_run_folders_and_grow(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept in two turns, the second without what the first had, they print the table of all folders."""
    script(str(runs), monkeypatch=monkeypatch)
    whole = capsys.readouterr().out
    kept = tmp_path / "kept.json"
    for names in (("a", "b", "all"), ("ridge-0.05", "ridge-0.5")):
        script("--keep", str(kept), *(str(runs / name) for name in names), monkeypatch=monkeypatch)
    script(str(kept), monkeypatch=monkeypatch)
    assert whole == capsys.readouterr().out


def test_both_pictures_stand_by_themselves(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script("--draw", str(tmp_path), str(runs), monkeypatch=monkeypatch)
    for name, wanted in (("by-alpha.svg", {"ridge"}), ("by-bytes.svg", {"ridge", "fedavg", "fedavg, then solved end"})):
        words = {text.text for text in ET.parse(tmp_path / name).iter("{http://www.w3.org/2000/svg}text")}  # noqa: S314 -- our own
        assert wanted <= words
