"""FHIR's DocumentReferences: hand-made resources in, documents out."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from wardround.formats import fhir
from wardround.formats.fhir import ELSEWHERE, LOST, NO_TEXT, OTHER, read_fhir
from wardround.formats.options import Options
from wardround.formats.recognise import recognised
from wardround.text.document import Document
from wardround.text.reading import DataError, Problems

NOTE = "Ihr Ödem ist zurück 😀.\nAspirin gab Ausschlag."


def attachment(text: str = NOTE, charset: str = "utf-8", **more: Any) -> dict[str, Any]:
    data = base64.b64encode(text.encode(charset)).decode()
    return {"attachment": {"contentType": f"text/plain; charset={charset}", "data": data, **more}}


def reference(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference", "id": "17", "status": "current", "language": "de-AT",
        "subject": {"reference": "Patient/4"}, "custodian": {"identifier": {"value": "ward b"}},
        "content": list(content), **more,
    }  # fmt: skip


def bundle(*resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    entries = [{"fullUrl": f"urn:uuid:{at}", "resource": one} for at, one in enumerate(resources)]
    return {"resourceType": "Bundle", "type": "collection", "entry": entries, **more}


def read(path: Path, *lines: Any, indent: int | None = None) -> tuple[list[Document], Problems]:
    path.write_text("\n".join(json.dumps(line, indent=indent) for line in lines) + "\n", encoding="utf-8")
    problems = Problems()
    return [placed.document for placed in read_fhir(path, problems, Options())], problems


def test_the_text_of_an_attachment_is_read_with_patient_source_and_language(tmp_path: Path) -> None:
    documents, problems = read(tmp_path / "a.json", reference(attachment()))
    assert [Document("17", NOTE, source="ward b", language="de", patient="Patient/4")] == documents
    assert "" == str(problems)


@pytest.mark.parametrize("indent", [None, 2])
def test_bundles_are_opened_on_one_line_or_many_and_what_else_is_in_them_is_counted(
    tmp_path: Path, indent: int | None
) -> None:
    inner = bundle(reference(attachment("b"), id="2"))
    content = bundle({"resourceType": "Patient", "id": "4"}, reference(attachment("a")), inner)
    documents, problems = read(tmp_path / "a.json", content, indent=indent)
    assert [("17", "a"), ("2", "b")] == [(one.id, one.text) for one in documents]
    assert {OTHER: 1} == problems.counts


def test_base64_may_stand_on_several_lines(tmp_path: Path) -> None:
    whole = attachment()
    data = whole["attachment"]["data"]
    whole["attachment"]["data"] = "\n ".join(data[at : at + 8] for at in range(0, len(data), 8))
    documents, _ = read(tmp_path / "a.json", reference(whole))
    assert [NOTE] == [one.text for one in documents]


def test_of_a_bundle_the_entry_is_named_and_texts_without_an_id_get_different_ones(tmp_path: Path) -> None:
    odd = reference({"attachment": {"contentType": "text/plain", "data": "§"}}, id="pt-9")
    texts = [reference(attachment(text), id=None) for text in "ab"]
    path = tmp_path / "a.json"
    with pytest.raises(DataError, match=r"a\.json:1 \(DocumentReference pt-9\): an attachment's data are not base64"):
        read(path, bundle(*texts, odd))
    documents, problems = read(path, bundle(*texts, {"resourceType": "Mrs Smith", "id": "4"}))
    assert ["a.json:1", "a.json:1.2"] == [one.id for one in documents]
    assert f"{OTHER}: 1 (a.json:1 (entry number 3))" == str(problems)


def test_lines_of_resources_are_read_one_by_one(tmp_path: Path) -> None:
    documents, _ = read(tmp_path / "a.ndjson", reference(attachment("a")), reference(attachment("b"), id="18"))
    assert [("17", "a"), ("18", "b")] == [(one.id, one.text) for one in documents]


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_the_charset_of_an_attachment_is_heeded(tmp_path: Path, charset: str) -> None:
    (document,), _ = read(tmp_path / "a.json", reference(attachment("Ödem", charset)))
    assert "Ödem" == document.text


def test_binaries_of_the_bundle_and_contained_ones_are_found_and_nothing_is_fetched(tmp_path: Path) -> None:
    data = base64.b64encode(b"far away").decode()
    binary = {"resourceType": "Binary", "id": "9", "contentType": "text/plain", "data": data}
    far, near, gone = (
        {"attachment": {"contentType": "text/plain", "url": url}}
        for url in ("Binary/9", "#c", "https://ehr.example/Binary/1")
    )
    contained = [{**binary, "id": "c", "data": base64.b64encode(b"inside").decode()}]
    documents, problems = read(tmp_path / "a.json", bundle(reference(far, near, gone, contained=contained), binary))
    assert [("17", "far away"), ("17-2", "inside")] == [(one.id, one.text) for one in documents]
    assert {ELSEWHERE: 1} == problems.counts


def test_other_attachments_and_what_was_entered_in_error_are_left_out_and_counted(tmp_path: Path) -> None:
    picture = {"attachment": {"contentType": "application/pdf", "data": "JVBERi0="}}
    wrong = reference(attachment("wrong"), id="3", status="entered-in-error")
    documents, problems = read(tmp_path / "a.ndjson", reference(picture, attachment("a")), wrong)
    assert ["a"] == [one.text for one in documents]
    assert {NO_TEXT: 1, LOST: 1} == problems.counts


def test_a_hash_is_checked(tmp_path: Path) -> None:
    right = base64.b64encode(hashlib.sha1(b"a", usedforsecurity=False).digest()).decode()
    assert read(tmp_path / "a.json", reference(attachment("a", hash=right)))[0]
    with pytest.raises(DataError, match="hash is not that of its data"):
        read(tmp_path / "b.json", reference(attachment("Zanzibar", hash=right)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": "not base64!"}, "not base64"),
        ({"data": 12345678, "contentType": "text/plain; charset=latin-1"}, "not base64"),
        ({"hash": 5}, "hash is not that of its data"),
        ({"contentType": "text/plain; charset=us-ascii"}, "not us-ascii at byte 4"),
        ({"contentType": "text/plain; charset=ebcdic-x"}, "charset is not known"),
    ],
)
def test_what_cannot_be_read_is_told_without_a_word_of_it(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    content = attachment()
    content["attachment"] |= changed
    with pytest.raises(DataError, match=message) as refused:
        read(tmp_path / "a.json", reference(content))
    assert "Aspirin" not in str(refused.value)


@pytest.mark.parametrize("indent", [None, 1])
def test_the_format_is_recognised(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(bundle(reference(attachment())), indent=indent), encoding="utf-8")
    assert ["fhir"] == [form.name for _, form in recognised(path)]


@pytest.mark.parametrize(
    "charset", ["idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf\0", "zip", "x" * 9999]
)
def test_a_charset_that_is_none_is_refused_and_the_note_stays_unsaid(tmp_path: Path, charset: str) -> None:
    odd = attachment(contentType=f"text/plain; charset={charset}")
    with pytest.raises(DataError, match="an attachment") as refused:
        read(tmp_path / "a.json", reference(odd))
    assert "Aspirin" not in str(refused.value)


def test_half_a_character_in_names_does_not_end_the_reading(tmp_path: Path) -> None:
    (document,), _ = read(tmp_path / "a.json", reference(attachment(language="\ud800"), id="\ud800"))
    assert ("\ufffd", "\ufffd") == (document.id, document.language)


@pytest.mark.parametrize("lines", ["{}", "{}\n"], ids=["on a line", "over lines"])
@pytest.mark.parametrize("depth", [100, 400, 100_000])
def test_bundles_in_bundles_are_read_or_refused_at_whatever_depth(tmp_path: Path, depth: int, lines: str) -> None:
    opened = lines.format('{"resourceType":"Bundle","entry":[{"resource":') * depth
    path = tmp_path / "a.json"
    path.write_text(opened + json.dumps(reference(attachment())) + "}]}" * depth, encoding="utf-8")
    if depth < 200:
        assert [NOTE] == [placed.document.text for placed in read_fhir(path, Problems(), Options())]
    else:
        with pytest.raises(DataError, match="too deep"):
            list(read_fhir(path, Problems(), Options()))


def test_one_resource_over_lines_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fhir, "MOST", 500)
    with pytest.raises(DataError, match="more than 500 characters — export it as one resource per line"):
        read(tmp_path / "a.json", bundle(*[reference(attachment())] * 5), indent=1)
    lines = [reference(attachment(), id=str(at)) for at in range(50)]
    assert 50 == len(read(tmp_path / "b.ndjson", *lines)[0])
