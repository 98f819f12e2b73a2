"""`wardround watch` as a command: its address, its token, its end, and what it refuses."""

import os
import re
import signal
import socket
from pathlib import Path

from run_folders import make_run
from serving import send
from study_files import Running, cli, start, wait_for


def up(server: Running) -> str:
    """The address that is printed once the page is there."""
    wait_for(lambda: server.out.exists() and "(Ctrl-C" in server.out.read_text("utf-8"), server.pid)
    address = re.search(r"http://\S+", server.out.read_text("utf-8"))
    assert address
    return address[0]


def test_it_prints_its_address_answers_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    server = start("watch", "run", "--port", 0, cwd=tmp_path)
    place = up(server)
    assert place.startswith("http://127.0.0.1:")
    assert b"small" in send(place, "/")[2]
    os.kill(server.pid, signal.SIGINT)
    ended = server.wait()
    assert (0, "", "stopped") == (ended.code, ended.err, ended.out.split()[-1])
    assert before == sorted(path.name for path in (tmp_path / "run").iterdir())


def test_beyond_this_machine_it_has_a_token_and_a_warning(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    server = start("watch", "run", "--port", 0, "--host", "0.0.0.0", cwd=tmp_path)  # noqa: S104 -- what is tested
    address = up(server)
    port = re.search(r":(\d+)/\?token=([\w-]{32})", address)
    assert port
    place = f"http://127.0.0.1:{port[1]}"
    assert [401, 303] == [send(place, path)[0] for path in ("/", f"/?token={port[2]}")]
    os.kill(server.pid, signal.SIGINT)
    assert "without TLS" in server.wait().err


def test_what_cannot_be_watched_or_listened_at_is_told_with_the_remedy(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = cli("watch", "run", "--port", port, cwd=tmp_path)
    assert (2, f"--port {port}: in use by another program; choose another, or 0 for a free one\n") == (
        ended.code, ended.err,
    )  # fmt: skip
    ended = cli("watch", "nothing", "--port", 0, cwd=tmp_path)
    assert (2, "nothing: there is no such folder; check the path\n") == (ended.code, ended.err)
