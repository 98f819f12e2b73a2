"""The numeric oracles as test parameters: `@pytest.mark.parametrize("case", oracle.params("fedavg"))`.

The folder is `oracles` beside this file, or the one that WARDROUND_ORACLES names.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

Case = dict[str, Any]


def cases(name: str) -> list[Case]:
    """The cases of one oracle file, each with `id`, `inputs`, `expected` and perhaps `kind`."""
    folder = Path(os.environ.get("WARDROUND_ORACLES") or Path(__file__).with_name("oracles"))
    found: list[Case] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    return found


def params(name: str) -> "list[pytest.ParameterSet]":
    """The same cases for `parametrize`, under their ids."""
    return [pytest.param(case, id=case["id"]) for case in cases(name)]
