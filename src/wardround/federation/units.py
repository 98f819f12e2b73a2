"""What differential privacy protects as a whole at a site: each example, each document, or each patient.

    units = units_of("patient", "north", {"train": train, "test": test}, task, len(task.examples(train)))

A patient's rows are clipped together, so all must say whose they are; and nobody's are in training and in the test, for
the budget of one part would then be spent on another's patients. The same holds of documents, by their ids; one that
has none is called after its file and line (`text.shown.unnamed`), and is another's only if it reads the same. Of two
ids each is a unit of its own, whatever they read: taken together, one more could turn the other's gradient round.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wardround.core.task import Examples, Units
from wardround.federation.partition import Raw
from wardround.federation.validation import documents_of
from wardround.text.pairs import note_of_pair
from wardround.text.reading import digest

Unit = Literal["example", "document", "patient"]
MADE_UP = re.compile(r"\.\w+:\d+(\.\d+)?$")  # the end of an id that is a file and a line


def units_of(unit: Unit, site: str, splits: Mapping[str, Raw], task: Any, count: int) -> Units:
    """The units of one site, whose raw examples these are by split; the task makes so many of those to train on."""
    names = {split: owners(unit, site, split, raw) for split, raw in splits.items()}
    for (one, other), both in patients_on_two_sides(splits).items() if unit == "patient" else ():
        raise ValueError(
            f"privacy.dp: {both} patients of {site} have notes both to {one} and to {other} on; split by "
            "patient (wardround data split --by patient, or validation.by = 'patient')"
        )
    for (one, other), both in documents_on_two_sides(splits).items() if unit == "document" else ():
        raise ValueError(
            f"privacy.dp: {both} documents of {site} are, by their ids, both to {one} and to {other} on; keep each on "
            "one side (wardround data split), or give those that only share an id other ones"
        )
    train = splits["train"]
    homes = task.homes(train)
    if len(homes) != count:  # a task of somebody's own that cuts texts, or leaves some out
        raise ValueError(
            f"privacy.dp: the task makes {count} examples of {len(train)} texts of {site}, and says of {len(homes)} of "
            "them which text they are of; have its `homes` say it of each"
        )
    rows = (
        [torch.tensor([row]) for row in range(count)]
        if unit == "example"
        else _rows([names["train"][home] for home in homes])
    )

    @cache
    def apart(split: str) -> tuple[Examples, ...]:
        raw = splits[split]
        parts = _rows(names[split])
        return tuple(task.examples(raw.take(part.numpy().astype(np.int64))) for part in parts)

    mixed = unit == "example" and any(len(task.homes(raw)) != len(raw) for raw in splits.values())
    return Units(rows, apart, mixed)


def owners(unit: Unit, site: str, split: str, raw: Raw) -> Sequence[str]:
    """What each raw example is of; an error if it should be a patient, and one does not say."""
    if unit == "example":
        return [str(row) for row in range(len(raw))]
    if unit == "document":
        texts = documents_of(raw)
        names = [note_of_pair(document) for document in getattr(raw, "documents", ())] or texts
        return [text if MADE_UP.search(name) else name for name, text in zip(names, texts, strict=True)]
    patients = [document.whom for document in getattr(raw, "documents", ())]
    unknown = len(raw) - sum(map(bool, patients))
    if unknown:
        raise ValueError(
            f'privacy.dp.unit = "patient": {unknown} of {len(raw)} {split} examples of {site} have no patient; '
            'name its column or field with patient = "…" in [corpus], fill it in every row, or set unit = "document"'
        )
    return patients


def patients_on_two_sides(splits: Mapping[str, Raw]) -> dict[tuple[str, str], int]:
    """How many of a site's patients are in two of its splits, by these, where there are any."""
    names = {
        split: {document.whom for document in getattr(raw, "documents", ()) if document.whom}
        for split, raw in splits.items()
    }
    return _on_two_sides(names)


def documents_on_two_sides(splits: Mapping[str, Raw]) -> dict[tuple[str, str], int]:
    """The same of documents, by their ids; where these are made up, one that reads the same."""
    names: dict[str, set[str]] = {split: set() for split in splits}
    for split, raw in splits.items():
        for document in getattr(raw, "documents", ()):
            name = note_of_pair(document)
            names[split].add(f"{name} {digest(document.text).hex()}" if MADE_UP.search(name) else name)
    return _on_two_sides(names)


def _on_two_sides(names: Mapping[str, set[str]]) -> dict[tuple[str, str], int]:
    return {(one, other): len(both) for one, other in combinations(names, 2) if (both := names[one] & names[other])}


def _rows(names: Iterable[str]) -> list[Tensor]:
    """The row numbers of each name, in the order of first appearance."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return [torch.tensor(mine) for mine in rows.values()]
