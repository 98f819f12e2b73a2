"""The cells of a grid: every choice of one value from each list, where it goes in the tables, and its name."""

import itertools
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any


def shown(value: Any) -> str:
    """A value as the study file has it, cut short."""
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def combinations(grid: Any, seeds: Mapping[str, list[Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Every choice of one value from each list; what is no list is left out, so that the rest is still checked."""
    listed: dict[str, list[Any]] = {}
    if not isinstance(grid, dict):
        problems.append(f'grid = {shown(grid)}: should be a table of lists, e.g. "method.mu" = [0.01, 0.1]')
        grid = {}
    for key, values in grid.items():
        if isinstance(values, list) and values:
            listed[key] = values
        else:
            problems.append(f'grid.{key} = {shown(values)}: should be a list of values, e.g. "method.mu" = [0.01, 0.1]')
    listed |= seeds
    return [dict(zip(listed, values, strict=True)) for values in itertools.product(*listed.values())]


def put(tables: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; a table is laid over the one that is there, but for an empty `grid`, which leaves none.

    A grid's own keys are dotted: `grid.method.lr`.
    """
    *parents, last = key.replace('"', "").split(".", 1 if key.startswith("grid.") else -1)
    for parent in parents:
        below = tables.setdefault(parent, {})
        if not isinstance(below, dict):
            raise ValueError(f"{key} cannot be set: {parent} = {shown(below)} is a value, not a table")  # noqa: TRY004
        tables = below
    if isinstance(value, dict) and isinstance(tables.get(last), dict) and not (key == "grid" and not value):
        tables[last] = {**tables[last], **value}
    else:
        tables[last] = value


def parsed(value: str) -> Any:
    """A value of the command line: TOML, or else text."""
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value


def _listed(value: Any) -> str:
    return ("+".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def label_of(choices: Mapping[str, Any]) -> str:
    """A folder's name for a combination: `fedpap,mu=0.03,seed=1`."""
    parts = []
    for key, value in choices.items():
        short = key.rpartition(".")[2]
        if isinstance(value, dict):
            rest = {k: v for k, v in value.items() if k != "name"}
            parts += [str(value["name"])] if "name" in value else []
            parts += [f"{k}={_listed(v)}" for k, v in rest.items()]
            parts += [short] if not value else []  # the table as the study has it
        else:
            parts.append(str(value) if short == "name" else f"{short}={_listed(value)}")
    return re.sub(r"[^A-Za-z0-9.,=_+-]+", "-", ",".join(parts))
