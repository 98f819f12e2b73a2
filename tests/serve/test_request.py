"""What a request may ask, and that no refusal quotes it."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from wardround.serve.request import Refused, request
from wardround.text.document import Document, Entity

WORDS = "Zanzibar fever"


def test_a_text_with_entities_becomes_a_document() -> None:
    body = {"text": "😀 Aspirin", "entities": [{"type": "drug", "start": 2, "end": 9}]}
    expected = Document("", "😀 Aspirin", entities=(Entity("0", "drug", 2, 9),))
    assert ((expected,), False) == request(json.dumps(body).encode())
    assert ((expected, expected), True) == request(json.dumps({"texts": [body, body]}).encode())


@pytest.mark.parametrize(
    ("body", "code", "key"),
    [
        ("", "not_json", ""),
        (f'{{"text": "{WORDS}', "not_json", ""),
        ("[" * 100_000, "not_json", ""),
        (f'{{"text": {"9" * 5000}}}', "not_json", ""),
        (f'"{WORDS}"', "wrong_value", ""),
        ([WORDS], "wrong_value", ""),
        ({}, "missing_key", "text"),
        ({"text": None}, "wrong_value", "text"),
        ({"text": [WORDS]}, "wrong_value", "text"),
        ({"text": f"{WORDS} \ud83d"}, "wrong_value", "text"),
        ({"txt": WORDS}, "unknown_key", ""),
        ({"text": "", WORDS: 1}, "unknown_key", ""),
        ({"text": WORDS, "entities": {}}, "wrong_value", "entities"),
        ({"text": WORDS, "entities": [WORDS]}, "wrong_value", "entities[0]"),
        ({"text": WORDS, "entities": [{"type": "x", "start": 0}]}, "missing_key", "entities[0].end"),
        ({"text": WORDS, "entities": [{"type": "", "start": 0, "end": 1}]}, "wrong_value", "entities[0].type"),
        ({"text": WORDS, "entities": [{"type": "x", "start": True, "end": 1}]}, "wrong_value", "entities[0].start"),
        ({"text": WORDS, "entities": [{"type": "x", "start": 0.0, "end": 1}]}, "wrong_value", "entities[0].start"),
        ({"text": WORDS, "entities": [{"type": "x", "start": 1, "end": 1}]}, "wrong_value", "entities[0]"),
        ({"text": WORDS, "entities": [{"type": "x", "start": 0, "end": 99}]}, "wrong_value", "entities[0]"),
        ({"text": WORDS, "entities": [{"kind": "x", "start": 0, "end": 1}]}, "unknown_key", ""),
        ({"texts": WORDS}, "wrong_value", "texts"),
        ({"texts": [WORDS]}, "wrong_value", "texts[0]"),
        ({"texts": [], "text": WORDS}, "unknown_key", ""),
        ({"texts": [{"text": WORDS}, {"text": WORDS, "entities": [{}]}]}, "missing_key", "texts[1].entities[0].type"),
    ],
)
def test_what_is_wrong_is_named_by_its_key_and_never_quoted(body: Any, code: str, key: str) -> None:
    with pytest.raises(Refused) as refused:
        request((body if isinstance(body, str) else json.dumps(body)).encode())
    assert (422, code, key) == (refused.value.status, refused.value.code, refused.value.key)
    assert WORDS not in json.dumps(refused.value.plain())


def test_what_is_not_utf8_is_refused() -> None:
    with pytest.raises(Refused, match="not UTF-8 at byte 10"):
        request(b'{"text": "\xff"}')


def test_a_key_that_is_misspelt_gets_its_nearest_name() -> None:
    with pytest.raises(Refused, match=r"the body has an unknown key of 4 characters; did you mean text\?"):
        request(b'{"Text": ""}')


scalars = some.one_of(some.none(), some.booleans(), some.integers(-5, 50), some.floats(), some.text(max_size=5))
keys = some.sampled_from(["text", "texts", "entities", "type", "start", "end", "id"])
anything = some.recursive(scalars, lambda inner: some.one_of(some.lists(inner), some.dictionaries(keys, inner)))


@given(anything)
def test_whatever_comes_is_a_document_or_refused(body: Any) -> None:
    with suppress(Refused):
        for document in request(json.dumps(body).encode()).documents:
            assert all(entity.start < entity.end <= len(document.text) for entity in document.entities)
