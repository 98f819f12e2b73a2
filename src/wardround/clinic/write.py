"""Writing a clinic as files, in the formats that hospitals have.

    write(Clinic(language="zh"), Path("rehearsal"), ["jsonl", "i2b2"])

A folder per hospital and split holds `documents.jsonl` (the canonical one: a JSON object per line),
`documents.csv` (text, label), `documents.conll` (token and BIO tag), `documents.pubtator`, and the folders
`brat` (`.txt`, `.ann`) and `i2b2` (`txt`, `concept` and `rel` as in the 2010 i2b2/VA challenge, with tokens
between spaces; a Chinese character is a token). Beside them stand `clinic.json` with the settings, for distant
supervision `facts.tsv`, and `gold`: the same documents with their true labels, not for the hospitals.

Documents are streamed. A file appears under its name only when it is complete.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TextIO

from wardround.clinic import SPLITS, Clinic
from wardround.clinic.words import words
from wardround.text.document import Document, Entity

FORMATS = {
    "notes": ("jsonl", "csv", "brat", "i2b2", "conll"),
    "dialogues": ("jsonl", "csv", "brat", "conll"),
    "distant": ("jsonl", "brat", "pubtator"),
}
"""By the clinic's kind, the formats that can hold its documents."""

Sink = Callable[[Document], object]
TOKEN = {"en": re.compile(r"\w+(?:[-'./]\w+)*|[^\w\s]"), "zh": re.compile(r"[A-Za-z0-9]+|\S")}


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written."""

    folder: Path
    formats: tuple[str, ...]
    documents: dict[str, dict[str, int]]
    """By hospital and split."""


def write(
    clinic: Clinic,
    folder: Path,
    formats: Sequence[str] = ("jsonl",),
    progress: Callable[[int, int], object] | None = None,
) -> Summary:
    """Write every hospital's documents in these formats; `progress` is called with the documents done and in all."""
    unfit = [name for name in formats if name not in FORMATS[clinic.kind]]
    if unfit or not formats:
        asked = ", ".join(unfit) or "nothing"
        raise ValueError(f"cannot write {clinic.kind} as {asked}; choose from {', '.join(FORMATS[clinic.kind])}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists and is not an empty folder; name a new one or clear it first")

    total = clinic.hospitals * sum(clinic.size(split) for split in SPLITS)
    done = 0
    for name, split in product(clinic.names(), SPLITS):
        with ExitStack() as stack:
            sinks = [stack.enter_context(SINKS[kind](folder / name / split)) for kind in dict.fromkeys(formats)]
            keep = stack.enter_context(_jsonl(folder / "gold" / name / split))
            for seen, true in zip(clinic.stream(name, split), clinic.gold(name, split), strict=True):
                for sink in sinks:
                    sink(seen)
                keep(true)
                done += 1
                if progress:
                    progress(done, total)
    if clinic.kind == "distant":
        _facts(clinic, folder)
    with _fresh(folder / "clinic.json") as file:
        json.dump(asdict(clinic), file, indent=2)
        file.write("\n")
    counts: dict[str, dict[str, int]] = {
        name: {split: clinic.size(split) for split in SPLITS} for name in clinic.names()
    }
    return Summary(folder, tuple(dict.fromkeys(formats)), counts)


