"""The door for people: a real process, real certificates, and whoever tries to do what is not theirs."""

import asyncio
import errno
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from typer.testing import CliRunner

from real_sites import free_port, wait_until
from run_folders import make_run
from study_files import cli
from threat_table import threat
from wardround.cli import afar, ordered
from wardround.cli.app import app
from wardround.consortium.admission import add, admit
from wardround.consortium.errand import Errand
from wardround.consortium.kit_files import read_request
from wardround.consortium.kits import new_consortium, new_site
from wardround.consortium.orders import OUTPUT, Order, Orders
from wardround.consortium.people import (
    KEY,
    Card,
    Role,
    admit_person,
    new_person,
    read_card,
    read_people,
    read_person_request,
    renew_person,
    revoke_person,
    take_card,
)
from wardround.consortium.submitted import note_run
from wardround.engines.certificates import Authority, make_key, pem_of, public_key_of, request_for
from wardround.engines.frames import calls, door_of, shut
from wardround.runs.errors import RunError
from wardround.runs.folder import locked
from wardround.runs.stopping import forget_stop, stop_asked
from wardround.study.settings import StudyError
from wardround.watch.errands import LOG, Acts, PeopleDesk
from wardround.watch.people import tls

pytest.importorskip("nvflare")

STUDY = """
name = "mentions"
rounds = 2
[corpus]
format = "csv"
train = "train.csv"
test = "test.csv"
labels = ["DRUG", "DISEASE"]
[task]
name = "classification"
tokens = "words"
buckets = 64
[method]
name = "fedavg"
"""
ROLES: tuple[Role, ...] = ("watch", "submit", "admin")


@dataclass
class Door:
    """A coordinator's folder, its door for people, and whoever has a certificate."""

    folder: Path
    port: int
    asked: list[str] = field(default_factory=list)
    """What the coordinator's own process was asked for."""

    @property
    def centre(self) -> Path:
        return self.folder / "north"

    def person(self, name: str, role: Role, **options: Any) -> Path:
        """A new person with a card."""
        place = self.folder / name
        request, _ = new_person(place)
        card = admit_person(self.centre, request, role, door=("127.0.0.1", self.port), **options)
        take_card(place, card)
        return place

    def log(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in (self.centre / "people.jsonl").read_text().splitlines()]

    def context(self, certificate: bytes, key: Path) -> ssl.SSLContext:
        """What somebody connects with who does not use our programs."""
        place = self.folder / "shown.crt"
        place.write_bytes(certificate)
        context = ssl.create_default_context(cafile=str(self.centre / "root" / "root.crt"))
        context.load_cert_chain(place, key)
        return context

    def raw(self, context: ssl.SSLContext, data: bytes, seconds: float = 10.0) -> bytes:
        """What comes back for these bytes, until the other end closes or is silent."""
        answer = b""
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), seconds) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as line,
        ):
            line.sendall(data)
            while more := line.recv(1 << 16):
                answer += more
        return answer


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("p")
    door = Door(folder, free_port())
    new_consortium(door.centre, "north", [], "127.0.0.1", free_port())
    with answering(door), serving(door):
        for role in ROLES:
            door.person(f"w-{role}", role)
        yield door


@contextmanager
def answering(door: Door) -> Iterator[None]:
    """The coordinator's own process, as far as the door speaks to it."""
    over = threading.Event()

    def answer() -> None:
        for line in calls(door_of(door.centre), over.is_set):
            with line:
                head = (line.receive() or ({}, b""))[0]
                door.asked.extend(head)
                runs = json.loads((door.centre / "runs.json").read_text()) if "status" in head else {}
                line.send({"name": "north", "address": "127.0.0.1:1", "sites": {}, "runs": list(runs)})

    (door.centre / "runs.json").write_text("{}")
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        shut(door_of(door.centre))


@contextmanager
def serving(door: Door) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-P", "-m", "wardround.watch.people", str(door.centre), "127.0.0.1", str(door.port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def up() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", door.port), 5):
            return True
        return process.poll() is not None

    try:
        wait_until(up)
        yield process
    finally:
        process.terminate()
        process.wait()


def refusal(person: Path, path: str, body: dict[str, Any] | None = None) -> str:
    with pytest.raises(RunError) as error:
        Errand(person).ask(path, body)
    return str(error.value)


# what each role may


