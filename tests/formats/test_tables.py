"""Tables give the texts and labels they hold; what is wrong is named by file and line, never by its text."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.corpora.views import LabelledTexts
from wardround.formats.check import check
from wardround.formats.options import Options
from wardround.formats.tables import HEADED, Table, table_of
from wardround.formats.unread import unread
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems

NOTE = "Patient vomited twice, no fever"


def table(tmp_path: Path, content: str | bytes, **settings: Any) -> Table:
    path = tmp_path / "notes.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Table(files={"train": path}, **{"format": "csv", **settings})


def read(tmp_path: Path, content: str | bytes, problems: Problems | None = None, **settings: Any) -> list[Document]:
    if settings.get("format") != "jsonl":
        return list(table(tmp_path, content, **settings).documents("train", problems))
    return studied(tmp_path, content, problems, **settings)


def studied(tmp_path: Path, content: str | bytes, problems: Problems | None = None, **settings: Any) -> list[Document]:
    """The same through the settings of a study."""
    (tmp_path / "notes.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    files = LabelledTexts(train="notes.txt", folder=str(tmp_path), **{"format": "csv", "test": "", **settings})
    return list(files.documents("train", problems))


def documents_and_problems(tmp_path: Path, content: str | bytes, **settings: Any) -> tuple[int, str]:
    problems = Problems()
    return len(read(tmp_path, content, problems, **settings)), str(problems)


def refused(tmp_path: Path, content: str | bytes, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(tmp_path, content, **settings)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'notes.txt'}:")
    message = message.removeprefix(f"{tmp_path / 'notes.txt'}:")
    assert "vomited" not in message
    return message


def test_csv_with_all_columns(tmp_path: Path) -> None:
    content = f'id,source,label,text\n7,ward b,GI,"{NOTE}"\n'
    assert read(tmp_path, content, language="en") == [
        Document(id="7", text=NOTE, labels=("GI",), source="ward b", language="en")
    ]


def test_other_column_names(tmp_path: Path) -> None:
    content = "nr;x,hospital,dept,note_text\n7,b,GI,fever\n"
    [document] = read(tmp_path, content, id="nr;x", source="hospital", label="dept", text="note_text")
    assert document == Document(id="7", text="fever", labels=("GI",), source="b")


@pytest.mark.parametrize("columns", [("title", "ask"), (2, 3), ("title", 3)])
def test_several_text_columns(tmp_path: Path, columns: tuple[str | int, ...]) -> None:
    [document] = read(tmp_path, "label,title,ask\nGI,Vomiting,What helps?\n", text=columns)
    assert document.text == "Vomiting\nWhat helps?"


def test_no_header_means_columns_by_number(tmp_path: Path) -> None:
    documents = read(tmp_path, "GI\tfever\nENT\tcough\n", format="tsv", header=False, label=1, text=2)
    assert [(d.id, d.labels, d.text) for d in documents] == [
        ("notes.txt:1", ("GI",), "fever"),
        ("notes.txt:2", ("ENT",), "cough"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_byte_order_mark_and_line_ends(tmp_path: Path, mark: bytes, end: str) -> None:
    """A quoted cell keeps the line end it has, and rows after it keep their true line."""
    content = f'text,label{end}"one{end}two",A{end}{end}three,B{end}'
    documents = read(tmp_path, mark + content.encode())
    assert [(d.id, d.text) for d in documents] == [("notes.txt:2", f"one{end}two"), ("notes.txt:5", "three")]


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip), max_size=5))
def test_csv_gives_back_any_text(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([["text", "label"], *([text, "A"] for text in texts)])
    assert [d.text for d in read(tmp_path_factory.mktemp("any"), out.getvalue())] == texts


@given(texts=st.lists(st.text().filter(str.strip), max_size=5))
def test_jsonl_gives_back_any_text(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Half a surrogate pair becomes one replacement character, so that offsets stay true."""
    content = "".join(json.dumps({"text": text, "label": "A"}) + "\n" for text in texts)
    expected = ["".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text) for text in texts]
    assert [d.text for d in read(tmp_path_factory.mktemp("any"), content, format="jsonl")] == expected


