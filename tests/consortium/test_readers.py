"""Every task in every format that can hold it: the block of the template trains, and every other reader is refused."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from encoders import tiny_encoder
from loopback import Exchange
from wardround.consortium.check import checked
from wardround.consortium.settings import read_site
from wardround.consortium.submit import submit
from wardround.consortium.template import SITE_TOML
from wardround.corpora.register import CORPORA
from wardround.corpora.views import READERS
from wardround.runs.errors import RunError
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks import TASKS

SITES = ("site-0", "site-1")
SMALL = {"buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4}
STUDIES: dict[str, dict[str, Any]] = {
    "classification": {
        "corpus": {"format": "csv", "train": "x", "test": "x", "labels": ["causes", "stops"]},
        "task": {"name": "classification", "tokens": "words", "buckets": 50},
    },
    "tagging": {
        "corpus": {"name": "conll", "train": "x", "test": "x"},
        "task": {"name": "tagging", "types": ["DRUG", "DISEASE"], **SMALL},
    },
    "relation": {
        "corpus": {"name": "pairs-jsonl", "train": "x", "test": "x", "labels": ["none", "causes", "stops"]},
        "task": {"name": "relation", "freeze": 1},
    },
    "bags": {
        "corpus": {"name": "bags", "train": "x", "test": "x", "relations": ["causes", "stops"]},
        "task": {"name": "bags", "buckets": 50, "embedding": 4, "filters": 4},
    },
}
"""By task, a study whose coordinator has no notes."""


def blocks() -> Iterator[tuple[str, str, list[str]]]:
    """Task, format and lines of each [data] block of the template."""
    for title, body in re.findall(r"^#? ?\[data\] +# task (.*)\n((?:#? ?\w+ = .*\n)+)", SITE_TOML, re.MULTILINE):
        lines = [line.removeprefix("# ").partition("#")[0].strip() for line in body.splitlines()]
        yield title.split()[0].rstrip(","), title, lines


BLOCKS = list(blocks())


def note(number: int) -> dict[str, Any]:
    """An annotated note."""
    verb = "causes" if number % 2 else "stops"
    text = f"a drug {verb} b {number}"
    end = 7 + len(verb)
    return {
        "id": str(number), "text": text, "labels": [verb],
        "entities": [
            {"id": f"D{number}", "start": 2, "end": 6, "type": "DRUG"},
            {"id": "T2", "start": end + 1, "end": end + 2, "type": "DISEASE"},
        ],
        "relations": [{"type": verb, "head": f"D{number}", "tail": "T2"}],
    }  # fmt: skip


def write_notes(folder: Path, split: str, reader: str) -> None:
    """The same notes in whatever form a reader wants, under the template's names."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = [note(number) for number in range(12)]
    csv = "".join(f"{n['text']},{n['labels'][0]}\n" for n in notes)
    (folder / f"{split}.csv").write_text(f"text,label\n{csv}", encoding="utf-8")
    tags = ("O", "B-DRUG", "O", "B-DISEASE", "O")
    conll = "\n".join("".join(f"{w}\t{t}\n" for w, t in zip(n["text"].split(), tags, strict=True)) for n in notes)
    (folder / f"{split}.conll").write_text(conll, encoding="utf-8")
    rows = notes if reader != "bags" else [bag(n) for n in notes]
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    facts = "".join(f"{n['entities'][0]['id']}\t{n['labels'][0]}\tT2\n" for n in notes)
    (folder / "facts.tsv").write_text(facts, encoding="utf-8")
    (folder / split).mkdir(exist_ok=True)
    for n in notes:
        first, second = n["entities"]
        lines = [f"T{i}\t{e['type']} {e['start']} {e['end']}\t{n['text'][e['start'] : e['end']]}"
                 for i, e in enumerate((first, second), 1)]  # fmt: skip
        lines.append(f"R1\t{n['labels'][0]} Arg1:T1 Arg2:T2")
        (folder / split / f"{n['id']}.txt").write_text(n["text"], encoding="utf-8")
        (folder / split / f"{n['id']}.ann").write_text("\n".join(lines) + "\n", encoding="utf-8")


def bag(n: dict[str, Any]) -> dict[str, Any]:
    first, second = n["entities"]
    told = {"text": n["text"], "head": [first["start"], first["end"]], "tail": [second["start"], second["end"]]}
    return {"head": first["id"], "relation": n["labels"][0], "tail": "T2", "sentences": [told]}


def study_of(task: str, folder: Path) -> Study:
    tables = STUDIES[task]
    chosen = dict(tables["task"])
    if task == "relation":
        chosen["encoder"] = str(tiny_encoder(folder / "encoder"))
    whole = {"name": "own", "rounds": 2, "method": {"name": "fedavg"}, **tables, "task": chosen}
    return cells(whole, folder=folder)[0].study


