"""`wardround serve` as a command: its address, its end, and what it refuses."""

import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from serving import send
from study_files import Running, cli, start, wait_for
from wardround.cli.app import app
from wardround.serve.server import HostError, address, listening, loopback, names


def up(server: Running) -> str:
    """The address that a server prints when it is up."""
    wait_for(lambda: server.out.exists() and "(Ctrl-C" in server.out.read_text("utf-8"), server.pid)
    found = re.search(r"http://\S+", server.out.read_text("utf-8"))
    assert found
    return found[0]


def test_it_prints_its_address_answers_writes_nothing_and_ends_by_ctrl_c(tagger: Path, tmp_path: Path) -> None:
    server = start("serve", tagger, "--port", 0, "--largest", 1, cwd=tmp_path)
    place = up(server)
    assert place.startswith("http://127.0.0.1:")
    assert 1_000_000 == send(place, "/model")[2]["largest"]
    assert 200 == send(place, "/predict", {"text": "Zanzibar fever"})[0]
    os.kill(server.pid, signal.SIGINT)
    ended = server.wait()
    assert (0, "") == (ended.code, ended.err)
    assert [place, "stopped"] == [ended.out.split()[0], ended.out.split()[-1]]
    assert "Zanzibar" not in ended.out
    assert [] == list(tmp_path.iterdir())


def test_a_port_in_use_is_told_with_the_remedy(tagger: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = cli("serve", tagger, "--port", port, cwd=tmp_path)
    assert 2 == ended.code
    assert f"--port {port}: in use by another program; choose another, or 0 for a free one\n" == ended.err


def test_a_damaged_model_is_refused(tagger: Path, tmp_path: Path) -> None:
    ended = cli("serve", tagger, tmp_path / "none", "--port", 0, cwd=tmp_path)
    assert 2 == ended.code
    assert "none: there is no such folder" in ended.err


def test_beyond_this_machine_one_is_warned(tagger: Path, tmp_path: Path) -> None:
    server = start("serve", tagger, "--port", 0, "--host", "0.0.0.0", cwd=tmp_path)  # noqa: S104 -- what is tested
    port = int(up(server).rpartition(":")[2].strip("/"))
    status = [send(f"http://127.0.0.1:{port}", "/health", headers={"Host": host})[0] for host in ("10.1.2.3", "evil")]
    os.kill(server.pid, signal.SIGINT)
    ended = server.wait()
    assert [200, 421] == status
    assert 0 == ended.code
    assert "notes cross the network without TLS" in ended.err


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(tagger: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in [name for name in sys.modules if name.startswith(("wardround.serve", package))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    ended = CliRunner().invoke(app, ["serve", str(tagger)])
    assert 2 == ended.exit_code
    assert f"this needs {package}; install it with: pip install 'wardround[serve]'" in ended.stderr


def test_a_host_that_is_not_here_is_told() -> None:
    with pytest.raises(HostError, match=r"--host 203\.0\.113\.7: not an address of this machine"):
        listening("203.0.113.7", 0)
    with pytest.raises(HostError, match="no such name"):
        listening("no such host", 0)


def test_an_address_is_written_as_browsers_take_it() -> None:
    with listening("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
        assert loopback(door)
        assert f"http://localhost:{port}/" == address("localhost", door)
        assert f"http://[::1]:{port}/" == address("::1", door)
    assert ("ward.example",) == names("ward.example")
