"""Which texts are predicted on: a note is a note, and an export is read as one, whatever its name."""

from pathlib import Path

import pytest

from wardround.formats.options import Options
from wardround.text.reading import Problems
from wardround.trained.source import as_trained, read_texts

PUBTATOR = "1|t|Aspirin\n1|a|A rash.\n\n2|t|Ibuprofen\n2|a|No rash.\n"
CONLL = "Aspirin\tB-drug\nhelped\tO\n\nNo\tO\nrash\tB-effect\n"


def texts(path: Path, form: str = "") -> int:
    """How many texts there are."""
    return len(list(read_texts(path, Problems(), Options(labelled=False), form)))


@pytest.mark.parametrize("content", [PUBTATOR, CONLL, '{"text": "Aspirin"}\n{"text": "A rash."}\n'])
def test_an_export_with_the_name_of_a_note_is_not_one_text(tmp_path: Path, content: str) -> None:
    path = tmp_path / "export.txt"
    path.write_text(content)
    assert (texts(path), texts(tmp_path), texts(path, "text")) == (2, 2, 1)


@pytest.mark.parametrize("note", ["Blood group O", "text, label\nAspirin, none", "{odd} note\nof two lines", "[sic]"])
def test_a_note_stays_one_text(tmp_path: Path, note: str) -> None:
    path = tmp_path / "note.txt"
    path.write_text(note)
    assert (texts(path), texts(tmp_path)) == (1, 1)


TRAINED = '[corpus]\ntext = "satz"\nid = "no"\nsource = "hospital"\npatient = "who"\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "no,satz,hospital,who\nn1,No pain.,north,p1\n", ("n1", "north", "p1")),
        ("a.csv", "satz,hospital\nNo pain.,north\n", ("a.csv:2", "north", "")),
        ("a.csv", "text,source\nNo pain.,south\n", ("a.csv:2", "south", "")),
        ("a.jsonl", '{"satz": "No pain.", "hospital": "north", "no": 7}', ("7", "north", "")),
        ("a.jsonl", '{"text": "No pain.", "source": "south", "id": "n2"}', ("n2", "south", "")),
        (
            "a.json",
            '[{"id": 1, "data": {"satz": "No pain.", "hospital": "north"}, "annotations": []}]',
            ("1", "north", ""),
        ),
    ],
)
def test_id_source_and_patient_are_read_as_in_training_where_a_file_has_them(
    name: str, content: str, expected: tuple[str, str, str], tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(TRAINED)
    (tmp_path / name).write_text(content)
    options = as_trained(tmp_path / name, Options(labelled=False), "", [tmp_path])
    (placed,) = read_texts(tmp_path / name, Problems(), options)
    document = placed.document
    assert ("No pain.", *expected) == (document.text, document.id, document.source, document.patient)
    named = as_trained(tmp_path / name, Options(source="text", text="text"), "", [tmp_path])
    assert ("text", "text") == (named.text, named.source)


@pytest.mark.parametrize(
    ("text", "patient"), [('"satz"', "2"), ("2", "1"), ('"satz"', '["who"]'), ('"satz"', "{ who = 1 }")]
)
def test_a_number_or_nonsense_names_no_patient_of_a_table_with_names(text: str, patient: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(f"[corpus]\ntext = {text}\npatient = {patient}\n")
    (tmp_path / "a.csv").write_text("text,diagnosis\nNo pain.,flu\n")
    assert Options() == as_trained(tmp_path / "a.csv", Options(), "", [tmp_path])
