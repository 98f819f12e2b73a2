"""What the round loop asks of whoever has real sites for it."""

from pathlib import Path
from typing import Protocol

from wardround.core.layer import Layer
from wardround.engines.remote import Remote
from wardround.layers.ledger import Ledger
from wardround.runs.build import Built
from wardround.study.load import Study


class Apart(Protocol):
    """Real sites: how to build a study for them, and what carries its messages."""

    def build(self, study: Study, out: Path) -> Built:
        """What the coordinator has of the study."""

    def engine(self, built: Built, ledger: Ledger, out: Path) -> Remote:
        """What carries messages to the sites."""

    def layers(self, built: Built, engine: Remote) -> tuple[Layer, ...]:
        """What the coordinator makes of the replies, beside its ledger."""
