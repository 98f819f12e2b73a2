"""A copy of a site's or a coordinator's folder, made while it runs, and put back in a new place.

    taken = back_up(folder, Path("charite.tar"))
    put_back(Path("charite.tar"), Path("charite"))

Rules of this file:
1. A copy holds the folder's keys: it is for its owner alone to read (0600), and as secret as the folder.
2. It is a plain tar file, whose last member has the hash of every other: half a copy, or a damaged one, is none.
3. It is made while the folder is in use. Files are written whole or appended to by lines; of those, whole lines are
   taken. What says what was spent comes last, each after whatever points to it, so a copy knows of too much rather than
   of too little: ledger, then the privacy budget's journal that it names.
4. Not in it: notes, logs, what can be computed or fetched again, and the secrets of masked sums, so that no copy can
   ever put the same mask on other numbers, or take an old one off.
5. It is put back into a new folder and nowhere else, plain files alone, none outside of it. A site is marked then: it
   may have forgotten what it has answered since (`forgotten`).
"""

import errno
import hashlib
import io
import os
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Literal

from wardround import __version__
from wardround.consortium.forgotten import mark_restored
from wardround.consortium.forms import Form, Version, parsed
from wardround.consortium.kit_check import FILES as KIT
from wardround.consortium.kit_check import site_name
from wardround.consortium.settings import strings_in
from wardround.core.files import fresh_folder
from wardround.core.unfinished import NEW, new_name, unfinished
from wardround.runs.errors import RunError
from wardround.text.reading import DataError, existing_path

FORM: Literal["wardround copy 1"] = "wardround copy 1"
MANIFEST = "MANIFEST.json"
LARGEST = 1 << 26  # bytes of a manifest
LAST = ("answers/*.jsonl", "ledger/site.jsonl", "ledger/budget.jsonl")
"""What is taken last, in this order: what others point to after them."""
LEFT_OUT = (
    ".*", "*/.*", "cache/*", "service/*", "printed.txt", "log.txt*", "log.jsonl*", "clock.json", "memory/*/*/secret",
    "memory/*/*/*.sum", "ledger/told.json", "server/store/*", "server/????????-????-????-*", "server/printed.txt",
    "server/*log*.txt*", "server/*.fl", "runs/*",
)  # fmt: skip
OWN = ("approved", "keys", "kit", "ledger", "memory", "models", "site.toml")
"""What is the site's own in its folder, whatever `[data]` names."""
Kind = Literal["site", "consortium"]


class CopyManifest(Form):
    """What a copy is of, and the hash of each file."""

    form: Literal["wardround copy 1"]
    kind: Kind
    name: str
    version: Version
    taken: str
    """When it was begun, in UTC."""
    files: dict[str, str]


def kind_of(folder: Path) -> Kind:
    """Whose folder this is."""
    if (folder / "consortium.json").is_file():
        return "consortium"
    if (folder / "site.toml").is_file():
        return "site"
    raise RunError(
        f"{folder} is neither a site's folder nor a consortium's: it has no site.toml and no consortium.json"
    )


# making a copy


def back_up(folder: Path, out: Path) -> tuple[Path, CopyManifest]:
    """Write a copy of this folder: to a new file, or to one named by the time in a folder that is there."""
    kind = kind_of(folder)
    name = str(site_name(folder)) if kind == "site" else folder.resolve().name
    now = datetime.now(UTC)
    if out.is_dir():
        out /= f"{folder.resolve().name}-{now:%Y%m%d-%H%M%S}.tar"
    elif out.suffix != ".tar":  # a disk that is not mounted, say
        raise RunError(f"{out} is no folder that is there; name one, or a new file that ends in .tar")
    if out.exists():
        raise RunError(f"{out} is there already; give another name, or a folder: a copy does not overwrite another")
    if out.resolve().is_relative_to(folder.resolve()):
        raise RunError(f"{out} lies in the folder that is copied; put the copy elsewhere, best on another disk")
    hashes: dict[str, str] = {}
    new = new_name(out)
    with unfinished(new, lambda: new.unlink(missing_ok=True)):
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:", format=tarfile.PAX_FORMAT) as tar:
            for path in _chosen(folder, kind):
                inside = path.relative_to(folder).as_posix()
                with suppress(FileNotFoundError):  # it was there a moment ago
                    data = _taken(path, inside)
                    hashes[inside] = hashlib.sha256(data).hexdigest()
                    _add(tar, inside, data)
            taken = now.isoformat(timespec="seconds")
            manifest = CopyManifest(form=FORM, kind=kind, name=name, version=__version__, taken=taken, files=hashes)
            _add(tar, MANIFEST, manifest.encode())
            tar.close()
            file.flush()
            os.fsync(file.fileno())
        new.replace(out)
    return out, manifest