def test_who_watches_sees_and_does_nothing_else(door: Door) -> None:
    watcher = door.folder / "w-watch"
    assert "north" == Errand(watcher).ask("/status")["name"]
    for path, act in (("/submit", "submit"), ("/stop", "stop"), ("/end", "end"), ("/revoke", "revoke")):
        words = refusal(watcher, path, {"run": "x", "name": "w-submit", "study": STUDY})
        assert f"w-watch has the role watch here, and to {act} takes" in words
    assert "to read takes submit or admin" in refusal(watcher, "/output/w-submit/mentions")
    assert not read_people(door.centre)["w-submit"].revoked
    assert "stop" not in door.asked
    acts = [(line["act"], line["outcome"][:7]) for line in door.log() if line["person"] == "w-watch"]
    assert {("submit", "w-watch"), ("end", "w-watch"), ("look", "done")} <= set(acts)
    assert ["/output/w-submit/mentions"] == [line["what"] for line in door.log() if line["act"] == "read"]


def test_who_submits_stops_their_own_runs_and_no_others(door: Door) -> None:
    own, other = (door.centre / "runs" / name / "mentions" for name in ("w-submit", "w-admin"))
    for run in (own, other):
        make_run(run, values=[0.5])
        note_run(door.centre, run, "mentions")
    submitter = door.folder / "w-submit"
    assert {"w-submit/mentions", "w-admin/mentions"} == {run["run"] for run in Errand(submitter).ask("/status")["runs"]}
    assert "is not a run of w-submit" in refusal(submitter, "/stop", {"run": "w-admin/mentions"})
    assert "is not a run of w-submit" in refusal(submitter, "/stop", {"run": "../w-admin/mentions"})
    assert "there is no run w-submit/other" in refusal(submitter, "/stop", {"run": "w-submit/other"})
    assert "may read their own" in refusal(submitter, "/files/w-admin/mentions")
    assert "to end takes admin" in refusal(submitter, "/end", {})
    assert "to revoke takes admin" in refusal(submitter, "/revoke", {"name": "w-watch"})
    assert "is not going on" in refusal(submitter, "/stop", {"run": "w-submit/mentions"})
    said = CliRunner().invoke(app, ["stop", str(door.centre), "w-admin/mentions"])
    assert "is not going on, so there is nothing to stop" in str(said.exception)
    assert (False, False) == (stop_asked(own), stop_asked(other))
    with locked(own), locked(other):
        assert 0 == cli("stop", submitter, "mentions", cwd=door.folder).code
        assert (True, False) == (stop_asked(own), stop_asked(other))
        assert 0 == cli("stop", door.folder / "w-admin", "w-admin/mentions", cwd=door.folder).code
    assert stop_asked(other)


def test_who_administers_elsewhere_is_told_who_admits(door: Door, tmp_path: Path) -> None:
    _, request = new_site(tmp_path / "ward")
    result = cli("consortium", "admit", door.folder / "w-admin", request, cwd=tmp_path)
    assert (2, True) == (result.code, "whoever has the coordinator's own account" in " ".join(result.err.split()))


def test_no_role_admits_or_delivers_through_the_door(door: Door) -> None:
    for role in ROLES:
        for path in ("/admit", "/deliver"):
            assert "status 40" in refusal(door.folder / f"w-{role}", path, {"name": "ward", "run": "mentions"})
    assert "ward" not in (door.centre / "roster.json").read_text()


def test_who_administers_revokes_and_ends(door: Door) -> None:
    add(door.centre, ["charite"])
    door.person("leaver", "submit")
    admin = door.folder / "w-admin"
    for name in ("charite", "leaver"):
        assert 0 == cli("consortium", "revoke", admin, name, cwd=door.folder).code
    assert read_people(door.centre)["leaver"].revoked
    assert "leaver is revoked" in refusal(door.folder / "leaver", "/status")
    assert "neither a site nor a person" in refusal(admin, "/revoke", {"name": "nobody"})
    assert 0 == cli("stop", admin, cwd=door.folder).code
    assert "stop" in door.asked
    assert {"revoke charite", "revoke leaver", "end "} <= {
        f"{line['act']} {line['what']}" for line in door.log() if line["outcome"] == "done"
    }


def test_the_page_comes_through_a_tunnel_that_can_only_look(door: Door) -> None:
    far = Errand(door.folder / "w-admin").connect(looking=True)
    line = http.client.HTTPConnection("127.0.0.1:8766")
    line.sock = far
    line.request("GET", "/")
    page = line.getresponse()
    assert (200, True) == (page.status, b"<h1>north" in page.read())
    line.request("POST", "/end", b"{}", {"Content-Type": "application/json"})
    answer = line.getresponse()
    assert (403, True) == (answer.status, b"has the role watch here" in answer.read())
    line.request("GET", "/", headers={"Host": "attacker.example"})
    assert 421 == line.getresponse().status
    far.close()


