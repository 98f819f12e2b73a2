"""Who gets to the coordinator, who does not, and what both sides read of it: on real processes.

One federation serves the module. Each test leaves it whole, or waits until it is; the site that is revoked comes last.
"""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from fault_table import fault
from real_sites import Between, Federation, free_port, wait_until
from serving import send
from study_files import cli
from threat_table import threat
from wardround.consortium.admission import renew, revoke
from wardround.consortium.asking import asked
from wardround.consortium.forms import read_charter
from wardround.consortium.kit_check import reach
from wardround.consortium.kits import join
from wardround.consortium.people import admit_person, new_person, read_card, take_card
from wardround.consortium.presence import Presence
from wardround.consortium.roster import changed
from wardround.consortium.site_start import Console
from wardround.consortium.submit import Consortium, submit
from wardround.consortium.switchboard import ListenError, servers_at
from wardround.engines.certificates import Authority, Certificate, pem_of, read_certificate
from wardround.engines.frames import AccessError, Line, dial, door_of, listen
from wardround.engines.processes import WITH_PARENT, descendants
from wardround.engines.remote import borrowed
from wardround.runs.files import METRICS, Round
from wardround.study.load import Study, cells

pytest.importorskip("nvflare")

SITES = ("site-0", "site-1", "site-2")


@dataclass
class Scene:
    """The federation, and a study that its sites have approved."""

    federation: Federation
    study: Study
    cold_start: float
    """Seconds that it took until all sites were ready; a site that connects anew takes less."""

    @property
    def centre(self) -> Path:
        return self.federation.centre

    @property
    def address(self) -> tuple[str, int]:
        charter = read_charter(self.centre)
        return charter.host, charter.port

    def printed(self, name: str) -> str:
        return (self.federation.folder / f"{name}.said").read_text()

    def status(self, site: str) -> str:
        return str(asked(self.centre, "status")["sites"][site]["words"])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("w")
    tables = {
        "name": "wire", "rounds": 3, "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40}, "partition": {"name": "iid", "sites": 3},
        "sites": {"quorum": 1},
    }  # fmt: skip
    study = cells(tables, folder=folder)[0].study
    began = time.monotonic()
    with Federation(folder, SITES, page=free_port(), people=free_port()) as federation:
        federation.approve(study)
        federation.ready(study)
        yield Scene(federation, study, time.monotonic() - began)


@pytest.fixture(autouse=True)
def _whole(request: pytest.FixtureRequest) -> None:
    if "scene" in request.fixturenames:
        scene = request.getfixturevalue("scene")
        scene.federation.whole(scene.study)


# the address, and whoever crowds it


def listeners(pids: list[int]) -> set[str]:
    """The addresses on which these processes listen."""
    lines = [line for pid in pids for line in psutil.Process(pid).net_connections("tcp")]
    return {line.laddr.ip for line in lines if line.status == psutil.CONN_LISTEN}


@threat("other addresses")
def test_the_coordinator_listens_on_the_address_it_was_given_and_on_no_other(scene: Scene) -> None:
    host, port = scene.address
    with socket.create_connection((host, port), 10):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 10)
    pid = scene.federation.processes["coordinator"].pid
    addresses = listeners([pid, *descendants(pid)])
    assert {"127.0.0.1"} == {address.removeprefix("::ffff:") for address in addresses}


