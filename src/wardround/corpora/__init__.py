"""Corpora by name, and the ways to cut them into sites."""

from typing import Any

from wardround.corpora.federation import ByDirichlet, BySource, Evenly
from wardround.corpora.synthetic import Synthetic

__all__ = ["CORPORA", "PARTITIONS"]

CORPORA: dict[str, Any] = {"synthetic": Synthetic}

PARTITIONS: dict[str, Any] = {"dirichlet": ByDirichlet, "iid": Evenly, "source": BySource}
