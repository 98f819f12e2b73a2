"""Corpora by name, and the ways to cut them into sites."""

from typing import Any

from wardround.corpora.clinic import Clinic
from wardround.corpora.cmdd import CMDD
from wardround.corpora.cmedtc import CMedTC
from wardround.corpora.federation import ByDirichlet, BySource, Evenly
from wardround.corpora.imcs21 import IMCS21
from wardround.corpora.psytar_labels import PsyTARLabels
from wardround.corpora.synthetic import Synthetic
from wardround.corpora.texts import Files
from wardround.corpora.toyhom import Toyhom

__all__ = ["CORPORA", "PARTITIONS"]

CORPORA: dict[str, Any] = {
    "clinic": Clinic,
    "cmdd": CMDD,
    "cmedtc": CMedTC,
    "files": Files,
    "imcs21": IMCS21,
    "psytar-labels": PsyTARLabels,
    "synthetic": Synthetic,
    "toyhom": Toyhom,
}

PARTITIONS: dict[str, Any] = {"dirichlet": ByDirichlet, "iid": Evenly, "source": BySource}
