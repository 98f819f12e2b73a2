"""Corpora by name, and the ways to cut them into sites; a study's own files have a `format` instead (see `views`)."""

from wardround.core.register import Register

CORPORA = Register(
    {
        # generated
        "clinic": "wardround.clinic:Clinic",
        "clinic-pairs": "wardround.clinic.pairs:ClinicPairs",
        "synthetic": "wardround.corpora.synthetic:Synthetic",
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
        # bags for distant supervision: generated, public
        "clinic-bags": "wardround.clinic.bags:ClinicBags",
        "bc5cdr-bags": "wardround.corpora.bc5cdr_bags:BC5CDRBags",
        "dti-bags": "wardround.corpora.dti_bags:DTIBags",
        "pgr-bags": "wardround.corpora.pgr:PGRBags",
    }
)

FILES = Register(
    {
        "labels": "wardround.corpora.views:LabelledTexts",
        "entities": "wardround.corpora.views:MarkedTexts",
        "pairs": "wardround.corpora.views:RelatedPairs",
        "bags": "wardround.corpora.views:BaggedSentences",
    }
)
"""By what a task takes, a user's own files as that."""

MOVED = {
    "bags": "bags", "brat": "brat", "brat-notes": "brat", "conll": "conll", "entities-jsonl": "jsonl", "files": "csv",
    "i2b2": "i2b2", "i2b2-notes": "i2b2", "mirgene-bags": "mirgene", "notes-bags": "jsonl", "opennre": "opennre",
    "opennre-bags": "opennre", "pairs-jsonl": "jsonl", "pubtator-bags": "pubtator",
}  # fmt: skip
"""The formats of corpora that had a name for each view of each format."""

PARTITIONS = Register(
    {
        "dirichlet": "wardround.federation.partition:ByDirichlet",
        "iid": "wardround.federation.partition:Evenly",
        "label": "wardround.federation.partition:ByLabel",
        "source": "wardround.federation.partition:BySource",
        "within": "wardround.federation.partition:WithinSource",
    }
)
