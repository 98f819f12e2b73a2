"""Every block of the template trains with each of its tasks; what a format or a task has no use for is refused."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from encoder_folders import tiny_encoder
from loopback import Exchange
from wardround.consortium.check import checked
from wardround.consortium.settings import read_site
from wardround.consortium.submit import submit
from wardround.consortium.template import SITE_TOML
from wardround.corpora.register import CORPORA
from wardround.formats.options import Options
from wardround.formats.register import FORMATS
from wardround.runs.errors import RunError
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks import TASKS
from wardround.text.reading import Problems

SITES = ("site-0", "site-1")
SMALL = {"buckets": 50, "embedding": 4, "character": 4, "filters": 4, "hidden": 4}
STUDIES: dict[str, dict[str, Any]] = {
    "classification": {
        "corpus": {"format": "csv", "train": "x", "test": "x", "labels": ["causes", "stops"]},
        "task": {"name": "classification", "tokens": "words", "buckets": 50},
    },
    "tagging": {
        "corpus": {"format": "conll", "train": "x", "test": "x"},
        "task": {"name": "tagging", "types": ["DRUG", "DISEASE"], **SMALL},
    },
    "relation": {
        "corpus": {"format": "jsonl", "train": "x", "test": "x", "labels": ["none", "causes", "stops"]},
        "task": {"name": "relation", "freeze": 1},
    },
    "bags": {
        "corpus": {"format": "bags", "train": "x", "test": "x", "relations": ["causes", "stops"]},
        "task": {"name": "bags", "buckets": 50, "embedding": 4, "filters": 4},
    },
}
"""By task, a study whose coordinator has no notes."""


def blocks() -> Iterator[tuple[str, str, list[str]]]:
    """Task, title and lines of each [data] block of the template, once for each of its tasks."""
    for title, body in re.findall(r"^#? ?\[data\] +# (.*)\n((?:#? ?\w+ = .*\n)+)", SITE_TOML, re.MULTILINE):
        lines = [line.removeprefix("# ").partition("#")[0].strip() for line in body.splitlines()]
        _, _, tasks = title.rpartition(", for ")
        yield from ((task, title, lines) for task in re.findall("|".join(STUDIES), tasks))


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


def write_notes(folder: Path, split: str, form: str) -> None:
    """The same notes in whatever form, under the template's names."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = [note(number) for number in range(12)]
    csv = "".join(f"{n['text']},{n['labels'][0]}\n" for n in notes)
    (folder / f"{split}.csv").write_text(f"text,label\n{csv}", encoding="utf-8")
    tags = ("O", "B-DRUG", "O", "B-DISEASE", "O")
    conll = "\n".join("".join(f"{w}\t{t}\n" for w, t in zip(n["text"].split(), tags, strict=True)) for n in notes)
    (folder / f"{split}.conll").write_text(conll, encoding="utf-8")
    rows = notes if form != "bags" else [bag(n) for n in notes]
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    facts = "".join(f"{n['entities'][0]['id']}\t{n['labels'][0]}\tT2\n" for n in notes)
    (folder / "facts.tsv").write_text(facts, encoding="utf-8")
    if form == "label-studio":
        written = FORMATS["label-studio"].write
        assert written is not None
        read = FORMATS["jsonl"].read(folder / f"{split}.jsonl", Problems(), Options())
        with written(folder / f"{split}.json", Problems(), Options()) as sink:
            for placed in read:
                sink(placed)
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
    assert 12 == len(BLOCKS)


@pytest.mark.parametrize(("task", "title", "lines"), BLOCKS, ids=[f"{task}: {title}" for task, title, _ in BLOCKS])
def test_each_block_of_the_template_trains(task: str, title: str, lines: list[str], tmp_path: Path) -> None:
    form = re.findall(r'format = "(.*?)"', lines[0])[0]
    for name in SITES:
        for split in ("train", "test"):
            write_notes(tmp_path / "x" / name, split, form)
    study = study_of(task, tmp_path)
    with Exchange(tmp_path / "x", study, SITES, lines) as exchange:
        result = submit(study, tmp_path / "run", exchange.over, wait=1.0)
        assert 2 == result.rounds, title
        train, _ = exchange.sites[SITES[0]].studies.settings.examples(study)
    assert 12 == len(train), "one example per note, in each of these formats"
    if task == "tagging":  # whole notes with all entities, not pairs of them
        assert {"a drug causes b 1", "a drug stops b 0"} <= {d.text for d in train.documents}  # type: ignore[attr-defined]
        assert {2} == {len(d.entities) for d in train.documents}  # type: ignore[attr-defined]


MISFITS = [
    (task, name)
    for task, kind in TASKS.items()
    for name, form in FORMATS.items()
    if task in STUDIES and kind.takes not in form.holds
]


@pytest.mark.parametrize(("task", "form"), MISFITS)
def test_a_format_without_a_place_for_what_the_task_takes_is_refused(task: str, form: str, tmp_path: Path) -> None:
    study = study_of(task, tmp_path)
    table = {"format": form, "train": "train", "test": "test"}
    pattern = rf"format = '{form}' has no place for .*, which the task takes; (convert the files to jsonl|it holds no)"
    with pytest.raises(StudyError, match=f"corpus: {pattern}"):
        cells({**study.resolved, "corpus": table}, folder=tmp_path)
    lines = "".join(f'{name} = "{value}"\n' for name, value in table.items())
    (tmp_path / "site.toml").write_text(f'name = "a"\n[data]\n{lines}', encoding="utf-8")
    with pytest.raises(StudyError, match=f"data: {pattern}"):
        read_site(tmp_path).examples(study)
    (finding,) = [finding for finding in checked(tmp_path, study, online=False) if finding.what == "data"]
    assert re.search(pattern, finding.detail)