# who has no right at all


@threat("a person who was")
def test_a_card_with_another_door_is_made_by_renewing_and_sites_have_none(door: Door) -> None:
    moved = door.person("moved", "watch")
    order = ["consortium", "renew", str(door.centre)]
    for options in (["--door", "fl.example.org:8443"], []):
        assert 0 == CliRunner().invoke(app, [*order, "moved", *options]).exit_code
        card = take_card(moved, door.centre / "people" / "moved.card")
        assert ("fl.example.org", 8443) == (card.host, card.port)
    refused = CliRunner().invoke(app, [*order, "coordinator", "--door", "x:1"])
    assert "--door is for people" in str(refused.exception)


def test_a_certificate_that_was_revoked_renewed_or_ran_out_opens_nothing(door: Door) -> None:
    gone, new, old = (door.person(name, "admin") for name in ("gone", "new", "old"))
    stream = Errand(gone).connect()
    stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    stream.settimeout(30)
    assert stream.recv(100)
    revoke_person(door.centre, "gone")
    note_run(door.centre, door.centre / "runs" / "gone" / "new", "new")  # something to be told
    with stream, suppress(OSError):  # what was open is cut off
        while stream.recv(1 << 16):
            pass
    assert "gone is revoked" in refusal(gone, "/status")
    renew_person(door.centre, "new")
    assert "renewed; take the new card" in refusal(new, "/status")
    take_card(new, door.centre / "people" / "new.card")
    assert Errand(new).ask("/status")

    request = read_person_request(old / "old.request")
    past = Authority(door.centre / "root", datetime.now(UTC) - timedelta(days=30)).signed(request.key, "old@admin", 10)
    card = read_card(old).model_copy(update={"certificate": pem_of(past).decode()})
    (old / "person.json").write_bytes(card.encode())
    assert "expired 20 days ago" in refusal(old, "/status")
    with pytest.raises(RunError, match="was revoked, and the name with it"):
        admit_person(door.centre, read_person_request(gone / "gone.request"), "watch")


@threat("a forged role")
def test_a_certificate_of_another_root_a_site_or_another_role_opens_nothing(door: Door, tmp_path: Path) -> None:
    key = tmp_path / "mallory.key"
    make_key(key)
    wanted = b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    public = public_key_of(request_for(key, "mallory"), "mallory")
    new_consortium(tmp_path / "other", "other", [], "127.0.0.1", free_port())
    foreign = pem_of(Authority(tmp_path / "other" / "root").signed(public, "w-admin@admin", 10))
    assert b"" == door.raw(door.context(foreign, key), wanted)

    root = Authority(door.centre / "root")  # what the root has signed, but is nobody's in people.json
    for name in ("w-admin@admin", "mallory@admin", "w-watch@admin", "coordinator@admin", "w-admin", "@admin"):
        answer = door.raw(door.context(pem_of(root.signed(public, name, 10)), key), wanted)
        assert b" 401 " in answer.partition(b"\r\n")[0], name

    _, path = new_site(tmp_path / "lmu")
    admit(door.centre, read_request(path))
    shown = (door.centre / "certificates" / "lmu.crt").read_bytes()
    assert b" 401 " in door.raw(door.context(shown, tmp_path / "lmu" / "kit" / "startup" / "client.key"), wanted)
    bare = ssl.create_default_context(cafile=str(door.centre / "root" / "root.crt"))
    assert b"" == door.raw(bare, wanted)

    # a role that is raised in the list alone, as by whoever can write there and has no root key
    people = door.centre / "people.json"
    before = people.read_bytes()
    listed = json.loads(before)
    listed["w-watch"]["role"] = "admin"
    people.write_text(json.dumps(listed))
    try:
        assert "nobody's here" in refusal(door.folder / "w-watch", "/end", {})
    finally:
        people.write_bytes(before)
    raised = read_card(door.folder / "w-watch").model_copy(update={"role": "admin"})
    (tmp_path / "raised.card").write_bytes(raised.encode())
    with pytest.raises(RunError, match="does not say what the certificate"):
        take_card(door.folder / "w-watch", tmp_path / "raised.card")


