"""The formats of annotated texts, by name: what reads and writes each, and what it can hold.

    for placed in FORMATS["brat"].read(Path("notes/"), problems, Options()): ...
    "pairs" in FORMATS["brat"].holds

A format's file gives documents and takes them, and knows nothing of tasks. What a task takes is a *view* of documents:
`labels` of texts, `entities` in texts, `pairs` of entities, `bags` of sentences; `holds` says which of them the format
has a place for. Some formats come as examples already (`ready`): a line is a pair, or a sentence of a bag.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wardround.core.register import located
from wardround.formats.i2b2 import LABELS, PAIRS
from wardround.formats.options import Options, View
from wardround.text.reading import nearest

if TYPE_CHECKING:
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
    file: str = ""
    """The module beside this one that has `read_NAME` and `write_NAME`, if its name is another."""
    writes: bool = False
    holds: tuple[View, ...] = ()
    ready: View | None = None
    """The view that its documents are already."""
    options: tuple[str, ...] = ()
    """Those of `Options` that say something here, besides encoding and language."""
    folder: str = ""
    """The ending of the files in a folder of notes, where the format is one; each note is its own source."""
    usual: Mapping[str, Any] = field(default_factory=dict)
    """What a study need not say of pairs."""

    @property
    def read(self) -> "Callable[[Path, Problems, Options], Iterator[Placed]]":
        """Its reader, imported when it is needed: to know the names of formats takes none of them."""
        function: Callable[[Path, Problems, Options], Iterator[Placed]] = self._function("read")
        return function

    @property
    def write(self) -> "Callable[[Path, Problems, Options], AbstractContextManager[Sink]]":
        """Its writer, if it `writes`."""
        function: Callable[[Path, Problems, Options], AbstractContextManager[Sink]] = self._function("write")
        return function

    def _function(self, verb: str) -> Any:
        name = self.name.replace("-", "_")
        return located(f"wardround.formats.{self.file or name}:{verb}_{name}")


FORMATS = {
    form.name: form
    for form in (
        Format(name="bags", about="bags of sentences, as align writes them",
               holds=("bags",), ready="bags"),
        Format(name="bioc", about="BioC XML", writes=True,
               holds=("labels", "entities", "pairs"), options=OFFSETS),
        Format(name="bioc-json", about="BioC JSON, as PubTator 3 gives it", writes=True,
               holds=("labels", "entities", "pairs"), options=OFFSETS),
        Format(name="brat", about="BRAT standoff, a folder of .txt and .ann", writes=True,
               holds=("entities", "pairs"), options=OFFSETS, folder=".ann"),
        Format(name="conll", about="CoNLL columns with BIO tags", writes=True,
               holds=("entities",), options=("token", "tag", "scheme", "bare")),
        Format(name="csv", about="CSV", file="tables", writes=True,
               holds=("labels",), options=(*COLUMNS, "header", "quoting", "delimiter")),
        Format(name="doccano", about="doccano JSONL", writes=True,
               holds=("labels", "entities", "pairs"), options=("text", "label", "id", "source", "patient", *OFFSETS)),
        Format(name="fhir", about="FHIR DocumentReferences, in Bundles or one per line"),
        Format(name="i2b2", about="2010 i2b2/VA, folders of .txt, .con and .rel",
               holds=("entities", "pairs"), folder=".con",
               usual={"labels": LABELS, "pairs": PAIRS, "scope": "line", "both_ways": False}),
        Format(name="jsonl", about="our JSONL, which holds everything", writes=True,
               holds=("labels", "entities", "pairs", "bags"), options=(*COLUMNS, *OFFSETS)),
        Format(name="label-studio", about="Label Studio JSON", writes=True,
               holds=("labels", "entities", "pairs"), options=("text", "id", "source", "patient", *OFFSETS)),
        Format(name="mirgene", about="MIRGENE's sentences with marked pairs",
               holds=("bags",), ready="bags", options=("tags",)),
        Format(name="omop", about="OMOP NOTE table as CSV",
               holds=("labels",), options=("text", "label", "id", "source", "patient", "separator", "delimiter")),
        Format(name="opennre", about="OpenNRE's lines of a sentence and a pair",
               holds=("pairs", "bags"), ready="pairs", options=("fix_offsets",)),
        Format(name="pubtator", about="PubTator", writes=True,
               holds=("entities", "pairs", "bags"), options=OFFSETS),
        Format(name="text", about="plain text, a note per file", file="plain"),
        Format(name="tsv", about="TSV", file="tables", writes=True,
               holds=("labels",), options=(*COLUMNS, "header", "quoting")),
    )
}  # fmt: skip
TARGETS = {name: form for name, form in FORMATS.items() if form.writes}


def misuses(form: str, settings: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings of files, whatever is taken of them."""
    if form not in FORMATS:
        near = nearest(form, FORMATS)
        known = f"did you mean {near!r}?" if near else f"known: {', '.join(FORMATS)}"
        return [f"format = {form!r} is unknown; {known}"]
    foreign = {option.name for option in fields(Options)} - {"encoding", "language", *FORMATS[form].options}
    wrong = [
        f"{name} has no meaning where format = {form!r}; take it out"
        for name, value in settings.items()
        if name in foreign and value is not None
    ]
    sign = settings.get("delimiter")
    if isinstance(sign, str) and len(sign) != 1:
        wrong.append(f"delimiter = {sign!r}: should be one character, such as ';'")
    if 0 in (settings.get("token"), settings.get("tag")):
        wrong.append("columns count from 1, or from the end: -1; there is no column 0")
    return wrong
