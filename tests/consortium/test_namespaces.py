"""Three hospitals that reach nothing but a proxy, with a password and without: whole runs, in network namespaces.

    WARDROUND_NAMESPACES=1 python -m pytest tests/consortium/test_namespaces.py       # as root, with ip and tinyproxy

The coordinator listens on port 443. What goes out of a hospital goes to the proxy; it has no other route.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from study_files import small_study
from wardround.consortium.approval import approve
from wardround.consortium.kits import init_site, new_consortium
from wardround.runs.files import read_journal
from wardround.study.load import Study, load_study

NAMES = ("site-0", "site-1", "site-2")
COORDINATOR = "10.9.0.2"
LOGIN = "ward:s3cret-w0rd@"
PROXY = """
Port 8888
User nobody
Timeout 600
MaxClients 100
Allow 10.1.0.0/16
ConnectPort 443
"""
ASKING = "BasicAuth ward s3cret-w0rd\n"

wanted = os.environ.get("WARDROUND_NAMESPACES") and os.geteuid() == 0
pytestmark = pytest.mark.skipif(
    not wanted or not all(map(shutil.which, ("ip", "tinyproxy"))),
    reason="needs WARDROUND_NAMESPACES=1, root, ip and tinyproxy",
)


def ip(*words: str, check: bool = True) -> None:
    subprocess.run([shutil.which("ip") or "ip", *words], check=check, capture_output=True)


@pytest.fixture
def network() -> Iterator[dict[str, str]]:
    """A namespace each for coordinator, proxy and hospitals, by name; only the proxy is between them."""
    mark = f"w{os.getpid()}"
    spaces = {name: f"{mark}-{name}" for name in ("coordinator", "proxy", *NAMES)}
    try:
        for space in spaces.values():
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        for number, name in enumerate(("coordinator", *NAMES)):
            net = "10.9.0" if name == "coordinator" else f"10.1.{number}"
            near, far = f"{mark}a{number}", f"{mark}b{number}"
            ip("link", "add", near, "type", "veth", "peer", "name", far)
            for end, space, address in ((near, "proxy", f"{net}.1"), (far, name, f"{net}.2")):
                ip("link", "set", end, "netns", spaces[space])
                ip("-n", spaces[space], "addr", "add", f"{address}/24", "dev", end)
                ip("-n", spaces[space], "link", "set", end, "up")
        yield spaces
    finally:
        for space in spaces.values():
            ip("netns", "delete", space, check=False)


def inside(space: str, *words: str, proxy: str = "") -> tuple[list[str], dict[str, str]]:
    """A command of ours in a namespace, and its environment."""
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    command = ["ip", "netns", "exec", space, sys.executable, "-m", "wardround", *words]
    return command, {**environment, **({"https_proxy": proxy} if proxy else {})}


def output_of(space: str, *words: str, proxy: str = "") -> str:
    command, environment = inside(space, *words, proxy=proxy)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def site(folder: Path, kit: Path, study: Study) -> Path:
    place = folder / kit.stem
    init_site(kit, place)
    consent = '[consent]\nsmallest_count = 0\nleast_examples = 0\nmessages = ["any", "Sums"]\n'
    (place / "site.toml").write_text(f'name = "{kit.stem}"\n[data]\nfrom_study = true\n{consent}', encoding="utf-8")
    approve(place, study)
    return place


@pytest.mark.parametrize("login", [LOGIN, ""], ids=["password", "none"])
def test_hospitals_that_reach_nothing_but_a_proxy_take_part(
    tmp_path: Path, network: dict[str, str], login: str
) -> None:
    path = small_study(tmp_path, rounds=2, sites={"quorum": 3}, partition={"name": "iid", "sites": 3})
    study = load_study(path)[0].study
    north = tmp_path / "north"
    kits = new_consortium(north, "north", NAMES, COORDINATOR, 443)
    places = {kit.stem: site(tmp_path, kit, study) for kit in kits}
    (tmp_path / "tinyproxy.conf").write_text(PROXY + (ASKING if login else ""), encoding="ascii")
    ways = {name: f"http://{login}10.1.{number}.1:8888" for number, name in enumerate(NAMES, 1)}
    with ExitStack() as stack:

        def start(words: list[str], environment: dict[str, str] | None = None, log: str = "") -> None:
            output = stack.enter_context((tmp_path / f"{log}.said").open("wb"))
            process = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)

        carrier = ["ip", "netns", "exec", network["proxy"], "tinyproxy", "-d", "-c", str(tmp_path / "tinyproxy.conf")]
        start(carrier, log="proxy")
        start(*inside(network["coordinator"], "coordinator", "start", str(north)), log="coordinator")
        time.sleep(1)
        first = NAMES[0]
        check = ("site", "check", str(places[first]))
        assert "cannot be reached (Network is unreachable)" in output_of(network[first], *check)
        if login:
            assert "asks for a name and password" in output_of(network[first], *check, proxy="http://10.1.1.1:8888")
            refused = output_of(network[first], *check, proxy="http://ward:no@10.1.1.1:8888")
            assert "refuses the name and password" in refused
        end = time.monotonic() + 120
        while "answers and knows this kit, through the proxy" not in (
            words := output_of(network[first], *check, proxy=ways[first])
        ):
            assert time.monotonic() < end, words
        assert "s3cret" not in words
        for name in NAMES:
            start(*inside(network[name], "site", "start", str(places[name]), proxy=ways[name]), log=name)
        out = tmp_path / "run"
        words = output_of(
            network["coordinator"], "submit", str(path), "--to", str(north), "--out", str(out), "--wait", "240"
        )
        assert (out / "model").exists(), words
    assert [(1, 3, {}), (2, 3, {})] == [(line.round, line.sites, dict(line.left_out)) for line in read_journal(out)]
