"""What `site check` says of the machine: each thing in order, a warning or in the way, with a remedy."""

import errno
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from loopback import put, site_folder
from study_files import small_study
from wardround import __version__
from wardround.cli.app import app
from wardround.consortium import machine_check
from wardround.consortium.clock import clock_error
from wardround.consortium.console import writing
from wardround.consortium.deployed import study_hash
from wardround.consortium.forgotten import mark_restored
from wardround.consortium.machine_check import machine
from wardround.consortium.site_process import SiteProcess
from wardround.study.load import load_study


@pytest.fixture
def site(tmp_path: Path) -> Path:
    study = load_study(small_study(tmp_path, partition={"name": "iid", "sites": 3}))[0].study
    return site_folder(tmp_path, "site-0", study)


def finding(site: Path, what: str) -> tuple[str, str]:
    """The mark and the words of one thing."""
    return next((one.mark.strip(), one.detail) for one in machine(site) if one.what == what)


def test_every_thing_is_looked_at(site: Path) -> None:
    assert ["version", "clock", "folder", "disk", "memory", "gpu"] == [one.what for one in machine(site)]
    shown = CliRunner().invoke(app, ["site", "check", str(site), "--offline"]).output
    assert "clock: " in shown
    assert "folder: " in shown


def test_a_kit_of_another_version_is_a_warning(site: Path) -> None:
    mark, words = finding(site, "version")
    assert "??" == mark
    assert words.startswith(f"wardround {__version__} here, 0 when the kit was made; install")


@pytest.mark.parametrize(("kit", "mark"), [("0.2.7", "ok"), ("0.1.7", "??"), ("0.2.0rc1", "??")])
def test_a_kit_of_another_patch_is_no_warning(site: Path, monkeypatch: pytest.MonkeyPatch, kit: str, mark: str) -> None:
    monkeypatch.setattr(machine_check, "__version__", "0.2.0")
    monkeypatch.setattr(machine_check, "read_membership", lambda _: SimpleNamespace(version=kit))
    shown, words = finding(site, "version")
    assert (mark, mark == "??") == (shown, "install what the coordinator has" in words)


@pytest.mark.parametrize(("off", "words"), [(3600, "60 minutes behind"), (-3600, "60 minutes ahead of")])
def test_a_clock_an_hour_off_is_noticed_when_the_coordinator_asks(site: Path, off: int, words: str) -> None:
    study = load_study(site.parent / "study.toml")[0].study
    head = {"version": __version__, "study": study_hash(study), "run": "0" * 16, "hello": True, "rounds": 1}
    put(SiteProcess(site), {**head, "time": time.time() + off})
    mark, shown = finding(site, "clock")
    assert ("BAD", True) == (mark, words in shown)
    assert words in (site / "log.txt").read_text()
    put(SiteProcess(site), {**head, "time": time.time()})
    assert 30.0 > abs(clock_error(site) or 0.0)
    assert "BAD" != finding(site, "clock")[0]


def test_a_clock_that_nobody_sets_is_a_warning(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_check, "_unset", lambda: True)
    assert ("??", "the system says that no time server sets it: timedatectl set-ntp true") == finding(site, "clock")


@pytest.mark.parametrize(("free", "mark"), [(10**7, "BAD"), (5 * 10**8, "??"), (10**10, "ok")])
def test_a_disk_that_is_nearly_full_is_told_with_the_remedy(
    site: Path, monkeypatch: pytest.MonkeyPatch, free: int, mark: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    now, words = finding(site, "disk")
    assert (mark, mark != "ok") == (now, "wardround clear" in words)


@pytest.mark.parametrize(
    ("code", "remedy"), [(errno.EROFS, "let the site's user write there"), (errno.ENOSPC, "make room: wardround clear")]
)
def test_a_folder_that_cannot_be_written_to_is_in_the_way(
    site: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    def refused(**_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    mark, words = finding(site, "folder")
    assert "BAD" == mark
    assert f"cannot be written to ({os.strerror(code)})" in words
    assert remedy in words


def test_a_site_that_was_put_back_is_told(site: Path) -> None:
    mark_restored(site, "2026-11-16T02:00:00+00:00")
    mark, words = finding(site, "ledger")
    assert "BAD" == mark
    assert words.endswith(f"and answers nothing: wardround site recover {site}")


def test_a_damaged_note_of_the_clock_is_none(site: Path) -> None:
    (site / "clock.json").write_text(json.dumps([1]))
    assert clock_error(site) is None


def test_a_site_in_a_folder_without_room_says_so_and_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("wardround.consortium.console.tempfile.TemporaryFile", full)
    with pytest.raises(SystemExit) as ended, writing(tmp_path, "the site keeps its ledger"):
        pytest.fail("it was started")
    assert 2 == ended.value.code
    assert f"{tmp_path} has no room left" in (said := capsys.readouterr().err)
    assert f"wardround clear {tmp_path}" in said
