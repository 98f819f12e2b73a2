"""What stands behind a site's door: the same in one process, in a pool of workers and in a hospital.

A host opens sites when their turn comes, keeps the data of a few at hand, and turns whatever goes wrong in a
step into a `Fault`: a code, the name of the error and where it was raised, never its text, which could quote
a note. `SiteFailed` carries the original for a debugger on the same machine.
"""

import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from wardround.core.answer import Unfit, answer, step_of
from wardround.core.device import CPU, OUT_OF_MEMORY, Device, out_of_memory
from wardround.core.exchange import Exchange, Fault
from wardround.core.files import file_name
from wardround.core.layer import Layer, Withheld, first_number
from wardround.core.manifest import Manifest
from wardround.core.memory import Held, Memory
from wardround.core.method import Method, Step
from wardround.core.private_steps import Guard
from wardround.core.record import Message
from wardround.core.site import Site
from wardround.core.task import SiteData, Task
from wardround.core.vault import Vault
from wardround.engines.codes import CODES

AT_HAND = 128  # sites whose data stay open: the usual hundred; more would grow with the federation


class Federation(Protocol):
    """Sites by name, each opened on its own."""

    @property
    def names(self) -> Sequence[str]: ...  # noqa: D102 -- the class says it

    def open(self, name: str) -> SiteData:
        """The data of one site."""


class Host:
    """Runs steps at the sites of one machine."""

    def __init__(
        self,
        method: Method[Any],
        task: Task,
        federation: Federation,
        memory: Path,
        layers: Sequence[Layer] = (),
        private: tuple[str, ...] = (),
        manifest: Manifest | None = None,
        vault: Vault | None = None,
        *,
        guards: "Callable[[Site], Guard | None] | None" = None,
        device: Device = CPU,
    ) -> None:
        self.method, self.task, self.memory, self.layers = method, task, memory, tuple(layers)
        self.private, self.manifest, self.guards, self.device = private, manifest, guards, device
        self.least = max((layer.least for layer in layers), default=0)
        self.first = first_number(layers)
        self.task_at: Callable[[str], Task | None] = getattr(federation, "task", lambda _: None)
        """The task as a site has it, where that differs: with a tag set of its own, say."""
        self.held: dict[str, Held] = {}
        """What sites hold between the exchanges of a round."""
        self.opened: Callable[[str], SiteData] = lru_cache(maxsize=AT_HAND)(federation.open)
        self.vaults: dict[str, Vault] = {}
        """Of each site, unless the one of a hospital was given."""
        self.vault = vault
        self.error: Exception | None = None
        """The last error of a step, for those who may read it."""

    def site(self, name: str, exchange: Exchange, received: Message | None = None) -> Site:
        """The site of this name, at this exchange."""
        memory = Memory(self.memory / file_name(name), self.held.setdefault(name, {}))
        task = self.task_at(name) or self.task
        vault = self.vault or self.vaults.setdefault(name, Vault.simulated(name, exchange.seed))
        opened = partial(self.opened, name)
        mine = (self.private, self.least, vault, self.first, self.guards, self.device)
        return Site(name, task, opened, memory, exchange, received, *mine)

    def undo(self, name: str, exchange: Exchange) -> None:
        """Have the site forget what it kept in this exchange, whose reply did not count."""
        Memory(self.memory / file_name(name), self.held.setdefault(name, {})).undo(exchange)

    def step(self, name: str) -> Step[Any, Any]:
        """The step of this name that a site can be asked for, of the method or of a layer."""
        return step_of(self.method, name, self.layers)

    def answer(self, name: str, exchange: Exchange, message: Message) -> Message | Fault:
        """The site's reply, or the fault in its place."""
        try:
            return answer(self.method, message, self.site(name, exchange, message), self.layers, self.manifest)
        except Unfit as error:
            return Fault("invalid", str(error))
        except Exception as error:  # noqa: BLE001 -- whatever it is, its text must not leave
            self.error = error
            if out_of_memory(error):
                traceback.clear_frames(error.__traceback__)  # they hold what was computed
                self.device.free()
                return Fault("failed", OUT_OF_MEMORY)
            if isinstance(error, Withheld):
                words = CODES.get(error.code, CODES[Withheld.code])
                return Fault(*words) if words is not CODES[Withheld.code] else Fault("refused", describe(error))
            return Fault("failed", describe(error))


def describe(error: Exception) -> str:
    """The error's class and where it was raised, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
