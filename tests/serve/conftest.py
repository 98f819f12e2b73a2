"""A small tagger that really was trained."""

from pathlib import Path
from typing import Any

import pytest

from wardround.runs.loop import run
from wardround.study.load import cells

TABLES: dict[str, Any] = {
    "name": "served",
    "rounds": 4,
    "method": {"name": "fedavg", "optimizer": "adam", "lr": 0.02},
    "task": {"name": "tagging", "model": "cnn-crf", "buckets": 512, "embedding": 16, "filters": 16},
    "corpus": {"name": "clinic", "hospitals": 2, "documents": 25, "test_documents": 2},
}


@pytest.fixture(scope="session")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its model."""
    folder = tmp_path_factory.mktemp("served")
    run(cells(TABLES)[0].study, folder / "run")
    return folder / "run" / "model"
