"""Layers by the name that a study gives them; the bound and the ledger are there without one."""

from wardround.core.layer import Layer
from wardround.layers.least import LeastExamples
from wardround.layers.small_counts import SmallCounts

__all__ = ["LAYERS"]

LAYERS: dict[str, type[Layer]] = {
    "small-counts": SmallCounts,
    "least-examples": LeastExamples,
}
