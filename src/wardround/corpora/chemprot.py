"""ChemProt: how a chemical acts on a gene or protein, in 5 groups or 13 relations (BioCreative VI).

    for document in ChemProt(split="pooled", seed=0).documents("train"): ...

Krallinger et al., BioCreative VI 2017, as SciBERT's authors prepared it. They wrap the first mention of the pair in
`<< … >>` and the second in `[[ … ]]`, whichever is the chemical: the files do not tell. So `e1` is the first mention,
`e2` the second, both of the type `CHEMICAL-OR-GENE`. The markers are removed and the offsets count without them.

A marker has its blank inside; `>>` and `[[` also occur in the sentences ("A>>B", chemical names), where they stay
and are counted, and of several ` >>` the first closes. Rows in which a marker is missing or repeated, or in which
the two overlap, are skipped and counted. `official` is the published cut; `pooled` takes all 10,065 rows, by label
and seed a fifth for testing and a tenth of the others for validation. `sample` trains on a few of them only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from wardround.corpora.pairs import read_pairs, resplit, sample
from wardround.formats.json_values import json_lines, string
from wardround.text.document import Document, Entity, Placed, overlap
from wardround.text.pairs import pair
from wardround.text.reading import DataError, Problems, data_file, nearest
from wardround.text.shown import shown

ORIGIN = "github.com/allenai/scibert, data/text_classification/chemprot"
FILES = {"train": "chemprot/train.txt.gz", "valid": "chemprot/dev.txt.gz", "test": "chemprot/test.txt.gz"}
TYPE = "CHEMICAL-OR-GENE"
GROUPS = {
    "UPREGULATOR": "CPR:3",
    "ACTIVATOR": "CPR:3",
    "INDIRECT-UPREGULATOR": "CPR:3",
    "DOWNREGULATOR": "CPR:4",
    "INHIBITOR": "CPR:4",
    "INDIRECT-DOWNREGULATOR": "CPR:4",
    "AGONIST": "CPR:5",
    "AGONIST-ACTIVATOR": "CPR:5",
    "AGONIST-INHIBITOR": "CPR:5",
    "ANTAGONIST": "CPR:6",
    "SUBSTRATE": "CPR:9",
    "PRODUCT-OF": "CPR:9",
    "SUBSTRATE_PRODUCT-OF": "CPR:9",
}
MARKERS = ("<< ", " >>"), ("[[ ", " ]]")


@dataclass(frozen=True, kw_only=True)
class ChemProt:
    """Sentences with one pair each; a pair with two relations stands twice."""

    views: ClassVar[tuple[str, ...]] = ("pairs",)

    splits: ClassVar[tuple[str, ...]] = tuple(FILES)
    language: ClassVar[str] = "en"

    split: Literal["official", "pooled"] = "official"
    """The published cut, or all rows cut anew by label and seed."""
    classes: Literal["groups", "relations"] = "groups"
    """Whether labels are the 5 groups or the 13 relations."""
    sample: Annotated[int, Ge(1)] | None = None
    """Only this many training rows, drawn by the seed."""
    balanced: bool = False
    """Whether a sample has as many rows of each class."""
    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""
    seed: int = 0
    """The seed that rows are drawn by; if not given, the study's."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The 5 groups or the 13 relations."""
        return tuple(dict.fromkeys(GROUPS.values())) if self.classes == "groups" else tuple(GROUPS)

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one split."""
        return read_pairs(self._rows, split, self.splits, problems, drop=self.dedupe)

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        rows = self._all(split, problems)
        if self.sample is None or split != "train":
            return rows
        return sample(rows, self.sample, self.seed, balanced=self.balanced)

    def _all(self, split: str, problems: Problems) -> Iterator[Placed]:
        if self.split == "official":
            return self._file(split, problems)
        # Each split reads the whole pool; its findings are reported once.
        problems = problems if split == "train" else Problems()
        return resplit((row for part in FILES for row in self._file(part, problems)), split, self.seed)

    def _file(self, split: str, problems: Problems) -> Iterator[Placed]:
        path = data_file(FILES[split], ORIGIN)
        for line, row in json_lines(path, None, problems, '{"text": …, "label": …}'):
            label = string(row.get("label"), "label", path, line, problems)
            if label not in GROUPS:
                close = nearest(label, GROUPS)
                raise DataError(path, line, f"unknown label {shown(label)}", f"did you mean {close}?" if close else "")
            marked = string(row.get("text"), "text", path, line, problems)
            spans = _marked(marked)
            if spans is None:
                problems.note("markers missing, repeated or overlapping, row skipped", path, line)
                continue
            if len(re.findall(r"<<|>>|\[\[|\]\]", marked)) > 4:
                problems.note("characters like markers in the sentence, kept", path, line)
            text, first, second = _unmarked(marked, *spans)
            relation = GROUPS[label] if self.classes == "groups" else label
            yield Placed(pair(f"chemprot-{split}-{line}", text, first, second, relation, language="en"), path, line)


def _marked(text: str) -> tuple[Entity, Entity] | None:
    """What lies within the two pairs of markers, in the order of the text."""
    spans = []
    for opening, closing in MARKERS:
        start = text.find(opening) + len(opening)
        end = text.find(closing, start)
        if text.count(opening) != 1 or end <= start:
            return None
        spans.append(Entity("", TYPE, start, end))
    first, second = sorted(spans, key=lambda span: span.start)
    wide = [Entity("", TYPE, span.start - 3, span.end + 3) for span in (first, second)]
    return None if overlap(*wide) else (first, second)


def _unmarked(text: str, first: Entity, second: Entity) -> tuple[str, Entity, Entity]:
    """The text without its markers, each three characters long."""
    a, b, c, d = first.start, first.end, second.start, second.end
    bare = text[: a - 3] + text[a:b] + text[b + 3 : c - 3] + text[c:d] + text[d + 3 :]
    return bare, Entity("", TYPE, a - 3, b - 3), Entity("", TYPE, c - 9, d - 9)
