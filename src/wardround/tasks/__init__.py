"""Tasks by name."""

from typing import Any

from wardround.tasks.classification import Classification
from wardround.tasks.features import Features
from wardround.tasks.relation import Relation

__all__ = ["TASKS"]

TASKS: dict[str, Any] = {"classification": Classification, "features": Features, "relation": Relation}