@threat("a crowd at the people's door")
def test_garbage_floods_and_silence_do_not_keep_others_out(door: Door) -> None:
    submitter = door.folder / "w-submit"
    silent = [socket.create_connection(("127.0.0.1", door.port), 10) for _ in range(40)]
    for end in silent[:20]:
        end.sendall(os.urandom(200))
    errand = Errand(submitter)
    assert errand.ask("/status")
    head = "POST /submit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    for body in (b"{", b"[]", b"[" * 100_000, b"\xff\xfe", b'{"study": 1}', b'{"study": "", "order": "rm"}', b"null"):
        answer = door.raw(errand.context, head.format(len(body)).encode() + body, 2.0)
        assert b" 400 " in answer.partition(b"\r\n")[0], body[:20]
    answer = door.raw(errand.context, head.format(1 << 40).encode() + b"x" * (1 << 20), 5.0)
    assert b" 413 " in answer.partition(b"\r\n")[0]
    stalled = [errand.connect() for _ in range(8)]
    for line in stalled:
        line.sendall(head.format(1000).encode() + b"{")
    assert Errand(door.folder / "w-watch").ask("/status")
    for end in [*silent, *stalled]:
        end.close()
    plain = door.raw(errand.context, head.replace("application/json", "text/plain").format(2).encode() + b"{}", 2.0)
    assert b" 415 " in plain.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "path",
    [
        "/files/w-submit/../../keys/ask.key",
        "/files/w-submit/%2e%2e/x",
        "/files/%2e%2e/keys",
        "/files/w-submit/mentions/..%2f..%2f..%2fkeys%2fask.key",
        "/files/w-submit/mentions/model/link",
        "/output/%2e%2e%2fkeys/ask",
        "/output/w-submit/..",
    ],
)
@threat("paths at the people's door")
def test_no_path_leads_out_of_a_run(door: Door, path: str) -> None:
    run = door.centre / "runs" / "w-submit" / "mentions"
    (run / "model").mkdir(parents=True, exist_ok=True)
    run.with_name("mentions.ended").write_text("0")
    (run / "metrics.json").write_text("{}")
    with suppress(FileExistsError):
        (run / "model" / "link").symlink_to(door.centre / "keys" / "ask.key")
    errand = Errand(door.folder / "w-submit")
    assert "metrics.json" in errand.ask("/files/w-submit/mentions")["files"]
    wanted = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    answer = door.raw(errand.context, wanted)
    assert answer.partition(b"\r\n")[0].split()[1] in (b"404", b"403")
    assert b"PRIVATE KEY" not in answer


# what a study from elsewhere may say


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("method.name=mine:Mine", "is a class of somebody's own"),
        ("task.name=os:system", "is a class of somebody's own"),
        ("corpus.train=/etc/passwd", "is a path that leads elsewhere"),
        ("corpus.train=../keys/ask.key", "is a path that leads elsewhere"),
        ("corpus.train=a/../../keys/ask.key", "is a path that leads elsewhere"),
        ('corpus.train=["x.csv", "/etc/passwd"]', "is a path that leads elsewhere"),
        ("corpus.train=..\\\\keys", "is a path that leads elsewhere"),
        ("corpus.train=~/notes", "filled in from this machine's environment"),
        ("task.terms=$HOME/x", "filled in from this machine's environment"),
        ("task.terms=${SECRET}", "filled in from this machine's environment"),
        ("public.corpus.train=/etc/shadow", "is a path that leads elsewhere"),
        ('layers=[{name="mine:Layer"}]', "is a class of somebody's own"),
        ("seeds=[1, 2]", "is a grid"),
        ("name=../x", "becomes a folder's name"),
    ],
)
@threat("a study from elsewhere")
def test_a_study_from_elsewhere_reads_and_runs_nothing_of_this_machine(door: Door, change: str, reason: str) -> None:
    words = refusal(door.folder / "w-submit", "/submit", Order(study=STUDY, changes=(change,)).model_dump())
    assert reason in words
    assert "root:" not in words
    assert [] == Orders(door.centre).all_open()


def test_what_it_names_is_looked_for_in_one_folder_and_built_without_modules(door: Door) -> None:
    orders = Orders(door.centre)
    study = orders.study(Order(study=STUDY))
    assert str((door.centre / "public").resolve()) == study.corpus.folder
    sneaky = Order(study=STUDY.replace('name = "fedavg"', '"name" = "mine\\u003aMine"'))
    with pytest.raises(StudyError, match="class of somebody's own"):
        orders.study(sneaky)
    (door.centre / "public").mkdir(exist_ok=True)
    (door.centre / "public" / "notify.py").write_text("raise SystemExit('ran')")
    with pytest.raises(StudyError, match="notify"):
        orders.study(Order(study=STUDY + '[notify]\ncommand = ["touch", "x"]\n'))


# the person's own side


