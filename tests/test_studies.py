"""The studies of the papers: every cell of every file is valid, and those of relations can be built."""

import json
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

from wardround.runs.build import build
from wardround.runs.loop import run
from wardround.study.load import cells, load_study

STUDIES = Path(__file__).parent.parent / "studies"
FILES = sorted(STUDIES.rglob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(STUDIES)))
def test_every_cell_of_a_study_is_valid(path: Path) -> None:
    """Its name says which table or figure it is, and that one has the published numbers beside it."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    found = load_study(path)
    assert len({cell.label for cell in found}) == len(found)
    paper = path.parent.name
    assert tables["name"] == (path.stem if path.parent == STUDIES else f"{paper}-{path.stem}")
    if path.stem.startswith(("table", "figure")):
        assert tables["expected"]


@pytest.mark.parametrize("path", sorted(STUDIES.glob("fed[ec]*/*.toml")), ids=lambda path: path.stem)
def test_a_study_of_relations_can_be_built(path: Path, tmp_path: Path) -> None:
    """On a few generated notes: labels, the figure to stop at, the method and public examples fit together."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    grid = {key: values[-1:] for key, values in tables.pop("grid", {}).items() if not key.startswith("corpus")}
    few = {"name": "clinic-pairs", "hospitals": 2, "notes": 4, "test_notes": 2}
    kept = {"none": tables["corpus"]["none"]} if "none" in tables.get("corpus", {}) else {}
    everywhere = {"seeds": [0], "grid": grid, "corpus": {**few, **kept}, "precision": "fp32"}
    (cell,) = cells({**tables, **everywhere}, folder=path.parent)
    assert {"classes": 8 if kept else 9} == build(cell.study, tmp_path).task.sizes()


@pytest.mark.parametrize("paper", ["flcmc", "feded", "fedcmc", "lazymil", "fedner"])
def test_the_page_of_all_papers_has_what_a_papers_results_begin_with(paper: str) -> None:
    """What holds in a sentence or two, and the table of claims, whose cells are short."""
    text = (STUDIES / paper / "RESULTS.md").read_text(encoding="utf-8")
    _, _, short, table, *_ = text.split("\n\n")
    assert short.startswith("**In short:** ")
    assert "| claim | published | here | holds? | why |" == table.partition("\n")[0]
    assert f"{short}\n\n{table}\n\n" in (STUDIES / "README.md").read_text(encoding="utf-8")
    for row in table.splitlines()[2:]:
        _, *cells, _ = (cell.strip() for cell in row.split("|"))
        assert 5 == len(cells)
        assert max(len(cell.split()) for cell in cells) <= 45, row


