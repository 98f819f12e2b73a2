"""Tasks by name."""

from typing import Any

from wardround.tasks.bags import Bags
from wardround.tasks.classification import Classification
from wardround.tasks.features import Features
from wardround.tasks.relation import Relation
from wardround.tasks.tagging import Tagging

__all__ = ["TASKS"]

TASKS: dict[str, Any] = {
    "bags": Bags,
    "classification": Classification,
    "features": Features,
    "relation": Relation,
    "tagging": Tagging,
}
