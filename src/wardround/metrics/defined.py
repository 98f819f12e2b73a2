"""What a figure's name means, and its direction: each module of metrics has `DEFINITIONS` of its own."""

import importlib
import math
import pkgutil
import re
from collections.abc import Iterable, Mapping
from functools import cache

import wardround.metrics

LESS = ("loss", "repaired")


def lower_is_better(metric: str) -> bool:
    """Whether less of a figure is better: a loss, or what had to be repaired."""
    return metric.endswith(LESS)


def better(metric: str, value: float, than: float) -> bool:
    """Whether one value of a figure is better than another."""
    return value < than if lower_is_better(metric) else value > than


def limits(metric: str) -> tuple[float, float]:
    """Between which values a figure can lie: what has a definition here and is no loss is a share."""
    plain = re.sub(r"^(?:train|valid)_|\[.*\]$", "", metric)
    if lower_is_better(plain):
        return 0.0, math.inf
    return (0.0, 1.0) if any(plain in known for known in _definitions()) else (-math.inf, math.inf)


def defined(names: Iterable[str]) -> dict[str, str]:
    """What each of these figures means, from the module that defines most of them."""
    plain = list(dict.fromkeys(names))
    best: Mapping[str, str] = {}
    for known in _definitions():
        if sum(name in known for name in plain) > sum(name in best for name in plain):
            best = known
    return {name: best.get(name, "no definition is on record for this figure") for name in plain}


@cache
def _definitions() -> tuple[Mapping[str, str], ...]:
    modules = sorted(info.name for info in pkgutil.iter_modules(wardround.metrics.__path__))
    return tuple(
        getattr(importlib.import_module(f"wardround.metrics.{module}"), "DEFINITIONS", {}) for module in modules
    )
