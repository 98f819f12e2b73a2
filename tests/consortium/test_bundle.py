"""A folder of wheels that a machine without any index installs from, and that tells when it was changed."""

import base64
import hashlib
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from wardround.consortium.bundle import make_bundle, verify_bundle
from wardround.runs.errors import RunError


def wheel(folder: Path, name: str, needs: str = "") -> None:
    """A wheel of one module, as an index would have it."""
    about = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": f"NAME = {name!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        + (f"Requires-Dist: {needs}\nProvides-Extra: more\n" if needs else ""),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {key: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()) for key, text in files.items()}
    rows = [f"{key},sha256={digests[key].rstrip(b'=').decode()},{len(text)}" for key, text in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*rows, f"{about}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for key, text in files.items():
            archive.writestr(key, text)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "index").mkdir()
    wheel(folder / "index", "tinyward", 'tinyround; extra == "more"')
    wheel(folder / "index", "tinyround")
    (folder / "encoder").mkdir()
    (folder / "encoder" / "config.json").write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", "/dev/null")
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "index"))
        return make_bundle(folder / "out", ["more"], folder / "encoder", what="tinyward")


def test_it_has_every_wheel_with_its_hash_and_the_encoder(bundle: Path) -> None:
    names = sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())
    assert [
        "SHA256SUMS", "encoder/config.json", "requirements.txt", "wheels/tinyround-1.0-py3-none-any.whl",
        "wheels/tinyward-1.0-py3-none-any.whl",
    ] == names  # fmt: skip
    assert 4 == verify_bundle(bundle)
    tool = shutil.which("sha256sum") or pytest.skip("no sha256sum on the path")
    done = subprocess.run([tool, "--quiet", "-c", "SHA256SUMS"], cwd=bundle, check=False, capture_output=True)
    assert 0 == done.returncode
    assert "tinyward[more]==1.0 --hash=sha256:" in (bundle / "requirements.txt").read_text()


def test_another_machine_installs_from_it_without_an_index(bundle: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    order = [sys.executable, "-m", "pip", "--isolated", "install", "--no-index", "--find-links", "wheels",
             "--require-hashes", "-r", "requirements.txt", "--target", str(site)]  # fmt: skip
    done = subprocess.run(order, cwd=bundle, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    python = tmp_path / "env" / "bin" / "python"
    script = "import tinyward, tinyround; print(tinyward.NAME, tinyround.NAME)"
    assert "tinyward tinyround" == subprocess.check_output([python, "-c", script], text=True).strip()


def test_whatever_was_changed_is_told_all_at_once(bundle: Path) -> None:
    changed, added = bundle / "encoder" / "config.json", bundle / "wheels" / "other.whl"
    changed.write_text('{"hidden_size": 1}')
    added.write_text("")
    kept = (bundle / "requirements.txt").read_bytes()
    (bundle / "requirements.txt").unlink()
    try:
        with pytest.raises(RunError) as refused:
            verify_bundle(bundle)
    finally:
        changed.write_text("{}")
        added.unlink()
        (bundle / "requirements.txt").write_bytes(kept)
    assert [
        "config.json: is not as it was written",
        "requirements.txt: is missing",
        "other.whl: is not part of this",
    ] == [
        line.partition(str(bundle))[2].rpartition("/")[2].partition(";")[0].removesuffix(" bundle")
        for line in str(refused.value).splitlines()
    ]


def test_what_cannot_be_bundled_is_told_and_leaves_nothing(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not empty"):
        make_bundle(bundle)
    with pytest.raises(RunError, match=r"has no config\.json"):
        make_bundle(tmp_path / "out", encoder=tmp_path)
    with pytest.raises(RunError, match="has no SHA256SUMS"):
        verify_bundle(tmp_path)
    assert [] == list(tmp_path.iterdir())
