"""Methods by name. Some names of papers are settings of another method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wardround.core.register import located

if TYPE_CHECKING:
    from wardround.core.method import Method

__all__ = ["ELSEWHERE", "METHODS", "Entry"]


@dataclass(frozen=True)
class Entry:
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

METHODS: dict[str, Entry] = {
    "fedsgd": Entry("wardround.methods.fedsgd:FedSGD"),
    "fedavg": Entry("wardround.methods.fedavg:FedAvg"),
    "fedprox": Entry("wardround.methods.fedprox:FedProx"),
    "fedatt": Entry("wardround.methods.fedatt:FedAtt"),
    "fedpa": Entry("wardround.methods.fedpa:FedPA"),
    "scaffold": Entry("wardround.methods.scaffold:Scaffold"),
    "feddyn": Entry("wardround.methods.feddyn:FedDyn"),
    "moon": Entry("wardround.methods.moon:MOON"),
    "fedrs": Entry("wardround.methods.fedrs:FedRS"),
    "fedlc": Entry("wardround.methods.fedlc:FedLC"),
    "fedcmc": Entry("wardround.methods.fedcmc:FedCMC"),
    "feded": Entry("wardround.methods.feded:FedED"),
    "fedner": Entry("wardround.methods.fedner:FedNER"),
    "lazy-mil": Entry("wardround.methods.lazy_mil:LazyMIL"),
    "fedavgm": Entry("wardround.methods.fedopt:FedOpt", {"rule": "momentum", "server_lr": 1.0}),
    "fedadagrad": Entry("wardround.methods.fedopt:FedOpt", {"rule": "adagrad"}),
    "fedadam": Entry("wardround.methods.fedopt:FedOpt", {"rule": "adam"}),
    "fedyogi": Entry("wardround.methods.fedopt:FedOpt", {"rule": "yogi"}),
    "fednova": Entry("wardround.methods.fednova:FedNova"),
    "ditto": Entry("wardround.methods.personal:Ditto"),
    "fedrep": Entry("wardround.methods.personal:FedRep"),
    "finetune": Entry("wardround.methods.personal:FineTune"),
    "fedproto": Entry("wardround.methods.fedproto:FedProto"),
    "ridge": Entry("wardround.methods.ridge:Ridge"),
    "ridge-sgd": Entry("wardround.methods.ridge_sgd:RidgeSGD"),
    "fedavgs": Entry("wardround.methods.fedavg:FedAvg", ADAM),
    "fedavgt": Entry("wardround.methods.fedavg:FedAvg", {**ADAM, "eps": TENSORFLOW_EPS}),
    "fedproxp": Entry("wardround.methods.fedprox:FedProx", ADAM),
    "fedatts": Entry("wardround.methods.fedatt:FedAtt", ADAM),
    "fedpap": Entry("wardround.methods.fedpa:FedPA", ADAM),
    "local": Entry("wardround.methods.references:Local"),
    "public": Entry("wardround.methods.references:PublicOnly"),
    "centralised": Entry("wardround.methods.references:Centralised"),
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
