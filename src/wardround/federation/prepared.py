"""Sites whose examples a task has made ready: what a host opens.

Prepared(sites, task, public=True).open("north").train
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

from wardround.core.site import HUB
from wardround.core.task import Examples, SiteData
from wardround.federation.partition import Raw
from wardround.federation.sites import Sites
from wardround.federation.units import Unit, units_of


class Prepared:
    """A federation whose examples a task has made ready, with the public ones if they are wanted."""

    def __init__(
        self,
        sites: Sites,
        task: Any,
        private: tuple[str, ...] = (),
        *,
        public: bool = False,
        unit: Unit | None = None,
    ) -> None:
        self.names, self.raw, self._task, self._private = sites.names, sites.raw, task, private
        self._valid = sites.valid
        self._public = sites.public if public else None
        self._unit = unit
        self._tasks: dict[str, Any] = {}

    @cached_property
    def public(self) -> Examples | None:
        """The public examples, the same for all."""
        return cast("Examples", self._task.examples(self._public())) if self._public else None

    def open(self, name: str) -> SiteData:
        """One site's data as the task takes them; the coordinator has the public examples and nothing else."""
        if name == HUB:
            if self.public is None:
                raise ValueError("the coordinator has no examples; add [public] to the study")
            return SiteData(self.public, self.public, public=self.public)
        train, test = self.raw(name)
        valid = self._valid(name) if self._valid else None
        ready: Callable[[Raw], Examples] = (self.task(name) or self._task).examples
        mine = [None if part is None else ready(part) for part in (train, test, valid)]
        units = None
        if self._unit:
            splits = {"train": train, "test": test, **({} if valid is None else {"valid": valid})}
            units = units_of(self._unit, name, splits, self.task(name) or self._task, len(cast("Examples", mine[0])))
        return SiteData(cast("Examples", mine[0]), cast("Examples", mine[1]), mine[2], self.public, units)

    def task(self, name: str) -> Any:
        """The task as this site has it (`at`)."""
        if name not in self.names:
            return None
        if name not in self._tasks:
            self._tasks[name] = self._task.at(name, lambda: self.raw(name)[0], self._private)
        return self._tasks[name]
