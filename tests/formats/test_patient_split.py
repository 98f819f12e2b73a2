"""A patient is on one side of every split, whatever the format that names the patient."""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from wardround.clinic import Clinic
from wardround.federation.describe import describe
from wardround.federation.partition import BySource
from wardround.federation.sites import federate, opened
from wardround.federation.validation import validated
from wardround.formats.convert import convert, split
from wardround.formats.options import Options
from wardround.text.document import Document
from wardround.text.texts import Texts

SHARES = {"test": 0.3, "valid": 0.1}
ROWS = [(f"n{at}", f"Note {at} of rash.", "ab"[at % 2], f"ward {at % 2}", f"p{at % 40}") for at in range(200)]


def jsonl(rows: Iterable[object], path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def written(form: str) -> Callable[[Path], Path]:
    """The rows in a format that is written from JSONL."""

    def write(folder: Path) -> Path:
        keys = ("id", "text", "label", "source", "patient")
        source = jsonl((dict(zip(keys, row, strict=True)) for row in ROWS), folder / "source.jsonl")
        target = folder / f"notes.{ {'bioc': 'xml', 'jsonl': 'jsonl'}.get(form, 'json') }"
        convert(source, target, form, Options())
        return target

    return write


def table(form: str, between: str) -> Callable[[Path], Path]:
    """The rows as a table with a column for the patient."""

    def write(folder: Path) -> Path:
        path = folder / f"notes.{form}"
        lines = [between.join(row) for row in [("id", "text", "label", "source", "patient"), *ROWS]]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return path

    return write


def omop(folder: Path) -> Path:
    path = folder / "NOTE.csv"
    lines = [f"{row[0][1:]},{row[4][1:]},2024-01-01,{row[1]}" for row in ROWS]
    path.write_text("\n".join(["note_id,person_id,note_date,note_text", *lines, ""]), encoding="utf-8")
    return path


def opennre(folder: Path) -> Path:
    def place(text: str, word: str) -> dict[str, object]:
        at = text.index(word)
        return {"name": word, "pos": [at, at + len(word)]}

    rows = (
        {"text": text, "h": place(text, "Note"), "t": place(text, "rash"), "relation": label, "patient": patient}
        for _, text, label, _, patient in ROWS
    )
    return jsonl(rows, folder / "opennre.txt")


def fhir(folder: Path) -> Path:
    def attachment(text: str) -> dict[str, str]:
        return {"contentType": "text/plain", "data": base64.b64encode(text.encode()).decode()}

    rows = (
        {
            "resourceType": "DocumentReference", "id": name, "status": "current",
            "subject": {"reference": f"Patient/{patient}"}, "content": [{"attachment": attachment(text)}],
        }
        for name, text, _, _, patient in ROWS
    )  # fmt: skip
    return jsonl(rows, folder / "notes.ndjson")


FORMS: dict[str, Callable[[Path], Path]] = {
    **{form: written(form) for form in ("jsonl", "bioc", "bioc-json", "doccano", "label-studio")},
    "csv": table("csv", ","),
    "tsv": table("tsv", "\t"),
    "omop": omop,
    "opennre": opennre,
    "fhir": fhir,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_split_that_is_not_told_how_keeps_patients_whole(form: str, tmp_path: Path) -> None:
    _, counts = split(FORMS[form](tmp_path), tmp_path / "out", SHARES, "", 0, Options(), lossy=True)
    sides = [
        {json.loads(line)["patient"] for line in (tmp_path / "out" / f"{side}.jsonl").read_text().splitlines()}
        for side in counts
    ]
    assert (200, 40) == (sum(counts.values()), len({name for side in sides for name in side}))
    assert 40 == sum(map(len, sides))
    assert min(counts.values())


def test_documents_without_a_patient_go_by_their_text(tmp_path: Path) -> None:
    rows = [{"id": str(at), "text": f"Note {at % 50}.", "patient": "" if at % 2 else f"p{at}"} for at in range(200)]
    path = jsonl(rows, tmp_path / "notes.jsonl")
    split(path, tmp_path / "out", {"test": 0.3}, "", 0, Options())
    train, test = (
        [json.loads(line) for line in (tmp_path / "out" / f"{side}.jsonl").read_text().splitlines()]
        for side in ("train", "test")
    )
    unnamed = [{row["text"] for row in side if not row.get("patient")} for side in (train, test)]
    assert all(unnamed)
    assert not unnamed[0] & unnamed[1]


class Given:
    """A corpus of these rows, in which some patients are on two sides."""

    def names(self) -> list[str]:
        return ["all"]

    def open(self, _name: str) -> tuple[Texts, Texts]:
        def some(rows: Sequence[tuple[str, str, str, str, str]]) -> Texts:
            return Texts(tuple(Document(i, text, (label,), source=s, patient=p) for i, text, label, s, p in rows))

        return some(ROWS[:120]), some(ROWS[120:])


def test_patients_on_two_sides_are_counted_for_each_site_and_not_named() -> None:
    sites = validated(federate(opened(Given()), BySource(), seed=0), 0.2, "document", 0)
    lines = [line for line in describe(sites)["problems"] if "patients" in line]
    for name in sites.names:
        splits: list[Any] = [*sites.raw(name), sites.valid(name)]  # type: ignore[misc]
        mine, others, held = ({document.patient for document in raw.documents} for raw in splits)
        assert mine & others
        assert mine & held
        assert any("to test on" in line and f"{name}: {len(mine & others)}" in line for line in lines)
        assert any("to valid on" in line and f"{name}: {len(mine & held)}" in line for line in lines)
    assert not any(row[4] in line.split() for line in lines for row in ROWS)


def test_drawn_by_patient_within_sources_no_patient_is_on_two_sides_of_training_and_validation() -> None:
    sites = validated(federate(opened(Given()), BySource(), seed=0), 0.1, "patient", 0)
    assert not [line for line in describe(sites)["problems"] if "to train and to valid on" in line]
    assert all(len(sites.valid(name)) for name in sites.names)  # type: ignore[misc]


def test_generated_hospitals_have_other_patients_in_every_split() -> None:
    sites = opened(Clinic(hospitals=2, documents=60, valid_documents=20, test_documents=20, per_patient=3), valid=True)
    assert not [line for line in describe(sites)["problems"] if "patients" in line]
