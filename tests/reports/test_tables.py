"""Tables of a report as files: every figure a number, no cell a formula, LaTeX that compiles as far as brackets go."""

import csv
import json
import re
from pathlib import Path

import pytest

from run_folders import make_run, make_sweep
from wardround.cli.app import main
from wardround.reports.page import write_report
from wardround.reports.tables import write_tables


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def tally(folder: Path, names: tuple[str, ...] = ("dose", "drug")) -> Path:
    """What an evaluation counted: 10 of one class, of which 2 were taken for the other, and 10 of that."""
    results = {
        "round": 2, "names": names, "hits": [8, 10], "false_alarms": [0, 2], "misses": [2, 0],
        "confusion": [[8, 2], [0, 10]], "counts": {"hits": [8.0, 10.0]},
    }  # fmt: skip
    (folder / "counts.json").write_text(json.dumps(results), encoding="utf-8")
    spans = {"round": 2, "way": "documents", "count": 20, "draws": 1000, "figures": {"accuracy": [0.75, 1.0]}}
    (folder / "intervals.json").write_text(json.dumps(spans), encoding="utf-8")
    majority = {"majority": {"accuracy": 0.5}, "chance": {"accuracy": 0.5}}
    (folder / "references.json").write_text(json.dumps(majority), encoding="utf-8")
    return folder


def test_every_figure_of_the_page_is_a_number_in_a_file(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "sweep", {"fedavg": [0.6, 0.7, 0.8], "fedprox": [0.5, 0.55, 0.7]})
    for folder in sweep.iterdir():
        tally(folder)
    names = {path.name for path in write_tables([sweep], tmp_path / "tables")}
    tables = {name.split(".")[0] for name in names}
    assert {"results", "classes", "confusion", "pairs", "runs"} == tables
    assert {f"{name}.tex" for name in ("results", "classes", "pairs")} == {name for name in names if "tex" in name}
    results = {(row["method"], row["figure"]): row for row in rows_of(tmp_path / "tables" / "results.csv")}
    fedavg = results["fedavg", "accuracy"]
    assert 0.7 == pytest.approx(float(fedavg["mean"]))
    assert ("3", "0.75", "1.0", "documents") == tuple(
        fedavg[key] for key in ("seeds", "documents_low", "documents_high", "drawn")
    )
    assert ("baseline", "0.5") == tuple(results["majority", "accuracy"][key] for key in ("reference", "mean"))
    one = rows_of(tmp_path / "tables" / "classes.csv")[0]
    assert ("dose", "1.0", "10", "8") == tuple(one[key] for key in ("class", "precision", "examples", "answered"))
    assert 0.8 == pytest.approx(float(one["recall"]))
    confusion = rows_of(tmp_path / "tables" / "confusion.csv")
    assert ("dose", "drug", "2") == tuple(confusion[1][key] for key in ("true", "answered", "count"))
    runs = rows_of(tmp_path / "tables" / "runs.csv")
    assert 12 == len([row for row in runs if row["figure"] in ("accuracy", "loss")])
    assert float(rows_of(tmp_path / "tables" / "pairs.csv")[0]["p"]) < 1


def test_no_cell_begins_a_formula_and_latex_is_escaped(tmp_path: Path) -> None:
    folder = tally(make_run(tmp_path / "run", labels=("=1+1", "a_b & {c}")), ("=1+1", "a_b & {c}"))
    write_tables([folder], tmp_path / "tables")
    text = (tmp_path / "tables" / "classes.csv").read_text(encoding="utf-8")
    assert ",'=1+1," in text
    latex = (tmp_path / "tables" / "classes.tex").read_text(encoding="utf-8")
    assert r"a\_b \& \{c\}" in latex
    assert latex.count("\\begin{") == latex.count("\\end{")
    widths = {line.replace(r"\&", "").count("&") for line in latex.splitlines() if line.endswith("\\\\")}
    assert {1} == widths


def test_the_command_writes_them_beside_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tally(make_run(tmp_path / "run"))
    with pytest.raises(SystemExit) as end:
        main(["report", str(folder), "--tables", str(tmp_path / "tables")])
    assert 0 == (end.value.code or 0)
    assert "results.csv" in capsys.readouterr().out
    first = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}
    write_tables([folder], tmp_path / "tables")
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as end:
        main(["report", str(make_run(tmp_path / "run")), "--tables", str(tmp_path / "file")])
    assert 2 == end.value.code
    assert "file: " in capsys.readouterr().err


def test_the_page_has_classes_the_matrix_intervals_and_lines_to_beat(tmp_path: Path) -> None:
    page = write_report([tally(make_run(tmp_path / "run"))], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Which class was taken for which" in page
    assert "dose, answered drug: 2 of 10, 20 %" in page
    assert "0.7500 to 1.0000" in page
    assert "drawn anew with replacement, whole (20 of them)" in page
    assert "Thin lines, which any model should beat: chance 0.5000; majority 0.5000." in page


def test_a_class_that_real_sites_may_have_withheld_is_not_called_empty(tmp_path: Path) -> None:
    folder = tally(make_run(tmp_path / "run"))
    counts = json.loads((folder / "counts.json").read_text())
    none = {"hits": [8, 0], "false_alarms": [0, 0], "misses": [2, 0], "confusion": [[8, 2], [0, 0]]}
    (folder / "counts.json").write_text(json.dumps({**counts, **none}))
    simulated = write_report([folder], tmp_path / "simulated.html").read_text(encoding="utf-8")
    data = json.loads((folder / "data.json").read_text())
    (folder / "data.json").write_text(json.dumps({**data, "sites": {}}))
    real = write_report([folder], tmp_path / "real.html").read_text(encoding="utf-8")
    assert [False, True] == ["withheld, or none" in page for page in (simulated, real)]
    assert [0, 3] == [len(re.findall("<td[^>]*>—</td>", _row(page, "drug"))) for page in (simulated, real)]


def _row(page: str, name: str) -> str:
    """The row of a class in the table of classes."""
    table = page[page.index("Each class on the test split") :]
    return next(row for row in table.split("</tr>") if f">{name}<" in row and "<td" in row)


def test_intervals_from_sums_say_so(tmp_path: Path) -> None:
    folder = tally(make_run(tmp_path / "run"))
    spans = json.loads((folder / "intervals.json").read_text())
    (folder / "intervals.json").write_text(json.dumps({**spans, "way": "answers"}))
    page = write_report([folder], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "from sums alone: each answer drawn anew by itself" in page


def test_runs_without_counts_have_no_section_of_classes(tmp_path: Path) -> None:
    page = write_report([make_run(tmp_path / "run")], tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="classes"' not in page
    assert "test documents" not in page.split("Definitions</h2>")[0]
