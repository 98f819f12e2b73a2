"""Which texts are predicted on: a note is a note, and an export is read as one, whatever its name."""

from pathlib import Path

import pytest

from wardround.formats.options import Options
from wardround.text.reading import Problems
from wardround.trained.source import read_texts

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
