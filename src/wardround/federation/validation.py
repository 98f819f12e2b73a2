"""Validation examples: those that a corpus has, or a share of each site's training examples, drawn by the seed.

    sites = validated(opened(corpus, valid=True), share=0.1, by="document", seed=0)
    sites.valid("north")

Rules of this file:
1. A validation split that is given is taken as it is; nothing is drawn from the training examples beside it.
2. Each site draws by itself, from what it has: a real one as a simulated one, and with the same result.
3. What belongs together stays together. A document stays whole, with all its sentences and pairs, and so do documents
   that are equal; `by` makes the same of all documents of a source or of a patient. `within` takes the share of every
   source, such as a tenth of each dialogue. Of bags pairs are drawn, at all sites the same ones: what is asked about a
   pair here must not have been answered there.
4. A site that is too small for the share has no validation example and trains on all; others choose for it. Where no
   site has any, that is an error.
5. Under differential privacy each patient (document, source) is drawn by itself (`each`): by a quota, one patient more
   would move another to the other side, and so be seen on both.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from wardround.federation.partition import Raw
from wardround.federation.sites import Both, Sites
from wardround.text.pairs import note_of_pair

By = Literal["document", "source", "patient", "within"]


def validated(sites: Sites, share: float | None, by: By, seed: int, *, each: bool = False) -> Sites:
    """The sites with validation examples: their own, or a share of those that they would train on, or none."""
    if sites.valid is not None:
        return sites

    def held(name: str) -> npt.NDArray[np.bool_]:
        train = sites.raw(name)[0]
        return np.zeros(len(train), dtype=bool) if share is None else drawn(train, share, by, seed, each=each)

    def opened(name: str) -> Both:
        train, test = sites.raw(name)
        return train.take(np.flatnonzero(~held(name))), test

    def tried(name: str) -> Raw:
        return sites.raw(name)[0].take(np.flatnonzero(held(name)))

    return replace(sites, opened=opened, split=None, tried=tried)


def drawn(examples: Raw, share: float, by: By, seed: int, *, each: bool = False) -> npt.NDArray[np.bool_]:
    """Whether each example is set aside: a share of what must stay whole, whatever the order of the examples.

    With `each`, each by itself: about the share, and nobody's side depends on who else is there.
    """
    if (pairs := getattr(examples, "wholes", None)) is not None:
        if by != "document":
            raise ValueError(f"validation.by = {by!r}: of bags whole pairs are drawn; leave `by` out")
        return np.array([_chance(pair, seed) < share for pair in pairs], dtype=bool)
    homes = _named(examples, "source") if by == "within" else [""] * len(examples)
    units = _named(examples, by) if by in ("source", "patient") else documents_of(examples)
    if each:
        return np.array([_chance(unit, seed) < share for unit in units], dtype=bool)
    members: dict[str, set[str]] = {}
    for home, unit in zip(homes, units, strict=True):
        members.setdefault(home, set()).add(unit)
    aside = {
        home: {*sorted(mine, key=lambda unit: _chance(unit, seed))[: int(share * len(mine) + 0.5)]}
        for home, mine in members.items()
    }
    return np.array([unit in aside[home] for home, unit in zip(homes, units, strict=True)], dtype=bool)


def _named(examples: Raw, what: Literal["source", "patient"]) -> Sequence[str]:
    """The source or patient of each example; an error if nobody says."""
    names: Sequence[str] = examples.sources
    if what == "patient":
        names = [document.whom for document in getattr(examples, "documents", ())]
    if len(examples) and not (len(names) == len(examples) and all(names)):
        remedy = f'name its column with {what} = "…" in [corpus], or draw by document'
        raise ValueError(f"validation.by: there is an example without a {what}; {remedy}")
    return names


def documents_of(examples: Raw) -> list[str]:
    """What stands for the document that each example is of: equal for equal texts."""
    marks = [mark.hex() for mark in examples.marks]
    documents = getattr(examples, "documents", None)
    if documents is None:
        return marks
    notes: dict[str, set[str]] = {}
    names = [note_of_pair(document) for document in documents]
    for name, mark in zip(names, marks, strict=True):
        notes.setdefault(name, set()).add(mark)
    whole = {name: " ".join(sorted(texts)) for name, texts in notes.items()}
    return [whole[name] for name in names]


def _chance(key: str, seed: int) -> float:
    """A number from 0 to 1 that depends on what is drawn and the seed alone."""
    mark = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, key=f"valid {seed}".encode()).digest()
    return int.from_bytes(mark, "little") / 2**64
