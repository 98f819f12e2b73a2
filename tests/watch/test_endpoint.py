"""What the server of a live page answers, and to whom."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

from serving import JSON, hosted, send
from wardround.runs.errors import RunError
from wardround.runs.stopping import STOP, stop_asked
from wardround.watch.app import EACH, BoardDesk, application
from wardround.watch.board import RunBoard
from wardround.watch.token import read_token
from watched import Going, going

TOKEN = "a-token-of-twenty-letters"  # noqa: S105 -- made up for here


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Going]:
    with going(tmp_path / "run") as started:
        started.add(times=2)
        yield started


@pytest.fixture
def place(run: Going) -> Iterator[str]:
    with hosted(application(BoardDesk(RunBoard([run.folder]), seconds=0.05))) as address:
        yield address


@pytest.fixture
def closed(run: Going) -> Iterator[str]:
    with hosted(application(BoardDesk(RunBoard([run.folder])), token=TOKEN)) as address:
        yield address


def test_without_its_token_a_page_says_so_and_nothing_else(closed: str, run: Going) -> None:
    for path in ("/", "/events", "/metrics", "/run/0", "/watch.js", "/?token=wrong", "/nowhere"):
        status, headers, body = send(closed, path)
        assert (401, "Bearer") == (status, headers["www-authenticate"])
        assert b"needs its token" in body
        assert b"small" not in body
    assert 401 == send(closed, "/stop/0", {})[0]
    assert 401 == send(closed, f"/stop/0?token={TOKEN}", {})[0]  # an address alone changes nothing
    assert not (run.folder / STOP).exists()
    assert 200 == send(closed, "/healthz")[0]


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(closed: str) -> None:
    status, headers, _ = send(closed, f"/?token={TOKEN}")
    assert (303, "/") == (status, headers["location"])
    cookie = headers["set-cookie"]
    assert "httponly" in cookie.casefold()
    assert "samesite=lax" in cookie.casefold()
    status, _, body = send(closed, "/", headers={"Cookie": cookie.partition(";")[0]})
    assert 200 == status
    assert b"small" in body
    assert TOKEN.encode() not in body
    assert 200 == send(closed, "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})[0]


def test_who_has_the_token_for_looking_sees_all_and_stops_nothing(run: Going) -> None:
    looking = {"Authorization": f"Bearer {TOKEN[::-1]}", "Content-Type": "application/json"}
    board = RunBoard([run.folder])
    with hosted(application(BoardDesk(board), token=TOKEN, looking=TOKEN[::-1])) as address:
        assert (200, 200) == (send(address, "/", headers=looking)[0], send(address, "/metrics", headers=looking)[0])
        status, _, body = send(address, "/stop/0", {}, headers=looking)
        assert (403, True) == (status, b"This token is for looking" in body)
        assert not stop_asked(run.folder)
        cookie = send(address, f"/?token={TOKEN[::-1]}")[1]["set-cookie"].partition(";")[0]
        assert 403 == send(address, "/stop/0", {}, headers={**looking, "Authorization": "", "Cookie": cookie})[0]
        own = {"Cookie": send(address, f"/?token={TOKEN}")[1]["set-cookie"].partition(";")[0]}
        sent = send(address, f"//elsewhere.example/?token={TOKEN[::-1]}", headers=own)[1]  # a link that somebody made
        assert ("/elsewhere.example/", False) == (sent["location"], "set-cookie" in sent)
        assert 200 == send(address, "/stop/0", {}, headers={**looking, "Authorization": f"Bearer {TOKEN}"})[0]
        assert stop_asked(run.folder)


def test_a_token_file_is_made_for_its_owner_alone_and_a_poor_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path)
    assert 0o600 == path.stat().st_mode & 0o777
    assert token == read_token(path)
    path.write_text("short\n")
    with pytest.raises(RunError, match="needs 16 letters"):
        read_token(path)
    path.write_text(token)
    path.chmod(0o644)
    with pytest.raises(RunError, match="chmod 600"):
        read_token(path)


def test_a_run_is_stopped_by_json_alone_so_that_no_other_page_can(place: str, run: Going) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        assert 415 == send(place, "/stop/0", b"{}", headers)[0]
    assert 421 == send(place, "/stop/0", b"{}", {**JSON, "Host": "evil.example"})[0]
    assert 405 == send(place, "/stop/0", method="GET")[0]
    assert 404 == send(place, "/stop/7", {})[0]
    assert 404 == send(place, "/stop/grid-0", {})[0]
    assert not (run.folder / STOP).exists()
    assert (200, {"stopping": True}) == send(place, "/stop/0", {})[::2]
    assert (run.folder / STOP).exists()


def test_a_page_that_is_read_only_has_no_button_and_takes_no_order(run: Going) -> None:
    board = RunBoard([run.folder], stoppable=False)
    with hosted(application(BoardDesk(board))) as place:
        assert b"data-stop" not in send(place, "/")[2]
        assert 404 == send(place, "/stop/0", {})[0]


def test_a_stream_sends_what_has_changed_and_nothing_else(place: str, run: Going) -> None:
    line = http.client.HTTPConnection(urlsplit(place).netloc, timeout=60)
    line.request("GET", "/events")
    answer = line.getresponse()
    assert "text/event-stream" == answer.headers.get_content_type()

    def event() -> dict[str, dict[str, str]]:
        while not (raw := answer.readline()).startswith(b"data:"):
            assert raw
        received: dict[str, dict[str, str]] = json.loads(raw[5:])
        return received

    assert {"state", "figures", "sites", "bytes", "refused", "log"} == set(event()["parts"])
    run.doing("looking")
    assert ["state"] == list(event()["parts"])
    run.add()
    assert {"state", "figures", "bytes"} == set(event()["parts"])
    line.close()


def test_so_many_may_watch_and_no_more(run: Going) -> None:
    with hosted(application(BoardDesk(RunBoard([run.folder]), most=3))) as place:
        lines = [http.client.HTTPConnection(urlsplit(place).netloc, timeout=60) for _ in range(4)]
        statuses = []
        for line in lines:
            line.request("GET", "/events")
            answer = line.getresponse()
            statuses.append(answer.status)
            answer.readline()
        assert [200, 200, 200, 503] == statuses
        for line in lines:
            line.close()


@pytest.mark.parametrize("one", [{"client": ("10.0.0.9", 1)}, {"client": ("127.0.0.1", 1), "state": {"person": "ada"}}])
def test_one_person_or_address_cannot_take_all_places(run: Going, one: dict[str, Any]) -> None:
    desk = BoardDesk(RunBoard([run.folder]))
    alike = {"type": "http", "method": "GET", "path": "/events", "headers": [], "query_string": b"", "path_params": {}}

    async def opened(**who: Any) -> int:
        """Open a stream, and leave it open; the status."""
        try:
            answer = await desk.events(Request({**alike, **who}))
        except HTTPException as error:
            return error.status_code
        assert isinstance(answer, StreamingResponse)
        streams.append(aiter(answer.body_iterator))
        await anext(streams[-1])
        return answer.status_code

    async def all_of_them() -> list[int]:
        statuses = [await opened(**one) for _ in range(EACH + 1)]
        others: list[dict[str, Any]] = [
            {"client": ("10.0.0.8", 1)},
            {"state": {"person": "bob"}, "client": ("127.0.0.1", 1)},
        ]
        statuses += [await opened(**other) for other in others]
        for stream in streams:
            await stream.aclose()
        return [*statuses, await opened(**one)]

    streams: list[Any] = []
    assert [*[200] * EACH, 503, 200, 200, 200] == asyncio.run(all_of_them())


def test_the_page_says_enough_before_any_script_has_run(place: str) -> None:
    status, headers, body = send(place, "/")
    assert 200 == status
    assert b"2 of 50 rounds done" in body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "no-store" == headers["cache-control"]
    assert 404 == send(place, "/run/5")[0]
    assert 404 == send(place, "/run/x")[0]
