"""Keys are made at the hospital, kits are data: the whole way in, and everything that is refused on it."""

import io
import json
import os
import shutil
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from real_sites import Federation, wait_until
from wardround.cli.app import main
from wardround.consortium.admission import add, admit, fingerprint_of, renew, revoke, soon_over
from wardround.consortium.kit_check import kit_problems, reach
from wardround.consortium.kit_files import LIMIT, read_kit, read_request, write_kit
from wardround.consortium.kits import init_site, join, new_consortium, new_site
from wardround.consortium.roster import Member, changed, lasts, read_roster
from wardround.engines.certificates import Authority, Certificate, pem_of, read_certificate
from wardround.engines.seal import read_sealing_key
from wardround.runs.errors import RunError

pytest.importorskip("nvflare")

HOST = "127.0.0.1"


def called(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """A command's exit code and what it prints."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture(scope="module")
def north(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A consortium with one ready-made site, nothing of it running."""
    folder = tmp_path_factory.mktemp("n") / "north"
    new_consortium(folder, "north", ["ready"], HOST, 8002)
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hospital that made its keys and has no kit yet."""
    folder = tmp_path_factory.mktemp("o") / "own"
    new_site(folder)
    return folder


@pytest.fixture
def site(north: Path, tmp_path: Path) -> Path:
    """A hospital that took its ready-made kit."""
    init_site(north / "kits" / "ready.zip", tmp_path / "ready")
    return tmp_path / "ready"


def copied(north: Path, tmp_path: Path) -> Path:
    """A consortium to change."""
    shutil.copytree(north, tmp_path / "north")
    return tmp_path / "north"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# the whole way


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A coordinator that runs and has no members yet."""
    with Federation(tmp_path_factory.mktemp("r"), []) as federation:
        yield federation


def at(federation: Federation) -> tuple[str, int]:
    return HOST, int(json.loads((federation.centre / "consortium.json").read_text())["port"])


def admitted(federation: Federation, place: Path, days: int = 360) -> Path:
    """A hospital that made its keys and was admitted."""
    _, path = new_site(place)
    join(place, admit(federation.centre, read_request(path), days))
    return place


def test_a_hospital_makes_its_keys_is_admitted_and_joins_a_coordinator_that_runs(
    running: Federation, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    centre = running.centre
    code, out, _ = called(capsys, "site", "init", "charite")
    mark = out.partition("over the phone: ")[2].splitlines()[0]
    assert (0, 24 + 5) == (code, len(mark))
    for key in ("keys/seal.key", "kit/startup/client.key"):
        assert 0o600 == stat.S_IMODE((tmp_path / "charite" / key).stat().st_mode)
    assert "has not joined yet" in called(capsys, "site", "start", "charite")[2]

    request = tmp_path / "charite" / "charite.request"
    assert b"PRIVATE" not in request.read_bytes()
    code, out, err = called(capsys, "consortium", "admit", centre, request)
    assert (2, True, True) == (code, mark in out, "--fingerprint" in err)
    other = "0000 " * 6
    code, _, err = called(capsys, "consortium", "admit", centre, request, "--fingerprint", other)
    assert (2, True) == (code, "it is not what the hospital made" in err)
    assert {} == read_roster(centre)
    code, out, _ = called(
        capsys, "consortium", "admit", centre, request, "--fingerprint", mark.upper().replace(" ", "")
    )
    assert (0, True) == (code, "it holds no secret" in out)
    assert fingerprint_of(centre) in out

    kit = centre / "kits" / "charite.zip"
    assert ["client.crt", "rootCA.pem", "site.json"] == sorted(zipfile.ZipFile(kit).namelist())
    assert (2, True) == (
        (ended := called(capsys, "site", "join", "charite", kit, "--fingerprint", other))[0],
        "ask whoever told you" in ended[2],
    )
    assert "that is this site's own" in called(capsys, "site", "join", "charite", kit, "--fingerprint", mark)[2]
    assert not (tmp_path / "charite" / "kit" / "site.json").exists()
    code, out, _ = called(capsys, "site", "join", "charite", kit)
    assert (0, True) == (code, fingerprint_of(centre) in out)

    startup = tmp_path / "charite" / "kit" / "startup"
    wait_until(lambda: reach(startup, *at(running)) is None)
    monkeypatch.setattr(running, "site", lambda _name: tmp_path / "charite")
    (tmp_path / "charite" / "site.toml").write_text('name = "charite"\n[data]\nfrom_study = true\n')
    running.start("charite")
    wait_until(lambda: "charite is connected" in (running.folder / "coordinator.said").read_text())
    running.stop("charite")
    assert [] == list(kit_problems(tmp_path / "charite"))


def test_no_private_key_of_a_site_is_at_the_coordinator(running: Federation, tmp_path: Path) -> None:
    place = admitted(running, tmp_path / "lmu")
    ready = tmp_path / "ready"
    (kit,) = add(running.centre, ["ready"])
    init_site(kit, ready)
    kit.unlink()
    keys = [folder / name for folder in (place, ready) for name in ("keys/seal.key", "kit/startup/client.key")]
    bodies = [b"".join(key.read_bytes().splitlines()[1:-1])[8:60] for key in keys]
    holders = set()
    for name, data in files(running.centre).items():
        flat = data.replace(b"\n", b"").replace(b"\\n", b"")
        assert not any(body in flat for body in bodies), name
        if b"PRIVATE KEY" in data:
            holders.add(name)
    assert {"admin/startup/client.key", "keys/ask.key", "root/root.key", "server/startup/server.key"} == holders
    assert {0o600} == {stat.S_IMODE((running.centre / name).stat().st_mode) for name in holders}


def test_a_site_is_admitted_only_when_the_hospital_says_the_same(
    north: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    centre = copied(north, tmp_path)
    _, request = new_site(tmp_path / "b")
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert "not admitted; nothing was written" in called(capsys, "consortium", "admit", centre, request)[2]
    assert ["ready"] == list(read_roster(centre))
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert 0 == called(capsys, "consortium", "admit", centre, request)[0]
    assert ["ready", "b"] == list(read_roster(centre)) == json.loads((centre / "consortium.json").read_text())["sites"]


def test_a_ready_made_kit_is_said_to_be_for_rehearsals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = called(capsys, "consortium", "new", "x", "a", "--address", "h", "--out", tmp_path / "x")
    assert "holds the site's private keys; for rehearsals" in out
    assert "for patients' notes keys are made at the hospital: wardround site init, consortium admit" in out
    _, out, _ = called(capsys, "consortium", "add", tmp_path / "x", "b")
    assert "holds the site's private keys; for rehearsals" in out
    init_site(tmp_path / "x" / "kits" / "b.zip", tmp_path / "b")
    seal = read_sealing_key(tmp_path / "b" / "keys" / "seal.key").public_key().public_bytes_raw().hex()
    assert seal == read_roster(tmp_path / "x")["b"].seal
    assert ["a", "b"] == json.loads((tmp_path / "b" / "kit" / "site.json").read_text())["sites"]


# requests that are none


def test_requests_that_are_none_are_refused_with_one_message(
    north: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, path = new_site(tmp_path / "good")
    row = json.loads(path.read_text())
    flipped = row["csr"].splitlines()
    flipped[-2] = ("A" if flipped[-2][5] != "A" else "B").join((flipped[-2][:5], flipped[-2][6:]))
    cases: dict[str, list[bytes | str]] = {
        "it should be JSON with name, csr, seal, version": [b"", b"[]", b"\xff", b"{" * 100_000],
        "it has 'x', which is unknown": [json.dumps({**row, "x": "y"})],
        "larger than": [b" " * (LIMIT + 1)],
        "is for good, not for other": [json.dumps({**row, "name": "other"})],
        "is taken by the coordinator": [json.dumps({**row, "name": "Server"})],
        "cannot be a name": [json.dumps({**row, "name": "../x"})],
        "it has no seal": [json.dumps({**row, "seal": seal}) for seal in (1, "x" * 64, row["seal"][1:])],
        "it has a wrong seal: letters cannot be sealed to it": [json.dumps({**row, "seal": "0" * 64})],
        "not signed with the key": [json.dumps({**row, "csr": "\n".join(flipped)})],
        "cannot be read": [json.dumps({**row, "csr": row["csr"][:200]})],
    }  # fmt: skip
    before = files(north)
    for why, texts in cases.items():
        for text in texts:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            code, _, err = called(capsys, "consortium", "admit", north, path, "--fingerprint", good.fingerprint)
            assert (2, True, True, 1) == (code, why in err, "is not a request to join" in err, err.count("\n")), err
    assert before == files(north)


# kits that are none


def kit_bytes(kit: Path, change: Callable[[dict[str, bytes]], object] = lambda _parts: None) -> bytes:
    """A kit with some of its parts changed."""
    with zipfile.ZipFile(kit) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    change(parts)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return made.getvalue()


def with_entry(kit: Path, entry: zipfile.ZipInfo | str, data: bytes = b"x") -> bytes:
    made = io.BytesIO(kit_bytes(kit))
    with warnings.catch_warnings(), zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as file:
        warnings.simplefilter("ignore")  # of a name that is there already
        file.writestr(entry, data)
    return made.getvalue()


def with_site(kit: Path, **more: object) -> bytes:
    def change(parts: dict[str, bytes]) -> None:
        parts["site.json"] = json.dumps({**json.loads(parts["site.json"]), **more}).encode()

    return kit_bytes(kit, change)


def symlink(kit: Path) -> bytes:
    entry = zipfile.ZipInfo("seal.key")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    made = io.BytesIO(kit_bytes(kit, lambda parts: parts.pop("seal.key")))
    with zipfile.ZipFile(made, "a") as file:
        file.writestr(entry, b"/etc/passwd")
    return made.getvalue()


def bomb(kit: Path) -> bytes:
    return kit_bytes(kit, lambda parts: parts.update({"rootCA.pem": b"\n" * (64 << 20)}))


def lying_bomb(kit: Path) -> bytes:
    """One whose directory says that it is small."""
    return bomb(kit).replace(struct.pack("<L", 64 << 20), struct.pack("<L", 1000))


MALFORMED: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "no zip": (lambda _kit: b"no zip", "it is not a whole zip file"),
    "nothing": (lambda _kit: b"", "it is not a whole zip file"),
    "cut": (lambda kit: kit.read_bytes()[:-30], "it is not a whole zip file"),
    "cut in front": (lambda kit: kit.read_bytes()[300:], "it is not a whole zip file"),
    "large": (lambda kit: kit.read_bytes() + b"\0" * LIMIT, "larger than"),
    "bomb": (bomb, "unpacks to more than"),
    "lying bomb": (lying_bomb, "it is not a whole zip file"),
    "python": (lambda kit: with_entry(kit, "evil.py"), "'evil.py'"),
    "local/custom": (lambda kit: with_entry(kit, "local/custom/nvflare_decomposers/x.py"), "'local/custom/"),
    "resources": (lambda kit: with_entry(kit, "local/resources.json"), "'local/resources.json'"),
    "outside": (lambda kit: with_entry(kit, "../../evil"), "'../../evil'"),
    "absolute": (lambda kit: with_entry(kit, "/etc/evil"), "'/etc/evil'"),
    "folder": (lambda kit: with_entry(kit, "client.crt/"), "'client.crt/'"),
    "nul": (lambda kit: with_entry(kit, "client.crtx").replace(b"client.crtx", b"client.crt\0"), "no kit does"),
    "twice": (lambda kit: with_entry(kit, "client.crt"), "client.crt twice"),
    "symlink": (symlink, "not a plain file"),
    "without root": (lambda kit: kit_bytes(kit, lambda parts: parts.pop("rootCA.pem")), "rootCA.pem is missing"),
    "one key": (lambda kit: kit_bytes(kit, lambda parts: parts.pop("seal.key")), "seal.key is missing"),
    "no JSON": (lambda kit: kit_bytes(kit, lambda parts: parts.update({"site.json": b"{"})), "be JSON"),
    "deep JSON": (lambda kit: kit_bytes(kit, lambda parts: parts.update({"site.json": b"[" * 99_999})), "be JSON"),
    "a list": (lambda kit: kit_bytes(kit, lambda parts: parts.update({"site.json": b"[]"})), "be JSON"),
    "no ask key": (lambda kit: with_site(kit, ask_key=None), "no ask_key"),
    "a wrong ask key": (lambda kit: with_site(kit, ask_key="ab"), "no ask_key, or not one of the right kind"),
    "more": (lambda kit: with_site(kit, custom="x"), "'custom', which is unknown"),
    "a host that is none": (lambda kit: with_site(kit, host="h; rm -rf /"), "is not a host name"),
    "a port that is none": (lambda kit: with_site(kit, port=70000), "70000 is not a port"),
    "a true port": (lambda kit: with_site(kit, port=True), "no port"),
    "a path for a name": (lambda kit: with_site(kit, site="../x"), "cannot be a name"),
    "a path for a consortium": (lambda kit: with_site(kit, name="a/b"), "cannot be a name"),
    "sites that are none": (lambda kit: with_site(kit, sites=[{"a": 1}]), "no sites, or not"),
    "another's name": (lambda kit: with_site(kit, site="another"), "its certificate is for 'ready', not for another"),
    "no certificate": (
        lambda kit: kit_bytes(kit, lambda parts: parts.update({"client.crt": b"x"})), "is not a certificate",
    ),
    "another root": (
        lambda kit: kit_bytes(kit, lambda parts: parts.update({"rootCA.pem": parts["client.crt"]})),
        "is not signed by its root",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_kit_is_one_message_and_nothing_is_written(
    north: Path, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    make, why = MALFORMED[name]
    kit = tmp_path / "kit.zip"
    kit.write_bytes(make(north / "kits" / "ready.zip"))
    shutil.copytree(own, tmp_path / "own")
    before = files(tmp_path)
    for command in (["site", "init", kit, tmp_path / "new"], ["site", "join", tmp_path / "own", kit]):
        code, out, err = called(capsys, *command)
        assert (2, "", 1) == (code, out, err.count("\n")), err
        assert f"{kit} is not a start-up kit: " in err
        assert why in err
    assert before == files(tmp_path)
    assert not (tmp_path / "new").exists()


def test_a_kit_with_the_keys_of_another_is_refused(
    north: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    centre, ready, kit = copied(north, tmp_path), north / "kits" / "ready.zip", tmp_path / "kit.zip"
    (other,) = add(centre, ["other"])
    for name, why in (
        ("client.key", "client.key does not belong to its client.crt"),
        ("seal.key", "seal.key is not a key"),
    ):
        data = zipfile.ZipFile(other).read("client.key")
        kit.write_bytes(kit_bytes(ready, lambda parts, name=name, data=data: parts.update({name: data})))  # type: ignore[misc]
        code, _, err = called(capsys, "site", "init", kit, tmp_path / "new")
        assert (2, True) == (code, why in err), err
        assert not (tmp_path / "new").exists()
    request, path = new_site(tmp_path / "b")
    mine = admit(centre, read_request(path))
    assert "holds no keys" in called(capsys, "site", "init", mine, tmp_path / "new")[2]
    assert "holds private keys that were made elsewhere" in called(capsys, "site", "join", tmp_path / "b", ready)[2]
    new_site(tmp_path / "else" / "b")
    assert "is not for the key in" in called(capsys, "site", "join", tmp_path / "else" / "b", mine)[2]
    assert "holds no keys" in called(capsys, "site", "join", tmp_path, mine)[2]
    assert request.seal == read_roster(centre)["b"].seal


@pytest.fixture(scope="module")
def whole(north: Path) -> bytes:
    return (north / "kits" / "ready.zip").read_bytes()


@settings(max_examples=100, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), new=st.binary(max_size=8), cut=st.booleans())
def test_no_damage_to_a_kit_ends_in_anything_but_a_message(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, place: float, new: bytes, cut: bool
) -> None:
    at_byte = int(place * len(whole))
    kit = tmp_path_factory.getbasetemp() / "damaged.zip"
    kit.write_bytes(whole[:at_byte] + new + (b"" if cut else whole[at_byte + len(new) :]))
    try:
        read = read_kit(kit)
    except RunError as error:
        assert "is not a start-up kit" in str(error)  # noqa: PT017 -- a kit may also be whole
    else:
        assert "ready" == read.about.site


# a kit that is in place


def remove(path: Path) -> None:
    path.unlink()


def linked(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


def change(path: Path) -> None:
    path.write_text(path.read_text().replace('"class_allow_list": [', '"class_allow_list": [ "os.", '))


def another_ask_key(path: Path) -> None:
    path.write_text(path.read_text().replace('"ask_key": "', '"ask_key": "0'))


def another_name(path: Path) -> None:
    path.write_text(path.read_text().replace('"ready"', '"other"'))


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("raise SystemExit('run')\n")


TAMPERED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "changed": (change, "kit/local/resources.json", "was changed since the kit was taken up"),
    "missing": (remove, "kit/local/authorization.json", "is missing, or not a plain file"),
    "a link": (linked, "kit/startup/rootCA.pem", "is missing, or not a plain file"),
    "a linked folder": (linked, "kit/local", "is missing, or a link to another place"),
    "custom": (put, "kit/local/custom/nvflare_decomposers/evil.py", "is not part of the kit, and NVFlare would read"),
    "more resources": (put, "kit/local/evil__resources.json", "is not part of the kit, and NVFlare would read or run"),
    "privacy": (put, "kit/local/privacy.json", "is not part of the kit, and NVFlare would read or run"),
    "in startup": (put, "kit/startup/sub_start.sh", "is not part of the kit, and NVFlare would read or run"),
    "in the work folder": (put, "kit/json.py", "is not part of the kit, and Python might run it"),
    "a package": (put, "kit/torch/__init__.py", "is not part of the kit, and Python might run it"),
    "registry": (put, "kit/study_registry.json", "is not part of the kit, and Python might run it"),
    "a job's code": (
        put, "kit/14a164b4-3311-4928-9f53-3ab556784cec/app_ready/custom/x.py", "would be on Python's path",
    ),
    "hashes": (remove, "kit.sha256", "is missing or damaged"),
    "ask key": (another_ask_key, "kit/site.json", "was changed since the kit was taken up"),
    "another name": (another_name, "site.toml", "says that this site is called other, its kit is for ready"),
    "an open key": (lambda path: path.chmod(0o640), "keys/seal.key", "can be read by others"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_a_kit_that_is_not_as_it_was_starts_nothing(site: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert [] == list(kit_problems(site))
    tamper, path, why = TAMPERED[name]
    tamper(site / path)
    (problem,) = [text for text in kit_problems(site) if why in text]
    assert str(site / path).startswith(problem.partition(" ")[0])
    code, _, err = called(capsys, "site", "start", site)
    assert (2, True) == (code, why in err)
    assert "BAD kit: " in called(capsys, "site", "check", site, "--offline")[1]


def test_what_nvflare_writes_is_no_problem_and_anyone_can_check_the_hashes(site: Path) -> None:
    for name in ("error_log.txt", "error_log.txt.3", "audit.log", "restart.fl"):
        (site / "kit" / name).touch()
    (site / "kit" / "14a164b4-3311-4928-9f53-3ab556784cec" / "app_ready" / "config").mkdir(parents=True)
    assert [] == list(kit_problems(site))
    assert 0 == os.system(f"cd '{site}' && sha256sum --quiet -c kit.sha256")  # noqa: S605 -- as typed


# renewed, revoked, expired


def test_a_renewed_certificate_is_for_the_same_key_and_taken_by_joining_again(
    running: Federation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = admitted(running, tmp_path / "ukhd", days=20)
    startup = place / "kit" / "startup"
    key, old = (startup / "client.key").read_bytes(), read_roster(running.centre)["ukhd"]
    assert "which is soon: ask the coordinator for a new kit" in called(capsys, "site", "check", place, "--offline")[1]
    (warning,) = soon_over(running.centre)
    assert "the certificate of ukhd ends in 19 days" in warning
    assert f"wardround consortium renew {running.centre} ukhd" in warning
    code, out, _ = called(capsys, "consortium", "renew", running.centre, "ukhd")
    assert (0, True) == (code, "it holds no secret" in out)
    kit = running.centre / "kits" / "ukhd.zip"
    assert b"PRIVATE" not in b"".join(zipfile.ZipFile(kit).read(name) for name in zipfile.ZipFile(kit).namelist())
    assert 0 == called(capsys, "site", "join", place, kit)[0]
    new = read_roster(running.centre)["ukhd"]
    assert (key, old.seal) == ((startup / "client.key").read_bytes(), new.seal)
    assert old.serial != new.serial == f"{read_certificate(startup / 'client.crt').serial_number:x}"
    assert new.expires > old.expires + timedelta(days=300)
    assert [] == [*kit_problems(place), *soon_over(running.centre)]
    wait_until(lambda: reach(startup, *at(running)) is None)


def test_a_site_does_not_change_its_coordinator_by_joining_again(
    north: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    centre = copied(north, tmp_path)
    _, request = new_site(tmp_path / "b")
    join(tmp_path / "b", admit(centre, read_request(request)))
    new_consortium(tmp_path / "evil", "north", [], HOST, 8002)
    before = files(tmp_path / "b")
    kit = admit(tmp_path / "evil", read_request(request))
    assert "is from another coordinator" in called(capsys, "site", "join", tmp_path / "b", kit)[2]
    real = read_kit(centre / "kits" / "b.zip")
    other = real.about.model_copy(update={"ask_key": "ab" * 32})
    write_kit(kit, replace(real, about=other))  # whoever has the old kit can make this
    assert "is from another coordinator" in called(capsys, "site", "join", tmp_path / "b", kit)[2]
    assert before == files(tmp_path / "b")


def test_who_is_revoked_is_out_for_good_and_in_words(
    north: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    centre = copied(north, tmp_path)
    _, request = new_site(tmp_path / "b")
    admit(centre, read_request(request))
    code, out, _ = called(capsys, "consortium", "revoke", centre, "b")
    assert (0, True) == (code, "b is revoked" in out)
    member, today = read_roster(centre)["b"], datetime.now(UTC)
    assert ("revoked", today.date()) == (member.barred, member.revoked and member.revoked.date())
    assert ["ready"] == json.loads((centre / "consortium.json").read_text())["sites"]
    assert not (centre / "kits" / "b.zip").exists()
    for command, why in (
        (["renew", centre, "b"], "was revoked on"),
        (["revoke", centre, "b"], "was revoked already"),
        (["add", centre, "B"], "b was revoked, and its name with it"),
        (["add", centre, "ready"], "ready is a member already"),
        (["renew", centre, "nobody"], "nobody is not a member of"),
        (["add", tmp_path, "c"], "holds no consortium"),
    ):
        code, _, err = called(capsys, "consortium", *command)
        assert (2, True) == (code, why in err), err
    with pytest.raises(RunError, match="b was revoked"):
        admit(centre, read_request(request))


def past(centre: Path, path: Path, days: int) -> Certificate:
    """A certificate as it would be if it had ended so many days ago."""
    then = datetime.now(UTC) - timedelta(days=100 + days, hours=1)
    return Authority(centre / "root", then).renewed(read_certificate(path), 100)


def test_an_expired_certificate_is_said_in_words_at_both_ends(
    running: Federation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = admitted(running, tmp_path / "old")
    startup = place / "kit" / "startup"
    old = past(running.centre, startup / "client.crt", days=3)
    kit = read_kit(running.centre / "kits" / "old.zip")
    write_kit(tmp_path / "old.zip", replace(kit, certificate=pem_of(old)))
    join(place, tmp_path / "old.zip")
    code, _, err = called(capsys, "site", "start", place)
    assert (2, True) == (code, "certificate expired 3 days ago (client.crt, " in err)
    assert "ask the coordinator for a new kit" in err

    def refused() -> str:
        return reach(startup, *at(running)) or ""

    wait_until(lambda: "cannot be reached" not in refused())
    assert "refuses this kit's certificate, which expired 3 days ago" in refused()
    with changed(running.centre) as members:
        members["old"] = members["old"].model_copy(update={"expires": old.not_valid_after_utc})
    old_member = read_roster(running.centre)["old"]
    assert ("expired", True) == (old_member.barred, lasts(old_member.expires).startswith("expired 3 days ago"))
    assert any("the certificate of old expired 3 days ago" in text for text in soon_over(running.centre))
    renew(running.centre, "old")
    assert "" == read_roster(running.centre)["old"].barred


def test_the_coordinators_own_certificates_are_renewed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_consortium(tmp_path / "x", "x", [], HOST, 8002, days=10)
    (warning,) = soon_over(tmp_path / "x")
    assert "the certificate of coordinator ends in 9 days" in warning
    path = tmp_path / "x" / "server" / "startup" / "server.crt"
    old = past(tmp_path / "x", path, days=1)
    path.write_bytes(pem_of(old))
    code, _, err = called(capsys, "coordinator", "start", tmp_path / "x")
    assert (2, True) == (code, "certificate expired 1 day ago (server.crt, " in err)
    assert "wardround consortium renew CONSORTIUM coordinator" in err
    assert 0 == called(capsys, "consortium", "renew", tmp_path / "x", "coordinator")[0]
    assert [] == soon_over(tmp_path / "x")
    assert read_certificate(path).public_key() == old.public_key()


@pytest.mark.parametrize(("days", "words"), [
    (-1.5, "expired 1 day ago (2030-01-01)"), (-0.5, "expired less than a day ago (2030-01-01)"),
    (0.5, "ends in less than a day (2030-01-01)"), (29.5, "ends in 29 days (2030-01-01)"), (30.5, ""),
])  # fmt: skip
def test_a_certificate_is_spoken_of_thirty_days_ahead(days: float, words: str) -> None:
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    assert words == lasts(ends, ends - timedelta(days=days))


def test_a_roster_is_read_whole_while_it_changes_and_damage_is_named(north: Path, tmp_path: Path) -> None:
    centre = copied(north, tmp_path)
    with suppress(InterruptedError), changed(centre) as members:
        members["x"] = Member(seal="", serial="", expires=datetime.now(UTC))
        raise InterruptedError
    assert ["ready"] == list(read_roster(centre))
    revoke(centre, "ready")
    assert read_roster(centre)["ready"].revoked is not None
    for text in ("", "[]", '{"a": 1}', '{"a": {"seal": ""}}'):
        (centre / "roster.json").write_text(text)
        with pytest.raises(RunError, match="is damaged"):
            read_roster(centre)
    (centre / "roster.json").unlink()
    with pytest.raises(RunError, match="older wardround"):
        read_roster(centre)
