"""DTI: drugs and proteins in one sentence of PubMed, labelled by what DrugBank says of the pair.

    for row in DTIBags(most=1).documents("test"): ...

Hong et al., "A novel machine learning framework for automated biomedical relation extraction from large-scale
literature repositories", Nature Machine Intelligence 2020 (BERE), Apache-2.0. Its validation file trains, since its
training file was never published. Words have no offsets: the first whole-word match counts.

Each `NA` bag is a single sentence and bags of facts run to 64, so the size of a test bag nearly gives the answer
away; `most = 1` tests with one sentence of each bag, the first.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from wardround.corpora.bags import BagReader
from wardround.text.document import Entity
from wardround.text.facts import BagSentence, sentence
from wardround.text.json_text import parse_json
from wardround.text.reading import DataError, Problems, data_file, open_text

ORIGIN = "github.com/haiya1994/BERE, data/dti"
FILES = {"train": "dti_ds/valid.json.gz", "test": "dti_ds/test.json.gz"}
SHAPE = '{"sentence": …, "head": {"word": …, "id": …}, "tail": {…}, "relation": …}'


@dataclass(frozen=True, kw_only=True)
class DTIBags(BagReader):
    """One JSON array per split."""

    published: ClassVar[tuple[str, ...]] = ("agonist", "inhibitor", "other", "substrate", "unknown")
    language: ClassVar[str] = "en"

    most: Annotated[int, Ge(0)] = 0
    """Sentences of a test bag that are kept, the first ones; 0 keeps all."""

    def _rows(self, split: str, problems: Problems) -> Iterator[BagSentence]:
        path = data_file(FILES[split], ORIGIN)
        rows = parse_json("\n".join(open_text(path, problems=problems)), path, None)
        if not isinstance(rows, list):
            raise DataError(path, None, f"a JSON {type(rows).__name__}", "expected a list of sentences")
        sizes: Counter[tuple[str, str]] = Counter()
        for at, row in enumerate(rows, 1):
            made = _sentence(row, at, path, problems)
            if made is None:
                continue
            pair = made.entities[0].id, made.entities[1].id
            sizes[pair] += 1
            if split == "train" or not self.most or sizes[pair] <= self.most:
                yield made


def _sentence(row: Any, at: int, path: Path, problems: Problems) -> BagSentence | None:
    try:
        text, relation, source = row["sentence"], row["relation"], str(row["pmid"])
        (head, head_id), (tail, tail_id) = ((row[end]["word"], row[end]["id"]) for end in ("head", "tail"))
    except (KeyError, TypeError):
        raise DataError(path, at, "a row that is not as the others", SHAPE) from None
    apart = ((x, y) for x, y in product(_places(text, head), _places(text, tail)) if x[0] >= y[1] or y[0] >= x[1])
    spans = next(apart, None)
    if spans is None:
        problems.note("entities not in their sentence, or one within the other, row skipped", path, at)
        return None
    ends = Entity(head_id, "drug", *spans[0]), Entity(tail_id, "protein", *spans[1])
    return sentence(f"dti-{at}", text, *ends, relation, source=source, language="en")


def _places(text: str, words: str) -> list[tuple[int, int]]:
    """Where the words stand on their own, or else where they stand at all."""
    places = [match.span() for match in re.finditer(re.escape(words), text)] if words else []
    alone = [
        (start, end)
        for start, end in places
        if not (text[max(start - 1, 0) : start].isalnum() or text[end : end + 1].isalnum())
    ]
    return alone or places
