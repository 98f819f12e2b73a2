"""`model.json`: what is known of a model, and its folder's checksums.

A model's folder holds `model.json`, `weights.safetensors`, `README.md` (the card), `study.toml` (how it was trained),
`encoder/`, `vectors.*` and `terms.txt` where the task has such, and `SHA256SUMS`, which `sha256sum --check` reads too;
signed, also `SIGNATURE.json` (see `signature`).
It is whole: nothing outside of it is needed but wardround. Nothing in it is private: words are numbered by a hash or by
public lists, and no text of a site is in it.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from wardround.core.refusal import Refusal
from wardround.text.reading import nearest
from wardround.text.sentences import Scope

ABOUT, CARD, SUMS, WEIGHTS = "model.json", "README.md", "SHA256SUMS", "weights.safetensors"
SIGNATURE = "SIGNATURE.json"
FORM = 1
MOST = 10  # runs that a message lists


class ModelError(Refusal, ValueError):
    """A model's folder cannot be used; the message says why and what to do."""

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        super().__init__(f"{path}: {what}; {remedy}")


class Lineage(BaseModel):
    """Where a model comes from: the same study on the same data, begun with the same files, gives the same model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: str = ""
    """A digest of `study.toml`, which has every setting of the run, its seed included."""
    data: str = ""
    """The fingerprint of the examples of all sites, as the run's `data.json` has it; of real sites nobody knows it."""
    files: dict[str, str] = {}
    """Digests of what training began with: an encoder, word vectors, a list of terms."""


class About(BaseModel):
    """All that is needed to build the model again and to say what it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    form: int = FORM
    wardround: str
    study: str
    task: dict[str, Any]
    """The task's settings; files that it names lie in the model's folder."""
    labels: tuple[str, ...] = ()
    negative: str = ""
    """The label that says that there is no relation."""
    types: tuple[str, ...] = ()
    """The entity types that it tags."""
    scheme: str = ""
    pairs: tuple[tuple[str, str], ...] | None = None
    """The types of head and tail that it was trained to relate; unknown where nobody saw all sites' notes."""
    scope: Scope = "sentence"
    """What two entities that it relates have in common."""
    both_ways: bool = True
    """Whether two entities of one type were shown to it in both orders, or only in that of the text."""
    languages: tuple[str, ...] = ()
    """Those of the training texts, as far as known."""
    missing: tuple[str, ...] = ()
    """Parts of the model that each site keeps for itself and that are not here."""
    site: str = ""
    """Whose model it is, if it has a part that is one site's own."""
    method: str = ""
    rounds: int = 0
    """After how many rounds the model was as it is here."""
    chosen_by: str = ""
    """The figure on validation examples by which this round was chosen among those of the run."""
    lineage: Lineage = Lineage()

    def text(self) -> str:
        """The file."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def model_folder(path: Path) -> Path:
    """The model's folder that a path means: itself, or that of a run's folder."""
    for folder in (path, path / "model"):
        if (folder / ABOUT).is_file():
            return folder
    raise ModelError(path, *_why_none(path))


def _why_none(path: Path) -> tuple[str, str]:
    """What a path is that has no model, and where one might be."""
    if not path.is_dir():
        if path.is_file():
            return "it is a file, not a model's folder", "models come first, and one file or folder of texts last"
        beside = [other.name for other in path.parent.iterdir() if other.is_dir()] if path.parent.is_dir() else []
        close = nearest(path.name, beside, alike=0.8)  # of the folders beside it, most are no models
        remedy = f"did you mean {path.parent / close}?" if close else "name the model/ folder of a run"
        return "there is no such folder", remedy
    runs = sorted(str(file.parent) for file in path.glob("*/metrics.json"))
    more = f" and {len(runs) - MOST} more" if len(runs) > MOST else ""
    together = f"put one together: wardround model assemble {path} SITE --out FOLDER"
    marks = (
        (SUMS, f"its {ABOUT} is missing", "copy the model's folder again"),
        (f"model/{SUMS}", f"its model/{ABOUT} is missing", "copy the model's folder again"),
        ("metrics.json", "each site keeps its own model", together),
        ("journal.jsonl", "the run is not finished", "go on with wardround run … --resume"),
        ("*/metrics.json", "it holds runs, such as the cells of a grid", f"name one: {', '.join(runs[:MOST])}{more}"),
        ("", f"it has no {ABOUT}", "name the model/ folder that a finished run leaves"),
    )
    return next((what, remedy) for mark, what, remedy in marks if not mark or any(path.glob(mark)))


def read_about(folder: Path) -> About:
    """The checked `model.json` of a model's folder."""
    try:
        values = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if isinstance(values, dict) and isinstance(form := values.get("form"), int) and form > FORM:
            raise ModelError(folder / ABOUT, f"form {form}, this wardround reads up to {FORM}", "upgrade wardround")
        return About.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise ModelError(folder / ABOUT, what, "copy the model's folder again") from None
    except (ValueError, OSError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(folder / ABOUT, f"cannot be read ({error})", "copy the model's folder again") from None


def seal_folder(folder: Path) -> str:
    """The checksums of all files of the folder, as `SHA256SUMS` has them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (SUMS, SIGNATURE))
    return "".join(f"{file_sum(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)


def listed(folder: Path) -> dict[str, str]:
    """The checksum of each file that `SHA256SUMS` has."""
    path = folder / SUMS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ModelError(path, "cannot be read", "copy the model's folder again") from None
    return {name: expected for line in lines for expected, mark, name in [line.partition("  ")] if mark}


def folder_digest(folder: Path) -> str:
    """The hash of a folder's checksums, which tells one model from another."""
    try:
        return file_sum(folder / SUMS)
    except OSError:
        raise ModelError(folder / SUMS, "cannot be read", "copy the model's folder again") from None


def verify(folder: Path) -> None:
    """Raise an error if a file of a model's folder is missing or not as it was written."""
    path, sums = folder / SUMS, listed(folder)
    for name in (ABOUT, WEIGHTS):
        if name not in sums:
            raise ModelError(path, f"it does not list {name}", "copy the model's folder again")
    for name, expected in sums.items():
        file = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ModelError(path, f"it lists {name!r}, outside of the folder", "do not use this model")
        if not file.is_file():
            raise ModelError(file, "is missing", "copy the model's folder again")
        if file_sum(file) != expected:
            raise ModelError(file, "damaged: its checksum is not the one written", "copy the model's folder again")


def file_sum(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