def test_an_address_that_cannot_be_listened_on_is_told_with_the_remedy(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(ListenError, match=r"192\.0\.2\.1 is not an address of this machine .* --listen ADDRESS"):
        servers_at("192.0.2.1", 8002)
    with pytest.raises(ListenError, match="is in use; is a coordinator running already"):
        servers_at(*scene.address)
    (server,) = servers_at("192.0.2.1", 0, "127.0.0.3")
    assert "127.0.0.3" == server.getsockname()[0]
    server.close()
    ended = cli("coordinator", "start", scene.centre, cwd=tmp_path)
    assert (2, True) == (ended.code, "is in use" in ended.err)


@contextmanager
def flood(address: tuple[str, int], count: int, origins: list[str], first: bytes) -> Iterator[list[socket.socket]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    ends: list[socket.socket] = []
    over = threading.Event()

    def again() -> None:
        """Keep them all open, whatever the other end does."""
        while not over.wait(0.03):  # three of them at once
            if len(ends) >= count:
                ends.pop(0).close()
            end = socket.socket()
            end.bind((origins[len(ends) % len(origins)], 0))
            if end.connect_ex(address) == 0 and first:
                end.send(first)
            ends.append(end)

    for _ in range(count):
        end = socket.socket()
        end.bind((origins[len(ends) % len(origins)], 0))
        end.connect(address)
        if first:
            end.send(first)
        ends.append(end)
    flooding = threading.Thread(target=again)
    flooding.start()
    try:
        yield ends
    finally:
        over.set()
        flooding.join()
        for end in ends:
            end.close()


HELLO = bytes.fromhex("16030100c8010000c4")  # the first bytes of a handshake that never goes on


@threat("half-open")
def test_half_open_connections_do_not_keep_a_site_out(scene: Scene) -> None:
    """From one address that says nothing, one that begins and never goes on, and many: all at once."""
    scene.federation.stop("site-1")
    wait_until(lambda: "not connected since" in scene.status("site-1"))
    many = [f"127.0.1.{n}" for n in range(1, 60)]
    with (
        flood(scene.address, 1150, ["127.0.0.2"], b""),
        flood(scene.address, 1150, ["127.0.0.3"], HELLO),
        flood(scene.address, 1150, many, HELLO),
    ):
        assert reach(scene.federation.site("site-0") / "kit" / "startup", *scene.address) is None
        scene.federation.start("site-1")
        scene.federation.ready(scene.study)
    for origin in ("127.0.0.2", "127.0.0.3", many[0]):
        assert f"{origin}: " in scene.printed("coordinator")


# two machines with one kit


@threat("second machine")
def test_a_second_machine_with_the_same_kit_is_refused_while_the_first_lives(scene: Scene, tmp_path: Path) -> None:
    shutil.copytree(
        scene.federation.site("site-0"), tmp_path / "b", ignore=shutil.ignore_patterns(".door*", ".lock", "memory")
    )
    command = [sys.executable, "-P", "-m", "wardround.consortium.site_start", str(tmp_path / "b"), "site-0"]
    with (tmp_path / "said").open("wb") as said:
        second = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, WITH_PARENT: "1"})
    lines: list[Round] = []
    try:
        wait_until(lambda: "this kit is in use on another machine" in (tmp_path / "said").read_text())
        wait_until(lambda: "site-0 from 127.0.0.1: a second machine" in scene.printed("coordinator"))
        assert "ready; a second machine with its kit was refused" == scene.status("site-0")
        before = len(scene.federation.ledger("site-0"))
        scene.federation.submit(scene.study, tmp_path / "run", progress=lines.append)
    finally:
        second.terminate()
        second.wait(60)
    assert [{}] * 3 == [line.left_out for line in lines]
    assert before < len(scene.federation.ledger("site-0"))
    assert "connected to the coordinator" not in (tmp_path / "said").read_text()


def test_the_coordinators_page_shows_a_site_go_and_come_back_and_the_run_meanwhile(
    scene: Scene, tmp_path: Path
) -> None:
    """The page is a program of its own, which is started again where it is killed."""
    place = f"http://127.0.0.1:{scene.federation.page}"

    def shows(path: str, *words: str) -> bool:
        try:
            page = send(place, path)[2].decode()
        except OSError:
            return False
        return all(word in page for word in words)

    wait_until(lambda: shows("/", "3 of 3 sites connected"))
    left_out: list[str] = []

    def noted(line: Round) -> None:
        if line.round == 1:
            scene.federation.kill("site-1")
            os.kill(scene.federation.pid("coordinator", "wardround.watch.coordinator"), signal.SIGKILL)
        left_out.extend(line.left_out)

    over = Consortium(scene.centre, patience=0.5)
    submit(scene.study, tmp_path / "run", over, progress=noted)
    assert {"site-1"} == set(left_out)
    wait_until(lambda: shows("/", "2 of 3 sites connected", "site-1 is gone"))
    *_, newest = re.findall(r"/run/\d+", send(place, "/")[2].decode())
    wait_until(lambda: shows(newest, "left out: ", "3 rounds: all rounds done"))
    scene.federation.start("site-1")
    wait_until(lambda: shows("/", "3 of 3 sites connected"))
    assert b'wardround_site_connected{site="site-1"} 1' in send(place, "/metrics")[2]


def test_a_site_that_was_killed_is_let_in_again(scene: Scene) -> None:
    scene.federation.kill("site-0")
    scene.federation.start("site-0")
    scene.federation.ready(scene.study)
    assert "in use on another machine" not in scene.printed("site-0")


# what status knows


