"""Two models' folders side by side: what their cards say, and how far their weights are apart.

for line in differences(Path("before/model"), Path("runs/x/model")): ...
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from wardround.trained.about import CARD, SUMS, WEIGHTS, listed, model_folder, read_about, verify

NOTHING = "–"


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same: what it is, and what it is here and there."""

    what: str
    one: str
    other: str


def differences(one: Path, other: Path) -> list[Difference]:
    """All that two models differ in; each folder is checked first."""
    folders = [model_folder(path) for path in (one, other)]
    for folder in folders:
        verify(folder)
    return [*_about(*folders), *_files(*folders), *_weights(*folders)]


def _about(one: Path, other: Path) -> Iterator[Difference]:
    first, second = (dict(_flat("", read_about(folder).model_dump(mode="json"))) for folder in (one, other))
    for key in dict.fromkeys([*first, *second]):
        if first.get(key) != second.get(key):
            yield Difference(key, first.get(key, NOTHING), second.get(key, NOTHING))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list):
        yield name, ", ".join(" → ".join(item) if isinstance(item, list) else str(item) for item in value) or NOTHING
    else:
        yield name, NOTHING if value in (None, "") else str(value)


def _files(one: Path, other: Path) -> Iterator[Difference]:
    """Files beside weights, card and what is compared already: an encoder, vectors, terms."""
    listed_apart = {WEIGHTS, CARD, SUMS, "model.json", "study.toml"}
    first, second = (listed(folder) for folder in (one, other))
    for name in sorted({*first, *second} - listed_apart):
        if first.get(name) != second.get(name):
            yield Difference(f"file {name}", *(sums.get(name, NOTHING)[:16] for sums in (first, second)))


def _weights(one: Path, other: Path) -> Iterator[Difference]:
    first, second = (load_file(folder / WEIGHTS) for folder in (one, other))
    for name in sorted({*first, *second}):
        mine, theirs = first.get(name), second.get(name)
        if mine is None or theirs is None or mine.shape != theirs.shape:
            shapes = (NOTHING if tensor is None else str(list(tensor.shape)) for tensor in (mine, theirs))
            yield Difference(f"weights {name}", *shapes)
        elif not mine.equal(theirs):
            apart = float((mine.double() - theirs.double()).norm() / max(float(mine.double().norm()), 1e-12))
            yield Difference(f"weights {name}", "", f"{apart:.2g} of its length apart")
