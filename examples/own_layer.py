"""A layer of your own, in one file: sites hide their replies behind noise, and the coordinator sees only sums.

    python examples/own_layer.py [FOLDER]

In a study it is `[[layers]]` with `name = "own_layer:Blinds"`. It is a toy: the noise follows in the clear.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

import wardround
from wardround.extend import Cohort, Layer, Message, Private, Site, Step, flattened, on_site, restored, reveals


class Hidden(Message):
    """A site's numbers with noise on them, or that noise."""

    numbers: torch.Tensor = reveals("only with the noise off what it hides", shape=("any",), dtype=torch.float64)
    form: str = reveals("where each number belongs, the same at all sites")


class Counted(Message):
    """Whose replies are in the sum."""

    names: tuple[str, ...] = reveals("who takes part")


class Noise(Private):
    """What a site has added to its last reply."""

    numbers: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Blinds(Layer):
    """Adds noise at each site, and takes its sum off the sum of the replies."""

    only_sums = "there is noise on each reply"
    scale: float = 1.0

    def carries(self, _: type[Message]) -> type[Message]:
        """Whatever a site replies leaves as `Hidden`."""
        return Hidden

    def leave(self, reply: Message, site: Site) -> Message:
        """At the site: keep the noise, send the rest."""
        numbers, form = flattened(reply)
        noise = self.scale * torch.randn(len(numbers), dtype=torch.float64, generator=site.rng)
        site.keep(Noise(noise))
        return Hidden(numbers + noise, form)

    @on_site
    def open(self, counted: Counted, site: Site) -> Hidden:
        """At the site, in an exchange of the layer's own: the noise, if it is in the sum."""
        return Hidden(site.recall(Noise).numbers * (site.name in counted.names), "")

    def settle(self, total: Message, step: Step[Any, Any], names: tuple[str, ...], cohort: Cohort) -> Message:
        """At the coordinator: the noise of all that are in the sum; if one of them is gone, there is no sum."""
        noise, hidden = cohort.total(self.open, Counted(names)), cast("Hidden", total)
        cohort.require(names)
        return cast("Message", restored(step.reply, hidden.numbers - noise.numbers, hidden.form))


def main(folder: Path) -> None:
    """Train behind noise on generated rows of numbers."""
    study = {
        "name": "blinds",
        "rounds": 10,
        "corpus": {"name": "synthetic", "sites": 5, "largest": 100},
        "task": {"name": "features"},
        "method": {"name": "fedavg", "lr": 0.1},
        "layers": [{"name": "own_layer:Blinds", "scale": 10.0}],
    }
    result = wardround.run(study, folder / "run", report=False)
    print(f"accuracy {result.metrics['accuracy']:.2f} after {result.rounds} rounds, behind noise")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
