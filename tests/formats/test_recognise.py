"""What a file is shows by its keys and columns: no word of a note, label or comment makes it something else."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.formats.json_values import beginning
from wardround.formats.recognise import recognised
from wardround.text.reading import DataError

TEXT = "Aspirin gave her a rash."


def form_of(folder: Path, content: str, name: str = "export") -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    try:
        return recognised(path)[0][1].name
    except DataError as error:
        assert "spirin" not in str(error)  # noqa: PT017 -- both ways out are looked at
        return error.what


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("text\tblood group\nno known allergies\tO\nrash after aspirin\tB\n", "tsv"),
        ("text\tO\nof\tO\nAspirin\tB-drug\n", "conll"),
        ("<\tO\n5\tO\nmg\tO\n", "conll"),
        ("<s>\tO\nAspirin\tB-drug\n</s>\tO\n", "conll"),
        ("[\tO\nAspirin\tB-drug\n]\tO\n", "conll"),
        ("{\tO\nAspirin\tB-drug\n}\tO\n", "conll"),
        ("Note, Aspirin gave her a rash.\n", "no format recognised"),
        ("Note, Aspirin gave her a rash.\nShe is well, and slept, too.\nNo pain.\n", "no format recognised"),
        ("note,label\n1,x\n", "csv"),
        ("<html><!-- <collection> --></html>", "XML, but no BioC collection"),
        ("<html><p>&lt;collection</p><collection/></html>", "XML, but no BioC collection"),
        ("<?xml version='1.0'?>\n<!-- <html> -->\n<!DOCTYPE collection [<!ELEMENT a (b)>]>\n<collection/>", "bioc"),
        ('{\n"note": "\\"resourceType\\": 1"\n}', "JSON over several lines"),
        ('{\n"note": "\\"passages\\": []"\n}', "JSON over several lines"),
        ('{\n"id": "1",\n"resourceType": "DocumentReference"\n}', "fhir"),
    ],
)
def test_words_decide_nothing(content: str, form: str, tmp_path: Path) -> None:
    assert form == form_of(tmp_path, content)


@pytest.mark.parametrize(
    ("more", "form"),
    [
        ({"resourceType": "letter"}, "jsonl"),
        ({"resourceType": "Letter"}, "jsonl"),
        ({"documents": ["a", "b"], "passages": [{"offset": 1}]}, "jsonl"),
        ({"Comments": TEXT}, "jsonl"),
        ({"h": 1.8, "t": 36.6, "relation": "sister"}, "jsonl"),
        ({"head": "x", "tail": "y", "relation": "z", "sentence": TEXT}, "jsonl"),
        ({"head": "x", "relation": "z", "sentences": 3}, "jsonl"),
        ({"h": {"pos": [0, 7]}, "t": {"pos": [19, 23]}, "relation": "z"}, "opennre"),
    ],
)
@pytest.mark.parametrize("array", [False, True])
def test_keys_of_ones_own_make_no_format_of_others(
    more: dict[str, object], form: str, array: bool, tmp_path: Path
) -> None:
    row = {"id": "1", "text": TEXT, **more}
    assert form == form_of(tmp_path, json.dumps([row] if array else row))


@pytest.mark.parametrize("more", [{"annotator": "ann"}, {"annotations": "none"}, {"data": TEXT}, {"completions": 1}])
def test_an_array_of_ones_own_is_not_label_studios(more: dict[str, object], tmp_path: Path) -> None:
    assert "jsonl" == form_of(tmp_path, json.dumps([{"id": 1, "text": TEXT, **more}]))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab"\\[]{},: é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"\\', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    value=st.lists(values, max_size=3) | st.dictionaries(st.text("ab", max_size=3), values, max_size=3), at=st.data()
)
def test_the_beginning_of_json_is_read_as_far_as_it_goes(value: object, at: st.DataObject) -> None:
    text = json.dumps(value)
    assert value == beginning(text + ' {"behind": 1}')
    part = beginning(text[: at.draw(st.integers(1, len(text)))])
    assert isinstance(part, type(value))
    if isinstance(part, dict) and isinstance(value, dict):
        assert [*value][: len(part)] == [*part]


PIECES = (
    "{", "}", "[", "]", '"', ",", ":", "\n", "\t", " ", "<", ">", "\\", "\x00", "\ufeff", "é", "😀", "\r", "|t|",
    '"passages": [', '"documents": [{', '"PubTator3"', '"resourceType": "Bundle"', '"entry": [{"resource": {',
    '"data": {', '"annotations": [', '"text": "Aspirin"', "text,label", "text\tlabel", "Aspirin\tB-drug", "O",
    "<collection", "<?xml ", "<!DOCTYPE x [", "<!-- ", "-->", "null", "1e999", "9" * 30, "[" * 3000, '{"a":' * 1500,
    '"start_offset": 1', "Note, ", "17|t|Aspirin",
)  # fmt: skip


def test_hostile_beginnings_are_recognised_or_refused(tmp_path: Path) -> None:
    dice = random.Random(17)  # noqa: S311 -- no secret
    for number in range(300):
        content = "".join(dice.choices(PIECES, k=dice.randint(1, 40)))
        name = dice.choice(("export", "a.json", "a.jsonl", "a.csv", "a.tsv", "a.conll", "a.xml", "a.txt"))
        assert form_of(tmp_path, content, name), number


@pytest.mark.parametrize("level", ['{"documents":[', '{"entry":[{"resource":', '{"PubTator3":['])
@pytest.mark.parametrize("depth", [3, 150, 30_000])
def test_a_beginning_is_looked_at_no_deeper_than_it_says_something(level: str, depth: int, tmp_path: Path) -> None:
    ends = "".join({"[": "]", "{": "}"}[mark] for mark in reversed(level) if mark in "[{")
    assert form_of(tmp_path, level * depth + "{}" + ends * depth) in ("jsonl", "JSON over several lines", "fhir")


def test_rows_of_the_ade_corpus_are_answered_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "DRUG-AE.rel").write_text(
        "10030778|Azithromycin-induced ototoxicity.|ototoxicity|43|54|azithromycin|22|34\n"
    )
    with pytest.raises(DataError, match='name = "ade" in') as caught:
        recognised(tmp_path / "DRUG-AE.rel")
    assert "ototoxicity" not in str(caught.value)
