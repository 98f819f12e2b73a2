"""The numeric oracles as test parameters: `@pytest.mark.parametrize("case", oracle.params("fedavg"))`.

The folder is `oracles` beside this file, or the one that WARDROUND_ORACLES names.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from wardround.core.weights import Weights

Case = dict[str, Any]


def cases(name: str) -> list[Case]:
    """The cases of one oracle file, each with `id`, `inputs`, `expected` and perhaps `kind`."""
    found: list[Case] = _file(name)["cases"]
    return found


def params(name: str) -> "list[pytest.ParameterSet]":
    """The same cases for `parametrize`, under their ids."""
    return [pytest.param(case, id=case["id"]) for case in cases(name)]


def same(name: str, expected: Any, actual: Any) -> None:
    """Expected (nested lists, perhaps by tensor) equals actual within the tolerance of the oracle of this name."""
    if isinstance(expected, dict):
        assert list(expected) == list(actual)
        for key, value in expected.items():
            same(name, value, actual[key])
        return
    flat = actual.flat if isinstance(actual, Weights) else torch.as_tensor(actual, dtype=torch.float64)
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    assert wanted.shape == flat.shape
    assert wanted.flatten().tolist() == pytest.approx(flat.flatten().tolist(), rel=0, abs=_file(name)["tolerance"])


def _file(name: str) -> dict[str, Any]:
    folder = Path(os.environ.get("WARDROUND_ORACLES") or Path(__file__).with_name("oracles"))
    told: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return told