def test_keys_stay_cards_are_compared_and_the_wrong_door_is_known(door: Door, tmp_path: Path) -> None:
    ended = cli("person", "init", "ada", cwd=tmp_path)
    assert (0, True) == (ended.code, "read this out over the phone" in ended.out)
    assert 0o600 == (tmp_path / "ada" / KEY).stat().st_mode & 0o777
    request = tmp_path / "ada" / "ada.request"
    assert "PRIVATE" not in request.read_text()
    order = ("consortium", "person", door.centre, request, "--door", f"127.0.0.1:{door.port}")
    assert "--role root: use one of watch, submit, admin" in cli(*order, "--role", "root", cwd=tmp_path).err
    assert "give it with --fingerprint" in cli(*order, "--role", "submit", cwd=tmp_path).err
    wrong = cli(*order, "--role", "submit", "--fingerprint", "0000 1111", cwd=tmp_path)
    assert (2, True) == (wrong.code, "it is not what the person made" in wrong.err)
    known = read_person_request(request).fingerprint
    good = cli(*order, "--role", "submit", "--fingerprint", known, cwd=tmp_path)
    assert 0 == good.code, good.err
    card = door.centre / "people" / "ada.card"
    assert "PRIVATE" not in card.read_text()
    assert "not 0000" in cli("person", "join", "ada", card, "--fingerprint", "0000", cwd=tmp_path).err
    assert "has the role submit" in cli("person", "join", "ada", card, cwd=tmp_path).out
    status = cli("status", "ada", cwd=tmp_path)
    assert "as ada (submit)" in status.out
    with pytest.raises(RunError, match="is not for the key"):
        take_card(door.folder / "w-watch", card)

    foreign = Card.model_validate_json(card.read_bytes()).model_copy(update={"port": free_port()})
    (tmp_path / "ada" / "person.json").write_bytes(foreign.encode())
    assert "is it started with --people?" in refusal(tmp_path / "ada", "/status")


@threat("a coordinator that lies to a person")
def test_a_coordinators_words_neither_command_the_terminal_nor_name_a_folder(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = "[bold]round 1[/bold]\x1b[2K\x1b]0;owned\x07\u202e\x9b1A"
    answers = {
        "/submit": {"person": "../..", "run": f"{tmp_path}/outside"},
        "/output/w-submit/mentions?from=0": {"lines": [word], "end": 9, "code": None},
        "/output/w-submit/mentions?from=9": {"lines": [], "end": 9, "code": 0},
        "/files/w-submit/mentions": {"files": {"report.html": 4}},
        "/status": {"sites": {word: {"words": word}}, "runs": [{"run": word, "words": word}]},
    }

    def exchange(_: Errand, path: str, *__: Any, **___: Any) -> tuple[int, bytes]:
        return (200, json.dumps(answers[path]).encode()) if path in answers else (200, b"page")

    def fetch(_: Errand, __: str, target: Path, ___: int) -> None:
        target.parent.mkdir(parents=True)
        target.write_bytes(b"page")

    monkeypatch.setattr(Errand, "_exchange", exchange)
    monkeypatch.setattr(Errand, "fetch", fetch)
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY, encoding="utf-8")
    person = str(door.folder / "w-submit")
    outputs = [
        CliRunner().invoke(app, words).output
        for words in (["submit", "study.toml", "--to", person], ["status", person])
    ]
    for output in outputs:
        assert "[bold]round 1[/bold]␛[2K" in output
        assert not {*"\x1b\x07\u202e\x9b"} & {*output}
    assert ["report.html"] == [path.name for path in Path("runs/mentions").iterdir()]
    assert not Path("outside").exists()
    monkeypatch.setattr(Errand, "_exchange", lambda *_: (403, json.dumps({"error": word}).encode()))
    assert "\x1b" not in refusal(door.folder / "w-submit", "/status")
    card = json.loads((door.folder / "w-submit" / "person.json").read_text())
    with pytest.raises(ValueError, match="host"):
        Card.model_validate({**card, "host": word})


def test_an_order_that_was_not_done_is_taken_up_again(tmp_path: Path) -> None:
    door = Door(tmp_path, free_port())
    new_consortium(door.centre, "north", [], "127.0.0.1", free_port())
    door.person("ada", "submit")
    door.person("gone", "submit")
    revoke_person(door.centre, "gone")
    orders = Orders(door.centre)
    for person in ("ada", "gone"):
        orders.place(person, Order(study=STUDY, wait=0.0))
    with pytest.raises(RunError, match="is running; stop it first"):
        orders.place("ada", Order(study=STUDY))
    with answering(door), serving(door):
        wait_until(lambda: not orders.all_open())
        news = Errand(door.folder / "ada").ask("/output/ada/mentions?from=0")
    lines, _, code = orders.lines("ada", "mentions", 0)
    assert (lines, True) == (news["lines"], code not in (None, 0))
    assert "sites" in "\n".join(lines)  # there are none
    assert (1, [], 0) == (orders.lines("gone", "mentions", 0)[2], *orders.lines("gone", "mentions", 0)[:2])


