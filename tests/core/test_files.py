"""A file is the old one or the new one, whatever happens; and what was changed behind our back is noticed."""

import errno
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from stat import S_ISDIR

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.core.files import MAGIC, BrokenSeal, file_name, fresh, fresh_folder, seal, unseal, write

FULL = """
import resource, signal, sys
from pathlib import Path
from wardround.core.files import write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write(Path(sys.argv[1]), b"new" * 100_000)
except OSError as error:
    print(type(error).__name__, error.errno)
"""


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    for data in (b"old", b"", b"new"):
        write(path, data)
        assert data == path.read_bytes()
    assert [path] == list(path.parent.iterdir())


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"old")
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert f"OSError {errno.EFBIG}\n" == done.stdout
    assert b"old" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "no room"), OSError(errno.EIO, "bad disk"), KeyboardInterrupt()]
)
def test_a_folder_without_room_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "file"
    write(path, b"old")

    def full(_: int) -> None:  # file systems that allot late say so only now
        raise error

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(type(error)):
        write(path, b"new")
    assert b"old" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").write_bytes(b"a file")
    with pytest.raises(OSError, match="folder"):
        write(tmp_path / "folder" / "file", b"new")


def test_new_data_are_on_disk_before_they_take_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    seen: list[tuple[bool, bool]] = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append((S_ISDIR(os.fstat(handle).st_mode), path.exists())))
    write(path, b"new")
    assert [(False, False), (True, True)] == seen  # the file before it has its name, the folder after


# seals


@given(st.binary(max_size=60))
def test_what_was_sealed_is_unsealed(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sealed"
        write(path, seal(data))
        assert data == unseal(path)


@given(st.binary(max_size=60), st.data())
def test_any_flipped_bit_breaks_the_seal(data: bytes, draw: st.DataObject) -> None:
    raw = bytearray(seal(data))
    bit = draw.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    refused(bytes(raw))


@given(st.binary(max_size=60), st.data())
def test_any_other_length_breaks_the_seal(data: bytes, draw: st.DataObject) -> None:
    raw = seal(data)
    refused(raw[: draw.draw(st.integers(0, len(raw) - 1))])
    refused(raw + draw.draw(st.binary(min_size=1, max_size=9)))


@pytest.mark.parametrize("raw", [b"", pickle.dumps({"weights": [1.0]}), MAGIC, MAGIC * 9, b"PK\3\4"], ids=repr)
def test_another_file_is_not_unsealed(raw: bytes) -> None:
    refused(raw)


def refused(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sealed"
        path.write_bytes(raw)
        with pytest.raises(BrokenSeal, match=str(path)):
            unseal(path)


# names

ODD = [
    "../x", "..", ".", "", "/", "//", "a/b", "/etc/passwd", "\0", "a\0b", "a\nb", ".hidden", "..%2Fx", "%2E%2E",
    "%", "%25", "%2192", "→", "!92", "é", "a%CC%81", "x" * 300, "x" * 301, "北京协和医院", "院" * 100, "院" * 101,
    "🏥", "St. Mary's", "a\\b", "a:b", "*?", "~", "~root", "-rf", " ", "\ud800", "\udc80", "%ED%A0%80", "NUL.txt",
]  # fmt: skip
HOSPITALS = ["site-1", "site 1", "Charité", "北京协和医院", "a=1,b@c+d", "v1.2", "St_Thomas"]


@pytest.mark.parametrize("name", HOSPITALS)
def test_a_harmless_name_stays_as_it_is(name: str) -> None:
    assert name == file_name(name)


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_any_name_is_one_plain_file_in_its_folder(name: str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / f"{file_name(name)}.jsonl"
    write(path, b"data")
    assert [path] == list((tmp_path / "folder").iterdir())
    assert not path.name.startswith(".")


def test_two_names_are_two_files() -> None:
    names = [*ODD, *HOSPITALS]
    names += [file_name(name) for name in names]  # a name that looks like another's file name
    names = sorted(set(names))
    assert len(names) == len({file_name(name) for name in names})


@given(st.lists(st.text(st.characters(codec=None) | st.sampled_from("%./!2"), max_size=5), min_size=2, unique=True))
def test_any_two_names_are_two_files(names: list[str]) -> None:
    assert len(names) == len({file_name(name) for name in names})


def test_a_fresh_folder_takes_its_name_when_all_is_well(tmp_path: Path) -> None:
    with fresh_folder(tmp_path / "new") as folder:
        (folder / "a").write_text("a")
        assert not (tmp_path / "new").exists()
    assert "a" == (tmp_path / "new" / "a").read_text()


@pytest.mark.parametrize("opened", [fresh, fresh_folder])
def test_what_fails_on_the_way_leaves_nothing(
    opened: Callable[[Path], AbstractContextManager[object]], tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="full"), opened(tmp_path / "new"):
        raise OSError("full")
    assert [] == list(tmp_path.iterdir())
