"""Trained models for other programs: `export([folder], "transformers", out)`.

Each target is refused, with the reason, for models that it cannot hold. A folder appears whole or not at all.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from wardround.core.files import fresh_folder
from wardround.exports.onnx_folder import write_onnx
from wardround.exports.spacy_folder import write_spacy
from wardround.exports.transformers_folder import write_transformers
from wardround.trained.about import ModelError
from wardround.trained.model import load_part

SINGLE = {"onnx": write_onnx, "transformers": write_transformers}


def export(
    models: Sequence[Path],
    to: str,
    out: Path,
    rename: Mapping[str, str] | None = None,
    trust: Sequence[Path] = (),
) -> None:
    """Write models, of which only spaCy takes several, as a new folder."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelError(out, "is there already", "name a new folder")
    if to in SINGLE and len(models) > 1:
        raise ModelError(models[1], f"{to} takes one model at a time", "export each by itself, or use --to spacy")
    if to in SINGLE and rename:
        raise ModelError(models[0], f"{to} takes one model, so no other has names for its types", "leave --rename out")
    parts = [load_part(path, trust) for path in models]
    with fresh_folder(out) as new:
        if to in SINGLE:
            SINGLE[to](parts[0], new)
        else:
            write_spacy(parts, new, rename or {})
