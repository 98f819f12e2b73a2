"""Tasks by name."""

from typing import Any

from wardround.tasks.bags import Bags
from wardround.tasks.classification import Classification
from wardround.tasks.features import Features

__all__ = ["TASKS"]

TASKS: dict[str, Any] = {"bags": Bags, "classification": Classification, "features": Features}
