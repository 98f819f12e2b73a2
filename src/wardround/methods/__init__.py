"""Methods by name. Some names of papers are settings of another method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardround.core.method import Method
from wardround.methods.fedatt import FedAtt
from wardround.methods.fedavg import FedAvg
from wardround.methods.fedcmc import FedCMC
from wardround.methods.feddyn import FedDyn
from wardround.methods.feded import FedED
from wardround.methods.fedlc import FedLC
from wardround.methods.fedner import FedNER
from wardround.methods.fedpa import FedPA
from wardround.methods.fedprox import FedProx
from wardround.methods.fedrs import FedRS
from wardround.methods.fedsgd import FedSGD
from wardround.methods.lazy_mil import LazyMIL
from wardround.methods.moon import MOON
from wardround.methods.references import Centralised, Local, PublicOnly
from wardround.methods.scaffold import Scaffold

__all__ = ["METHODS", "Named"]


@dataclass(frozen=True)
class Named:
    """A method under a name, with the settings that the name stands for."""

    kind: type[Method[Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)

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
    "fedsgd": Named(FedSGD),
    "fedavg": Named(FedAvg),
    "fedprox": Named(FedProx),
    "fedatt": Named(FedAtt),
    "fedpa": Named(FedPA),
    "scaffold": Named(Scaffold),
    "feddyn": Named(FedDyn),
    "moon": Named(MOON),
    "fedrs": Named(FedRS),
    "fedlc": Named(FedLC),
    "fedcmc": Named(FedCMC),
    "feded": Named(FedED),
    "fedner": Named(FedNER),
    "lazy-mil": Named(LazyMIL),
    "fedavgs": Named(FedAvg, ADAM),
    "fedavgt": Named(FedAvg, {**ADAM, "eps": TENSORFLOW_EPS}),
    "fedproxp": Named(FedProx, ADAM),
    "fedatts": Named(FedAtt, ADAM),
    "fedpap": Named(FedPA, ADAM),
    "local": Named(Local),
    "public": Named(PublicOnly),
    "centralised": Named(Centralised),
}
