"""Corpora by name, and the ways to cut them into sites."""

from typing import Any

from wardround.clinic import Clinic
from wardround.clinic.bags import ClinicBags
from wardround.clinic.pairs import ClinicPairs
from wardround.corpora.ade import ADE
from wardround.corpora.bag_files import BagsJSONL, NotesBags, PubTatorBags
from wardround.corpora.bc5cdr_bags import BC5CDRBags
from wardround.corpora.cadec import CADEC
from wardround.corpora.chemprot import ChemProt
from wardround.corpora.cmdd import CMDD
from wardround.corpora.cmedtc import CMedTC
from wardround.corpora.ddi2013 import DDI2013
from wardround.corpora.dti_bags import DTIBags
from wardround.corpora.entities_jsonl import EntitiesJSONL
from wardround.corpora.files import Files
from wardround.corpora.gad import EUADR, GAD
from wardround.corpora.imcs21 import IMCS21
from wardround.corpora.mirgene_bags import MIRGENEBags
from wardround.corpora.notes import BRATNotes, I2B2Notes
from wardround.corpora.opennre_bags import OpenNREBags
from wardround.corpora.pairs_jsonl import PairsJSONL
from wardround.corpora.pgr import PGR
from wardround.corpora.pgr_bags import PGRBags
from wardround.corpora.platforms import Platforms
from wardround.corpora.psytar_labels import PsyTARLabels
from wardround.corpora.smm4h import SMM4H
from wardround.corpora.synthetic import Synthetic
from wardround.corpora.tagged_corpora import BC2GM, BC5CDR, NCBIDisease, PsyTAR
from wardround.corpora.toyhom import Toyhom
from wardround.federation.sites import ByDirichlet, ByLabel, BySource, Evenly
from wardround.formats.brat import BRAT
from wardround.formats.conll import CoNLL
from wardround.formats.i2b2 import I2B2
from wardround.formats.opennre import OpenNRE

__all__ = ["CORPORA", "PARTITIONS"]

CORPORA: dict[str, Any] = {
    # generated
    "clinic": Clinic,
    "clinic-pairs": ClinicPairs,
    "synthetic": Synthetic,
    # a user's own files
    "brat": BRAT,
    "brat-notes": BRATNotes,
    "conll": CoNLL,
    "entities-jsonl": EntitiesJSONL,
    "files": Files,
    "i2b2": I2B2,
    "i2b2-notes": I2B2Notes,
    "opennre": OpenNRE,
    "pairs-jsonl": PairsJSONL,
    # public corpora, found under WARDROUND_DATA
    "ade": ADE,
    "bc2gm": BC2GM,
    "bc5cdr": BC5CDR,
    "cadec": CADEC,
    "chemprot": ChemProt,
    "cmdd": CMDD,
    "cmedtc": CMedTC,
    "ddi2013": DDI2013,
    "euadr": EUADR,
    "gad": GAD,
    "imcs21": IMCS21,
    "ncbi-disease": NCBIDisease,
    "pgr": PGR,
    "platforms": Platforms,
    "psytar": PsyTAR,
    "psytar-labels": PsyTARLabels,
    "smm4h": SMM4H,
    "toyhom": Toyhom,
    # bags for distant supervision: generated, of one's own files, public
    "clinic-bags": ClinicBags,
    "bags": BagsJSONL,
    "mirgene-bags": MIRGENEBags,
    "notes-bags": NotesBags,
    "opennre-bags": OpenNREBags,
    "pubtator-bags": PubTatorBags,
    "bc5cdr-bags": BC5CDRBags,
    "dti-bags": DTIBags,
    "pgr-bags": PGRBags,
}

PARTITIONS: dict[str, Any] = {"dirichlet": ByDirichlet, "iid": Evenly, "label": ByLabel, "source": BySource}