def test_a_line_longer_than_a_piece_of_the_output_holds_nothing_up(tmp_path: Path) -> None:
    new_consortium(tmp_path / "north", "north", [], "127.0.0.1", free_port())
    orders = Orders(tmp_path / "north")
    output = orders.place_of_runs / "ada" / f"mentions{OUTPUT}"
    output.parent.mkdir(parents=True)
    output.write_text("first\n" + "x" * 700_000 + "\nlast\n", encoding="utf-8")
    message, start = "", 0
    for _ in range(6):
        lines, start, _ = orders.lines("ada", "mentions", start)
        message += "".join(lines)
    assert message == "first" + "x" * 700_000 + "last"


def test_the_run_of_somebody_who_is_revoked_ends_after_its_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(tmp_path, 1)
    new_consortium(door.centre, "north", (), "127.0.0.1", 1)
    for name in ("leaver", "stayer"):
        door.person(name, "submit")
    orders, begun, ended = Orders(door.centre), threading.Semaphore(0), dict[str, int]()
    for name in ("leaver", "stayer"):
        orders.place(name, Order(study=STUDY))

    def rounds(_study: object, _path: Path, out: Path, *_: object, **__: object) -> None:
        out.mkdir()
        begun.release()
        wait_until(lambda: stop_asked(out) or "leaver" in ended)
        raise SystemExit(130 if stop_asked(out) else 0)

    def carried_out(person: str) -> None:
        ended[person] = ordered._carried_out(orders, person, "mentions")

    monkeypatch.setattr(ordered, "carry_out", rounds)
    threads = [threading.Thread(target=carried_out, args=(name,)) for name in ("leaver", "stayer")]
    for thread in threads:
        thread.start()
        begun.acquire()
    message = CliRunner().invoke(app, ["consortium", "revoke", str(door.centre), "leaver"]).output
    for thread in threads:
        thread.join()
    assert "leaver is revoked, and may do nothing more; leaver/mentions will end after this round\n" == message
    assert {"leaver": 130, "stayer": 0} == ended
    assert [("leaver", "stop", "revoked: it ends after its round")] == [
        (line["person"], line["act"], line["outcome"]) for line in door.log()
    ]


def test_an_order_whose_run_has_not_begun_can_be_stopped_and_is_when_it_begins(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter, orders = door.folder / "w-submit", Orders(door.centre)
    for name in ("early", "nearby"):
        orders.place("w-submit", Order(study=STUDY.replace("mentions", name)))
    assert "early will stop after this round\n" == cli("stop", submitter, "early", cwd=door.folder).out
    said = CliRunner().invoke(app, ["stop", str(door.centre), "w-submit/nearby"])
    assert (0, "w-submit/nearby will stop after this round\n") == (said.exit_code, said.output)
    assert "is not a run of" in refusal(door.folder / "w-submit", "/stop", {"run": "w-admin/early"})
    ended: list[Path] = []

    def rounds(_study: object, _path: Path, out: Path, *_: object, **__: object) -> None:
        out.mkdir()
        forget_stop(out)  # as a run does that begins: what was asked of an earlier one in its folder is over
        wait_until(lambda: stop_asked(out))
        ended.append(out)
        raise SystemExit(130)

    monkeypatch.setattr(ordered, "carry_out", rounds)
    assert [130, 130] == [ordered._carried_out(orders, "w-submit", name) for name in ("early", "nearby")]
    assert ["early", "nearby"] == [out.name for out in ended]
    orders.place("w-submit", Order(study=STUDY.replace("mentions", "early"), resume=True))
    assert not orders.stopping("w-submit", "early")  # whoever goes on with it does not find it stopping
    orders.done("w-submit", "early", 0)


@pytest.mark.parametrize(
    ("length", "data", "refusal"),
    [
        (100, b"half of it", "has hung up before the last 90 bytes"),
        (1 << 40, b"more and more" * 100, "does not have the 100 bytes that were announced"),
        (None, b"more and more" * 100, "does not have the 100 bytes that were announced"),
    ],
)
def test_a_file_that_is_not_as_large_as_was_told_is_not_written(
    length: int | None, data: bytes, refusal: str, door: Door, tmp_path: Path
) -> None:
    person = door.folder / "fetcher"
    if not person.exists():
        door.person("fetcher", "submit")
    with socket.create_server(("127.0.0.1", 0)) as server:
        card = read_card(person).model_copy(update={"port": server.getsockname()[1]})
        (person / "person.json").write_bytes(card.encode())

        def half() -> None:
            line, _ = server.accept()
            with line, tls(door.centre).wrap_socket(line, server_side=True) as far:
                far.recv(1 << 16)
                size = "" if length is None else f"Content-Length: {length}\r\n"
                far.sendall(f"HTTP/1.1 200 OK\r\n{size}\r\n".encode() + data)

        thread = threading.Thread(target=half)
        thread.start()
        with pytest.raises(RunError, match=refusal):
            Errand(person).fetch("/files/fetcher/mentions/metrics.json", tmp_path / "metrics.json", 100)
        thread.join()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [10**13, -1, "1", True])
