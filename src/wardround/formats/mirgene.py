"""MIRGENE as published: microRNAs and genes in one sentence, labelled by TarBase and miRTarBase.

    R_MIRTAR 22391563 4 miR-223|FOXO1 feature feature …<tab><e1>miR-223</e1> regulates <e2>FOXO1</e2> expression.

Li, Wu and Vijay-Shanker, "Noise Reduction Methods for Distantly Supervised Biomedical Relation Extraction", BioNLP
2017 (github.com/leebird/bionlp17: `data/train/mirgene.txt`, `data/test/mirgene.txt`). A line has the relations
(joined by `|`, or NONE), the document, the number of the sentence, the id of the pair and features, between blanks;
then, after a tab, the sentence with head and tail marked. Their loader fixes all but the marks, so `tags` names them;
an error says which others a file has. The pair's id stands for both ends.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from wardround.formats.options import Options
from wardround.text.document import Entity, Placed, overlap
from wardround.text.facts import UNRELATED, BagSentence, sentence
from wardround.text.reading import DataError, Problems, open_text
from wardround.text.shown import text_is_shown

MARK = re.compile(r"<(/?)([\w-]+)>")
NONE = "NONE"


def read_mirgene(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The sentences of a file, one for each relation."""
    for line, row in enumerate(open_text(path, options.encoding, problems=problems), 1):
        if row.strip():
            with problems.refusing():
                yield from (Placed(one, path, line) for one in _sentences(row, path, line, problems, options.tags))


def _sentences(row: str, path: Path, line: int, problems: Problems, tags: tuple[str, str]) -> Iterator[BagSentence]:
    info, tab, tagged = row.partition("\t")
    meta = info.split(" ")
    if not tab or len(meta) < 4:
        raise DataError(path, line, "no relation, document, sentence and pair before a tab", "is it MIRGENE?")
    relations, document, number, pair = meta[:4]
    text, spans = _untagged(tagged, tags, path, line)
    ends = Entity(pair, "miRNA", *spans[tags[0]]), Entity(pair, "gene", *spans[tags[1]])
    if overlap(*ends):
        problems.note("entities overlap, pair skipped", path, line)
        return
    for name in relations.split("|"):
        relation = UNRELATED if name == NONE else name
        yield sentence(f"{document}:{number}:{line}", text, *ends, relation, source=document, language="en")


def _untagged(tagged: str, tags: tuple[str, str], path: Path, line: int) -> tuple[str, dict[str, tuple[int, int]]]:
    """The sentence without marks, and where its two marked entities stand; other marks are left as they are."""
    text, last = "", 0
    starts: dict[str, int] = {}
    spans: dict[str, tuple[int, int]] = {}
    for mark in MARK.finditer(tagged):
        if mark[2] not in tags:
            continue
        text += tagged[last : mark.start()]
        last = mark.end()
        if not mark[1]:
            starts.setdefault(mark[2], len(text))
        elif mark[2] in starts:
            spans.setdefault(mark[2], (starts[mark[2]], len(text)))
    text += tagged[last:]
    for tag in tags:
        if tag not in spans or spans[tag][0] >= spans[tag][1]:
            others = sorted({mark[2] for mark in MARK.finditer(tagged)} - set(tags))
            marks = ", ".join(others[:4]) if text_is_shown() else f"{len(others)} other marks"
            remedy = f"it has {marks}; set tags" if others else "mark both, or set tags"
            raise DataError(path, line, f'nothing is marked "{tag}"', remedy)
    return text, spans
