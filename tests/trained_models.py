"""Small models, trained in seconds on generated hospitals: `tagger(folder)`, `relater(folder)`, `sorter(folder)`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoder_folders import tiny_encoder
from wardround.runs.loop import run
from wardround.study.load import cells

__all__ = ["CLINIC", "SMALL", "relater", "sorter", "tagger", "trained"]

CLINIC = {"name": "clinic", "hospitals": 2, "documents": 30, "test_documents": 10}
SMALL = {"embedding": 16, "character": 8, "filters": 16, "hidden": 8, "buckets": 1024}


def trained(folder: Path, **tables: Any) -> Path:
    """The run folder of a study."""
    run(cells({"name": "small", "rounds": 2, **tables}, folder=folder.parent)[0].study, folder)
    return folder


def tagger(folder: Path, corpus: Mapping[str, Any] = CLINIC, **tables: Any) -> Path:
    """Problems, treatments and tests; it gets about two thirds of them."""
    task = {"name": "tagging", "model": "cnn-crf", **SMALL}
    method = {"name": "fedavg", "optimizer": "adam", "lr": 0.02, "batch": 8, "epochs": 5}
    return trained(folder, **{"corpus": corpus, "task": task, "method": method, **tables})


def relater(folder: Path, **tables: Any) -> Path:
    """The relations between them, on a tiny encoder of random weights; without unrelated pairs, it relates all."""
    encoder = tiny_encoder(folder.parent / "encoder")
    corpus = {"name": "clinic-pairs", "hospitals": 2, "notes": 10, "test_notes": 4, "none": ""}
    task = {"name": "relation", "encoder": str(encoder), "freeze": 1, "longest": 60, "blind": False}
    method = {"name": "fedavg", "optimizer": "adam", "lr": 0.01, "batch": 8}
    return trained(folder, **{"corpus": corpus, "task": task, "method": method, **tables})


def sorter(folder: Path, **tables: Any) -> Path:
    """Departments; it reads eight words."""
    task = {"name": "classification", "model": "logistic", "longest": 8}
    return trained(folder, **{"corpus": CLINIC, "task": task, "method": {"name": "fedavg", "lr": 2.0}, **tables})
