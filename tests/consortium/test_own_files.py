"""Hospitals with files of their own, which the coordinator has not: every task, with what the study alone declares."""

import json
from pathlib import Path
from typing import Any

import pytest

from encoder_folders import tiny_encoder
from loopback import Exchange
from wardround.consortium.rehearse import generated
from wardround.consortium.settings import SiteSettings
from wardround.consortium.submit import submit
from wardround.runs.build import build, build_apart
from wardround.runs.loop import run
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError

SITES = ("site-0", "site-1")
FILES = {"train": "train.jsonl", "test": "test.jsonl"}
SMALL = {"buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4}
CASES: dict[str, dict[str, Any]] = {
    "task.types": {
        "corpus": {"format": "jsonl", **FILES},
        "task": {"name": "tagging", "types": ["DRUG", "DISEASE"], **SMALL},
    },
    "corpus.labels": {
        "corpus": {"format": "jsonl", **FILES, "labels": ["none", "causes"]},
        "task": {"name": "relation", "freeze": 1},
    },
    "corpus.relations": {
        "corpus": {"format": "bags", **FILES, "relations": ["causes", "stops"]},
        "task": {"name": "bags", "buckets": 50, "embedding": 4, "filters": 4},
    },
    "corpus.pairs": {
        "corpus": {
            "format": "jsonl",
            **FILES,
            "kb": "facts.tsv",
            "relations": ["causes"],
            "pairs": [["DRUG", "DISEASE"]],
        },
        "task": {"name": "bags", "buckets": 50, "embedding": 4, "filters": 4},
    },
}
"""By what a study has to declare, one that does."""


def lines(declared: str, site: str) -> str:
    """A site's own notes."""
    if declared == "corpus.relations":
        sentence_row = {"text": f"a drug causes b in {site}", "head": [2, 6], "tail": [14, 15]}
        rows: list[dict[str, Any]] = [{"head": f"D{n}", "relation": "causes", "tail": "b", "sentences": [sentence_row]}
                                      for n in range(8)]  # fmt: skip
    else:
        spans = [
            {"id": f"T1 of {site}" if declared == "corpus.pairs" else "T1", "start": 2, "end": 6, "type": "DRUG"},
            {"id": "T2", "start": 14, "end": 15, "type": "DISEASE"},
        ]
        sentence_row = {"entities": spans, "relations": [{"type": "causes", "head": "T1", "tail": "T2"}]}
        rows = [{"id": f"{n}", "text": f"a drug causes b in {site} {n}", **sentence_row} for n in range(8)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def study_of(declared: str, folder: Path, **changes: Any) -> Study:
    told = CASES[declared]
    task = {**told["task"], "encoder": str(folder / "encoder")} if declared == "corpus.labels" else told["task"]
    tables = {"name": "own", "rounds": 2, "method": {"name": "fedavg"}, **told, "task": task, **changes}
    return cells(tables, folder=folder)[0].study


@pytest.fixture
def places(tmp_path: Path) -> Path:
    tiny_encoder(tmp_path / "centre" / "encoder")
    return tmp_path


def with_files(places: Path, declared: str) -> dict[str, dict[str, str]]:
    """Files in each site's folder; for a simulation, where they are. The last site's only fact is not in the study."""
    for name in SITES:
        (places / "x" / name).mkdir(parents=True)
        (places / "x" / name / "facts.tsv").write_text(
            "T1 of site-0\tcauses\tT2\nT1 of site-1\tcures\tT2\n", encoding="utf-8"
        )
        for split in FILES.values():
            path = places / "x" / name / split
            path.write_text(lines(declared, name), encoding="utf-8")
    return {split: {name: str(places / "x" / name / file) for name in SITES} for split, file in FILES.items()}


@pytest.mark.parametrize("declared", CASES)
def test_the_coordinator_needs_no_file_of_the_sites(places: Path, declared: str) -> None:
    files = with_files(places, declared)
    study = study_of(declared, places / "centre")
    data = [f'{key} = "{value}"' for key, value in study.resolved["corpus"].items() if key in ("format", "kb", *FILES)]
    with Exchange(places / "x", study, SITES, data) as exchange:
        assert 2 == submit(study, places / "run", exchange.over, wait=1.0).rounds
    if declared == "task.types":  # whose reader takes one file per site, too
        together = study_of(declared, places / "centre", corpus={"format": "jsonl", **files})
        run(together, places / "inline")
        model = "model/weights.safetensors"
        assert (places / "inline" / model).read_bytes() == (places / "run" / model).read_bytes()


@pytest.mark.parametrize("declared", CASES)
def test_what_only_the_texts_could_tell_must_be_declared(places: Path, declared: str) -> None:
    table, key = declared.split(".")
    told = {name: value for name, value in CASES[declared][table].items() if name != key}
    study = study_of(declared, places / "centre", **{table: told})
    with pytest.raises(StudyError, match=rf"{declared} is missing: .*; add {key} = \["):
        build_apart(study, places / "run", SITES)


@pytest.mark.parametrize("declared", CASES)
def test_a_rehearsal_has_generated_texts_for_every_task(places: Path, declared: str) -> None:
    study = generated(study_of(declared, places / "centre"), places)
    assert study.resolved["corpus"]["name"].startswith("clinic")
    assert 3 == len(build(study, places / "run").sites.names)


def test_a_site_with_words_of_its_own_aligns_by_them(places: Path) -> None:
    told = SiteSettings(places, "site-0", data={"format": "jsonl"}, labels={"Medication": "DRUG", "triggers": "causes"})
    wanted = {"relations": ["causes", "triggers"], "pairs": [["DRUG", "DISEASE"], ["Medication", "DISEASE"]]}
    assert wanted == told._as_in(study_of("corpus.pairs", places))
