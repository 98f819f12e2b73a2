"""All that a machine without the internet needs to install wardround: a folder of wheels with their hashes.

    make_bundle(Path("bundle"), extras=("flare", "serve"), encoder=Path("encoder"))     # on a connected machine
    verify_bundle(Path("bundle"))                                                       # on any

    bundle/SHA256SUMS           what every file must be; `sha256sum -c SHA256SUMS` does without us
    bundle/requirements.txt     every package, its version as it is installed here, its hash
    bundle/wheels/  bundle/encoder/

Wheels are of this machine's kind: the same Python, system and processor are needed there. pip fetches them, from the
index that it is set up for.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from wardround.core.files import fresh_folder
from wardround.runs.errors import RunError

SUMS, REQUIREMENTS, WHEELS, ENCODER = "SHA256SUMS", "requirements.txt", "wheels", "encoder"
OURS = "wardround"


def make_bundle(out: Path, extras: Sequence[str] = ("flare",), encoder: Path | None = None, what: str = OURS) -> Path:
    """Fetch the wheels of a package, as it is installed here, and write down what each file is."""
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} is not empty; choose a new folder")
    if encoder is not None and not (encoder / "config.json").is_file():
        raise RunError(f"--encoder {encoder}: has no config.json; give the folder of an encoder")
    with fresh_folder(out) as folder:
        wheels = folder / WHEELS
        wheels.mkdir()
        named = f"{_source(what) or what}" + (f"[{','.join(extras)}]" if extras else "")
        limits = folder / "constraints.txt"
        limits.write_text("".join(f"{line}\n" for line in _pinned(what)), encoding="utf-8")
        _pip("wheel", "--wheel-dir", str(wheels), "--constraint", str(limits), named)  # also of what has no wheel there
        limits.unlink()
        (folder / REQUIREMENTS).write_text("".join(_requirements(wheels, what, extras)), encoding="utf-8")
        if encoder is not None:
            shutil.copytree(encoder, folder / ENCODER)
        sums = [f"{_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in _files(folder)]
        (folder / SUMS).write_text("".join(sums), encoding="utf-8")
    return out


def verify_bundle(folder: Path) -> int:
    """How many files a bundle has, each as it was written; all that is wrong at once."""
    sums = folder / SUMS
    try:
        lines = sums.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise RunError(f"{folder}: has no {SUMS}; give a folder that `wardround site bundle` has made") from None
    known = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    there = {path.relative_to(folder).as_posix(): path for path in _files(folder) if path != sums}
    problems = [f"{folder / name}: is missing" for name in known.keys() - there.keys()]
    problems += [f"{folder / name}: is not part of this bundle; take it out" for name in there.keys() - known.keys()]
    problems += [
        f"{folder / name}: is not as it was written; carry it over again"
        for name in known.keys() & there.keys()
        if _hash(there[name]) != known[name]
    ]
    if problems:
        raise RunError("\n".join(sorted(problems)))
    return len(known)


def _pinned(what: str) -> Iterator[str]:
    """Every package that is installed here beside this one, with its version: what works together here."""
    done = _pip("list", "--format", "json")
    for one in json.loads(done):
        if one["name"].casefold() != what and "editable_project_location" not in one:
            yield f"{one['name']}=={one['version'].partition('+')[0]}"


def _source(what: str) -> Path | None:
    """The folder that a package was installed from, if it was: no index has it then."""
    try:
        text = distribution(what).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    url = urlsplit(json.loads(text)["url"]) if text else None
    return Path(unquote(url.path)) if url and url.scheme == "file" else None


def _requirements(wheels: Path, what: str, extras: Sequence[str]) -> Iterator[str]:
    for path in sorted(wheels.iterdir()):
        name, version, *_ = path.name.split("-")
        own = name.casefold().replace("_", "-") == what
        chosen = f"[{','.join(extras)}]" if own and extras else ""
        yield f"{name}{chosen}=={version} --hash=sha256:{_hash(path)}\n"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def _hash(path: Path) -> str:
    if path.is_symlink():
        return "a link"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pip(*arguments: str) -> str:
    """What pip says on standard output; its errors are its own, and end this."""
    quiet = ["--disable-pip-version-check", "--no-input"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *quiet], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
        raise RunError(f"pip {arguments[0]} failed: {' '.join(last) or f'code {done.returncode}'}")
    return done.stdout


def how_to_install(folder: Path) -> str:
    """The commands for the other machine."""
    return (
        f"cd {folder.name} && sha256sum -c {SUMS}\n"
        f"python3 -m venv /opt/wardround\n"
        f"/opt/wardround/bin/pip install --no-index --find-links {WHEELS} --require-hashes -r {REQUIREMENTS}"
    )
