"""Classes by name, each imported when it is asked for: to know a name, or to miss one, needs no torch.

TASKS = Register({"tagging": "wardround.tasks.tagging:Tagging"})
"tagging" in TASKS         # imports nothing
TASKS["tagging"]           # the class
TASKS.places["tagging"]    # where it lives
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


class Register(Mapping[str, Any]):
    """Names, and where the class of each lives: `module:Class`."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places

    def __getitem__(self, name: str) -> Any:
        return located(self.places[name])

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def located(place: str) -> Any:
    """What lives at `module:Class`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
