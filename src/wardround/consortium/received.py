"""The shared model of a run at a site: kept as the coordinator delivered it, and made whole with the site's own files.

    keep_model(folder, ask)                                  # the site process, when the letter comes
    received(folder, study, run)                             # `wardround site model`: where it is
    whole_model(place, study, out)                           # with the encoder, say, that the site has itself

Rules of this file:
1. Only files of a model's folder are taken, by name; nothing is unpacked, and nothing that they hold is run: weights
   are safetensors. Their checksums must be those of `SHA256SUMS`, and a signature that is there must be one of them.
2. A model is taken for a run in which this site took part, and may be as large as what it received then allows. The
   study that it says it comes from is the one that was approved here.
3. A letter that has come before changes nothing: whoever carries letters cannot bring an older model back.
4. What is not delivered must be, to the byte, what the run's model was made with: `SHA256SUMS` has it, too.
"""

import hashlib
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.consortium.approval import approval_file
from wardround.consortium.budget import Denial
from wardround.consortium.delivery import FILES
from wardround.consortium.deployed import study_hash
from wardround.core.files import fresh_folder, write
from wardround.engines.seal import Ask
from wardround.layers.ledger import lines
from wardround.runs.errors import RunError
from wardround.study.load import Study, fingerprint_of
from wardround.trained.about import SIGNATURE, SUMS, ModelError, listed, verify
from wardround.trained.folder import put_files
from wardround.trained.signature import signer

MODELS = "models"
MORE = 16 << 20  # bytes beside the weights
TIMES = 8  # what a message may be smaller than the weights, where layers make it so
NAME = 16  # characters of a run's name, as the ledger has it: one run, one folder


def keep_model(folder: Path, ask: Ask) -> bool:
    """Keep a delivered model, if it may be one; whether it is one that has not come before."""
    study, run, digest = (str(ask.statement[key]) for key in ("study", "run", "digest"))
    if not (run.isalnum() and run.isascii() and len(run) <= NAME):
        raise Denial("study")
    most, known = _received(folder, study[:16], run)
    if len(ask.data) > most:
        raise Denial("model")
    parts, place = _parts(ask.head.get("model"), ask.data), folder / MODELS / study[:16] / run
    if digest in known and place.is_dir():
        return False
    if _study(parts["study.toml"]) != _study(approval_file(folder, study).with_suffix(".toml").read_bytes()):
        raise Denial("model")
    with tempfile.TemporaryDirectory(dir=folder) as trial:
        _checked(Path(trial) / "model", parts)
        with fresh_folder(place, instead=True) as new:
            for name in parts:
                shutil.copyfile(Path(trial) / "model" / name, new / name)
    return True


def _checked(new: Path, parts: Mapping[str, bytes]) -> None:
    """Write the files, and look at their checksums and the signature; a `Denial` if they are not theirs."""
    for name, part in parts.items():
        write(new / name, part)
    try:
        sums = listed(new)
        signer(new)
    except ModelError:
        raise Denial("model") from None
    if any(sums.get(name) != hashlib.sha256(parts[name]).hexdigest() for name in set(FILES) - {SUMS, SIGNATURE}):
        raise Denial("model")


def most_of_model(folder: Path, study: str, run: str) -> int:
    """How many bytes a model of this run may have here; a `Denial` if this site had no part in it."""
    return _received(folder, study[:16], run)[0]


def _received(folder: Path, study: str, run: str) -> tuple[int, set[str]]:
    """By the site's own ledger: how large a model of this run may be, by what it answered; which of it have come."""
    path = folder / "ledger" / "site.jsonl"
    mine = [
        line for line in (lines(path) if path.exists() else ()) if (line.get("study"), line.get("run")) == (study, run)
    ]
    largest = max((int(line["received"]["bytes"]) for line in mine if "received" in line), default=None)
    if largest is None:
        raise Denial("part")
    return TIMES * largest + MORE, {str(line["model"]["digest"]) for line in mine if "model" in line}


def _study(text: bytes) -> str:
    """The fingerprint of a study file with all its settings."""
    try:
        return fingerprint_of(tomllib.loads(text.decode()))
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise Denial("model") from None


def _parts(about: Any, data: bytes) -> dict[str, bytes]:
    """The files by name; a `Denial` if they are not those of a model."""
    try:
        sizes = {str(name): int(size) for name, size in about["files"]}
    except (TypeError, ValueError, KeyError):
        raise Denial("model") from None
    if not set(FILES) - {SIGNATURE} <= set(sizes) <= set(FILES) or min(sizes.values()) < 0:
        raise Denial("model")
    if sum(sizes.values()) != len(data) or len(about["files"]) != len(sizes):
        raise Denial("model")
    parts, start = {}, 0
    for name, size in sizes.items():
        parts[name] = data[start : start + size]
        start += size
    return parts


def received(folder: Path, study: Study, run: str = "") -> Path:
    """The newest model of this study that was delivered, or that of one run."""
    place = folder / MODELS / study_hash(study)[:16]
    whole = [path for path in place.glob(run or "*") if path.name.isalnum()] if place.is_dir() else []  # none half come
    runs = sorted(whole, key=lambda path: path.stat().st_mtime)
    if not runs:
        raise RunError(
            f"no model of {run or 'this study'} has come to this site: the coordinator sends it when a run has ended, "
            f"or, if the site is away then, once it is connected again. A site that was put back from an older copy "
            f"asks the coordinator for it: wardround submit … --resume sends it anew. Or name one: --shared MODEL"
        )
    return runs[-1]


def whole_model(place: Path, study: Study, out: Path) -> None:
    """Put a delivered model into a folder of its own, with what this site has itself, and check every file of it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelError(out, "exists already", "name another folder, or remove it first")
    with fresh_folder(out) as new:
        for file in place.iterdir():
            shutil.copyfile(file, new / file.name)
        put_files(new, study)
        verify(new)
        signer(new)