def test_transfer_between_sites_is_told_before_and_after_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cosine for every pair of sites, twice; and how well each has learnt its own sentences."""
    tables = {
        "name": "few",
        "rounds": 1,
        "corpus": {"name": "clinic", "hospitals": 2, "documents": 4, "test_documents": 2},
        "task": {"name": "tagging", "buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4},
        "method": {"name": "fedner"},
        "sites": {"private": ["lstm", "crf"]},
    }
    run(cells(tables)[0].study, tmp_path / "run")
    monkeypatch.setattr(sys, "argv", ["look.py", str(tmp_path / "run")])
    runpy.run_path(str(STUDIES / "fedner" / "look.py"), run_name="__main__")
    first, then = capsys.readouterr().out.split(", after 1 rounds")
    for told in (first, then):
        assert 4 == len(re.findall(r"[+-][01]\.\d\d", told))
    assert first.partition("\n")[2] != then.partition("\n")[2]
    assert 2 == len(re.findall(r"hospital-\d train, test: \d+\.\d \d+\.\d", then))


def test_a_table_has_the_round_that_validation_chose_beside_the_largest_on_test_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each method, over its seeds, and one for each reference."""
    for seed, (chosen, other) in enumerate([(0.8, 0.9), (0.6, 0.7)]):
        folder = tmp_path / f"fedavg,seed={seed}"
        folder.mkdir()
        figures = {"macro_f1": 0.5, "examples": 100.0}
        lines = [
            {"metrics": {"accuracy": chosen, "valid_accuracy": 0.7, **figures}},
            {"metrics": {}},
            {"metrics": {"accuracy": other, "valid_accuracy": 0.6, **figures}},
        ]
        (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        known = {name: {"accuracy": 0.5, "macro_f1": 0.4} for name in ("majority", "tfidf")}
        (folder / "references.json").write_text(json.dumps(known), encoding="utf-8")
        (folder / "metrics.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["table.py", str(tmp_path)])
    runpy.run_path(str(STUDIES / "flcmc" / "table.py"), run_name="__main__")
    _, _, row, majority, tfidf = capsys.readouterr().out.splitlines()
    assert [
        "fedavg", "2", "0.700 ± 0.000", "0.700 ± 0.141", "0.046", "0.500 ± 0.000", "0.800 ± 0.141", "0.800 ± 0.141",
    ] == row.strip("| ").split(" | ")  # fmt: skip
    assert majority.startswith("| majority | 2 |  | 0.500 ± 0.000 |")
    assert tfidf.startswith("| tfidf | 2 |")
    sites = {"a": {"train": {"x": 3, "y": 2}, "test": {"x": 1}}, "b": {"train": {"y": 4}, "test": {"x": 1, "y": 6}}}
    for folder in tmp_path.iterdir():
        (folder / "references.json").unlink()
        (folder / "data.json").write_text(json.dumps({"sites": sites}), encoding="utf-8")
    runpy.run_path(str(STUDIES / "flcmc" / "table.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[3].startswith("| majority | 2 |  | 0.750 ± 0.000 |  | 0.429 ± 0.000 |")


def test_methods_are_compared_draw_by_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row per method over seeds and folds, its lead where both have the draw; runs that have not ended are out."""
    for name, seed, first, last in [("fedavg", 0, 0.5, 0.6), ("fedavg", 1, 0.6, 0.8), ("feded", 1, 0.9, 0.7)]:
        folder = tmp_path / f"{name},fold=2,seed={seed}"
        folder.mkdir()
        lines = [{"metrics": {"accuracy": first, "valid_accuracy": 0.9}}, {"metrics": {}}]
        lines.append({"metrics": {"accuracy": last, "valid_accuracy": 0.8}})
        (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        (folder / "references.json").write_text(json.dumps({"majority": {"accuracy": 0.5}}), encoding="utf-8")
        (folder / "metrics.json").write_text("{}", encoding="utf-8")
    unfinished = tmp_path / "feded,fold=2,seed=0"
    unfinished.mkdir()
    (unfinished / "journal.jsonl").write_text("", encoding="utf-8")
    ask = ["paired.py", str(tmp_path), "--metric", "accuracy", "--beside", "fedavg"]
    for more, average, other, lead in [
        ([], "0.700 ± 0.141 | 0.600 0.800", "0.700 | 0.700", "-0.100 | 0 of 1"),
        (["--last", "2"], "0.625 ± 0.106 | 0.550 0.700", "0.800 | 0.800", "+0.100 | 1 of 1"),
        (["--by", "valid_accuracy"], "0.550 ± 0.071 | 0.500 0.600", "0.900 | 0.900", "+0.300 | 1 of 1"),
        (["--largest"], "0.700 ± 0.141 | 0.600 0.800", "0.900 | 0.900", "+0.100 | 1 of 1"),
    ]:
        monkeypatch.setattr(sys, "argv", [*ask, *more])
        runpy.run_path(str(STUDIES / "paired.py"), run_name="__main__")
        _, _, *rows = capsys.readouterr().out.splitlines()
        assert [f"| fedavg | 2 | {average} |  |  |", f"| feded | 1 | {other} | {lead} |"] == rows[:2]
        assert rows[2].startswith("| majority | 2 | 0.500 ± 0.000 |")
    elsewhere = json.dumps({"majority": {"accuracy": 0.4}})
    (tmp_path / "fedavg,fold=2,seed=1" / "references.json").write_text(elsewhere, encoding="utf-8")
    runpy.run_path(str(STUDIES / "paired.py"), run_name="__main__")
    *_, majority, another = capsys.readouterr().out.splitlines()
    assert majority.startswith("| majority | 2 | 0.450 ± 0.071 |")
    assert another.startswith("| majority, feded | 1 | 0.500 |")


def test_the_study_of_rules_prints_what_each_makes_of_each_lie(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules by themselves and behind the bound, with what any model should beat below."""
    monkeypatch.setattr(sys, "argv", ["rules.py", "--quick"])
    runpy.run_path(str(STUDIES / "lying" / "rules.py"), run_name="__main__")
    _, _, head, *rows = capsys.readouterr().out.splitlines()
    assert ["rule", "nothing", "times 100", "flipped sign", "flipped labels"] == re.split(r"  +", head.strip())
    names = [re.split(r"  +", row)[0] for row in rows]
    rules = ["median", "trimmed", "geometric", "krum"]
    expected = ["mean", "bound", *(name for rule in rules for name in (rule, f"{rule}, bound")), "majority"]
    assert expected == names[: len(expected)]
    assert all(4 == len(re.findall(r"0\.\d{3} \(", row)) for row in rows[:10])


def test_the_study_of_lying_sites_prints_its_three_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No honest site is left out of any round, and a liar of every one."""
    monkeypatch.setattr(sys, "argv", ["bound.py", "--quick"])
    runpy.run_path(str(STUDIES / "lying" / "bound.py"), run_name="__main__")
    honest, late, lies = capsys.readouterr().out.split("\n\n")
    fields = re.findall(r"^(\w+) +fit (\w+\.\w+) +\d+\.\d +4 +0$", honest, re.MULTILINE)
    assert [
        ("fedavg", "Update.change"),
        ("scaffold", "ScaffoldUpdate.change"),
        ("scaffold", "ScaffoldUpdate.control"),
    ] == fields
    assert ["0", "0"] == re.findall(r"^\d to \d +\d+\.\d +\d+\.\d +(\d) of 1$", late, re.MULTILINE)
    rows = re.findall(r"^(.+?)  +(0\.\d{3}) +(0\.\d{3}) +(\d) of +2(?: +(fit: invalid: .+))?$", lies, re.MULTILINE)
    truth, *untruths = rows
    assert (truth[1], "0", "") == truth[2:]
    assert 4 == len(untruths)
    (alone,) = re.findall(r"^the two honest ones alone +(0\.\d{3})$", lies, re.MULTILINE)
    for _, without, within, left_out, why in untruths:
        assert (alone, "2") == (within, left_out)
        assert without != within
        assert why
