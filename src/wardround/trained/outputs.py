"""What was found, written: JSONL, CSV, BRAT, or OMOP's NOTE_NLP (docs/predict.md has the columns and keys).

    with written("jsonl", Path("found.jsonl"), system="wardround 0.1.0", losses=Problems()) as sink:
        sink(placed, prediction)

A file takes its name only when it is complete. What a format has no place for is noted in `losses`. No cell of CSV or
OMOP begins a formula: an apostrophe stands before it (`corpora/spreadsheet.py` takes it away again).
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.formats.brat import write_brat
from wardround.formats.options import Options
from wardround.formats.spreadsheet import guarded
from wardround.formats.writing import lost, text_file
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.reading import DataError, Problems
from wardround.trained.predicted import DIGITS, Prediction

__all__ = ["OUTPUTS", "Sink", "written"]

OUTPUTS = ("jsonl", "csv", "brat", "omop")
Sink = Callable[[Placed, Prediction], None]
Lines = Callable[[Placed, Prediction], Iterator[str]]

CSV = ("id", "kind", "type", "confidence", "start", "end", "text", "tail_start", "tail_end", "tail_text")
NOTE_NLP = (
    "note_id", "section_concept_id", "snippet", "offset", "lexical_variant", "note_nlp_concept_id", "nlp_system",
    "nlp_date", "term_exists", "term_temporal", "term_modifiers",
)  # fmt: skip
CELL = 250  # characters that OMOP's columns hold
AROUND = 50
NO_CONCEPT = "0"


@contextmanager
def written(to: str, path: Path | None, *, system: str, losses: Problems) -> Iterator[Sink]:
    """A sink for predictions; without a path they go to standard output."""
    if path is not None and path.exists() and (to != "brat" or not path.is_dir() or any(path.iterdir())):
        raise DataError(path, None, "exists already", "name another, or remove it first")
    if to == "brat":
        if path is None:
            raise DataError("--to brat", None, "makes a folder", "name it with --out")
        with write_brat(path, losses, Options()) as brat:
            yield lambda placed, told: brat(placed._replace(document=_document(placed, told, losses)))
        return
    head, lines = {"jsonl": ("", _json), "csv": (_row(CSV), _findings), "omop": (_row(NOTE_NLP), _notes(system))}[to]

    def sinking(write: Callable[[str], object]) -> Sink:
        write(head)

        def sink(placed: Placed, told: Prediction) -> None:
            if to == "omop":
                lost(placed, losses, "labels", len(told.labels))
            for line in lines(placed, told):
                write(line)

        return sink

    if path is None:
        stream = sys.stdout.buffer
        yield sinking(lambda text: stream.write(text.encode()))
        stream.flush()
    else:
        with text_file(path) as write:
            yield sinking(write)


def _json(placed: Placed, told: Prediction) -> Iterator[str]:
    """Our own form, which can be read again; each finding has its confidence."""
    row: dict[str, Any] = {"id": told.id, "text": told.text, "labels": [label.name for label in told.labels]}
    row["confidence"] = [round(label.confidence, DIGITS) for label in told.labels]
    row["entities"] = [
        {"id": f"T{number}", "type": one.type, "start": one.start, "end": one.end, "confidence": _sure(one.confidence)}
        for number, one in enumerate(told.entities, 1)
    ]
    row["relations"] = [
        {"type": one.type, "head": f"T{one.head + 1}", "tail": f"T{one.tail + 1}", "confidence": _sure(one.confidence)}
        for one in told.relations
    ]
    row |= {"source": placed.document.source, "language": placed.document.language}
    kept = {key: value for key, value in row.items() if value or key in ("id", "text")}
    yield json.dumps(kept, ensure_ascii=False) + "\n"


def _findings(_placed: Placed, told: Prediction) -> Iterator[str]:
    """A row per finding; of a relation the head comes first."""
    for label in told.labels:
        yield _row((told.id, "label", label.name, str(_sure(label.confidence)), "", "", "", "", "", ""))
    for number, one in enumerate(told.entities):
        yield _row((told.id, "entity", one.type, str(_sure(one.confidence)), *_at(told, number), "", "", ""))
    for link in told.relations:
        ends = (*_at(told, link.head), *_at(told, link.tail))
        yield _row((told.id, "relation", link.type, str(_sure(link.confidence)), *ends))


def _notes(system: str) -> Lines:
    today = datetime.now(UTC).date().isoformat()

    def rows(_placed: Placed, told: Prediction) -> Iterator[str]:
        for number, one in enumerate(told.entities):
            around = told.text[max(one.start - AROUND, 0) : one.end + AROUND]
            modifiers = [f"type={one.type}", f"confidence={_sure(one.confidence)}"]
            modifiers += [
                f"{link.type}={told.entities[link.tail].start}-{told.entities[link.tail].end}"
                for link in told.relations
                if link.head == number
            ]
            yield _row((
                told.id, NO_CONCEPT, around, str(one.start), told.words(number), NO_CONCEPT,
                system, today, "", "", "; ".join(modifiers),
            ), narrow=(2, 4, 6))  # fmt: skip

    return rows


def _document(placed: Placed, told: Prediction, losses: Problems) -> Document:
    """What was found as annotations."""
    count = len(told.labels) + len(told.entities) + len(told.relations)
    lost(placed, losses, "confidence", count)
    return Document(
        told.id,
        told.text,
        tuple(label.name for label in told.labels),
        tuple(Entity(f"T{number}", one.type, one.start, one.end) for number, one in enumerate(told.entities, 1)),
        tuple(Relation(one.type, f"T{one.head + 1}", f"T{one.tail + 1}") for one in told.relations),
    )


def _at(told: Prediction, number: int) -> tuple[str, str, str]:
    entity = told.entities[number]
    return str(entity.start), str(entity.end), told.words(number)


def _sure(confidence: float) -> float:
    return round(confidence, DIGITS)


def _row(cells: tuple[str, ...], narrow: tuple[int, ...] = ()) -> str:
    line = io.StringIO(newline="")
    safe = [guarded(cell)[:CELL] if at in narrow else guarded(cell) for at, cell in enumerate(cells)]
    csv.writer(line, lineterminator="\r\n").writerow(safe)
    return line.getvalue()
