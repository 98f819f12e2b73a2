"""Commands of coordinators and hospitals: mistakes are answered with a remedy and exit code 2, and start nothing."""

import json
import shutil
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fault_table import fault
from loopback import DEPARTMENTS, Exchange
from real_sites import free_port
from wardround.cli.app import main
from wardround.consortium.submit import submit
from wardround.engines.certificates import Authority, pem_of, read_certificate
from wardround.engines.flare_kits import place_stores
from wardround.runs.errors import RunError
from wardround.study.load import cells

pytest.importorskip("nvflare")

STUDY = DEPARTMENTS.replace("rounds = 2", "rounds = 1")
ROWS = "text,label\n" + "".join(f"note {n} on aspirin,Medication\nnote {n} on fever,DISEASE\n" for n in range(15))


@pytest.fixture(scope="module")
def north(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A consortium of two sites, nothing of it running."""
    folder = tmp_path_factory.mktemp("n")
    main_ok("consortium", "new", "north", "a", "b", "--address", f"127.0.0.1:{free_port()}", "--out", folder / "north")
    return folder / "north"


def main_ok(*arguments: object) -> None:
    """A command that ends well."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code in (0, None)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command that ends with exit code 2 says."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert 2 == ended.value.code
    return capsys.readouterr().err


@pytest.fixture
def site(north: Path, tmp_path: Path) -> Path:
    """A hospital that has unpacked its kit and put its notes beside it."""
    main_ok("site", "init", north / "kits" / "a.zip", tmp_path / "a")
    for split in ("train", "test"):
        (tmp_path / "a" / f"{split}.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path / "a"


def mapped(site: Path) -> None:
    told = (site / "site.toml").read_text().replace("# Medication", "Medication")
    (site / "site.toml").write_text(told)


# consortia


def test_names_that_cannot_be_are_all_answered_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error_text = refused(
        capsys, "consortium", "new", "x", "a", "a", "../b", "server", "--address", "h", "--out", tmp_path / "x"
    )
    assert "two sites are called 'a'" in error_text
    assert "'../b' cannot be a name" in error_text
    assert "'server' is taken" in error_text
    assert not (tmp_path / "x").exists()
    assert "is not a port" in refused(capsys, "consortium", "new", "x", "a", "--address", "host:http")
    for host in ("", "a host", "[::1]", "h..org", "-h"):
        error_text = refused(capsys, "consortium", "new", "x", "a", "--address=" + host, "--out", tmp_path / "x")
        assert f"{host!r} is not a host name or an IPv4 address" in error_text
    assert not (tmp_path / "x").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "not empty" in refused(capsys, "consortium", "new", "x", "a", "--address", "h", "--out", tmp_path / "full")


def test_kits_are_hardened_and_for_their_site_alone(north: Path, site: Path) -> None:
    resources = json.loads((site / "kit" / "local" / "resources.json").read_text())
    rights = json.loads((site / "kit" / "local" / "authorization.json").read_text())
    assert ["wardround.engines.flare.Door", "wardround.engines.flare.Pipe"] == resources["class_allow_list"]
    launchers = [part["path"] for part in resources["components"] if part["id"] == "process_launcher"]
    assert ["wardround.engines.flare.Launcher"] == launchers
    assert resources["allow_log_streaming"] is False
    assert "site_log_streamer" not in [component["id"] for component in resources["components"]]
    assert ["project_admin"] == list(rights["permissions"])
    assert "none" == rights["permissions"]["project_admin"]["byoc"]
    assert "none" == rights["permissions"]["project_admin"]["shell_commands"]
    server = (north / "server" / "local" / "resources.json").read_text()
    assert "/tmp/nvflare" not in server  # noqa: S108 -- NVFlare's default
    assert str(north / "server" / "store") in server
    assert [0o600, 0o600] == [path.stat().st_mode & 0o777 for path in sorted((north / "kits").glob("*.zip"))]
    assert 0o600 == (site / "kit" / "startup" / "client.key").stat().st_mode & 0o777
    assert ["root.crt", "root.key"] == sorted(path.name for path in (north / "root").iterdir())


def test_a_consortium_may_be_made_in_a_relative_folder_and_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main_ok("consortium", "new", "north", "a", "--address", "h")
    for place in ("north", "elsewhere"):
        if place == "elsewhere":
            (tmp_path / "north").rename(tmp_path / place)
            place_stores(Path(place) / "server")  # as its coordinator does when it starts
        told = (tmp_path / place / "server" / "local" / "resources.json").read_text()
        assert {f"{tmp_path / place}/server/store/{kind}" for kind in ("jobs", "snapshots")} == {
            word for word in told.split('"') if "/store/" in word
        }


def test_a_port_in_use_is_named(north: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = json.loads((north / "consortium.json").read_text())["port"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert f"port {port} of 127.0.0.1 is in use" in refused(capsys, "coordinator", "start", north)


def test_what_is_not_running_is_said_to_be(north: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = site.parent / "study.toml"
    for command in (["status", north], ["stop", north], ["submit", study, "--to", north, "--wait", 0]):
        assert f"start it with: wardround coordinator start {north}" in refused(capsys, *command)
    assert "holds no consortium" in refused(capsys, "submit", study, "--to", site)


def test_a_grid_is_not_submitted(north: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = site.parent / "study.toml"
    study.write_text(STUDY + '[grid]\n"method.lr" = [0.1, 0.2]\n')
    assert "is a grid of 2 runs" in refused(capsys, "submit", study, "--to", north)


# hospitals


def test_a_certificate_that_ends_soon_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for days, soon in ((10, True), (100, False)):
        place = tmp_path / f"{days}"
        main_ok("consortium", "new", "x", "a", "--address", "h", "--days", days, "--out", place)
        main_ok("site", "init", place / "kits" / "a.zip", place / "a")
        capsys.readouterr()
        main_ok("site", "check", place / "a", "--offline")
        assert soon is ("which is soon: ask the coordinator for a new kit" in capsys.readouterr().out)


@pytest.mark.parametrize(("minutes", "late"), [(4, False), (10, True)])
def test_clocks_may_be_minutes_apart_and_no_more(
    minutes: int, late: bool, north: Path, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Certificates alone have a time; letters, keys and sums go by numbers of their own."""
    authority = Authority(north / "root", datetime.now(UTC) + timedelta(minutes=minutes))
    path = site / "kit" / "startup" / "client.crt"
    path.write_bytes(pem_of(authority.renewed(read_certificate(path), 100)))
    with pytest.raises(SystemExit):
        main(["site", "check", str(site), "--offline"])
    assert late is ("is this machine's clock right?" in " ".join(capsys.readouterr().out.split()))


def test_a_site_is_checked_and_told_what_would_leave_before_it_approves(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped(site)
    study = site.parent / "study.toml"
    main_ok("site", "check", site, "--study", study, "--offline")
    output = capsys.readouterr().out
    assert "ok  data: 30 training and 30 test examples" in output
    assert "ok  disk:" in output
    assert "how the site's notes move the model" in output
    assert "bytes leave this site" in output
    assert "never leaves: text, tokens, entity strings, document ids, private records\n" in output
    assert "fewer than 10 examples are left out of what evaluation tells; an update can still give them away" in output
    main_ok("site", "approve", site, study)
    assert 1 == len(list((site / "approved").glob("*.toml")))


def test_a_hospital_may_look_before_it_joins_and_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_ok("site", "init", tmp_path / "early")
    capsys.readouterr()
    main_ok("site", "check", tmp_path / "early", "--offline")
    assert "??  kit: " in capsys.readouterr().out
    assert "has not joined yet" in refused(capsys, "site", "start", tmp_path / "early")
    with pytest.raises(SystemExit):
        main(["site", "check", str(tmp_path / "early")])
    assert "BAD kit: " in capsys.readouterr().out


def test_a_label_that_the_study_does_not_know_is_answered_with_the_nearest(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = site.parent / "study.toml"
    told = (site / "train.csv").read_text().replace("Medication", "Disease")
    (site / "train.csv").write_text(told)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["site", "check", str(site), "--study", str(study), "--offline"])
    said = capsys.readouterr().out
    assert 'label "Disease" is not in the study; map it under [labels] in site.toml: Disease = "DISEASE"' in said
    assert 'label "Medication" is not in the study; map it under [labels] in site.toml: Medication = "' in said
    assert "not approved:" in refused(capsys, "site", "approve", site, study)
    assert not (site / "approved").exists()


def test_keys_and_addresses_that_are_wrong_start_nothing(
    north: Path, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = "127.0.0.1"
    assert f"{host}:" in (said := refused(capsys, "site", "start", site))
    assert "cannot be reached (Connection refused)" in said
    key = site / "kit" / "startup" / "client.key"
    key.chmod(0o644)
    assert f"can be read by others; make it yours alone: chmod 600 {key}" in refused(capsys, "site", "start", site)
    key.chmod(0o600)
    main_ok("site", "init", north / "kits" / "b.zip", tmp_path / "b")
    shutil.copy(tmp_path / "b" / "kit" / "startup" / "client.key", key)
    assert "client.key does not belong to client.crt" in refused(capsys, "site", "start", site)
    config = tmp_path / "b" / "kit" / "startup" / "fed_client.json"
    config.write_text(config.read_text().replace(host, "evil.example.org"))
    assert f"{config} was changed since the kit was taken up" in refused(capsys, "site", "start", tmp_path / "b")
    main_ok("consortium", "new", "x", "c", "--address", "nowhere.invalid", "--out", tmp_path / "x")
    main_ok("site", "init", tmp_path / "x" / "kits" / "c.zip", tmp_path / "c")
    assert "nowhere.invalid:8002 is an address that cannot be found" in refused(capsys, "site", "start", tmp_path / "c")


def test_kits_that_are_none_and_folders_that_are_taken(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.zip").write_bytes(b"no zip")
    assert "is not a start-up kit" in refused(capsys, "site", "init", tmp_path / "x.zip", tmp_path / "new")
    assert "there is no such file" in refused(capsys, "site", "init", tmp_path / "y.zip", tmp_path / "new")
    assert "is not empty" in refused(capsys, "site", "init", tmp_path / "x.zip", site)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("text", "message"), [
    ("nam = 'a'\n[data]\nformat='csv'", "nam is unknown; did you mean 'name'?"),
    ("name = 'a'", "data is missing: say under [data] where the notes are"),
    ("name = 'a'\nthreads = 0\n[data]\nfrom_study=true", "threads = 0: should be greater than or equal to 1"),
    ("name = 'a'\ndevice = 'gpu'\n[data]\nfrom_study=true", "device = 'gpu': should be \"auto\", \"cpu\", \"cuda\""),
    ("name = 'a'\ndevice = 'cuda:31'\n[data]\nfrom_study=true", "device = 'cuda:31': "),
    ("name = 'a'\n[data]\nfrom_study=true\n[consent]\nstep = 'any'", "consent.step is unknown; did you mean 'steps'?"),
    ("name = 'a'\n[data]\nfrom_study=1\n[consent]\nsteps = 'some'", "consent.steps = 'some': should be a valid array"),
    ("name = [", "cannot be read"),
])  # fmt: skip
def test_mistakes_in_a_sites_settings_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (tmp_path / "site.toml").write_text(text)
    assert message in refused(capsys, "site", "start", tmp_path)


def test_a_site_without_data_for_the_task_says_so(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapped(site)
    (site / "train.csv").write_text("text,label\n")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["site", "check", str(site), "--study", str(site.parent / "study.toml"), "--offline"])
    assert "BAD data: " in capsys.readouterr().out


# at the handshake


TABLES = {
    "name": "handshake", "rounds": 1, "method": {"name": "fedavg"}, "task": {"name": "features"},
    "corpus": {"name": "synthetic", "sites": 2, "largest": 40}, "partition": {"name": "iid", "sites": 2},
}  # fmt: skip


@fault("versions")
def test_mixed_versions_are_refused_with_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.consortium.site_process.__version__", "9.9.9")
    study = cells(TABLES)[0].study
    with (
        Exchange(tmp_path / "x", study, ["site-0", "site-1"]) as exchange,
        pytest.raises(
            RunError, match=r"site-0: refused: it runs wardround 9\.9\.9, the coordinator \d.*install \d\.\d\.x"
        ),
    ):
        submit(study, tmp_path / "run", exchange.over, wait=0.1)


def test_the_ledger_can_be_read_and_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = cells(TABLES)[0].study
    with Exchange(tmp_path / "x", study, ["site-0", "site-1"]) as exchange:
        submit(study, tmp_path / "run", exchange.over)
    capsys.readouterr()
    main_ok("ledger", "show", tmp_path / "x" / "site-0")
    output = capsys.readouterr().out
    assert "Update" in output
    assert "how the site's notes move the model" in output
    main_ok("ledger", "verify", tmp_path / "x" / "site-0", "--against", tmp_path / "run")
    assert "the chain is intact" in capsys.readouterr().out
    path = tmp_path / "x" / "site-0" / "ledger" / "site.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))  # the model, a last word, an answer
    output = refused(capsys, "ledger", "verify", tmp_path / "x" / "site-0", "--against", tmp_path / "run")
    assert "lines were cut off or replaced" in output
    path.write_text(path.read_text().replace("Update", "update"))
    assert "the chain is broken here" in refused(capsys, "ledger", "verify", tmp_path / "x" / "site-0")
    assert "there is no ledger" in refused(capsys, "ledger", "show", tmp_path)
