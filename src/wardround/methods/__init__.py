"""Methods by name. Some names of papers are settings of another method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wardround.core.register import located

if TYPE_CHECKING:
    from wardround.core.method import Method

__all__ = ["ELSEWHERE", "METHODS", "NamedMethod"]


@dataclass(frozen=True)
class NamedMethod:
    """A method under a name, with the settings that the name stands for."""

    place: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> "type[Method[Any]]":
        """The class, imported now."""
        kind: type[Method[Any]] = located(self.place)
        return kind


ADAM = {"optimizer": "adam", "lr": 0.001}
TENSORFLOW_EPS = 1e-7  # Keras's default, where FLCMC's own Adam has 1e-8

METHODS: dict[str, NamedMethod] = {
    "fedsgd": NamedMethod("wardround.methods.fedsgd:FedSGD"),
    "fedavg": NamedMethod("wardround.methods.fedavg:FedAvg"),
    "fedprox": NamedMethod("wardround.methods.fedprox:FedProx"),
    "fedatt": NamedMethod("wardround.methods.fedatt:FedAtt"),
    "fedpa": NamedMethod("wardround.methods.fedpa:FedPA"),
    "scaffold": NamedMethod("wardround.methods.scaffold:Scaffold"),
    "feddyn": NamedMethod("wardround.methods.feddyn:FedDyn"),
    "moon": NamedMethod("wardround.methods.moon:MOON"),
    "fedrs": NamedMethod("wardround.methods.fedrs:FedRS"),
    "fedlc": NamedMethod("wardround.methods.fedlc:FedLC"),
    "fedcmc": NamedMethod("wardround.methods.fedcmc:FedCMC"),
    "feded": NamedMethod("wardround.methods.feded:FedED"),
    "fedner": NamedMethod("wardround.methods.fedner:FedNER"),
    "lazy-mil": NamedMethod("wardround.methods.lazy_mil:LazyMIL"),
    "fedavgm": NamedMethod("wardround.methods.fedopt:FedOpt", {"rule": "momentum", "server_lr": 1.0}),
    "fedadagrad": NamedMethod("wardround.methods.fedopt:FedOpt", {"rule": "adagrad"}),
    "fedadam": NamedMethod("wardround.methods.fedopt:FedOpt", {"rule": "adam"}),
    "fedyogi": NamedMethod("wardround.methods.fedopt:FedOpt", {"rule": "yogi"}),
    "fednova": NamedMethod("wardround.methods.fednova:FedNova"),
    "ditto": NamedMethod("wardround.methods.personal:Ditto"),
    "fedrep": NamedMethod("wardround.methods.personal:FedRep"),
    "finetune": NamedMethod("wardround.methods.personal:FineTune"),
    "fedproto": NamedMethod("wardround.methods.fedproto:FedProto"),
    "ridge": NamedMethod("wardround.methods.ridge:Ridge"),
    "ridge-sgd": NamedMethod("wardround.methods.ridge_sgd:RidgeSGD"),
    "fedavgs": NamedMethod("wardround.methods.fedavg:FedAvg", ADAM),
    "fedavgt": NamedMethod("wardround.methods.fedavg:FedAvg", {**ADAM, "eps": TENSORFLOW_EPS}),
    "fedproxp": NamedMethod("wardround.methods.fedprox:FedProx", ADAM),
    "fedatts": NamedMethod("wardround.methods.fedatt:FedAtt", ADAM),
    "fedpap": NamedMethod("wardround.methods.fedpa:FedPA", ADAM),
    "local": NamedMethod("wardround.methods.references:Local"),
    "public": NamedMethod("wardround.methods.references:PublicOnly"),
    "centralised": NamedMethod("wardround.methods.references:Centralised"),
}

ROBUST = "a rule in place of a method's mean: [robust] rule = "
ELSEWHERE = {
    "ccvr": 'what a classifier is fitted with after another method\'s last round: [finish] head = "ccvr"',
    "dp": "noise that any method may have: [privacy.dp]",
    "dp-sgd": "noise that any method may have: [privacy.dp]",
    "forget": "a command, for a finished run of ridge: wardround model forget RUN SITE",
    "krum": f'{ROBUST}"krum"',
    "lora": "a setting of an encoder: task.adapter = { rank = 8 }",
    "median": f'{ROBUST}"median"',
    "secagg": "a layer over any method's sums: [privacy] secure_aggregation = true",
    "secure-aggregation": "a layer over any method's sums: [privacy] secure_aggregation = true",
    "trimmed": f'{ROBUST}"trimmed"',
}
"""Words that are tried as a method's name, and what they are here."""
