"""Small models, trained in seconds on generated hospitals: `tagger(folder)`, `relater(folder)`, `sorter(folder)`.

A study is trained once in a process; whoever asks for it again gets a copy of the folder.
"""

import functools
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoder_folders import tiny_encoder
from wardround.runs.loop import run
from wardround.study.load import cells

__all__ = ["CLINIC", "SMALL", "relater", "sorter", "tagger", "trained"]

CLINIC = {"name": "clinic", "hospitals": 2, "documents": 30, "test_documents": 10}
SMALL = {"embedding": 16, "character": 8, "filters": 16, "hidden": 8, "buckets": 1024}


@functools.cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """What is copied, for as long as this process runs."""
    return tempfile.TemporaryDirectory(prefix="trained-")


@functools.cache
def _encoder() -> Path:
    return tiny_encoder(Path(_place().name) / "encoder")


@functools.cache
def _original(tables: str, folder: Path | None) -> Path:
    """The run folder of a study, in which names are those of a folder, if it has any."""
    place = Path(tempfile.mkdtemp(dir=_place().name)) / "run"
    run(cells(json.loads(tables), folder=folder)[0].study, place)
    return place


def trained(folder: Path, **tables: Any) -> Path:
    """The run folder of a study."""
    generated = str(tables["corpus"].get("name")).startswith("clinic")
    whole = json.dumps({"name": "small", "rounds": 2, **tables}, sort_keys=True)
    shutil.copytree(_original(whole, None if generated else folder.parent), folder)
    return folder


def tagger(folder: Path, corpus: Mapping[str, Any] = CLINIC, **tables: Any) -> Path:
    """Problems, treatments and tests; it gets about two thirds of them."""
    task = {"name": "tagging", "model": "cnn-crf", **SMALL}
    method = {"name": "fedavg", "optimizer": "adam", "lr": 0.02, "batch": 8, "epochs": 5}
    return trained(folder, **{"corpus": corpus, "task": task, "method": method, **tables})


def relater(folder: Path, **tables: Any) -> Path:
    """The relations between them, on a tiny encoder of random weights; without unrelated pairs, it relates all."""
    corpus = {"name": "clinic-pairs", "hospitals": 2, "notes": 10, "test_notes": 4, "none": ""}
    task = {"name": "relation", "encoder": str(_encoder()), "freeze": 1, "longest": 60, "blind": False}
    method = {"name": "fedavg", "optimizer": "adam", "lr": 0.01, "batch": 8}
    return trained(folder, **{"corpus": corpus, "task": task, "method": method, **tables})


def sorter(folder: Path, **tables: Any) -> Path:
    """Departments; it reads eight words."""
    task = {"name": "classification", "model": "logistic", "longest": 8}
    return trained(folder, **{"corpus": CLINIC, "task": task, "method": {"name": "fedavg", "lr": 2.0}, **tables})
