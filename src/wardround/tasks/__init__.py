"""Tasks by name."""

from typing import Any

from wardround.tasks.features import Features

__all__ = ["TASKS"]

TASKS: dict[str, Any] = {"features": Features}
