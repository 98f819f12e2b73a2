"""What was found, written: JSONL, CSV, BRAT, or OMOP's NOTE_NLP (docs/predict.md has the columns and keys).

    with written("jsonl", Path("predictions.jsonl"), system="wardround 0.1.0", losses=Problems()) as sink:
        sink(placed, prediction)

A file takes its name only when it is complete. What a format has no place for is noted in `losses`. No cell of CSV or
OMOP begins a formula: an apostrophe stands before it (`formats/spreadsheet.py` takes it away again).
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
from wardround.text.document import Document, Placed
from wardround.text.prediction import Prediction, rounded
from wardround.text.reading import DataError, Problems

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
            yield lambda placed, prediction: brat(placed._replace(document=_document(placed, prediction, losses)))
        return
    head, lines = {"jsonl": ("", _json), "csv": (_row(CSV), _findings), "omop": (_row(NOTE_NLP), _notes(system))}[to]

    def sinking(write: Callable[[str], object]) -> Sink:
        write(head)

        def sink(placed: Placed, prediction: Prediction) -> None:
            if to == "omop":
                lost(placed, losses, "labels", len(prediction.labels))
            for line in lines(placed, prediction):
                write(line)

        return sink

    if path is None:
        stream = sys.stdout.buffer
        yield sinking(lambda text: stream.write(text.encode()))
        stream.flush()
    else:
        with text_file(path) as write:
            yield sinking(write)


def _json(placed: Placed, prediction: Prediction) -> Iterator[str]:
    """Our own form, which can be read again; each finding has its confidence."""
    row: dict[str, Any] = {
        "id": prediction.id,
        "text": prediction.text,
        "labels": [label.name for label in prediction.labels],
    }
    row["confidence"] = [rounded(label.confidence) for label in prediction.labels]
    row["entities"] = [
        {"id": one.id, "type": one.type, "start": one.start, "end": one.end, "confidence": rounded(one.confidence)}
        for one in prediction.entities
    ]
    row["relations"] = [
        {"type": one.type, "head": one.head, "tail": one.tail, "confidence": rounded(one.confidence)}
        for one in prediction.relations
    ]
    row |= {"source": placed.document.source, "language": placed.document.language}
    kept = {key: value for key, value in row.items() if value or key in ("id", "text")}
    yield json.dumps(kept, ensure_ascii=False) + "\n"


def _findings(_placed: Placed, prediction: Prediction) -> Iterator[str]:
    """A row per finding; of a relation the head comes first."""
    for label in prediction.labels:
        yield _row((prediction.id, "label", label.name, str(rounded(label.confidence)), "", "", "", "", "", ""))
    for one in prediction.entities:
        yield _row(
            (prediction.id, "entity", one.type, str(rounded(one.confidence)), *_at(prediction, one.id), "", "", "")
        )
    for link in prediction.relations:
        ends = (*_at(prediction, link.head), *_at(prediction, link.tail))
        yield _row((prediction.id, "relation", link.type, str(rounded(link.confidence)), *ends))


def _notes(system: str) -> Lines:
    today = datetime.now(UTC).date().isoformat()

    def rows(_placed: Placed, prediction: Prediction) -> Iterator[str]:
        for one in prediction.entities:
            around = prediction.text[max(one.start - AROUND, 0) : one.end + AROUND]
            modifiers = [f"type={one.type}", f"confidence={rounded(one.confidence)}"]
            modifiers += [
                f"{link.type}={'-'.join(_at(prediction, link.tail)[:2])}"
                for link in prediction.relations
                if link.head == one.id
            ]
            yield _row((
                prediction.id, NO_CONCEPT, around, str(one.start), prediction.words(one.id), NO_CONCEPT,
                system, today, "", "", "; ".join(modifiers),
            ), narrow=(2, 4, 6))  # fmt: skip

    return rows


def _document(placed: Placed, prediction: Prediction, losses: Problems) -> Document:
    """What was found as annotations."""
    count = len(prediction.labels) + len(prediction.entities) + len(prediction.relations)
    lost(placed, losses, "confidence", count)
    labels = tuple(label.name for label in prediction.labels)
    return Document(prediction.id, prediction.text, labels, prediction.entities, prediction.relations)


def _at(prediction: Prediction, name: str) -> tuple[str, str, str]:
    entity = prediction.entities[prediction.places[name]]
    return str(entity.start), str(entity.end), prediction.words(name)


def _row(cells: tuple[str, ...], narrow: tuple[int, ...] = ()) -> str:
    line = io.StringIO(newline="")
    safe = [guarded(cell)[:CELL] if at in narrow else guarded(cell) for at, cell in enumerate(cells)]
    csv.writer(line, lineterminator="\r\n").writerow(safe)
    return line.getvalue()