def lent(centre: Path, site: str) -> Line:
    """The line to a site, as soon as nobody else has it."""
    lines: list[Line] = []

    def reached() -> bool:
        line = borrowed(door_of(centre), site)
        lines.extend([line] if isinstance(line, Line) else [])
        return bool(lines)

    wait_until(reached)
    return lines[0]


@fault("frozen")
def test_a_site_that_is_not_heard_of_is_called_silent_and_one_whose_process_is_frozen_is_not_called_ready(
    scene: Scene,
) -> None:
    """At the same time: all processes of one site, and of another its own process, behind a client that lives."""
    pid, process = scene.federation.processes["site-1"].pid, "wardround.consortium.site_process"
    frozen = scene.federation.pid("site-2", process)
    everyone = [pid, *descendants(pid), frozen]
    for one in everyone:
        os.kill(one, signal.SIGSTOP)
    began = time.monotonic()
    try:
        words = "connected, but its site process has not answered for "
        wait_until(lambda: scene.status("site-2").startswith(words), 60)
        wait_until(lambda: scene.status("site-1").startswith(("silent for", "not connected since")), 60)
        assert 60 > time.monotonic() - began
        wait_until(lambda: "site-2: its site process has not answered for " in scene.printed("coordinator"))
        assert scene.status("site-0").startswith("ready")
    finally:
        for one in everyone:
            os.kill(one, signal.SIGCONT)
    scene.federation.ready(scene.study)
    wait_until(lambda: ["ready"] * 2 == [scene.status(name) for name in ("site-1", "site-2")])
    scene.federation.kill_part("site-2", process)
    scene.federation.ready(scene.study)
    wait_until(lambda: "ready" == scene.status("site-2"))


def test_a_line_that_somebody_has_is_busy(scene: Scene) -> None:
    door = door_of(scene.centre)

    def asking(head: dict[str, Any]) -> dict[str, Any]:
        with dial(door, timeout=10.0) as desk:
            desk.send(head)
            return (desk.receive() or ({}, b""))[0]

    line = lent(scene.centre, "site-1")
    with line:
        assert {"lent": False, "busy": True, "barred": ""} == asking({"want": "site-1"})
        asking({"doing": "wire/run round 2", "sites": ["site-1", "site-9"]})
        assert "busy with wire/run round 2" == scene.status("site-1")
    wait_until(lambda: "ready" == scene.status("site-1"))
    assert {"lent": False, "busy": False, "barred": "unknown"} == asking({"want": "site-9"})


def test_a_full_disk_is_told_on_the_sites_own_console(scene: Scene, tmp_path: Path) -> None:
    pid = scene.federation.pid("site-1", "wardround.consortium.site_process")
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)

    def after(line: Round) -> None:
        if line.round <= 2:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (64, before[1]) if line.round == 1 else before)

    scene.federation.submit(scene.study, tmp_path / "run", progress=after)
    wait_until(lambda: "no room left on this disk, so nothing was sent" in scene.printed("site-1"))


# long messages


@pytest.mark.parametrize("size", [5, 3 << 20])
def test_a_long_answer_arrives_whole_whether_the_ask_was_short_or_long(scene: Scene, size: int) -> None:
    """A short ask travels in one piece; what is too long for one is fetched."""
    answer = ({"ask": "1"}, os.urandom(3 << 20))
    with Between(scene.federation.site("site-1"), lambda *_: answer), lent(scene.centre, "site-1") as line:
        line.socket.settimeout(60)
        line.send({"ask": "1", "seconds": 30.0}, bytes(size))
        assert answer == line.receive()


# sockets


def test_deleted_sockets_are_made_again(scene: Scene, tmp_path: Path) -> None:
    shutil.rmtree(door_of(scene.federation.site("site-0")).parent)
    door_of(scene.centre).unlink()
    wait_until(door_of(scene.centre).exists)
    scene.federation.ready(scene.study)
    scene.federation.submit(scene.study, tmp_path / "run")


def taken(place: Path) -> None:
    """As if another user had been first."""
    place.mkdir(parents=True)
    if os.getuid() == 0:
        os.chown(place, 12345, 12345)
    else:
        place.chmod(0o777)


