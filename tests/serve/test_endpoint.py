"""The endpoint on a real server: what it answers, what it refuses, and that it is as its schema says."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft202012Validator

from serving import JSON, Relates, Scripted, send, served
from wardround.clinic import Clinic
from wardround.core.wanted import go_on
from wardround.serve.desk import READ, WAITING, Desk
from wardround.serve.guard import Guarded
from wardround.serve.request import ENTITIES
from wardround.serve.server import TimedConnection
from wardround.text.document import Document
from wardround.text.prediction import Prediction
from wardround.trained.model import load

WORDS = "Zanzibar fever"
NOTE = "\n".join(document.text for document in Clinic(hospitals=1, documents=5).stream("hospital-0", "train"))


@pytest.fixture(scope="module")
def place(tagger: Path) -> Iterator[str]:
    with served(Desk(load(tagger))) as address:
        yield address


@pytest.fixture(scope="module")
def scripted(tagger: Path) -> Scripted:
    return Scripted(load(tagger).parts)


@pytest.fixture(scope="module")
def schema(place: str) -> dict[str, Any]:
    answer: dict[str, Any] = send(place, "/openapi.json")[2]
    return answer


def check(schema: dict[str, Any], path: str, status: int, answer: Any, method: str = "post") -> None:
    """Compare an answer with what the schema says of this path and status."""
    response = schema["paths"][path][method]["responses"][str(status)]
    if "$ref" in response:
        response = schema["components"]["responses"][response["$ref"].rpartition("/")[2]]
    whole = {**response["content"]["application/json"]["schema"], "components": schema["components"]}
    Draft202012Validator(whole).validate(answer)


def test_an_answer_is_what_the_model_says_in_the_form_of_the_schema(
    place: str, schema: dict[str, Any], tagger: Path
) -> None:
    status, _, answer = send(place, "/predict", {"text": f"😀 {NOTE}"})
    check(schema, "/predict", status, answer)
    assert {**load(tagger)(f"😀 {NOTE}").plain(), "cut": 0} == answer
    assert len(answer["entities"]) > 5
    assert all(f"😀 {NOTE}"[one["start"] : one["end"]] == one["words"] for one in answer["entities"])


def test_the_schema_itself_is_sound_and_every_path_is_there(place: str, schema: dict[str, Any]) -> None:
    assert "3.1.0" == schema["openapi"]
    for one in schema["components"]["schemas"].values():
        Draft202012Validator.check_schema(one)
    for path in ("/model", "/health", "/openapi.json"):
        status, _, answer = send(place, path)
        check(schema, path, status, answer, "get")
    assert "# served" in send(place, "/model")[2]["models"][0]["card"]


def test_the_manual_shows_answers_in_the_form_of_the_schema_and_lists_every_code(schema: dict[str, Any]) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    answer, refusal = re.findall(r"```json\n(.*?)```", manual, re.DOTALL)
    check(schema, "/predict", 200, json.loads(answer))
    check(schema, "/predict", 422, json.loads(refusal))
    codes = schema["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert [] == [code for code in codes if f"`{code}`" not in manual]


def test_a_text_in_a_language_the_model_was_not_trained_on_is_answered_with_a_warning(
    place: str, schema: dict[str, Any]
) -> None:
    """`predict` warned, and the endpoint related English entities of Chinese notes without a word."""
    texts = [{"text": "患者发热三天，给予布洛芬后好转。"}, {"text": NOTE}]
    status, _, answer = send(place, "/predict", {"texts": texts})
    check(schema, "/predict", status, answer)
    warned = ["this model was trained on English; the text looks Chinese"]
    assert [warned, None] == [one.get("warnings") for one in answer["predictions"]]


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_blank_text_has_nothing_in_it(place: str, text: str) -> None:
    assert {"labels": [], "entities": [], "relations": [], "cut": 0} == send(place, "/predict", {"text": text})[2]


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        ({"text": WORDS}, {}, 415, "wrong_content_type"),
        ({"text": WORDS}, {"Content-Type": "text/plain"}, 415, "wrong_content_type"),
        (b"text=" + WORDS.encode(), {"Content-Type": "application/x-www-form-urlencoded"}, 415, "wrong_content_type"),
        (WORDS.encode(), JSON, 422, "not_json"),
        ({"text": WORDS, "note": 1}, {"Content-Type": "Application/JSON; charset=utf-8"}, 422, "unknown_key"),
        ({"text": WORDS}, {**JSON, "Host": "evil.example"}, 421, "wrong_host"),
        ({"text": WORDS}, {**JSON, "Host": "127.0.0.1.evil.example:80"}, 421, "wrong_host"),
        ({"text": WORDS}, {**JSON, "Host": "[bad"}, 421, "wrong_host"),
    ],
)
def test_what_is_refused_is_told_by_a_code(
    place: str, schema: dict[str, Any], body: Any, headers: dict[str, str], status: int, code: str
) -> None:
    got, _, answer = send(place, "/predict", body, headers)
    assert (status, code) == (got, answer["error"]["code"])
    check(schema, "/predict", status, answer)
    assert WORDS not in json.dumps(answer)


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_loopback_names_are_ours(place: str, host: str) -> None:
    assert 200 == send(place, "/health", headers={"Host": host})[0]


def test_other_methods_and_paths_are_refused_and_no_page_of_another_origin_may_read(place: str) -> None:
    status, headers, answer = send(place, "/predict", headers={"Origin": "http://evil.example"}, method="OPTIONS")
    assert (405, "POST", "wrong_method") == (status, headers["allow"], answer["error"]["code"])
    assert not any(key.startswith("access-control") for key in headers)
    assert 405 == send(place, "/predict", method="GET")[0]
    assert 405 == send(place, "/", method="DELETE")[0]
    assert 404 == send(place, "/page/../app.py")[0]
    assert 404 == send(place, "/docs")[0]


def test_every_answer_forbids_what_is_not_ours_and_is_not_cached(place: str) -> None:
    for path in ("/", "/page.js", "/health", "/none"):
        headers = send(place, path)[1]
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert "no-store" == headers["cache-control"]
        assert "server" not in headers


@pytest.mark.parametrize("size", [1_001, 50_000])
def test_a_request_that_is_too_large_is_refused_however_it_comes(
    scripted: Scripted, schema: dict[str, Any], size: int
) -> None:
    """With its length told or in chunks, a little too large or by far."""
    with served(Desk(scripted, largest=1_000)) as place:
        exact = json.dumps({"text": "x" * (1_000 - len('{"text": ""}'))}).encode()
        assert 200 == send(place, "/predict", exact)[0]
        status, _, answer = send(place, "/predict", b" " * size)
        assert (413, "too_large") == (status, answer["error"]["code"])
        check(schema, "/predict", 413, answer)
        if size < 20_000:  # beyond, the sender is cut off
            chunks = b"64\r\n%b\r\n" % (b" " * 100) * (size // 100 + 1) + b"0\r\n\r\n"
            assert 413 == send(place, "/predict", chunks, {**JSON, "Transfer-Encoding": "chunked"})[0]


def test_a_model_that_fails_is_told_by_a_code_and_the_note_is_nowhere(
    scripted: Scripted, schema: dict[str, Any], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with served(Desk(scripted)) as place:
        status, _, answer = send(place, "/predict", {"text": f"BREAK {WORDS}"})
        assert 200 == send(place, "/predict", {"text": "ASPIRIN"})[0]
    assert (500, "failed") == (status, answer["error"]["code"])
    check(schema, "/predict", 500, answer)
    out, err = capfd.readouterr()
    assert WORDS not in json.dumps(answer) + out + err + caplog.text


def test_no_error_leaves_the_guard_for_a_server_to_log() -> None:
    sent: list[Any] = []

    async def broken(*_: Any) -> Any:
        raise RuntimeError(WORDS)

    async def send_(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    asyncio.run(Guarded(broken, ())(scope, broken, send_))
    assert 500 == sent[0]["status"]
    assert "failed" == json.loads(sent[1]["body"])["error"]["code"]


def test_a_model_that_only_relates_needs_entities(scripted: Scripted) -> None:
    with served(Desk(Relates(scripted.parts))) as place:
        status, _, answer = send(place, "/predict", {"text": "ASPIRIN"})
        assert (422, "missing_key", "entities") == (status, answer["error"]["code"], answer["error"]["key"])
        body = {"text": "ASPIRIN", "entities": [{"type": "drug", "start": 0, "end": 7}]}
        assert 200 == send(place, "/predict", body)[0]


class Waits(Scripted):
    """One that takes until it is let go, and counts who is inside."""

    entered, let_go = threading.Semaphore(0), threading.Event()
    inside = most = 0

    def together(self, documents: Sequence[Document]) -> list[Prediction]:
        Waits.inside += 1
        Waits.most = max(Waits.most, Waits.inside)
        self.entered.release()
        self.let_go.wait(60)
        Waits.inside -= 1
        return super().together(documents)


def test_one_text_at_a_time_while_the_rest_still_answers_and_a_long_line_is_sent_away(scripted: Scripted) -> None:
    desk = Desk(Waits(scripted.parts))
    with served(desk) as place:
        got: list[int] = []
        askers = [
            threading.Thread(target=lambda: got.append(send(place, "/predict", {"text": "ASPIRIN"})[0]))
            for _ in range(WAITING)
        ]
        for asker in askers:
            asker.start()
        assert Waits.entered.acquire(timeout=60)
        while desk.waiting < WAITING:
            assert 200 == send(place, "/health")[0]
        assert {"waiting": WAITING, "most": WAITING}.items() <= send(place, "/health")[2].items()
        status, headers, answer = send(place, "/predict", {"text": "ASPIRIN"})
        assert (503, "5") == (status, headers["retry-after"])
        assert f"{WAITING} requests are waiting already; try again in a while" == answer["error"]["message"]
        Waits.let_go.set()
        for asker in askers:
            asker.join()
    assert ([200] * WAITING, 1) == (got, Waits.most)


def test_many_texts_are_answered_in_their_order(place: str, schema: dict[str, Any]) -> None:
    notes = [f"😀 {NOTE}", " ", NOTE[:300]]
    status, _, answer = send(place, "/predict", {"texts": [{"text": note} for note in notes]})
    check(schema, "/predict", status, answer)
    alone = [send(place, "/predict", {"text": note})[2] for note in notes]
    spans = [[[(one["type"], one["start"], one["end"]) for one in some["entities"]] for some in all_] for all_ in (
        alone, answer["predictions"],
    )]  # fmt: skip
    assert spans[0] == spans[1]
    assert [True, False, True] == [bool(one["entities"]) for one in answer["predictions"]]
    assert {"predictions": []} == send(place, "/predict", {"texts": []})[2]


def test_of_many_texts_the_wrong_one_is_named(place: str, scripted: Scripted) -> None:
    answer = send(place, "/predict", {"texts": [{"text": WORDS}, {"text": 1}]})[2]
    assert ("wrong_value", "texts[1].text") == (answer["error"]["code"], answer["error"]["key"])
    with served(Desk(Relates(scripted.parts))) as other:
        bare = {"texts": [{"text": "ASPIRIN"}, {"text": "RASH"}]}
        assert "texts[0].entities" == send(other, "/predict", bare)[2]["error"]["key"]
        bare["texts"][1]["entities"] = [{"type": "drug", "start": 0, "end": 4}]  # type: ignore[assignment]  # JSON
        assert 2 == len(send(other, "/predict", bare)[2]["predictions"])


@pytest.mark.parametrize("charset", ["utf-16", "UTF-16LE", "utf-16be", "utf-32", "iso-8859-1"])
def test_the_charset_of_a_request_is_heeded(place: str, tagger: Path, charset: str) -> None:
    body = json.dumps({"text": f"É {NOTE}"}, ensure_ascii=False).encode(charset)
    status, _, answer = send(place, "/predict", body, {"Content-Type": f'application/json; charset="{charset}"'})
    assert (200, {**load(tagger)(f"É {NOTE}").plain(), "cut": 0}) == (status, answer)


def test_a_charset_that_is_not_taken_or_not_true_is_told(place: str, schema: dict[str, Any]) -> None:
    for charset, status, code in (("ebcdic", 415, "wrong_charset"), ("us-ascii", 422, "not_in_charset")):
        body = json.dumps({"text": f"É {WORDS}"}, ensure_ascii=False).encode()
        got, _, answer = send(place, "/predict", body, {"Content-Type": f"application/json; charset={charset}"})
        assert (status, code) == (got, answer["error"]["code"])
        check(schema, "/predict", status, answer)
        assert WORDS not in json.dumps(answer)


def raw(place: str, sent: bytes) -> bytes:
    """All that comes back until the other side closes the connection."""
    host, port = urlsplit(place).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall(sent)
        return b"".join(iter(lambda: line.recv(65536), b""))


def test_a_body_that_stalls_is_given_up_and_holds_nobody_up(scripted: Scripted, schema: dict[str, Any]) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
    desk = Desk(scripted, patience=0.3)
    with served(desk) as place:
        heads, _, body = raw(place, head + b'{"text": "Zanzi').partition(b"\r\n\r\n")
        assert heads.startswith(b"HTTP/1.1 408 ")
        assert "too_slow" == json.loads(body)["error"]["code"]
        check(schema, "/predict", 408, json.loads(body))
        assert b"Zanzi" not in heads + body
        assert 200 == send(place, "/predict", {"text": "ASPIRIN"})[0]
    assert (0, 0) == (desk.reading, desk.waiting)


def test_more_bodies_than_are_held_at_a_time_are_sent_away(scripted: Scripted) -> None:
    desk = Desk(scripted, most=1)
    with served(desk) as place:
        desk.reading = READ
        assert 503 == send(place, "/predict", {"text": "ASPIRIN"})[0]
        desk.reading = 0
        assert 200 == send(place, "/predict", {"text": "ASPIRIN"})[0]


@pytest.mark.parametrize("sent", [b"", b"GET /health HTT"])
def test_a_connection_without_a_request_is_closed(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(TimedConnection, "silence", 0.2)
    with served(Desk(scripted)) as place:
        assert b"" == raw(place, sent)


class Slow(Scripted):
    """Takes a while for each block of texts, and counts them."""

    blocks = 0
    pause = threading.Event()

    def together(self, documents: Sequence[Document]) -> list[Prediction]:
        Slow.blocks += 1
        self.pause.wait(0.2)
        go_on()
        return super().together(documents)


def test_an_answer_that_takes_too_long_is_given_up(scripted: Scripted, schema: dict[str, Any]) -> None:
    desk = Desk(Slow(scripted.parts), answer=0.3)
    with served(desk) as place:
        status, _, answer = send(place, "/predict", {"texts": [{"text": WORDS}] * 64 * 20})
        assert (413, "too_long") == (status, answer["error"]["code"])
        check(schema, "/predict", status, answer)
        assert Slow.blocks < 20
        assert 200 == send(place, "/predict", {"text": "ASPIRIN"})[0]


def test_a_prediction_for_which_nobody_waits_ends(scripted: Scripted) -> None:
    Slow.blocks = 0
    desk = Desk(Slow(scripted.parts))
    body = json.dumps({"texts": [{"text": WORDS}] * 64 * 100}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with served(desk) as place:
        host, port = urlsplit(place).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=60) as line:
            line.sendall(head.encode() + b"\r\n\r\n" + body)
            while not desk.busy:
                assert 200 == send(place, "/health")[0]
        assert 200 == send(place, "/predict", {"text": "ASPIRIN"})[0]
    assert Slow.blocks < 100


def test_a_text_brings_only_so_many_entities(place: str) -> None:
    many = [{"type": "drug", "start": 0, "end": 4}] * (ENTITIES + 1)
    status, _, answer = send(place, "/predict", {"texts": [{"text": WORDS, "entities": many}]})
    assert (422, "wrong_value", "texts[0].entities") == (status, answer["error"]["code"], answer["error"]["key"])
