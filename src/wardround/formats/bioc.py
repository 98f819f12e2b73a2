"""BioC in XML: collections of documents, passages, annotations and relations, as PubMed Central and many tools give.

    <document><id>17</id><passage><offset>0</offset><text>Aspirin gave her a rash.</text>
      <annotation id="T1"><infon key="type">drug</infon><location offset="0" length="7"/><text>Aspirin</text>…
      <relation id="R1"><infon key="type">causes</infon><node refid="T1" role="head"/><node refid="T2" role="tail"/>…

What all of it means: `bioc_meaning`. The `bioc` package writes. We read with the XML parser that it stands on, because
its own reader keeps the whole file in memory and knows no lines. Nothing outside the file is ever loaded.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioc import BioCCollection
from bioc.biocjson import fromJSON
from bioc.biocxml.encoder import BioCXMLDocumentWriter
from lxml import etree

from wardround.core.files import fresh
from wardround.formats.bioc_meaning import document_of, plain_document
from wardround.formats.options import Options
from wardround.formats.writing import Sink, lost
from wardround.text.bounded import BoundedBytes
from wardround.text.document import Document, Placed
from wardround.text.reading import DataError, Problems, open_bytes
from wardround.text.shown import line_of

MOST = 32 * 2**20  # bytes of a document, of which a parser's memory is twenty times as much
LONGEST_TEXT = 10_000_000  # bytes of an XML element
NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Element:
    """An element, as `bioc_meaning` looks at it."""

    element: Any
    first: int
    """The line of its document."""

    @property
    def line(self) -> int:
        """Its own; of one in the document's first line as the document's."""
        return self.first if self.element.sourceline == self.first else int(self.element.sourceline)

    def value(self, name: str) -> str | None:
        """What an attribute or a child has to say."""
        own: str | None = self.element.get(name)
        return self.element.findtext(name) if own is None else own

    def infons(self) -> list[tuple[str, str]]:
        """Keys and values."""
        return [(child.get("key", ""), child.text or "") for child in self.element.findall("infon")]

    def children(self, kind: str) -> list["_Element"]:
        """Children of a kind."""
        return [_Element(child, self.first) for child in self.element.findall(kind)]

    def within(self, kind: str) -> list["_Element"]:
        """Descendants of a kind."""
        return [_Element(child, self.first) for child in self.element.iter(kind)]


def read_bioc(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The documents of a collection."""
    with open_bytes(path) as raw:
        stream = BoundedBytes(raw, path, MOST)
        # No entities, no DTD, no network: what a file refers to stays where it is.
        elements = etree.iterparse(
            stream,
            tag="document",
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        before = 1
        try:
            for number, (_, element) in enumerate(elements, 1):
                at, stream.held = element.sourceline, 0
                line, before = line_of(at, "document", element.findtext("id") or "", number, before), at
                if any(True for _ in element.iterancestors("document")):
                    raise DataError(path, line, "a document within a document", "close each before the next")
                with problems.refusing():
                    yield Placed(_document(element, number, path, line, problems, options), path, line)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
            if elements.root is None or elements.root.tag != "collection":
                raise DataError(path, 1, "no BioC collection", "the outermost element must be <collection>")
        except etree.XMLSyntaxError as error:
            what = f"not XML: error {error.code} at column {error.position[1]}"
            raise DataError(path, error.lineno, what, "copy or export the file again") from None


def _document(element: Any, number: int, path: Path, line: int, problems: Problems, options: Options) -> Document:
    document = _Element(element, line)
    for reference in document.within(etree.Entity):
        raise DataError(path, reference.line, "a reference to an XML entity", "write out what it stands for")
    for passage in (*document.within("passage"), *document.within("sentence")):
        texts = passage.element.findall("text")
        if len(texts) > 1 or any(map(len, texts)) or passage.element.find(".//passage") is not None:
            what = "a passage with two texts, markup in its text, or a passage within it"
            raise DataError(path, passage.line, what, "a passage has one plain text")
    return document_of(document, number, path, line, problems, options)


@contextmanager
def write_bioc(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A collection with one passage per document."""
    with fresh(path) as file:
        writer = BioCXMLDocumentWriter(file, encoding="utf-8")
        collection = BioCCollection()
        collection.source, collection.date, collection.key = "wardround", "", "wardround.key"
        writer.write_collection_info(collection)

        def sink(placed: Placed) -> None:
            writer.write_document(_encoded(placed, losses))

        yield sink
        writer.close()


def _encoded(placed: Placed, losses: Problems) -> Any:
    def fit(text: str) -> str:
        clean, count = NOT_XML.subn("\ufffd", text)
        lost(placed, losses, "control character, written as U+FFFD", count)
        return clean

    plain = plain_document(placed, losses, fit)
    if len(plain["passages"][0]["text"].encode()) > LONGEST_TEXT:
        what = f"a text longer than {LONGEST_TEXT:,} bytes, which no XML parser takes"
        raise DataError(placed.path, placed.line or 1, what, "write it as jsonl")
    return fromJSON(plain, "BioCDocument")
