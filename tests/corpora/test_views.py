"""Every format trains with every task that it has a place for, as it is written, and `data check` says the same."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encoder_folders import tiny_encoder
from wardround.clinic import Clinic
from wardround.clinic.bags import ClinicBags
from wardround.clinic.pairs import ClinicPairs
from wardround.clinic.write import write
from wardround.formats.bags import write_bags
from wardround.formats.check import check
from wardround.formats.options import Options
from wardround.formats.register import FORMATS
from wardround.runs.loop import run
from wardround.study.load import cells
from wardround.tasks import TASKS
from wardround.text.document import Document, Placed
from wardround.text.facts import UNRELATED, BagSentence
from wardround.text.reading import Problems

NOTES = Clinic(hospitals=2, documents=12, test_documents=8, seed=3)
PAIRS = ClinicPairs(hospitals=2, notes=6, test_notes=4, seed=3)
BAGS = ClinicBags(hospitals=2, sentences=30, test_sentences=15, seed=3)
TASK: dict[str, dict[str, Any]] = {
    "classification": {"name": "classification", "tokens": "words", "buckets": 50},
    "tagging": {"name": "tagging", "buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4},
    "relation": {"name": "relation", "freeze": 1, "encoder": "encoder"},
    "bags": {"name": "bags", "buckets": 50, "embedding": 4, "filters": 4},
}
MORE: dict[tuple[str, str], dict[str, Any]] = {
    ("jsonl", "bags"): {"kb": "facts.tsv"},
    ("pubtator", "bags"): {"kb": "facts.tsv"},
    ("omop", "classification"): {"label": "label"},
    ("csv", "classification"): {"source": "source"},
}
"""What a study has to say besides format and files."""


def documents(form: str, task: str, split: str) -> Iterator[Document]:
    """Generated notes, pairs or sentences, as the format has them."""
    if FORMATS[form].ready == "bags" or (task == "bags" and "bags" in FORMATS[form].holds):
        return BAGS.documents(split)
    if FORMATS[form].ready == "pairs":
        return PAIRS.documents(split)
    return (document for name in NOTES.names() for document in NOTES.stream(name, split))


def lines(path: Path, rows: Iterable[str]) -> None:
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def _bags(path: Path, made: Iterable[Document]) -> None:
    lines(path, write_bags(row for row in made if isinstance(row, BagSentence)))


def _opennre(path: Path, made: Iterable[Document]) -> None:
    def row(document: Document) -> str:
        ends = zip("ht", document.entities, strict=True)
        pair = {key: {"id": one.id, "pos": [one.start, one.end], "type": one.type} for key, one in ends}
        return json.dumps({"text": document.text, **pair, "relation": document.labels[0], "source": document.source})

    lines(path, map(row, made))


def _mirgene(path: Path, made: Iterable[Document]) -> None:
    def row(number: int, document: Document) -> str:
        text = document.text
        for mark, one in sorted(zip(("e1", "e2"), document.entities, strict=True), key=lambda pair: -pair[1].start):
            text = f"{text[: one.start]}<{mark}>{text[one.start : one.end]}</{mark}>{text[one.end :]}"
        relation = "NONE" if document.labels == (UNRELATED,) else document.labels[0]
        return f"{relation} {number} 0 {'|'.join(one.id for one in document.entities)}\t{text}"

    lines(path, (row(*numbered) for numbered in enumerate(made)))


def _fhir(path: Path, made: Iterable[Document]) -> None:
    def row(document: Document) -> str:
        data = base64.b64encode(document.text.encode()).decode()
        content = [{"attachment": {"contentType": "text/plain; charset=utf-8", "data": data}}]
        return json.dumps({"resourceType": "DocumentReference", "id": document.id, "content": content})

    lines(path, map(row, made))


def _omop(path: Path, made: Iterable[Document]) -> None:
    rows = (f'{at},"{one.text.replace(chr(34), "")}",{one.labels[0]}' for at, one in enumerate(made))
    lines(path, ["NOTE_ID,NOTE_TEXT,label", *rows])


def _text(path: Path, made: Iterable[Document]) -> None:
    path.mkdir()
    for document in made:
        (path / f"{document.id}.txt").write_text(document.text, encoding="utf-8")


BY_HAND: dict[str, Callable[[Path, Iterable[Document]], None]] = {
    "bags": _bags, "fhir": _fhir, "mirgene": _mirgene, "omop": _omop, "opennre": _opennre, "text": _text,
}  # fmt: skip


def written(folder: Path, form: str, task: str, split: str) -> Path:
    """The documents of a split in a format, by its own writer where it has one."""
    path = folder / f"{split}.{form}"
    if form == "i2b2":
        if not (folder / "clinic").exists():
            write(NOTES, folder / "clinic", ["i2b2"])
        return folder / "clinic" / "hospital-0" / split / "i2b2"
    if not FORMATS[form].writes:
        BY_HAND[form](path, documents(form, task, split))
        return path
    with FORMATS[form].write(path, Problems(), Options()) as sink:
        for number, document in enumerate(documents(form, task, split), 1):
            sink(Placed(document, path, number))
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("tiny") / "encoder")


@pytest.mark.parametrize("task", TASK)
@pytest.mark.parametrize("form", FORMATS)
def test_what_check_accepts_trains(form: str, task: str, encoder: Path, tmp_path: Path) -> None:
    holds = TASKS[task].takes in FORMATS[form].holds
    files = {split: str(written(tmp_path, form, task, split)) for split in ("train", "test")}
    survey = check(
        Path(files["train"]), Options(label="label" if form == "omop" else ""), task=TASKS[task](), form=form
    )
    assert holds != any("has no place for" in finding.what for finding in survey.findings.listed)
    if not holds:
        return
    lines(tmp_path / "facts.tsv", (f"{one.head}\t{one.relation}\t{one.tail}" for one in NOTES.facts()))
    corpus = {"format": form, **files, **MORE.get((form, task), {})}
    chosen = TASK[task] | ({"encoder": str(encoder)} if task == "relation" else {})
    tables = {"name": "own", "rounds": 2, "method": {"name": "fedavg"}, "task": chosen, "corpus": corpus}
    study = cells({**tables, "partition": {"name": "iid", "sites": 2}}, folder=tmp_path)[0].study
    assert 2 == run(study, tmp_path / "run").rounds
    assert study.resolved == cells(study.resolved, folder=tmp_path)[0].study.resolved, "and its study can be read again"
