"""Run folders as `wardround run` leaves them, made up for tests of what reads them.

folder = make_run(tmp_path / "a", method="fedprox", seed=1, values=[0.5, 0.6])
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

__all__ = ["make_run", "make_sweep", "study_of"]

KINDS = {
    "centralised": {"pooled": True}, "local": {"shares": False, "personal": True}, "public": {"trains": False},
    "ditto": {"personal": True},
}  # fmt: skip
VERSIONS = {"wardround": "0.2.0", "python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6"}


def study_of(method: str = "fedavg", seed: int = 0, rounds: int = 2, **changes: Any) -> dict[str, Any]:
    """A resolved study; tables among the changes are laid over."""
    tables: dict[str, Any] = {
        "name": "small",
        "description": "",
        "rounds": rounds,
        "seed": seed,
        "method": {"name": method, "lr": 0.01},
        "task": {"name": "features"},
        "corpus": {"name": "synthetic", "alpha": 0.5, "seed": seed},
        "sites": {"fraction": 1.0, "quorum": 1},
        "evaluation": {"every": 1, "splits": ["test"], "each": False},
    }
    for key, value in changes.items():
        tables[key] = {**tables.get(key, {}), **value} if isinstance(value, Mapping) else value
    return tables


def make_run(
    folder: Path,
    method: str = "fedavg",
    seed: int = 0,
    values: Sequence[float] = (0.5, 0.6),
    *,
    sites: Sequence[str] = ("north", "south"),
    labels: Sequence[str] = ("dose", "drug"),
    each: Mapping[str, float] | None = None,
    data: str | None = None,
    finished: bool = True,
    up: int = 1000,
    rounds: int | None = None,
    using: Mapping[str, Any] | None = None,
    more: Mapping[str, float] | None = None,
    **changes: Any,
) -> Path:
    """A run with this accuracy in each round.

    `each` is the accuracy of each site, `using` the method's settings, `more` further figures.
    """
    folder.mkdir(parents=True)
    planned = rounds or len(values)
    study = study_of(method, seed, planned, **changes)
    study["method"] |= using or {}
    (folder / "study.toml").write_text(tomli_w.dumps(study), encoding="utf-8")
    mark = hashlib.sha256(json.dumps({k: v for k, v in study.items() if k != "rounds"}).encode()).hexdigest()
    (folder / "fingerprint").write_text(mark + "\n", encoding="utf-8")
    lines = [
        {
            "round": number,
            "sites": len(sites),
            "left_out": {},
            "metrics": {"accuracy": value, "loss": 2 - value, "examples": 10.0, **(more or {})},
            "per_site": {s: {"accuracy": v, "examples": 5.0} for s, v in (each or {}).items()},
            "up": up,
            "down": 900,
            "evaluation_up": 50,
            "evaluation_down": 800,
            "seconds": 0.5,
            "asked": len(sites),
        }
        for number, value in enumerate(values, 1)
    ]
    journal = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "journal.jsonl").write_text(journal, encoding="utf-8")
    counts = {site: {"train": {x: 3 + n for n, x in enumerate(labels)}, "test": {labels[0]: 5}} for site in sites}
    fingerprint = data or hashlib.sha256(f"data {seed}".encode()).hexdigest()
    _write(folder / "data.json", {"count": len(sites), "sites": counts, "fingerprint": fingerprint})
    _write(folder / "wire.json", _wire())
    kind = KINDS.get(method, {}) | {"format": 2}
    _write(folder / "run.json", {**kind, "resumed": []})
    if finished:
        results = {
            **kind, "study": study["name"], "versions": VERSIONS, "method": method, "seed": seed, "rounds": len(values),
            "stopped": "all rounds done", "rounds_to_target": None, "final": lines[-1]["metrics"], "best": {},
            "bytes": {}, "seconds": 0.5 * len(values),
        }  # fmt: skip
        _write(folder / "metrics.json", results)
    return folder


def make_sweep(folder: Path, finals: Mapping[str, Sequence[float]], **options: Any) -> Path:
    """A folder of runs: per method the final accuracy of each seed from 0 on."""
    for method, values in finals.items():
        for seed, value in enumerate(values):
            make_run(folder / f"{method},seed={seed}", method, seed, [value / 2, value], **options)
    return folder


def _write(path: Path, told: Any) -> None:
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _wire() -> list[dict[str, Any]]:
    model = {"type": "float32", "tensors": 2, "shape": [610], "bytes": 2440}
    fields: tuple[tuple[str, str, str, str, dict[str, Any], str, str], ...] = (
        ("fit", "to site", "Global", "weights", model, "", "nothing about the receiver"),
        ("fit", "from site", "Update", "change", model, "sum", "how notes move it"),
        ("fit", "from site", "Update", "weight", {"type": "int", "bytes": 0}, "sum", "how many examples the site has"),
        ("fit", "from site", "Update", "", {"type": "", "bytes": 216}, "sum", ""),
        ("evaluate", "from site", "Counts", "numbers", {"type": "float64", "shape": [4], "bytes": 32}, "each",
         "right and wrong per class"),
    )  # fmt: skip
    names = ("step", "direction", "message", "field", "seen", "reveals")
    return [dict(zip(names, (*row[:4], *row[5:]), strict=True)) | row[4] for row in fields]
