"""No cell that we write is a formula to a spreadsheet, and what was written comes back."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.formats.options import Options
from wardround.formats.spreadsheet import guarded, plain
from wardround.formats.tables import Table, write_csv, write_tsv
from wardround.text.document import Document, Entity, Placed
from wardround.text.prediction import OUTPUTS, Label, Prediction
from wardround.text.reading import Problems
from wardround.trained.outputs import written

CANARIES = (
    '=HYPERLINK("http://x")',
    "+1 tablet",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    "'=1",
    '"=1"',
    " =1+1",
    '" @x',
    "''-x",
    "-",
)
NUMBERS = ("-0.5", "+3", "-1e-05", "7", "-.5")


def dangerous(cell: str) -> bool:
    """Also behind quotes, which TSV does not double, and blanks, which some programs take away."""
    return cell not in NUMBERS and cell.lstrip('" ')[:1] in {
        "=",
        "+",
        "-",
        "@",
        "\t",
        "\r",
        "\n",
        "＝",
        "＋",
        "－",
        "＠",
    }


@pytest.mark.parametrize("canary", CANARIES)
def test_a_cell_never_begins_a_formula(canary: str) -> None:
    assert not dangerous(guarded(canary))
    assert canary == plain(guarded(canary))


@pytest.mark.parametrize("number", [*NUMBERS, "", "metformin", "'tis", "a=b"])
def test_numbers_and_ordinary_words_stay_as_they_are(number: str) -> None:
    assert number == guarded(number) == plain(number)


@given(st.text(st.sampled_from("'=+-@\t\r\n＝1.eE ab"), max_size=8))
def test_every_text_comes_back(text: str) -> None:
    assert text == plain(guarded(text))


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_tables_are_read_back_as_they_were(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a.{form}"
    texts = [text for text in CANARIES if form == "csv" or not set(text) & set("\t\r\n")]
    with (write_csv if form == "csv" else write_tsv)(path, Problems(), Options()) as sink:
        for number, text in enumerate(texts):
            sink(Placed(Document(f"={number}", f"{text} x", ("@label",), (), (), "-source"), path, number + 1))
    with path.open(encoding="utf-8", newline="") as file:
        plainly = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = csv.reader(file) if form == "csv" else plainly
        cells = [cell for row in rows for cell in row]
    assert len(cells) == 5 * (len(texts) + 1)
    assert not any(map(dangerous, cells))
    table = Table(files={"all": path}, format=form, id="id", source="source")  # type: ignore[arg-type]
    documents = [placed.document for placed in table.placed("all", Problems())]
    assert [f"{text} x" for text in texts] == [document.text for document in documents]
    assert {("@label",)} == {document.labels for document in documents}
    assert {"-source"} == {document.source for document in documents}


def test_others_apostrophes_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("text,label\n'-5 mg,a\n", encoding="utf-8")
    table = Table(files={"all": path}, format="csv")
    assert ["'-5 mg"] == [placed.document.text for placed in table.placed("all", Problems())]


@pytest.mark.parametrize("to", [to for to in OUTPUTS if to in ("csv", "omop")])
def test_what_predict_writes_begins_no_formula(tmp_path: Path, to: str) -> None:
    path = tmp_path / "found.csv"
    with written(to, path, system="=system", losses=Problems()) as sink:
        for canary in CANARIES:
            labels, entities = (Label("@sick", 0.5),), (Entity("T1", "-type", 0, len(canary), 0.25),)
            told = Prediction(canary, labels, entities, id=f"={canary}")
            sink(Placed(Document(told.id, told.text), path, 1), told)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert not any(dangerous(cell) for row in rows for cell in row)
    column = rows[0].index("text" if to == "csv" else "lexical_variant")
    assert list(CANARIES) == [plain(row[column]) for row in rows[1:] if row[column]]
