"""What was found, written: JSONL, CSV, BRAT, Label Studio, doccano, OMOP's NOTE_NLP or FHIR (docs/predict.md has all).

    with written("jsonl", Path("predictions.jsonl"), system="wardround 0.2.0", losses=Problems()) as sink:
        sink(placed, prediction)

For annotation tools these are pre-annotations: with scores and the name of the model (`system`), for a person to
correct.

A file takes its name only when it is complete. What a format has no place for is noted in `losses`. No cell of CSV or
OMOP begins a formula: an apostrophe stands before it (`formats/spreadsheet.py` takes it away again).
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from wardround.formats.brat import write_brat
from wardround.formats.details import joined_concepts
from wardround.formats.doccano import doccano_row
from wardround.formats.jsonl import json_row
from wardround.formats.label_studio import label_studio_array
from wardround.formats.options import Options
from wardround.formats.spreadsheet import guarded
from wardround.formats.writing import lost, text_file
from wardround.text.document import Document, Entity, Placed
from wardround.text.prediction import Prediction, rounded
from wardround.text.reading import DataError, Problems
from wardround.trained.fhir_findings import Resources, bundle
from wardround.trained.note_nlp import NO_CONCEPT, NOTE_NLP, Concepts, note_rows

Sink = Callable[[Placed, Prediction], object]
Lines = Callable[[Placed, Prediction], Iterator[str]]

CSV = (
    "id", "kind", "type", "confidence", "start", "end", "text", "tail_start", "tail_end", "tail_text", "given",
    "concepts", "attributes",
)  # fmt: skip
CELL = 250  # characters that OMOP's columns hold


@contextmanager
def written(
    to: str,
    path: Path | None,
    *,
    system: str,
    losses: Problems,
    concepts: Concepts | None = None,
    resources: Resources | None = None,
) -> Iterator[Sink]:
    """A sink for predictions; without a path they go to standard output."""
    if path is not None and path.exists() and (to != "brat" or not path.is_dir() or any(path.iterdir())):
        raise DataError(path, None, "exists already", "name another, or remove it first")
    if to == "brat":
        if path is None:
            raise DataError("--to brat", None, "makes a folder", "name it with --out")
        with write_brat(path, losses, Options()) as brat:
            yield lambda placed, prediction: brat(placed._replace(document=_document(placed, prediction, system)))
        return
    with _stream(path) as write:
        if to == "label-studio":
            with label_studio_array(write) as add:
                yield lambda placed, prediction: add(_document(placed, prediction, system))
            return
        head, lines = {
            "jsonl": ("", _json(system)),
            "csv": (_row(CSV), _findings),
            "doccano": ("", _doccano(system)),
            "fhir": ("", _bundles(system, resources or Resources())),
            "omop": (_row(NOTE_NLP), _notes(system, concepts, losses)),
        }[to]
        heads = [head]  # written with the first text: what fails before leaves nothing, on standard output too

        def sink(placed: Placed, prediction: Prediction) -> None:
            while heads:
                write(heads.pop())
            for line in lines(placed, prediction):
                write(line)

        yield sink
        write("".join(heads))


@contextmanager
def _stream(path: Path | None) -> Iterator[Callable[[str], object]]:
    """What takes the text: a fresh file, or standard output."""
    if path is None:
        stream = sys.stdout.buffer
        yield lambda text: stream.write(text.encode())
        stream.flush()
    else:
        with text_file(path) as write:
            yield write


def _json(system: str) -> Lines:
    """Our own form, which can be read again; each finding has its confidence."""

    def lines(placed: Placed, prediction: Prediction) -> Iterator[str]:
        yield (
            json.dumps(json_row(_document(placed, prediction, system), always=("id", "text")), ensure_ascii=False)
            + "\n"
        )

    return lines


def _doccano(system: str) -> Lines:
    def lines(placed: Placed, prediction: Prediction) -> Iterator[str]:
        yield json.dumps(doccano_row(_document(placed, prediction, system)), ensure_ascii=False) + "\n"

    return lines


def _bundles(system: str, resources: Resources) -> Lines:
    """A Bundle per line."""

    def lines(placed: Placed, prediction: Prediction) -> Iterator[str]:
        yield json.dumps(bundle(placed, prediction, system, resources), ensure_ascii=False) + "\n"

    return lines


def _findings(_placed: Placed, prediction: Prediction) -> Iterator[str]:
    """A row per finding; of a relation the head comes first."""
    for label in prediction.labels:
        yield _row((prediction.id, "label", label.name, str(rounded(label.confidence)), *[""] * 9))
    for one in prediction.entities:
        attributes = "; ".join(f"{name}={value}" for name, value in one.attributes)
        more = "yes" if one.given else "", joined_concepts(one.concepts), attributes
        yield _row((prediction.id, "entity", one.type, _sure(one), *_at(prediction, one.id), "", "", "", *more))
    for link in prediction.relations:
        ends = (*_at(prediction, link.head), *_at(prediction, link.tail))
        yield _row((prediction.id, "relation", link.type, str(rounded(link.confidence)), *ends, "", "", ""))


def _digits(confidence: float | None) -> float | None:
    return None if confidence is None else rounded(confidence)


def _sure(entity: Entity) -> str:
    """Confidence, unless nobody has said."""
    return "" if entity.given and entity.confidence is None else str(rounded(entity.confidence))


def _notes(system: str, concepts: Concepts | None, losses: Problems) -> Lines:
    def lines(placed: Placed, prediction: Prediction) -> Iterator[str]:
        lost(placed, losses, "labels", len(prediction.labels))
        for row in note_rows(prediction, system, concepts):
            lost(
                placed,
                losses,
                "entities that the mapping lacks, written as 0",
                int(bool(concepts) and row[5] == NO_CONCEPT),
            )
            yield _row(row, narrow=(2, 4, 6))

    return lines


def _document(placed: Placed, prediction: Prediction, system: str) -> Document:
    """What was found, as a document."""
    return Document(
        prediction.id,
        prediction.text,
        tuple(label.name for label in prediction.labels),
        tuple(replace(one, confidence=_digits(one.confidence)) for one in prediction.entities),
        tuple(replace(one, confidence=_digits(one.confidence)) for one in prediction.relations),
        placed.document.source,
        placed.document.language,
        placed.document.patient,
        confidence=tuple(rounded(label.confidence) for label in prediction.labels),
        model=system,
    )


def _at(prediction: Prediction, name: str) -> tuple[str, str, str]:
    entity = prediction.entities[prediction.places[name]]
    return str(entity.start), str(entity.end), prediction.words(name)


def _row(cells: tuple[str, ...], narrow: tuple[int, ...] = ()) -> str:
    line = io.StringIO(newline="")
    safe = [guarded(cell)[:CELL] if at in narrow else guarded(cell) for at, cell in enumerate(cells)]
    csv.writer(line, lineterminator="\r\n").writerow(safe)
    return line.getvalue()