def test_no_more_is_fetched_than_was_agreed_to(size: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    liar = Liar("model/weights", size)
    monkeypatch.setattr("wardround.cli.afar.Errand", lambda _: liar)
    (tmp_path / "study.toml").write_text(STUDY)
    with pytest.raises(RunError, match="nothing was fetched"):
        afar.submit_from_afar(tmp_path / "study.toml", tmp_path, None, Order(study=""), quiet=True, most=4.0)
    assert [] == liar.written


def test_who_is_refused_while_a_run_is_followed_hears_so_at_once(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    person = door.person("follower", "submit")
    revoke_person(door.centre, "follower")
    monkeypatch.setattr(afar, "TRIES", 3)
    monkeypatch.setattr("wardround.cli.afar.time.sleep", lambda _: pytest.fail("asked again"))
    with pytest.raises(RunError, match="follower is revoked"):
        afar._followed(Errand(person), "follower/mentions", quiet=True)


def test_a_person_and_a_site_have_no_name_in_common(door: Door, tmp_path: Path) -> None:
    add(door.centre, ["mainz"])
    request, _ = new_person(tmp_path / "Mainz")
    with pytest.raises(RunError, match="mainz is a site"):
        admit_person(door.centre, request, "watch")
    door.person("twin", "watch")
    with pytest.raises(RunError, match="twin is a person"):
        add(door.centre, ["Twin"])
    revoke_person(door.centre, "twin")
    with pytest.raises(RunError, match="twin is a person"):
        add(door.centre, ["twin"])


@pytest.mark.parametrize("name", ["mentions.order", "mentions.ended", "mentions.output", "mentions.failed"])
def test_a_run_is_not_called_as_a_file_beside_another(tmp_path: Path, name: str) -> None:
    with pytest.raises(StudyError, match="name becomes a folder's name"):
        Orders(tmp_path).place("ada", Order(study=STUDY.replace('"mentions"', f'"{name}"')))


def test_a_full_disk_at_the_coordinator_is_told_and_an_earlier_run_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, body = PeopleDesk(tmp_path, Acts(tmp_path)), Order(study=STUDY).encode()
    desk.orders.place("ada", Order(study=STUDY))
    desk.orders.done("ada", "mentions", 0)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    monkeypatch.setattr("wardround.consortium.orders.write", full)
    scope = {
        "type": "http", "method": "POST", "path": "/submit", "headers": [(b"content-type", b"application/json")],
        "query_string": b"", "server": ("localhost", 1), "scheme": "https",
        "state": {"person": "ada", "role": "submit"},
    }  # fmt: skip
    (route,) = [one for one in desk.routes() if one.path == "/submit"]
    answer = asyncio.run(route.endpoint(Request(scope, receive)))
    assert (507, True) == (answer.status_code, b"no room left on its disk; nothing was begun" in answer.body)
    assert (True, False) == (desk.orders.known("ada", "mentions"), desk.orders.open("ada", "mentions"))
    (line,) = [json.loads(text) for text in (tmp_path / LOG).read_text(encoding="ascii").splitlines()]
    assert ("submit", True) == (line["act"], line["outcome"].startswith("the coordinator has no room left"))


def test_an_order_whose_process_cannot_be_started_is_not_taken_up_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = PeopleDesk(tmp_path, Acts(tmp_path))

    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("wardround.watch.errands.subprocess.Popen", none_left)
    request: Any = SimpleNamespace(state=SimpleNamespace(person="ada"))
    with pytest.raises(OSError, match=os.strerror(errno.EAGAIN)):
        desk.submit(request, Order(study=STUDY).encode())
    assert ([], {}) == (desk.orders.all_open(), desk.running)


def test_of_two_equal_orders_at_once_one_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, both = PeopleDesk(tmp_path, Acts(tmp_path)), threading.Barrier(2)
    started: list[str] = []

    def start(_: str, name: str) -> None:
        started.append(name)

    def late(person: str, name: str) -> bool:
        there = Orders.open(desk.orders, person, name)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return there

    monkeypatch.setattr(desk, "start", start)
    monkeypatch.setattr(desk.orders, "open", late)
    request: Any = SimpleNamespace(state=SimpleNamespace(person="ada"))
    body = Order(study=STUDY).encode()

    def submit() -> None:
        with suppress(RunError):
            desk.submit(request, body)

    threads = [threading.Thread(target=submit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["mentions"] == started


def test_a_run_that_two_see_end_at_once_has_ended(tmp_path: Path) -> None:
    desk, both = PeopleDesk(tmp_path, Acts(tmp_path)), threading.Barrier(2)
    failures: list[BaseException] = []

    def poll() -> int:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return 0

    def look() -> None:
        try:
            desk.look()
        except KeyError as error:
            failures.append(error)

    process: Any = SimpleNamespace(poll=poll)
    desk.running["ada", "mentions"] = process
    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ([], {}) == (failures, desk.running)


# what whoever means harm tries beyond that


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("corpus.folder=north/keys", "corpus has a key that says where paths begin"),
        ("task.folder=.", "task has a key that says where paths begin"),
        (
            "public.corpus={format='csv', train='ask.key', folder='keys'}",
            "public.corpus has a key that says where paths begin",
        ),
        ("name=x.order", "name becomes a folder's name"),
        ("name=x.ENDED", "name becomes a folder's name"),
        ("task.x={" + "a." * 60_000 + "a=1}", "more than 200 dots"),
    ],
)
@threat("a study from elsewhere")
def test_no_study_says_where_paths_begin_poses_as_an_order_or_is_read_for_minutes(change: str, reason: str) -> None:
    with pytest.raises(StudyError, match=re.escape(reason)):
        Order(study=STUDY, changes=(change,)).tables()


@threat("a log that is flooded")
def test_nobody_writes_the_log_full_or_keeps_an_act_out_of_it(door: Door) -> None:
    watcher, submitter = Errand(door.person("loud", "watch")), door.person("louder", "submit")
    root, key = Authority(door.centre / "root"), door.folder / "flood.key"
    make_key(key)
    shown = door.context(pem_of(root.signed(public_key_of(request_for(key, "x"), "x"), "flood@admin", 10)), key)
    for n in range(5):
        with pytest.raises(RunError, match="has the role watch here"):
            watcher.ask("/revoke", {"name": f"nobody-{n}"})
        assert f"there is no run louder/{n}" in refusal(submitter, "/stop", {"run": f"louder/{n}"})
        door.raw(shown, f"GET /%C2%9B{n} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        door.raw(watcher.context, b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    lines = [(line["person"], line["act"]) for line in door.log()]
    for one in (("loud", "revoke"), ("louder", "stop"), ("flood", "come in"), ("loud", "look")):
        assert 1 == lines.count(one), one
    assert (door.centre / "people.jsonl").read_bytes().isascii()
    half = Errand(door.person("half", "submit"))
    with pytest.raises(RunError, match="there is no run half/"):
        half.ask("/stop", {"run": "half/\ud800"})
    assert ("half", "stop") in [(line["person"], line["act"]) for line in door.log()]


class Liar:
    """A coordinator that answers what it likes."""

    def __init__(self, file: str, size: object = 1) -> None:
        self.answers: dict[str, dict[str, Any]] = {
            "/submit": {},
            "/files": {"files": {file: size}},
            "/output": {"lines": [], "end": 1, "code": 0},
        }
        self.card = Card.model_construct(consortium="north", host="h", port=1, name="ada", role="submit")
        self.written: list[Path] = []

    def ask(self, path: str, _: Any = None) -> dict[str, Any]:
        return self.answers[f"/{path.split('/')[1]}"]

    def fetch(self, _: str, target: Path, __: int) -> None:
        self.written.append(target)


@pytest.mark.parametrize("file", ["../x", "/x", "a\\x"])
@threat("a coordinator and a person's machine")
def test_a_coordinator_writes_nothing_beside_the_folder_of_a_run(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = Liar(file)
    monkeypatch.setattr("wardround.cli.afar.Errand", lambda _: liar)
    (tmp_path / "study.toml").write_text(STUDY)
    with pytest.raises(RunError, match="the coordinator"):
        afar.submit_from_afar(tmp_path / "study.toml", tmp_path, None, Order(study=""), quiet=True, most=4.0)
    assert [] == liar.written
