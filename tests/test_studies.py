"""The studies of the papers: every cell of every file is valid, and those of relations can be built."""

import tomllib
from pathlib import Path

import pytest

from wardround.build import build
from wardround.study import cells, load_study

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
    (cell,) = cells({**tables, "seeds": [0], "grid": grid, "corpus": {**few, **kept}}, folder=path.parent)
    assert {"classes": 8 if kept else 9} == build(cell.study, tmp_path).task.sizes()
