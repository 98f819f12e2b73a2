"""The ADE corpus: drugs, adverse effects and dosages in sentences of case reports.

    for document in ADE(by="source").documents("train"): ...

Gurulingappa et al., JBI 2012: `DRUG-AE.rel` and `DRUG-DOSE.rel` with PMID|sentence|span|begin|end|drug|begin|end.
Offsets count characters of the whole abstract, which the files do not hold: the two spans of a row, found together in
the sentence, tell where it begins. All rows of one sentence become one document. Sentences without an adverse effect
(`ADE-NEG.txt`) are not annotated for drugs and are left out. There is no published split.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wardround.corpora.halved import Halved
from wardround.text.document import Document, Entity
from wardround.text.reading import DataError, Problems, data_file, open_text

ORIGIN = "sites.google.com/site/adecorpus (github.com/trunghlt/AdverseDrugReaction, ADE-Corpus-V2)"
FILES = (("ade_corpus_v2/DRUG-AE.rel.gz", "ADE"), ("ade_corpus_v2/DRUG-DOSE.rel", "Dosage"))
Row = tuple[str, str, str, int, int, str, int, int]


@dataclass(frozen=True, kw_only=True)
class ADE(Halved):
    """One document per annotated sentence; its source is the article."""

    types: ClassVar[tuple[str, ...]] = ("ADE", "Dosage", "Drug")
    language: ClassVar[str] = "en"

    def whole(self, problems: Problems) -> Iterator[Document]:
        """Every sentence with all the entities that any row names."""
        sentences: dict[tuple[str, str], dict[tuple[str, int, int], None]] = {}
        for name, kind in FILES:
            path = data_file(name, ORIGIN)
            for line, row in _rows(path, problems):
                article, text, *_ = row
                begin = _begin(row, path, line, problems)
                mine = sentences.setdefault((article, text), {})
                for what, (start, end) in ((kind, row[3:5]), ("Drug", row[6:8])):
                    mine[what, start - begin, end - begin] = None
        for number, ((article, text), spans) in enumerate(sentences.items()):
            entities = (Entity(f"T{n}", *span) for n, span in enumerate(sorted(spans, key=lambda s: s[1:]), 1))
            yield Document(f"{article}-{number}", text, entities=tuple(entities), source=article, language="en")


def _rows(path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
    for line, text in enumerate(open_text(path, problems=problems), 1):
        if not text.strip():
            continue
        cells = text.split("|")
        if len(cells) != 8:
            raise DataError(path, line, f"{len(cells)} columns, not 8", "PMID|sentence|span|begin|end|drug|begin|end")
        try:
            numbers = [int(cells[at]) for at in (3, 4, 6, 7)]
        except ValueError:
            raise DataError(path, line, "an offset that is not a whole number", "copy the file again") from None
        yield line, (cells[0], cells[1], cells[2], *numbers[:2], cells[5], *numbers[2:])  # type: ignore[misc]


def _begin(row: Row, path: Path, line: int, problems: Problems) -> int:
    """Where in its document the sentence begins: the one place from which both spans are found."""
    _, text, one, start, end, two, first, last = row
    for words, length in ((one, end - start), (two, last - first)):
        if len(words) != length or not words:
            raise DataError(path, line, f"offsets {length} apart for {len(words)} characters", "copy the file again")
    begins = sorted({start - at for at in _places(text, one)} & {first - at for at in _places(text, two)})
    if not begins:
        raise DataError(path, line, "its spans are not in its sentence at their distance", "copy the file again")
    if len(begins) > 1:
        problems.note("spans found twice in the sentence, the later place taken", path, line)
    return begins[0]


def _places(text: str, words: str) -> Iterator[int]:
    at = text.find(words)
    while at >= 0:
        yield at
        at = text.find(words, at + 1)
