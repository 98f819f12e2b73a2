"""A site's label map: what could be meant, by meaning and never by spelling; and what in a map is odd.

    proposed("Medication", ["DRUG", "DISEASE"])       # "DRUG"
    proposed("Disease", ["treatment", "problem"])     # None: the hospital chooses

Names are the same if they differ in case, punctuation or plural, or stand in one row of SYNONYMS, which has only words
that no annotation guideline sets against each other. Whatever else they look like is no reason.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wardround.federation.partition import Raw

SYNONYMS = (
    ("drug", "medication", "medicine", "药物", "药品"),
    ("disease", "illness", "疾病"),
    ("symptom", "症状"),
    ("treatment", "therapy", "治疗"),
    ("surgery", "operation", "手术"),
    ("examination", "exam", "检查"),
    ("anatomy", "body part", "身体部位", "解剖部位"),
    ("dose", "dosage", "剂量"),
    ("allergy", "过敏"),
)
"""Words of annotation schemes for one and the same thing."""
LOPSIDED = 0.9  # of the examples in one class, to which the map has added


def meaning(name: str) -> str:
    """What a name stands for: without case, punctuation and plural, the first word of its row of synonyms."""
    folded = _folded(name)
    return next((_folded(row[0]) for row in SYNONYMS if folded in map(_folded, row)), folded)


def _folded(name: str) -> str:
    plain = re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name).casefold())
    if plain.endswith("ies") and len(plain) > 4:
        return plain[:-3] + "y"
    return plain[:-1] if plain.endswith("s") and not plain.endswith(("ss", "us", "is")) and len(plain) > 3 else plain


def proposed(label: str, known: Sequence[str]) -> str | None:
    """The one of the study's labels that means the same, if there is exactly one."""
    same = [name for name in known if meaning(name) == meaning(label)]
    return same[0] if len(same) == 1 else None


def labels_of(task: Any, *parts: Raw) -> Counter[str]:
    """How often each label, or each type of entity in a task that finds these, stands in the data."""
    return sum((task.named(part) for part in parts), Counter[str]())


def odd(known: Sequence[str], counts: Counter[str], raw: Counter[str], words: Mapping[str, str]) -> Iterator[str]:
    """What a hospital should be asked about: the study's labels, the site's after its map and before, the map."""
    yield from (f'there is no example of "{label}" in training' for label in known if not counts[label])
    for target in sorted({*words.values()}):
        own = [word for word, meant in words.items() if meant == target]
        here = [word for word in own if raw[word]]
        if len(here) > 1:
            yield f'{_listed(here)} all become "{target}"'
        if raw[target] and target not in words and here:
            yield f'{_listed(here)}: mapped onto "{target}", which the data have under that name as well'
        share = counts[target] / max(counts.total(), 1)
        if share > LOPSIDED and here and len(known) > 1:
            yield f'with the map, {share:.0%} of the training labels are "{target}"'
    for word, target in words.items():
        same = proposed(word, known)
        if same is not None and same != target:
            yield f'"{word}" becomes "{target}", though the study has "{same}"'


def _listed(words: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