@threat("squatted socket")
def test_nobody_can_be_first_at_a_sockets_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    short, long = tmp_path / "s", tmp_path / ("l" * 100)
    for folder in (short, long):
        folder.mkdir()
    monkeypatch.setattr("wardround.engines.frames.LONGEST", len(os.fsencode(short)) + 40)
    assert short / ".door" / "door" == door_of(short)
    first = door_of(long)
    assert (tmp_path, True) == (first.parents[1], first == door_of(long))
    first.parent.rmdir()
    assert first == door_of(long)  # as after a restart of the machine
    taken(first.parent)
    second = door_of(long)
    assert (True, second) == (second != first, door_of(long))
    monkeypatch.undo()
    for door in (short / ".door" / "door", second):
        listen(door).close()
    with pytest.raises(AccessError, match="can be entered by others"):
        listen(first)
    (tmp_path / "link").symlink_to(short / ".door")
    with pytest.raises(AccessError):
        listen(tmp_path / "link" / "door")


# certificates


def signed(centre: Path, old: Certificate, ends: datetime) -> Certificate:
    """The same certificate, until then."""
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 -- comes with NVFlare
    from cryptography.x509 import CertificateBuilder, random_serial_number  # noqa: PLC0415

    authority = Authority(centre / "root")
    begun = (
        CertificateBuilder().subject_name(old.subject).issuer_name(old.issuer).public_key(old.public_key())
        .serial_number(random_serial_number()).not_valid_before(old.not_valid_before_utc).not_valid_after(ends)
    )  # fmt: skip
    for extension in old.extensions:
        begun = begun.add_extension(extension.value, extension.critical)
    return begun.sign(authority.key, hashes.SHA256())


def test_a_certificate_that_ends_while_sites_are_connected_is_told_on_both_sides(scene: Scene, tmp_path: Path) -> None:
    path = scene.federation.site("site-1") / "kit" / "startup" / "client.crt"
    good = path.read_bytes()
    ends = datetime.now(UTC) + timedelta(seconds=10 + scene.cold_start)
    with changed(scene.centre) as members:
        before = members["site-1"]
        members["site-1"] = before.model_copy(update={"expires": ends})
    path.write_bytes(pem_of(signed(scene.centre, read_certificate(good), ends)))
    wait_until(lambda: "there is a new certificate; connecting with it" in scene.printed("site-1"))
    wait_until(lambda: "site-1: its certificate ends in less than a day" in scene.printed("coordinator"))
    wait_until(lambda: "this site's certificate ends in less than a day" in scene.printed("site-1"))
    scene.federation.ready(scene.study)
    since = f"expired less than a day ago ({ends:%Y-%m-%d})"
    wait_until(lambda: f"this site's certificate {since}; ask the coordinator for a new one" in scene.printed("site-1"))
    wait_until(lambda: "cut off: its certificate has expired" in scene.printed("coordinator"))
    remedy = f"give it a new one: wardround consortium renew '{scene.centre}' site-1"
    wait_until(lambda: f"site-1: its certificate {since}; {remedy}" in scene.printed("coordinator"))
    assert scene.status("site-1").startswith(f"certificate {since}")
    lines: list[Round] = []
    over = scene.federation.over(patience=1.0)
    scene.federation.submit(scene.study, tmp_path / "run", over=over, wait=1.0, progress=lines.append)
    assert [["site-1"]] * 3 == [list(line.left_out) for line in lines]
    with changed(scene.centre) as members:
        members["site-1"] = before
    path.write_bytes(good)
    scene.federation.ready(scene.study)


