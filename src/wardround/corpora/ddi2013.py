"""DDI 2013: what happens between two drugs, in 4 kinds of interaction or none (`NA`).

    for document in DDI2013().documents("train"): ...

Herrero-Zazo et al., J. Biomedical Informatics 2013 (CC BY-NC 4.0: not for commercial use), in the sentences of BERE.
Its authors left out easy negatives, so numbers do not compare with work on the whole corpus. Drugs are masked as
`ddrug0`, `ddrug1`, …; the masks of a pair are `e1` and `e2`, found as whole words, for `ddrug1` begins `ddrug10`.
Training and validation rows come from the same sentences. A place in an error reads file:row.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wardround.corpora.pairs import read_pairs
from wardround.text.document import Document, Entity, Placed, overlap
from wardround.text.json_text import parse_json
from wardround.text.pairs import pair
from wardround.text.reading import DataError, Problems, data_file, nearest, open_text
from wardround.text.shown import shown

ORIGIN = "github.com/haiya1994/BERE, data/ddi"


@dataclass(frozen=True, kw_only=True)
class DDI2013:
    """Sentences of DrugBank and MEDLINE, lower-cased and tokenised, with one pair each."""

    views: ClassVar[tuple[str, ...]] = ("pairs",)

    splits: ClassVar[tuple[str, ...]] = ("train", "valid", "test")
    labels: ClassVar[tuple[str, ...]] = ("NA", "advise", "effect", "mechanism", "int")
    negative: ClassVar[str] = "NA"
    language: ClassVar[str] = "en"

    dedupe: bool = False
    """Whether training texts that the test split has too are dropped."""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one split."""
        return read_pairs(self._rows, split, self.splits, problems, drop=self.dedupe)

    def _rows(self, split: str, problems: Problems) -> Iterator[Placed]:
        path = data_file(f"ddi2013/{split}.json.gz", ORIGIN)
        rows = parse_json("\n".join(open_text(path, problems=problems)), path, None)
        if not isinstance(rows, list):
            raise DataError(path, None, f"a JSON {type(rows).__name__}", "expected a list of rows")
        for number, row in enumerate(rows, 1):
            try:
                text, label = str(row["sentence"]), str(row["relation"])
                words = [str(row[end]["word"]) for end in ("head", "tail")]
            except (KeyError, TypeError) as error:
                what = f"no field {error}" if isinstance(error, KeyError) else "not a row"
                raise DataError(path, number, what, "expected: sentence, head, tail, relation") from None
            if label not in self.labels:
                close = nearest(label, self.labels)
                raise DataError(
                    path, number, f"unknown label {shown(label)}", f"did you mean {close}?" if close else ""
                )
            head, tail = (_drug(text, word, path, number, problems) for word in words)
            if overlap(head, tail):
                raise DataError(path, number, "head and tail are the same drug", "remove the row")
            yield Placed(pair(f"ddi2013-{split}-{number}", text, head, tail, label, language="en"), path, number)


def _drug(text: str, word: str, path: Path, number: int, problems: Problems) -> Entity:
    places = list(re.finditer(rf"(?<!\S){re.escape(word)}(?!\S)", text))
    if not places:
        raise DataError(path, number, f"{shown(word)} is not a word of the sentence", "remove or repair the row")
    if len(places) > 1:
        problems.note("drug occurs twice, the first taken", path, number)
    return Entity("", "DRUG", *places[0].span())
