"""Nothing that is sent to a hospital is code: not a study, not a kit, not a file that lies about."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from real_sites import free_port, wait_until
from wardround.consortium.deployed import study_hash
from wardround.consortium.kits import init_site, new_consortium
from wardround.consortium.settings import read_site, site_study
from wardround.consortium.site_start import commands
from wardround.consortium.trust import trust_module
from wardround.engines.frames import DOOR, door_of, shut
from wardround.engines.processes import Programs
from wardround.runs.errors import RunError
from wardround.study.load import cells, load_study
from wardround.study.settings import StudyError

EVIL = """
from pathlib import Path

(Path(__file__).resolve().parent / "ran").touch()
"""
MODULE = '''
"""FedAvg under another name."""

from dataclasses import dataclass

from wardround.extend import FedAvg


@dataclass(frozen=True, kw_only=True)
class M(FedAvg):
    """FedAvg."""
'''
STUDY = """
name = "own"
rounds = 1
[method]
name = "{method}"
[task]
name = "features"
[corpus]
name = "synthetic"
sites = 2
largest = 40
"""
SITE = 'name = "a"\n[data]\nfrom_study = true\n'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "a"
    (folder / "kit").mkdir(parents=True)
    (folder / "site.toml").write_text(SITE, encoding="utf-8")
    return folder


def test_a_module_that_a_study_names_is_refused_before_anything_of_it_runs(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (site, site / "kit", site.parent):
        (place / "evil.py").write_text(EVIL + MODULE, encoding="utf-8")
    monkeypatch.chdir(site)
    monkeypatch.syspath_prepend(str(site.parent))  # even if it could be imported
    for name in ("evil:M", "kit.evil:M", "os:system", "wardround.methods.fedavg:FedAvg"):
        with pytest.raises(StudyError, match=r"brings no code with it; .* wardround site trust-module"):
            site_study(site, STUDY.format(method=name), "study")
    for section in ("task", "corpus"):
        text = STUDY.format(method="fedavg").replace(f'[{section}]\nname = "', f'[{section}]\nname = "evil:M" # ')
        with pytest.raises(StudyError, match=rf"{section}\.name = 'evil:M' .*brings no code"):
            site_study(site, text, "study")
    assert not list(site.parent.rglob("ran"))
    assert "evil" not in sys.modules


def test_a_sites_own_data_go_by_the_same_rule(site: Path) -> None:
    (site / "evil.py").write_text(EVIL + MODULE, encoding="utf-8")
    (site / "site.toml").write_text('name = "a"\n[data]\nname = "evil:M"\n', encoding="utf-8")
    study = site_study(site, STUDY.format(method="fedavg"), "study")
    with pytest.raises(StudyError, match=r"data\.name = 'evil:M' .*trust-module"):
        read_site(site).examples(study)
    assert not (site / "ran").exists()


@pytest.fixture
def named(site: Path) -> str:
    """A module of the site's own, whose name no other test uses."""
    name = f"own_{hashlib.sha256(str(site).encode()).hexdigest()[:8]}"
    (site / f"{name}.py").write_text(MODULE, encoding="utf-8")
    return name


def test_a_module_that_the_site_trusts_is_loaded_from_the_bytes_that_it_trusts(site: Path, named: str) -> None:
    file = site / f"{named}.py"
    line = trust_module(site, Path(file.name))
    assert f'{named} = "{hashlib.sha256(file.read_bytes()).hexdigest()}"' == line
    cache = site / "__pycache__"
    cache.mkdir()
    tag = sys.implementation.cache_tag
    (cache / f"{named}.{tag}.pyc").write_bytes(b"not looked at")
    text = STUDY.format(method=f"{named}:M")
    before = list(sys.path)
    study = site_study(site, text, "study")
    assert "M" == type(study.method).__name__
    assert before == sys.path
    assert [cache / f"{named}.{tag}.pyc"] == list(cache.iterdir())  # nor written
    (site.parent / "study.toml").write_text(text, encoding="utf-8")
    assert study_hash(study) == study_hash(load_study(site.parent / "study.toml", beside=site)[0].study)

    file.write_text(MODULE + EVIL, encoding="utf-8")
    with pytest.raises(StudyError, match=r"is not the file whose hash stands in site.toml"):
        site_study(site, text, "study")
    assert not (site / "ran").exists()
    trust_module(site, file)
    site_study(site, text, "study")
    assert (site / "ran").exists()
    assert 1 == (site / "site.toml").read_text().count(f"{named} =")