def test_certificates_that_end_soon_are_told_once_a_day(
    tmp_path: Path, scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    startup = tmp_path / "kit" / "startup"
    shutil.copytree(scene.federation.site("site-0") / "kit" / "startup", startup)
    ends = datetime.now(UTC) + timedelta(days=12, hours=1)
    old = read_certificate(startup / "client.crt")
    (startup / "client.crt").write_bytes(pem_of(signed(scene.centre, old, ends)))
    console = Console(tmp_path)
    for _ in range(3):
        console.look(1.0)
    assert 1 == capsys.readouterr().out.count(f"this site's certificate ends in 12 days ({ends:%Y-%m-%d}); ask the")
    lines: list[str] = []
    presence = Presence(scene.centre, lines.append)
    presence.read()
    site = presence.sites["site-0"]
    site.member = site.member.model_copy(update={"expires": ends})
    warnings = [text for _ in range(3) for text in presence.warnings({"coordinator": ends})]
    order = f"ends in 12 days ({ends:%Y-%m-%d}); give it a new one: wardround consortium renew '{scene.centre}'"
    assert [f"{name}: its certificate {order} {name}" for name in ("site-0", "coordinator")] == warnings


@threat("outdated")
def test_a_renewed_certificate_that_a_hospital_has_not_taken_is_told_until_it_has(scene: Scene) -> None:
    kit = renew(scene.centre, "site-0")
    assert kit is not None
    words = "shows the certificate from before it was renewed; there: wardround site join, with the new kit"
    wait_until(lambda: words in scene.status("site-0"))
    assert 1 == scene.printed("coordinator").count(f"site-0 {words}")
    scene.federation.ready(scene.study)  # it takes part as before
    join(scene.federation.site("site-0"), kit)
    wait_until(lambda: (text := scene.status("site-0")).startswith("ready") and words not in text)


def test_a_person_submits_from_another_machine_and_gets_what_comes_of_it(scene: Scene, tmp_path: Path) -> None:
    """Of the coordinator's folder nothing is needed there."""
    door = ("127.0.0.1", int(scene.federation.people or 0))
    ada = tmp_path / "ada"
    take_card(ada, admit_person(scene.centre, new_person(ada)[0], "submit", door=door))
    (tmp_path / "study.toml").write_text(scene.study.toml().replace('"wire"', '"afar"'))
    ended = cli("submit", "study.toml", "--to", "ada", "--set", "rounds=2", cwd=tmp_path)
    assert 0 == ended.code, ended.err
    assert "all 3 sites are ready" in ended.err
    fetched = tmp_path / "runs" / "afar"
    assert METRICS.read(fetched)
    assert (fetched / "report.html").is_file()
    assert list((fetched / "model").iterdir())
    assert 2 == METRICS.read(scene.centre / "runs" / "ada" / "afar").rounds  # type: ignore[union-attr]
    assert "ada/afar: finished; 2 rounds: all rounds done" in cli("status", "ada", cwd=tmp_path).out
    again = cli("submit", "study.toml", "--to", "ada", cwd=tmp_path)
    assert (2, True) == (again.code, "has been run already" in again.err)
    refused = cli("submit", "study.toml", "--to", "ada", "--set", "method.lr=0.5", "--set", "name=other", "--wait", 1,
                  cwd=tmp_path)  # fmt: skip
    assert (2, True) == (refused.code, "has not approved this study" in refused.err), refused.err


@threat("a person at NVFlare's door")
def test_a_persons_certificate_opens_nothing_at_the_hospitals_door(scene: Scene, tmp_path: Path) -> None:
    eve = tmp_path / "eve"
    take_card(eve, admit_person(scene.centre, new_person(eve)[0], "admin"))
    card = read_card(eve)
    proof = grpc.ssl_channel_credentials(
        card.root.encode(), (eve / "person.key").read_bytes(), card.certificate.encode()
    )
    host, port = scene.address
    options = [("grpc.ssl_target_name_override", "localhost")]
    with grpc.secure_channel(f"{host}:{port}", proof, options) as channel:
        call = channel.stream_stream("/streamer.Streamer/Stream")(iter([b""]))
        with pytest.raises(grpc.RpcError) as error:
            next(call)
    assert "refused: unknown" == error.value.details()


@threat("revoked")
def test_a_site_that_is_revoked_is_cut_off_and_told_on_both_sides(scene: Scene, tmp_path: Path) -> None:
    renew(scene.centre, "site-2")  # by its name, not by its last certificate, which is not the one that it shows
    line = lent(scene.centre, "site-2")
    with line:
        revoke(scene.centre, "site-2")
        line.socket.settimeout(60)
        assert line.receive() is None  # whoever was talking to it is cut off, too
    wait_until(lambda: "site-2 was revoked; it is cut off" in scene.printed("coordinator"))
    wait_until(lambda: "site-2 is gone" in scene.printed("coordinator"))
    wait_until(lambda: "the coordinator refuses this site: it was revoked" in scene.printed("site-2"))
    wait_until(lambda: "site-2 from 127.0.0.1: refused: it is revoked" in scene.printed("coordinator"))
    assert scene.status("site-2").startswith("revoked since ")
    ended = cli("status", scene.centre, cwd=tmp_path)
    assert (0, True) == (ended.code, "revoked since" in ended.out)
    assert "revoked" == borrowed(door_of(scene.centre), "site-2")
    scene.federation.kill("site-2")
    scene.federation.start("site-2")  # nor does a new start help
    count = scene.printed("site-2").count("refuses this site")
    wait_until(lambda: scene.printed("site-2").count("refuses this site") > count)
    scene.federation.names = SITES[:2]
    scene.federation.submit(scene.study, tmp_path / "run", wait=1.0)
