"""Corpora by name, and the ways to cut them into sites."""

from wardround.core.register import Register

__all__ = ["CORPORA", "PARTITIONS"]

CORPORA = Register(
    {
        # generated
        "clinic": "wardround.clinic:Clinic",
        "clinic-pairs": "wardround.clinic.pairs:ClinicPairs",
        "synthetic": "wardround.corpora.synthetic:Synthetic",
        # a user's own files
        "brat": "wardround.formats.brat:BRAT",
        "brat-notes": "wardround.corpora.notes:BRATNotes",
        "conll": "wardround.formats.conll:CoNLL",
        "entities-jsonl": "wardround.corpora.entities_jsonl:EntitiesJSONL",
        "files": "wardround.corpora.files:Files",
        "i2b2": "wardround.formats.i2b2:I2B2",
        "i2b2-notes": "wardround.corpora.notes:I2B2Notes",
        "opennre": "wardround.formats.opennre:OpenNRE",
        "pairs-jsonl": "wardround.corpora.pairs_jsonl:PairsJSONL",
        # public corpora, found under WARDROUND_DATA
        "ade": "wardround.corpora.ade:ADE",
        "bc2gm": "wardround.corpora.tagged_corpora:BC2GM",
        "bc5cdr": "wardround.corpora.tagged_corpora:BC5CDR",
        "cadec": "wardround.corpora.cadec:CADEC",
        "chemprot": "wardround.corpora.chemprot:ChemProt",
        "cmdd": "wardround.corpora.cmdd:CMDD",
        "cmedtc": "wardround.corpora.cmedtc:CMedTC",
        "ddi2013": "wardround.corpora.ddi2013:DDI2013",
        "euadr": "wardround.corpora.gad:EUADR",
        "gad": "wardround.corpora.gad:GAD",
        "imcs21": "wardround.corpora.imcs21:IMCS21",
        "ncbi-disease": "wardround.corpora.tagged_corpora:NCBIDisease",
        "pgr": "wardround.corpora.pgr:PGR",
        "platforms": "wardround.corpora.platforms:Platforms",
        "psytar": "wardround.corpora.tagged_corpora:PsyTAR",
        "psytar-labels": "wardround.corpora.psytar_labels:PsyTARLabels",
        "smm4h": "wardround.corpora.smm4h:SMM4H",
        "toyhom": "wardround.corpora.toyhom:Toyhom",
        # bags for distant supervision: generated, of one's own files, public
        "clinic-bags": "wardround.clinic.bags:ClinicBags",
        "bags": "wardround.corpora.bag_files:BagsJSONL",
        "mirgene-bags": "wardround.corpora.mirgene_bags:MIRGENEBags",
        "notes-bags": "wardround.corpora.bag_files:NotesBags",
        "opennre-bags": "wardround.corpora.opennre_bags:OpenNREBags",
        "pubtator-bags": "wardround.corpora.bag_files:PubTatorBags",
        "bc5cdr-bags": "wardround.corpora.bc5cdr_bags:BC5CDRBags",
        "dti-bags": "wardround.corpora.dti_bags:DTIBags",
        "pgr-bags": "wardround.corpora.pgr_bags:PGRBags",
    }
)

PARTITIONS = Register(
    {
        "dirichlet": "wardround.federation.sites:ByDirichlet",
        "iid": "wardround.federation.sites:Evenly",
        "label": "wardround.federation.sites:ByLabel",
        "source": "wardround.federation.sites:BySource",
    }
)
