"""The shared model of a run at a site: kept as the coordinator delivered it, and made whole with the site's own files.

    keep_model(folder, ask)                                  # the site process, when the letter comes
    received(folder, study, run)                             # `wardround site model`: where it is
    whole_model(place, study, out)                           # with the encoder, say, that the site has itself

Rules of this file:
1. Only files of a model's folder are taken, by name; nothing is unpacked, and nothing that they hold is run: weights
   are safetensors. Their checksums must be those of `SHA256SUMS`, and a signature that is there must be one of them.
2. A model is taken for a run in which this site took part, and may be as large as what it received then allows.
3. What is not delivered must be, to the byte, what the run's model was made with: `SHA256SUMS` has it, too.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from wardround.consortium.budget import Denial
from wardround.consortium.delivery import FILES
from wardround.consortium.deployed import study_hash
from wardround.core.files import fresh_folder, write
from wardround.engines.seal import Ask
from wardround.layers.ledger import lines
from wardround.runs.errors import RunError
from wardround.study.load import Study
from wardround.trained.about import SIGNATURE, SUMS, ModelError, listed, verify
from wardround.trained.folder import put_files
from wardround.trained.signature import signer

MODELS = "models"
MORE = 16 << 20  # bytes beside the weights
TIMES = 8  # what a message may be smaller than the weights, where layers make it so


def keep_model(folder: Path, ask: Ask) -> str:
    """Keep a delivered model, if it may be one; the digest of what came."""
    study, run = str(ask.head["study"]), str(ask.head["run"])
    if not (run.isalnum() and run.isascii() and len(run) <= 64):
        raise Denial("study")
    largest = _received(folder, study[:16], run[:16])
    if largest is None:
        raise Denial("part")
    if len(ask.data) > TIMES * largest + MORE:
        raise Denial("model")
    parts = _parts(ask.head.get("model"), ask.data)
    with tempfile.TemporaryDirectory(dir=folder) as trial:
        new = Path(trial) / "model"
        for name, part in parts.items():
            write(new / name, part)
        try:
            sums = listed(new)
            signer(new)
        except ModelError:
            raise Denial("model") from None
        for name in set(FILES) - {SUMS, SIGNATURE}:
            if sums.get(name) != hashlib.sha256(parts[name]).hexdigest():
                raise Denial("model")
        with fresh_folder(folder / MODELS / study[:16] / run, instead=True) as place:
            for name in parts:
                shutil.copyfile(new / name, place / name)
    return str(ask.statement["digest"])


def _received(folder: Path, study: str, run: str) -> int | None:
    """The largest message that this site has answered in this run, by its own ledger; None if it answered none."""
    path = folder / "ledger" / "site.jsonl"
    mine = [
        int(line["received"]["bytes"]) for line in (lines(path) if path.exists() else ())
        if "received" in line and (line.get("study"), line.get("run")) == (study, run)
    ]  # fmt: skip
    return max(mine, default=None)


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
    runs = sorted(place.glob(run or "*"), key=lambda path: path.stat().st_mtime) if place.is_dir() else []
    if not runs:
        raise RunError(
            f"no model of {run or 'this study'} has come to this site: the coordinator sends it when a run has ended, "
            f"or, if the site is away then, once it is connected again; or name one: --shared MODEL"
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