def test_the_template_has_every_task_that_takes_texts() -> None:
    assert {"bags", "classification", "relation", "tagging"} == {task for task, _, _ in BLOCKS}
    assert 9 == len(BLOCKS)


@pytest.mark.parametrize(("task", "title", "lines"), BLOCKS, ids=[title for _, title, _ in BLOCKS])
def test_each_block_of_the_template_trains(task: str, title: str, lines: list[str], tmp_path: Path) -> None:
    reader = re.findall(r'(?:name|format) = "(.*?)"', lines[0])[0]
    for name in SITES:
        for split in ("train", "test"):
            write_notes(tmp_path / "x" / name, split, reader)
    study = study_of(task, tmp_path)
    with Exchange(tmp_path / "x", study, SITES, lines) as exchange:
        result = submit(study, tmp_path / "run", exchange.over, wait=1.0)
        assert 2 == result.rounds, title
        train, _ = exchange.sites[SITES[0]].studies.settings.examples(study)
    assert 12 == len(train), "one example per note, in each of these formats"
    if task == "tagging":  # whole notes with all entities, not pairs of them
        assert {"a drug causes b 1", "a drug stops b 0"} <= {d.text for d in train.documents}  # type: ignore[attr-defined]
        assert {2} == {len(d.entities) for d in train.documents}  # type: ignore[attr-defined]


RIGHT = {
    ("tagging", "brat"): 'name = "brat-notes"',
    ("tagging", "pairs-jsonl"): 'name = "entities-jsonl"',
    ("tagging", "jsonl"): 'name = "entities-jsonl"',
    ("tagging", "csv"): "CSV has no place",
    ("relation", "brat-notes"): 'name = "brat"',
    ("relation", "entities-jsonl"): 'name = "pairs-jsonl"',
    ("relation", "conll"): 'convert the files to JSONL, add them, and write name = "pairs-jsonl"',
    ("relation", "csv"): "CSV has no place",
    ("classification", "brat"): 'BRAT has no place: convert the files to JSONL, add them, and write format = "jsonl"',
    ("classification", "brat-notes"): "BRAT has no place",
    ("classification", "entities-jsonl"): 'format = "jsonl"',
    ("classification", "conll"): "CoNLL has no place",
    ("bags", "entities-jsonl"): 'name = "notes-bags"',
    ("bags", "brat"): 'name = "notes-bags"',
}


@pytest.mark.parametrize(("task", "reader"), RIGHT)
def test_a_reader_that_does_not_fit_the_task_is_refused_with_the_right_one(
    task: str, reader: str, tmp_path: Path
) -> None:
    study = study_of(task, tmp_path)
    key = "format" if reader in ("csv", "jsonl") else "name"
    table = {key: reader, "train": "train", "test": "test"}
    with pytest.raises(StudyError, match=rf"corpus\.{key} = '{reader}' reads .*{re.escape(RIGHT[task, reader])}"):
        cells({**study.resolved, "corpus": table}, folder=tmp_path)
    lines = "".join(f'{name} = "{value}"\n' for name, value in table.items())
    (tmp_path / "site.toml").write_text(f'name = "a"\n[data]\n{lines}', encoding="utf-8")
    with pytest.raises(StudyError, match=rf"data\.{key} = '{reader}' reads .*{re.escape(RIGHT[task, reader])}"):
        read_site(tmp_path).examples(study)
    details = [finding.detail for finding in checked(tmp_path, study, online=False) if finding.what == "data"]
    assert 1 == len(details)
    assert RIGHT[task, reader] in details[0]


def test_a_site_process_with_the_wrong_reader_takes_no_part(tmp_path: Path) -> None:
    for name in SITES:
        for split in ("train", "test"):
            write_notes(tmp_path / "x" / name, split, "brat-notes")
    study = study_of("tagging", tmp_path)
    right = ['name = "brat-notes"', 'train = "train"', 'test = "test"']
    with Exchange(tmp_path / "x", study, SITES, right) as exchange:
        for name in SITES:
            path = tmp_path / "x" / name / "site.toml"
            path.write_text(path.read_text().replace("brat-notes", "brat"), encoding="utf-8")
            exchange.sites[name].studies.settings = read_site(path.parent)
        with pytest.raises(RunError, match="data"):
            submit(study, tmp_path / "run", exchange.over, wait=0.5)


@pytest.mark.parametrize("name", CORPORA)
def test_every_reader_says_what_it_gives(name: str) -> None:
    assert set(CORPORA[name].views) <= {task.takes for task in TASKS.values()}
    if name in READERS and name not in ("bags", "files"):
        assert f'name = "{name}"' in READERS[name][1].values()