@contextmanager
def _fresh(path: Path) -> Iterator[TextIO]:
    """A file that takes its name once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            yield file
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def _jsonl(folder: Path) -> Iterator[Sink]:
    with _fresh(folder / "documents.jsonl") as file:
        yield lambda document: file.write(json.dumps(document.plain(), ensure_ascii=False) + "\n")


@contextmanager
def _csv(folder: Path) -> Iterator[Sink]:
    with _fresh(folder / "documents.csv") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("text", "label"))
        yield lambda document: rows.writerow((document.text, *document.labels))


@contextmanager
def _brat(folder: Path) -> Iterator[Sink]:
    def sink(document: Document) -> None:
        with _fresh(folder / "brat" / f"{document.id}.txt") as file:
            file.write(document.text)
        numbers = {
            entity.id: entity.id if entity.id.startswith("T") else f"T{rank}"
            for rank, entity in enumerate(document.entities, start=1)
        }
        with _fresh(folder / "brat" / f"{document.id}.ann") as file:
            for rank, entity in enumerate(document.entities, start=1):
                number, surface = numbers[entity.id], document.text[entity.start : entity.end]
                file.write(f"{number}\t{entity.type} {entity.start} {entity.end}\t{surface}\n")
                if number != entity.id:
                    file.write(f"N{rank}\tReference {number} clinic:{entity.id}\t{surface}\n")
            for rank, relation in enumerate(document.relations, start=1):
                head, tail = numbers[relation.head], numbers[relation.tail]
                file.write(f"R{rank}\t{relation.type} Arg1:{head} Arg2:{tail}\n")

    yield sink


@contextmanager
def _i2b2(folder: Path) -> Iterator[Sink]:
    def sink(document: Document) -> None:
        place = folder / "i2b2"
        lines = list(_lines(document))
        with _fresh(place / "txt" / f"{document.id}.txt") as file:
            file.writelines(" ".join(text for text, _ in line) + "\n" for line in lines)
        named = {}
        for number, line in enumerate(lines, start=1):
            for entity in document.entities:
                at = [rank for rank, (_, owner) in enumerate(line) if owner == entity]
                if at:
                    surface = " ".join(line[rank][0] for rank in at).lower()
                    named[entity.id] = f'c="{surface}" {number}:{at[0]} {number}:{at[-1]}'
        with _fresh(place / "concept" / f"{document.id}.con") as file:
            file.writelines(f'{named[entity.id]}||t="{entity.type}"\n' for entity in document.entities)
        with _fresh(place / "rel" / f"{document.id}.rel") as file:
            for relation in document.relations:
                file.write(f'{named[relation.head]}||r="{relation.type}"||{named[relation.tail]}\n')

    yield sink


@contextmanager
def _conll(folder: Path) -> Iterator[Sink]:
    with _fresh(folder / "documents.conll") as file:

        def sink(document: Document) -> None:
            file.write("-DOCSTART-\tO\n\n")
            for line in _lines(document):
                before = None
                for text, entity in line:
                    tag = "O" if entity is None else f"{'I' if entity == before else 'B'}-{entity.type}"
                    file.write(f"{text}\t{tag}\n")
                    before = entity
                file.write("\n")

        yield sink


@contextmanager
def _pubtator(folder: Path) -> Iterator[Sink]:
    with _fresh(folder / "documents.pubtator") as file:

        def sink(document: Document) -> None:
            file.write(f"{document.id}|t|{document.text}\n{document.id}|a|\n")
            for entity in document.entities:
                surface = document.text[entity.start : entity.end]
                cells = (document.id, entity.start, entity.end, surface, entity.type, entity.id)
                file.write("\t".join(map(str, cells)) + "\n")
            for relation in document.relations:
                file.write(f"{document.id}\t{relation.type}\t{relation.head}\t{relation.tail}\n")
            file.write("\n")

        yield sink


SINKS: dict[str, Callable[[Path], AbstractContextManager[Sink]]] = {
    "jsonl": _jsonl, "csv": _csv, "brat": _brat, "i2b2": _i2b2, "conll": _conll, "pubtator": _pubtator,
}  # fmt: skip


def _lines(document: Document) -> Iterator[list[tuple[str, Entity | None]]]:
    """The tokens of each line with the entity each belongs to; none reaches over an entity's edge."""
    edges = {0, len(document.text)}
    edges.update(edge for entity in document.entities for edge in (entity.start, entity.end))
    edges.update(at for at, letter in enumerate(document.text) if letter == "\n")
    owners = {entity.start: entity for entity in document.entities}
    line: list[tuple[str, Entity | None]] = []
    cuts = sorted(edges)
    for start, end in pairwise(cuts):
        if document.text[start] == "\n":
            yield line
            line = []
        tokens = TOKEN[document.language].findall(document.text[start:end])
        line += [(token, owners.get(start)) for token in tokens]
    yield line


def _facts(clinic: Clinic, folder: Path) -> None:
    concepts = words(clinic.language).concepts
    with _fresh(folder / "facts.tsv") as file:
        file.write("head\trelation\ttail\thead_name\ttail_name\n")
        for fact in clinic.facts():
            names = concepts[fact.head].names[0], concepts[fact.tail].names[0]
            file.write("\t".join((fact.head, fact.relation, fact.tail, *names)) + "\n")