def test_tsv_leaves_quotes_alone_unless_told(tmp_path: Path) -> None:
    content = 'text\tlabel\n"ill"\tA\n'
    assert [d.text for d in read(tmp_path, content, format="tsv")] == ['"ill"']
    assert [d.text for d in read(tmp_path, content, format="tsv", quoting=True)] == ["ill"]


@pytest.mark.parametrize("settings", [{}, {"quoting": False}, {"format": "tsv"}])
def test_a_megabyte_in_one_cell(tmp_path: Path, settings: dict[str, Any]) -> None:
    text = "pain " * 200_000
    mark = "\t" if settings.get("format") == "tsv" else ","
    assert [d.text for d in read(tmp_path, f"text{mark}label\n{text}{mark}A\n", **settings)] == [text]


def test_no_line_end_at_the_end(tmp_path: Path) -> None:
    assert len(read(tmp_path, "text,label\nfever,A")) == 1


def test_other_encoding(tmp_path: Path) -> None:
    [document] = read(tmp_path, "text,label\n咳嗽,呼吸科\n".encode("gb18030"), encoding="gb18030")
    assert (document.text, document.labels) == ("咳嗽", ("呼吸科",))
    assert '2: byte 11 is not utf-8; it looks like gb18030 — set encoding = "gb18030"' in refused(
        tmp_path, "text,label\n咳嗽,呼吸科\n".encode("gb18030")
    )


def test_several_labels(tmp_path: Path) -> None:
    rows = ['{"text": "a", "label": ["X", "Y"]}', '{"text": "b", "label": []}', '{"text": "c", "label": 1}']
    documents = read(tmp_path, "\n".join([*rows, '{"text": "d", "label": true}']), format="jsonl")
    assert [d.labels for d in documents] == [("X", "Y"), (), ("1",), ("1",)]
    documents = read(tmp_path, "text,label\na,X|Y\nb,\nc,X\n", separator="|")
    assert [d.labels for d in documents] == [("X", "Y"), (), ("X",)]
    documents = read(tmp_path, "text,X,Y\na,1,1\nb,0,0\nc,0,1\n", flags=("X", "Y"))
    assert [d.labels for d in documents] == [("X", "Y"), (), ("Y",)]


def test_no_labels_for_prediction(tmp_path: Path) -> None:
    assert [d.labels for d in read(tmp_path, "text\nfever\n", label=None)] == [()]


def test_a_first_row_of_notes_is_not_offered_for_a_column(tmp_path: Path) -> None:
    for content in ("Chest pain,GI\nfever at night,ID\n", "chills,GI\nfever,ID\n", "lung_ca,she coughs\nrash,none\n"):
        note = content.partition(",")[0]
        message = refused(tmp_path, content, text=f"{note[:-1]}e")
        assert "did you mean" not in message
        assert f'"{note}"' not in message
        assert message.endswith("or by its number from 1 to 2, or set header = false")


def test_missing_column_offers_the_nearest(tmp_path: Path) -> None:
    content = f'NOTE_TEXT,label\n"{NOTE}",GI\n'
    assert refused(tmp_path, content, text="note_text") == '1: no column "note_text" — did you mean "NOTE_TEXT"?'
    content = json.dumps({"text": "ok", "label": "A"}) + "\n" + json.dumps({"txt": NOTE, "label": "A"})
    assert refused(tmp_path, content, format="jsonl") == '2: no "text" — did you mean "txt"?'


def test_a_forgotten_header_does_not_show_the_first_note(tmp_path: Path) -> None:
    message = refused(tmp_path, f'"{NOTE}",GI\n"{NOTE}",GI\n')
    remedy = "name the column in [corpus], or by its number from 1 to 2, or set header = false"
    assert message == f'1: no column "text" — {remedy}'
    assert refused(tmp_path, f'"{NOTE}",GI\n', header=False, text=3, label=2).startswith('1: no column "3"')


