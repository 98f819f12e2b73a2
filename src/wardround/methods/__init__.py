"""Methods by name. Some names of papers are settings of another method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wardround.core.register import located

if TYPE_CHECKING:
    from wardround.core.method import Method

__all__ = ["METHODS", "Named"]


@dataclass(frozen=True)
class Named:
    """A method under a name, with the settings that the name stands for."""

    place: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> "type[Method[Any]]":
        """The class, imported now."""
        kind: type[Method[Any]] = located(self.place)
        return kind

    @property
    def about(self) -> str:
        """One line for the list."""
        line = (self.kind.__doc__ or "").partition("\n")[0]
        if not self.settings:
            return line
        return f"{self.kind.__name__} with " + ", ".join(f"{key} = {value}" for key, value in self.settings.items())


ADAM = {"optimizer": "adam", "lr": 0.001}
TENSORFLOW_EPS = 1e-7  # Keras's default, where FLCMC's own Adam has 1e-8

METHODS: dict[str, Named] = {
    "fedsgd": Named("wardround.methods.fedsgd:FedSGD"),
    "fedavg": Named("wardround.methods.fedavg:FedAvg"),
    "fedprox": Named("wardround.methods.fedprox:FedProx"),
    "fedatt": Named("wardround.methods.fedatt:FedAtt"),
    "fedpa": Named("wardround.methods.fedpa:FedPA"),
    "scaffold": Named("wardround.methods.scaffold:Scaffold"),
    "feddyn": Named("wardround.methods.feddyn:FedDyn"),
    "moon": Named("wardround.methods.moon:MOON"),
    "fedrs": Named("wardround.methods.fedrs:FedRS"),
    "fedlc": Named("wardround.methods.fedlc:FedLC"),
    "fedcmc": Named("wardround.methods.fedcmc:FedCMC"),
    "feded": Named("wardround.methods.feded:FedED"),
    "fedner": Named("wardround.methods.fedner:FedNER"),
    "lazy-mil": Named("wardround.methods.lazy_mil:LazyMIL"),
    "fedavgs": Named("wardround.methods.fedavg:FedAvg", ADAM),
    "fedavgt": Named("wardround.methods.fedavg:FedAvg", {**ADAM, "eps": TENSORFLOW_EPS}),
    "fedproxp": Named("wardround.methods.fedprox:FedProx", ADAM),
    "fedatts": Named("wardround.methods.fedatt:FedAtt", ADAM),
    "fedpap": Named("wardround.methods.fedpa:FedPA", ADAM),
    "local": Named("wardround.methods.references:Local"),
    "public": Named("wardround.methods.references:PublicOnly"),
    "centralised": Named("wardround.methods.references:Centralised"),
}
