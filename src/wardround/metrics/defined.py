"""What a figure's name means, and its direction: each module of metrics has `DEFINITIONS` of its own."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping

import wardround.metrics

LESS = ("loss", "repaired")


def lower_is_better(metric: str) -> bool:
    """Whether less of a figure is better: a loss, or what had to be repaired."""
    return metric.endswith(LESS)


def better(metric: str, value: float, than: float) -> bool:
    """Whether one value of a figure is better than another."""
    return value < than if lower_is_better(metric) else value > than


def defined(names: Iterable[str]) -> dict[str, str]:
    """What each of these figures means, from the module that defines most of them."""
    plain = list(dict.fromkeys(names))
    best: Mapping[str, str] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(wardround.metrics.__path__)):
        known = getattr(importlib.import_module(f"wardround.metrics.{module}"), "DEFINITIONS", {})
        if sum(name in known for name in plain) > sum(name in best for name in plain):
            best = known
    return {name: best.get(name, "no definition is on record for this figure") for name in plain}