def _chosen(folder: Path, kind: Kind) -> Iterator[Path]:
    """The files that belong into a copy, in the order in which they are read."""
    notes = _notes(folder) if kind == "site" else []
    last = {path: number for number, pattern in enumerate(LAST) for path in folder.glob(pattern)}
    files = [path for path in sorted(folder.rglob("*")) if not path.is_symlink() and path.is_file()]
    for path in sorted(files, key=lambda path: last.get(path, -1)):
        inside = path.relative_to(folder)
        unwanted = NEW.fullmatch(path.name) or _like(inside.as_posix(), LEFT_OUT)
        job = kind == "site" and inside.parts[0] == "kit" and inside.as_posix() not in KIT
        if not (unwanted or job or any(path.resolve().is_relative_to(note) for note in notes)):
            yield path


def _notes(folder: Path) -> list[Path]:
    """Where the site's notes lie, if that is in its folder."""
    try:
        data = tomllib.loads((folder / "site.toml").read_text(encoding="utf-8-sig")).get("data")
    except ValueError:
        raise RunError(f"{folder / 'site.toml'} is not valid TOML, so nobody knows which files are notes") from None
    named = []
    paths = {key: value for key, value in data.items() if key != "separator"} if isinstance(data, dict) else {}
    for value in filter(None, strings_in(paths)):  # a file, a folder, or one for each department
        with suppress(DataError):  # a variable that is not set names nothing here
            named.append(existing_path(value, str(folder)).resolve())
    if folder.resolve() in named:
        raise RunError(f"[data] in {folder / 'site.toml'} names the site's folder itself; put the notes elsewhere")
    own = {folder.resolve() / name for name in OWN}  # a column may be called like one of these
    return [path for path in named if path.exists() and path not in own]


def _taken(path: Path, inside: str) -> bytes:
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1] if _like(inside, LAST) else data


def _like(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    tar.addfile(member, io.BytesIO(data))


# putting it back


def put_back(copy: Path, folder: Path) -> CopyManifest:
    """Make a new folder of a copy; a site's is marked as one that may have forgotten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is there already; a copy is put into a new folder, never over one that is in use")
    with fresh_folder(folder) as new:
        manifest = _unpacked(copy, new)
        if (new / "site.toml").is_file():  # whatever it says of itself
            mark_restored(new, manifest.taken)
        new.chmod(0o700)
    folder.chmod(0o700)
    return manifest


def _unpacked(copy: Path, folder: Path) -> CopyManifest:
    manifest = _read(copy, folder)
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    wrong = [name for name, digest in manifest.files.items() if name not in there or _hash(folder / name) != digest]
    if wrong or there - manifest.files.keys():
        odd = min([*wrong, *(there - manifest.files.keys())])
        raise RunError(f"{copy} is damaged: {odd[:100]!r} is not as it was written; take another copy")
    return manifest


def _read(copy: Path, folder: Path) -> CopyManifest:
    """The manifest; and, into this folder, all the rest."""
    manifest = None
    try:
        room = copy.stat().st_size  # nothing in it is larger, whatever it says of itself
        with tarfile.open(copy, "r:") as tar:
            for member in tar:
                inside = PurePosixPath(member.name)
                plain = member.isreg() and not member.issparse() and 0 <= member.size <= room
                if manifest or not plain or inside.is_absolute() or ".." in inside.parts:
                    raise RunError(
                        f"{copy} holds {member.name[:100]!r}, which no copy of ours has; nothing was written"
                    )
                if member.name == MANIFEST:
                    manifest = parsed(CopyManifest, _bytes(tar, member, LARGEST))
                else:
                    target = folder / inside
                    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                    with os.fdopen(handle, "wb") as file:
                        file.write(_bytes(tar, member, member.size))
    except FileNotFoundError:
        raise RunError(f"{copy}: there is no such file") from None
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG):
            raise
        manifest = None
    except (tarfile.TarError, EOFError, ValueError):  # FormErrors, too
        manifest = None
    if manifest is None:
        raise RunError(f"{copy} is not a whole copy by `wardround backup`; take another one")
    return manifest


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo, most: int) -> bytes:
    file = tar.extractfile(member)
    assert file is not None  # noqa: S101 -- the caller has looked
    return file.read(most)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
