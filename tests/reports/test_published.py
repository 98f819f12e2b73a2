"""The section on published figures: there if a study expects something, with measured ones where a row names a cell."""

import html
import re
import tomllib
from pathlib import Path
from typing import Any

from run_folders import make_run
from study_files import cli, small_study
from wardround.reports.page import page
from wardround.reports.read import read_runs

EXPECTED: dict[str, Any] = {
    "source": "Somebody, 2021;\n  one run",
    "fedavg,mu=1": {"accuracy": 0.71, "train_loss": 1.1},
    "as <printed>": {"accuracy": [70, 71], "elsewhere": "–"},
    "rounds": 27,
}


def section(*runs: Path) -> str:
    """The section's rows as a reader has them, or nothing."""
    found = re.search(r'aria-labelledby="published">(.*?)</section>', page(read_runs(runs)), flags=re.DOTALL)
    rows = re.sub(r"</(th|td)>", "|", re.sub(r"</(tr|p|caption|h\d)>", "\n", found[1] if found else ""))
    return html.unescape(re.sub(r"<[^>]+>", "", rows))


def test_a_study_that_expects_nothing_has_no_such_section(tmp_path: Path) -> None:
    assert not section(make_run(tmp_path / "a"))


def test_rows_stand_as_written_and_measured_ones_beside_them(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / f"fedavg,mu=1,seed={seed}", seed=seed, values=[0.1, value], expected=EXPECTED)
        for seed, value in enumerate((0.6, 0.7))
    ]
    blank, plus_minus = "\N{NO-BREAK SPACE}", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
    assert section(*runs).split("\n") == [
        "Published",
        "Source: Somebody, 2021; one run",
        "Published figures, as the study file has them in [expected]; measured ones as in Results.",
        f"|{blank}|accuracy|loss, training split|elsewhere|",  # as TOML orders a table: its single values first
        "rounds|27|—|—|—|",
        "fedavg,mu=1, published|—|0.71|1.1|—|",
        f"fedavg,mu=1, measured|—|0.6500{plus_minus}0.0707|—|—|",
        "as <printed>|—|70, 71|—|–|",
        "",
    ]


def test_one_run_that_knows_what_is_expected_is_enough(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, expected={"claim": "more", "odd": float("nan")})]
    assert "Claim: more" in section(*runs)


def test_a_method_stands_for_its_only_cell(tmp_path: Path) -> None:
    results: dict[str, Any] = {"expected": {"fedavg": {"accuracy": 0.7}, "fedprox": {"accuracy": 0.8}}}
    runs = [make_run(tmp_path / "fedavg,mu=1", **results), make_run(tmp_path / "fedprox,mu=1", "fedprox", **results)]
    assert "fedavg, measured|0.6000|" in section(*runs)
    runs.append(make_run(tmp_path / "fedavg,mu=2", using={"mu": 2}, **results))
    assert "fedavg, measured" not in section(*runs)
    assert "fedprox, measured|0.6000|" in section(*runs)


def test_what_is_expected_is_no_setting(tmp_path: Path) -> None:
    """Two runs that differ in it alone are one group; a finished run takes it over without another round."""
    runs = [make_run(tmp_path / str(seed), seed=seed, expected={"claim": str(seed)}) for seed in (0, 1)]
    assert {"fedavg"} == {run.label for run in read_runs(runs)}
    path = small_study(tmp_path)
    run = ("run", path, "--out", "out", "--resume")
    assert cli(*run, cwd=tmp_path).code == 0
    small_study(tmp_path, expected={"claim": "more"})
    assert cli(*run, cwd=tmp_path, report=True).code == 0
    grid = ("run", small_study(tmp_path, seeds=[0, 1]), "--out", "grid", "--resume")
    assert cli(*grid, cwd=tmp_path).code == 0
    small_study(tmp_path, seeds=[0, 1], expected={"claim": "most"})
    assert cli(*grid, cwd=tmp_path, report=True).code == 0
    assert "Claim: most" in (tmp_path / "grid/report.html").read_text(encoding="utf-8")
    assert tomllib.loads((tmp_path / "out/study.toml").read_text(encoding="utf-8"))["expected"] == {"claim": "more"}
    assert "Claim: more" in (tmp_path / "out/report.html").read_text(encoding="utf-8")
