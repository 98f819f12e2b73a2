"""Every study that we ship can be read whole: its names, settings and grid."""

from pathlib import Path

import pytest

from wardround.study import load_study

STUDIES = sorted((Path(__file__).parents[1] / "studies").rglob("*.toml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_study_reads_whole(path: Path) -> None:
    cells = load_study(path)
    assert len(cells) == len({cell.study.fingerprint for cell in cells})