MOVED = {
    ("classification", "files"): "csv", ("tagging", "entities-jsonl"): "jsonl", ("relation", "pairs-jsonl"): "jsonl",
    ("bags", "notes-bags"): "jsonl", ("tagging", "brat-notes"): "brat", ("relation", "brat"): "brat",
    ("tagging", "i2b2-notes"): "i2b2", ("relation", "opennre"): "opennre", ("bags", "opennre-bags"): "opennre",
    ("bags", "pubtator-bags"): "pubtator", ("bags", "mirgene-bags"): "mirgene", ("bags", "bags"): "bags",
    ("tagging", "conll"): "conll",
}  # fmt: skip


@pytest.mark.parametrize(("task", "name"), MOVED)
def test_a_name_that_is_a_format_now_is_refused_with_todays_spelling(task: str, name: str, tmp_path: Path) -> None:
    table = {"name": name, "train": "x", "test": "x", **({"format": "csv"} if name == "files" else {})}
    said = rf"corpus\.name = '{name}' is now format = \"{MOVED[task, name]}\", without a name; the task chooses"
    with pytest.raises(StudyError, match=said) as refused:
        cells({**study_of(task, tmp_path).resolved, "corpus": table}, folder=tmp_path)
    assert 1 == len(refused.value.problems)


@pytest.mark.parametrize(("task", "key", "said", "other"), [
    ("classification", "kb", "is for bags of sentences, and the task takes labelled texts", "bags"),
    ("classification", "types", "is for texts with entities, and the task takes labelled texts", "tagging"),
    ("tagging", "none", "is for pairs of entities, and the task takes texts with entities", "relation"),
    ("tagging", "labels", "is for labelled texts, and the task takes texts with entities", "classification"),
    ("bags", "labels", "is for labelled texts, and the task takes bags of sentences", "classification"),
])  # fmt: skip
def test_a_setting_of_another_view_is_refused_with_the_reason_and_the_task_that_has_it(
    task: str, key: str, said: str, other: str, tmp_path: Path
) -> None:
    tables = study_of(task, tmp_path).resolved
    instead = rf"take it out, or, if these files hold .*, set task\.name = '{other}'"
    with pytest.raises(StudyError, match=rf"corpus\.{key} {said}; {instead}"):
        cells({**tables, "corpus": {**tables["corpus"], key: "x"}}, folder=tmp_path)


@pytest.mark.parametrize(("form", "more", "said"), [
    ("csv", {"token": 2}, "token has no meaning where format = 'csv'; take it out"),
    ("jsonl", {"header": True}, "header has no meaning where format = 'jsonl'"),
    ("jsnl", {}, "format = 'jsnl' is unknown; did you mean 'jsonl'?"),
])  # fmt: skip
def test_a_setting_of_another_format_is_refused(form: str, more: dict[str, Any], said: str, tmp_path: Path) -> None:
    tables = study_of("classification", tmp_path).resolved
    with pytest.raises(StudyError, match=re.escape(f"corpus: {said}")):
        cells({**tables, "corpus": {"format": form, "train": "x", "test": "x", **more}}, folder=tmp_path)


def test_a_site_process_whose_format_does_not_fit_takes_no_part(tmp_path: Path) -> None:
    for name in SITES:
        for split in ("train", "test"):
            write_notes(tmp_path / "x" / name, split, "brat")
    study = study_of("tagging", tmp_path)
    right = ['format = "brat"', 'train = "train"', 'test = "test"']
    with Exchange(tmp_path / "x", study, SITES, right) as exchange:
        for name in SITES:
            path = tmp_path / "x" / name / "site.toml"
            path.write_text(path.read_text().replace('"brat"', '"csv"'), encoding="utf-8")
            exchange.sites[name].studies.settings = read_site(path.parent)
        with pytest.raises(RunError, match="data"):
            submit(study, tmp_path / "run", exchange.over, wait=0.5)


@pytest.mark.parametrize("name", CORPORA)
def test_every_corpus_says_what_it_gives(name: str) -> None:
    assert set(CORPORA[name].views) <= {task.takes for task in TASKS.values()}


def test_a_site_with_labels_of_its_own_still_drops_what_the_test_split_has_too(tmp_path: Path) -> None:
    for split, numbers in (("train", range(4)), ("test", range(3, 6))):
        rows = "".join(f"rash {number},{('ursache', 'stops')[number % 2]}\n" for number in numbers)
        (tmp_path / f"{split}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    (tmp_path / "site.toml").write_text(
        'name = "site-0"\n[data]\nformat = "csv"\ntrain = "train.csv"\ntest = "test.csv"\ndedupe = true\n'
        'labels = ["ursache", "stops"]\n[labels]\nursache = "causes"\n',
        encoding="utf-8",
    )
    study = cells({"name": "s", "rounds": 1, "method": {"name": "fedavg"}, **STUDIES["classification"]})[0].study
    train, test = read_site(tmp_path).examples(study)
    assert (["causes", "stops", "causes"], ["stops", "causes", "stops"]) == (train.classes, test.classes)