def test_a_header_is_shown_where_a_column_is_missing(tmp_path: Path) -> None:
    rows = "".join(f'{n},"{NOTE}",GI\n' for n in range(3))
    assert (
        refused(tmp_path, f"nr,frage,ward\n{rows}")
        == '1: no column "text" — name the column in [corpus]: nr, frage, ward'
    )
    message = refused(tmp_path, f"nr,frage,ward\n{rows}", text="frage")
    assert message == '1: no column "label" — name the label column in [corpus]: nr, frage, ward'


@pytest.mark.parametrize("first", ["vomited,GI", "Smith Anna,ward", "7,ward", "发热,科室", "pat1,vomited"])
def test_a_first_row_that_may_be_a_note_is_not_shown(tmp_path: Path, first: str) -> None:
    message = refused(tmp_path, f'{first}\n"{NOTE}",GI\n"{NOTE}",ENT\n')
    remedy = "name the column in [corpus], or by its number from 1 to 2, or set header = false"
    assert message == f'1: no column "text" — {remedy}'
    assert "vomited" not in refused(tmp_path, f'vomited\n"{NOTE}"\n"{NOTE}"\n')


@pytest.mark.parametrize(("sign", "called"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_signs_between_cells_are_read_and_told(tmp_path: Path, sign: str, called: str) -> None:
    """Excel writes semicolons where a comma parts a number's decimals, whatever the file is called."""
    rows = [("nr", "text", "label"), ("1,5", f"{NOTE}; well", "GI"), ("2", 'said "no"\nand left', "ENT")]
    lines = io.StringIO(newline="")
    csv.writer(lines, delimiter=sign).writerows(rows)
    problems = Problems()
    assert [(text, (label,)) for _, text, label in rows[1:]] == [
        (one.text, one.labels) for one in read(tmp_path, lines.getvalue(), problems)
    ]
    assert f"{called} between cells instead of commas: 1 (notes.txt:1)" == str(problems)


def test_a_first_line_that_names_the_sign(tmp_path: Path) -> None:
    rows = [f"a{n}|b;c,d{n}\n" for n in range(3)]
    problems = Problems()
    notes = read(tmp_path, "sep=|\r\n" + "".join(rows), problems, header=False, text=1, label=2)
    assert ["notes.txt:2", "notes.txt:3", "notes.txt:4"] == [one.id for one in notes]
    assert "other signs between cells instead of commas: 1 (notes.txt:1)" == str(problems)
    assert ["fever"] == [one.text for one in read(tmp_path, "sep=;\ntext;label\nfever;A\n", quoting=False)]


@pytest.mark.parametrize(
    "content",
    [
        f"text,label\n{NOTE.replace(',', ';')};,GI\nfever; cough,ENT\n",
        f'"text","label; code"\n"{NOTE};","GI"\n"fever; cough","ENT"\n',
        'a;text,label,"x"\nfever; cough;,GI,y\nrash,ENT,z\n',
    ],
)
def test_semicolons_in_notes_part_no_cells(tmp_path: Path, content: str) -> None:
    text = "a;text" if content.startswith("a") else "text"
    label = "label; code" if "code" in content else "label"
    assert [("GI",), ("ENT",)] == [one.labels for one in read(tmp_path, content, text=text, label=label)]


def test_a_list_of_notes_has_no_cells_to_part(tmp_path: Path) -> None:
    notes = read(tmp_path, "fever; cough\nrash; itch\nok; fine\n", header=False, text=1, label=None)
    assert ["fever; cough", "rash; itch", "ok; fine"] == [one.text for one in notes]


def test_a_table_that_could_be_two_is_refused(tmp_path: Path) -> None:
    """Canary words of the note stay in the file."""
    content = "patient, vomited;GI\nvomited, patient;ENT\n"
    message = refused(tmp_path, content, header=False, text=1, label=2)
    assert (
        "1: commas and semicolons both part the first row into cells — "
        'say which of them it is: set delimiter = "," or ";"'
    ) == message
    for sign, labels in ((";", ["GI", "ENT"]), (",", ["vomited;GI", "patient;ENT"])):
        notes = read(tmp_path, content, header=False, text=1, label=2, delimiter=sign)
        assert labels == [label for one in notes for label in one.labels]


def test_a_column_that_is_looked_for_tells_the_sign(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("a,befund;x\nvomited,fever;rash\n")
    for name, text in (("x", "rash"), ("a", "vomited")):
        assert [text] == [one.text for one in table_of(path, Options(text=name), "csv").documents("all")]


def test_one_column_asks_for_the_sign(tmp_path: Path) -> None:
    remedy = (
        'name the column in [corpus], or say what stands between its cells: set delimiter = "…", or set header = false'
    )
    assert f'1: no column "text" — {remedy}' == refused(tmp_path, f"nr|note|ward\n1|{NOTE}|GI\n")
    remedy = 'name the column in [corpus], or set format = "csv", for it has no tabs, or set header = false'
    assert f'1: no column "text" — {remedy}' == refused(tmp_path, f"nr;note\n1;{NOTE}\n", format="tsv")
    with pytest.raises(ValueError, match="delimiter = '::': should be one character"):
        LabelledTexts(format="csv", train="a", test="b", delimiter="::")


def test_a_column_that_stands_twice(tmp_path: Path) -> None:
    assert refused(tmp_path, f'text,text,label\n"{NOTE}",b,A\n') == '1: column "text" occurs twice — rename one of them'
    assert len(read(tmp_path, "text,x,x,label\na,b,c,A\n")) == 1


@pytest.mark.parametrize("row", ["vomited", "vomited,A,more"])
@pytest.mark.parametrize("quoting", [True, False])
def test_ragged_row(tmp_path: Path, row: str, quoting: bool) -> None:
    message = refused(tmp_path, f"text,label\nfever,A\n{row}\n", quoting=quoting)
    cells = row.count(",") + 1
    assert message.startswith(f"3: {cells} cells where the first row has 2 — look for a stray delimiter")


@pytest.mark.parametrize("row", ['"vomited,A', '"vomited" twice,A'])
def test_quotes_that_do_not_close(tmp_path: Path, row: str) -> None:
    """An open quote would otherwise swallow the rest of the file."""
    message = refused(tmp_path, f"text,label\nfever,A\n{row}\ncough,A\n")
    assert message.startswith("3: unreadable row: ")
    assert message.endswith("set quoting = false")


def test_empty_texts_are_counted_and_skipped(tmp_path: Path) -> None:
    assert documents_and_problems(tmp_path, "text,label\n,A\nfever,A\n  ,B\n") == (
        1,
        "row without text, skipped: 2 (notes.txt:2, notes.txt:4)",
    )


def test_repeats_are_counted_and_kept(tmp_path: Path) -> None:
    problems = Problems()
    assert 3 == len(studied(tmp_path, "id,text,label\n1,fever,A\n1,cough,A\n2,fever,A\n", problems))
    assert "repeated id: 1 (notes.txt:3)\nrepeated text: 1 (notes.txt:4)" == str(problems)


def test_a_study_finds_columns_by_their_usual_names_and_maps_labels(tmp_path: Path) -> None:
    assert ("A",) == studied(tmp_path, "Note,Class\nfever,A\n")[0].labels
    assert ("B",) == studied(tmp_path, "text,label\nfever,A\n", labels=("B",), rename={"A": "B"})[0].labels
    with pytest.raises(DataError, match='no column "label"'):
        studied(tmp_path, "text,ward\nfever,A\n")
    with pytest.raises(DataError, match=r'label "A" is not in the study — map it: rename = \{ "A" = "…" \}'):
        studied(tmp_path, "text,label\nfever,A\ncold,A\n", labels=("B",))
    with pytest.raises(DataError, match="or repair it; none of the study's is like it: are columns swapped"):
        studied(tmp_path, "text,label\nB,She has had a fever since Monday.\nB,A cold. And a cough.\n", labels=("B",))


def test_a_note_that_stands_in_both_splits_is_not_quoted_as_a_label(tmp_path: Path) -> None:
    rows = "".join(f"{'AB'[at % 2]},pain {at}\n" for at in range(30))  # the columns are swapped
    with pytest.raises(DataError, match=r"label \(a value of 6 characters\) is not in the study"):
        studied(tmp_path, f"text,label\n{rows}", test="notes.txt", labels=("A", "B"))


def test_nul_and_cut_emoji_are_counted(tmp_path: Path) -> None:
    assert documents_and_problems(tmp_path, "text,label\nfe\0ver,A\n") == (1, "NUL character: 1 (notes.txt:2)")
    assert documents_and_problems(tmp_path, r'{"text": "ill \ud83d", "label": "A"}', format="jsonl") == (
        1,
        "half a character, replaced by U+FFFD: 1 (notes.txt:1)",
    )


def test_unknown_label(tmp_path: Path) -> None:
    content = f'text,label\nfever,DRUG\n"{NOTE}",Drugs\npain,DRUG\n'
    message = refused(tmp_path, content, labels=("DRUG", "GI"))
    assert message == '3: unknown label (a value of 5 characters) — did you mean "DRUG"?'  # it occurs once
    message = refused(tmp_path, content, labels=("GI", "ENT"))
    assert message == '2: unknown label "DRUG" — known are 2 others; add or map it'


def test_a_note_in_the_label_column_is_not_shown(tmp_path: Path) -> None:
    message = refused(tmp_path, f'label,text\n"{NOTE}",GI\n', labels=("GI",))
    assert message.startswith(f"2: unknown label (a value of {len(NOTE)} characters)")


def test_other_label_troubles(tmp_path: Path) -> None:
    assert refused(tmp_path, "text,label\nvomited,\n").startswith("2: empty label")
    assert refused(tmp_path, '{"text": "vomited", "label": null}', format="jsonl").startswith("1: label is a None")
    assert refused(tmp_path, "text,X\nvomited,yes\n", flags=("X",)).startswith('2: flag "X" is neither 0 nor 1')


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('{"text": "vomited', "not JSON at character 10"),
        ('["vomited"]', "a JSON list"),
        ('{"text": ["vomited"], "label": "A"}', '"text" is a list'),
    ],
)
def test_bad_jsonl(tmp_path: Path, row: str, what: str) -> None:
    message = refused(tmp_path, '{"text": "a", "label": "A"}\n\n' + row, format="jsonl")
    assert message.startswith(f"3: {what}")


def test_empty_file_and_header_only(tmp_path: Path) -> None:
    assert "the file is empty" in refused(tmp_path, "")
    assert read(tmp_path, "text,label\n") == []
    assert read(tmp_path, "", format="jsonl") == []


def test_reading_is_a_stream(tmp_path: Path) -> None:
    """The first document is there before the broken last line is reached."""
    documents = table(tmp_path, b"text,label\nfever,A\n" + b"x,A\n" * 200_000 + b"\xff,A\n").documents("train")
    assert next(documents).text == "fever"


def test_splits(tmp_path: Path) -> None:
    assert table(tmp_path, "").splits == ("train",)
    with pytest.raises(ValueError, match='no split "test"'):
        next(table(tmp_path, "").documents("test"))


def test_columns_that_nothing_is_read_from_are_listed_and_offered(tmp_path: Path) -> None:
    rows = "".join(
        f'the patient coughs {i},{"flu" if i % 3 else "cold"},{i % 2},{int(i % 5 == 0)},"[{{""start"": {i}}}]"\n'
        for i in range(30)
    )
    path = tmp_path / "notes.csv"
    path.write_text(f"text,diagnosis_group,fever,rash,spans\n{rows}", encoding="utf-8")
    (one,) = [finding for finding in check(path, Options()).findings.listed if "not read" in finding.what]
    assert 'columns that are not read: "diagnosis_group", "fever", "rash", "spans"' == one.what
    assert "--label-column diagnosis_group" in one.remedy
    assert 'flags = ["fever", "rash"]' in one.remedy
    assert "entities? they are read from JSONL" in one.remedy
    assert not one.lost
    findings = check(path, Options(label="diagnosis_group")).findings.listed
    assert "--label-column" not in " ".join(finding.remedy for finding in findings)


def test_of_an_unread_column_nothing_of_a_note_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    long = "the patient was seen by the ward at noon and sent home"
    path.write_text(f"text,{long}\n" + f"coughs,{long}\n" * 12, encoding="utf-8")
    told = " ".join(f"{found.what} {found.remedy}" for found in check(path, Options()).findings.listed)
    assert "columns that are not read: (not shown)" in told
    assert long not in told


def test_columns_that_are_read_by_their_usual_names_are_not_listed_as_unread(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("text,label,patient,source,bed\nAspirin,a,p1,north,7\nIbuprofen,b,p2,south,8\n")
    assert ['columns that are not read: "bed"'] == [what for what, _ in unread(path, Options(), "csv")]
    assert ['columns that are not read: "source", "bed"'] == [
        what for what, _ in unread(path, Options(source="label"), "csv")
    ]


ROWS = [f"{at};the patient coughs since {at} days and sleeps badly;{('flu', 'cold')[at % 2]}" for at in range(20)]


@pytest.mark.parametrize("first", ["Nr;Befund;Diagnose", "病历号;主诉;科室"])
def test_a_first_row_that_looks_like_a_header_is_one_also_where_columns_are_numbered(
    first: str, tmp_path: Path
) -> None:
    """It became a text and a class."""
    path = tmp_path / "notes.csv"
    path.write_text("\n".join([first, *ROWS]) + "\n", encoding="utf-8")
    survey = check(path, Options(text=2, label=3))
    assert (20, {"flu", "cold"}) == (survey.documents, {*survey.labels})
    told = {one.what: one.remedy for one in survey.findings.listed}
    assert "set header = false if it is a row like the others" == told[HEADED]
    assert not any(word in " ".join((*told, *told.values())) for word in first.split(";"))
    assert 21 == check(path, Options(text=2, label=3, header=False)).documents
    assert HEADED not in {one.what for one in check(path, Options(text=2, label=3, header=True)).findings.listed}


@pytest.mark.parametrize(
    "first", ["20;she coughs;flu", "20;she was sent home, well;GI", "twenty;the patient rests at home;GI"]
)
def test_a_first_row_that_may_be_a_note_is_read_as_one(first: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("\n".join([first, *ROWS]) + "\n", encoding="utf-8")
    assert 21 == check(path, Options(text=2, label=3)).documents


def test_where_a_column_is_missing_those_that_look_right_are_offered_by_number(tmp_path: Path) -> None:
    message = refused(tmp_path, "\n".join(["病历号;主诉;科室", *ROWS]))
    assert "by its number from 1 to 3 (by their looks texts in 2, labels in 3)" in message
    assert not any(word in message for word in ("coughs", "flu", "主诉", "科室"))
    assert "name the id column in [corpus]" in refused(tmp_path, "a;b\n1;2", text="b", label="a", id="c")


def test_a_patient_column_that_was_named_is_read(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("text,label,whose,bed\nAspirin,a,p1,7\nIbuprofen,b,p2,8\n")
    [(what, _)] = unread(path, Options(patient="whose"), "csv")
    assert what == 'columns that are not read: "bed"'


def test_a_table_of_pairs_with_offsets_is_told_how_they_are_written(tmp_path: Path) -> None:
    rows = [f"a gene {at} and an effect,{at},{at + 4},{at + 9},{at + 15},yes" for at in range(6)]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["text,from,to,start,stop,linked", *rows]) + "\n")
    (one,) = [found for found in check(path, Options()).findings.listed if "not read" in found.what]
    assert "entities by their offsets? a table has no place for them; write a line for each text: {" in one.remedy