def test_a_trusted_module_may_import_another_and_nothing_else_beside_it(site: Path, named: str) -> None:
    (site / f"{named}_part.py").write_text("NUMBER = 3\n", encoding="utf-8")
    (site / f"{named}.py").write_text(f"import {named}_part\n{MODULE}", encoding="utf-8")
    text = STUDY.format(method=f"{named}:M")
    trust_module(site, Path(f"{named}.py"))
    with pytest.raises(StudyError, match=f"No module named '{named}_part'"):
        site_study(site, text, "study")
    trust_module(site, Path(f"{named}_part.py"))
    site_study(site, text, "study")


def test_what_cannot_be_trusted(site: Path) -> None:
    (site / "json.py").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="there is an installed module of this name; rename yours"):
        trust_module(site, Path("json.py"))
    (site / "kit" / "x.py").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match=r"is not beside site.toml; read it"):
        trust_module(site, site / "kit" / "x.py")
    with pytest.raises(RunError, match="cannot be read"):
        trust_module(site, Path("y.py"))
    (site / "z.py").write_text("def", encoding="utf-8")
    with pytest.raises(RunError, match="is not Python source"):
        trust_module(site, Path("z.py"))
    assert SITE == (site / "site.toml").read_text()
    (site / "site.toml").write_text(SITE + '[modules]\n"kit.x" = "00"\n', encoding="utf-8")
    with pytest.raises(StudyError, match=r"modules.kit.x: should be the name of a file(?s:.)*SHA-256"):
        read_site(site)


# real processes


def litter(folder: Path) -> Path:
    """A folder whose files have the names of modules that every program here imports."""
    folder.mkdir()
    for name in ("json.py", "socket.py", "torch.py", "nvflare.py", "random.py"):
        (folder / name).write_text(EVIL, encoding="utf-8")
    (folder / "wardround").mkdir()
    (folder / "wardround" / "__init__.py").write_text(EVIL, encoding="utf-8")
    return folder


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """A site with a kit."""
    pytest.importorskip("nvflare")
    (kit,) = new_consortium(tmp_path / "north", "north", ["a"], "127.0.0.1", free_port())
    init_site(kit, tmp_path / "m")
    (tmp_path / "m" / "site.toml").write_text(SITE, encoding="utf-8")
    return tmp_path / "m"


def test_a_file_in_the_current_folder_is_not_imported_by_a_sites_programs(
    member: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = litter(tmp_path / "here")
    monkeypatch.chdir(here)
    door = door_of(member)
    with Programs(commands(member, "a"), {DOOR: str(door)}, tmp_path / "printed.txt") as programs:
        programs.look()
        client = Path(f"/proc/{programs.running['client'].pid}/maps")
        wait_until(door.exists)  # the site process listens: all that it needs has been imported
        wait_until(lambda: "grpc" in client.read_text(encoding="utf-8"))  # and so has NVFlare's client
    shut(door)
    assert [] == list(here.rglob("ran"))


def test_nor_by_the_command_itself(site: Path, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("wardround")
    if not program.exists():
        pytest.skip("wardround is not installed as a command here")
    here = litter(tmp_path / "here")
    (here / "evil.py").write_text(EVIL + MODULE, encoding="utf-8")
    (here / "study.toml").write_text(STUDY.format(method="evil:M"), encoding="utf-8")
    ended = subprocess.run(
        [program, "site", "check", site, "--study", "study.toml", "--offline"],
        cwd=here, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert 2 == ended.returncode
    assert "brings no code with it" in ended.stderr
    assert [] == list(here.rglob("ran"))


def test_a_site_is_started_without_the_current_folder(member: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wardround.cli.site import start  # noqa: PLC0415

    begun: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _path, words: begun.append(words))
    monkeypatch.setattr("wardround.consortium.check.checked", lambda *_: iter(()))
    start.command(member)
    assert [[sys.executable, "-P", "-m", "wardround.consortium.site_start", str(member), "a"]] == begun


def test_on_a_machine_of_ones_own_a_study_may_name_what_it_likes(named: str, site: Path) -> None:
    tables = {
        "name": "own", "rounds": 1, "method": {"name": f"{named}:M"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 2, "largest": 40},
    }  # fmt: skip
    assert "M" == type(cells(tables, folder=site)[0].study.method).__name__
    sys.path.remove(str(site.resolve()))
