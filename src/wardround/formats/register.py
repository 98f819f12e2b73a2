"""The formats of annotated texts, by name: what reads and writes each, and what it can hold.

    for placed in FORMATS["brat"].read(Path("notes/"), problems, Options()): ...
    "pairs" in FORMATS["brat"].holds

A format's file gives documents and takes them, and knows nothing of tasks. What a task takes is a *view* of documents:
`labels` of texts, `entities` in texts, `pairs` of entities, `bags` of sentences; `holds` says which of them the format
has a place for. Some formats come as examples already (`ready`): a line is a pair, or a sentence of a bag.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wardround.formats.bags import read_bags
from wardround.formats.bioc import read_bioc, write_bioc
from wardround.formats.bioc_json import read_bioc_json, write_bioc_json
from wardround.formats.brat import read_brat, write_brat
from wardround.formats.conll import read_conll, write_conll
from wardround.formats.doccano import read_doccano, write_doccano
from wardround.formats.fhir import read_fhir
from wardround.formats.i2b2 import LABELS, PAIRS, read_i2b2
from wardround.formats.jsonl import read_jsonl, write_jsonl
from wardround.formats.label_studio import read_label_studio, write_label_studio
from wardround.formats.mirgene import read_mirgene
from wardround.formats.omop import read_omop
from wardround.formats.opennre import read_opennre
from wardround.formats.options import Options, View
from wardround.formats.plain import read_plain
from wardround.formats.pubtator import read_pubtator, write_pubtator
from wardround.formats.tables import read_csv, read_tsv, write_csv, write_tsv
from wardround.formats.writing import Sink
from wardround.text.document import Placed
from wardround.text.reading import Problems

COLUMNS = ("text", "label", "flags", "id", "source", "patient", "separator")
OFFSETS = ("fix_offsets", "show_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format, what reads it and, if it can hold documents, what writes it."""

    name: str
    about: str
    read: Callable[[Path, Problems, Options], Iterator[Placed]]
    write: Callable[[Path, Problems, Options], AbstractContextManager[Sink]] | None = None
    holds: tuple[View, ...] = ()
    ready: View | None = None
    """The view that its documents are already."""
    options: tuple[str, ...] = ()
    """Those of `Options` that say something here, besides encoding and language."""
    folder: str = ""
    """The ending of the files in a folder of notes, where the format is one; each note is its own source."""
    usual: Mapping[str, Any] = field(default_factory=dict)
    """What a study need not say of pairs."""


FORMATS = {
    form.name: form
    for form in (
        Format(name="bags", about="bags of sentences, as align writes them", read=read_bags,
               holds=("bags",), ready="bags"),
        Format(name="bioc", about="BioC XML", read=read_bioc, write=write_bioc,
               holds=("labels", "entities", "pairs"), options=OFFSETS),
        Format(name="bioc-json", about="BioC JSON, as PubTator 3 gives it", read=read_bioc_json, write=write_bioc_json,
               holds=("labels", "entities", "pairs"), options=OFFSETS),
        Format(name="brat", about="BRAT standoff, a folder of .txt and .ann", read=read_brat, write=write_brat,
               holds=("entities", "pairs"), options=OFFSETS, folder=".ann"),
        Format(name="conll", about="CoNLL columns with BIO tags", read=read_conll, write=write_conll,
               holds=("entities",), options=("token", "tag", "scheme", "bare")),
        Format(name="csv", about="CSV with a header", read=read_csv, write=write_csv,
               holds=("labels",), options=(*COLUMNS, "header", "quoting")),
        Format(name="doccano", about="doccano JSONL", read=read_doccano, write=write_doccano,
               holds=("labels", "entities", "pairs"), options=("text", "label", "id", "source", "patient", *OFFSETS)),
        Format(name="fhir", about="FHIR DocumentReferences, in Bundles or one per line", read=read_fhir),
        Format(name="i2b2", about="2010 i2b2/VA, folders of .txt, .con and .rel", read=read_i2b2,
               holds=("entities", "pairs"), folder=".con",
               usual={"labels": LABELS, "pairs": PAIRS, "scope": "line", "both_ways": False}),
        Format(name="jsonl", about="our JSONL, which holds everything", read=read_jsonl, write=write_jsonl,
               holds=("labels", "entities", "pairs", "bags"), options=(*COLUMNS, *OFFSETS)),
        Format(name="label-studio", about="Label Studio JSON", read=read_label_studio, write=write_label_studio,
               holds=("labels", "entities", "pairs"), options=("text", "id", "source", "patient", *OFFSETS)),
        Format(name="mirgene", about="MIRGENE's sentences with marked pairs", read=read_mirgene,
               holds=("bags",), ready="bags", options=("tags",)),
        Format(name="omop", about="OMOP NOTE table as CSV", read=read_omop,
               holds=("labels",), options=("text", "label", "id", "source", "patient", "separator")),
        Format(name="opennre", about="OpenNRE's lines of a sentence and a pair", read=read_opennre,
               holds=("pairs", "bags"), ready="pairs", options=("fix_offsets",)),
        Format(name="pubtator", about="PubTator", read=read_pubtator, write=write_pubtator,
               holds=("entities", "pairs", "bags"), options=OFFSETS),
        Format(name="text", about="plain text, a note per file", read=read_plain),
        Format(name="tsv", about="TSV with a header", read=read_tsv, write=write_tsv,
               holds=("labels",), options=(*COLUMNS, "header", "quoting")),
    )
}  # fmt: skip
TARGETS = {name: form for name, form in FORMATS.items() if form.write}
