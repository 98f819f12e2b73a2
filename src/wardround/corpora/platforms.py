"""Several named corpora as the sites of one federation: FedNER's platforms.

    [corpus]
    name = "platforms"
    sites = ["ade", "psytar", "bc5cdr"]
    by = "source"                    # an article's sentences stay together, where a corpus knows its articles
    masked = 0.5                     # FedNER figure 5

As in the paper, the sentences of each corpus are pooled and the study's seed sets `test` of them aside; equal texts are
never on both sides. `most` takes only so many sentences of each corpus, drawn before anything else. `masked` blots out
this share of the entities that occur in more than one corpus (by their words, capitals aside): wherever one of them
is marked in training, each of its words becomes `BLOT`, and the mark stays. That looks at all sites, so only a
simulation can do it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from wardround.corpora.ade import ADE
from wardround.corpora.cadec import CADEC
from wardround.corpora.halved import EntityCorpus
from wardround.corpora.smm4h import SMM4H
from wardround.corpora.tagged_corpora import BC2GM, BC5CDR, NCBIDisease, PsyTAR
from wardround.federation.partition import held_out
from wardround.text.document import Document, Entity
from wardround.text.reading import Problems
from wardround.text.texts import Texts

BLOT = "entity"
Platform = Literal["ade", "bc2gm", "bc5cdr", "cadec", "ncbi-disease", "psytar", "smm4h"]


@dataclass(frozen=True, kw_only=True)
class Platforms:
    """One site per corpus, with its own entity types."""

    views: ClassVar[tuple[str, ...]] = ("entities",)
    language: ClassVar[str] = "en"

    labels: ClassVar[tuple[str, ...]] = ()
    sites: tuple[Platform, ...]
    """The corpora, each of which is a site."""
    test: Annotated[float, Gt(0), Lt(1)] = 0.2
    """The share of each corpus's sentences that is set aside for testing."""
    by: Literal["sentence", "source"] = "sentence"
    """Whether single sentences are drawn, or all of an article, a post or another source together."""
    masked: Annotated[float, Ge(0), Le(1)] = 0.0
    """The share of entities in more than one corpus whose words are blotted out in training."""
    most: Annotated[int, Ge(0)] = 0
    """Sentences per corpus, train and test together; 0 takes all."""
    seed: Annotated[int, Ge(0)] = 0
    """The seed that everything is drawn by; if not given, the study's."""

    def __post_init__(self) -> None:
        if len(set(self.sites)) != len(self.sites) or not self.sites:
            raise ValueError(f"sites = {list(self.sites)}: name each corpus once, and at least one")

    @cached_property
    def problems(self) -> Problems:
        """What the readers found odd."""
        return Problems()

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of all sites together."""
        return tuple(sorted({kind for name in self.sites for kind in _corpus(name).types}))

    def names(self) -> Sequence[str]:
        """The corpora, sorted."""
        return sorted(self.sites)

    def open(self, name: str) -> tuple[Texts, Texts]:
        """One corpus's training and test sentences."""
        train, test = self._halves[name]
        return Texts(tuple(_blotted(document, self._blotted) for document in train)), Texts(test)

    @cached_property
    def _halves(self) -> dict[str, tuple[tuple[Document, ...], tuple[Document, ...]]]:
        return {name: self._half(name) for name in self.names()}

    def _half(self, name: str) -> tuple[tuple[Document, ...], tuple[Document, ...]]:
        rng = np.random.default_rng([self.seed, *name.encode()])
        documents = list(_corpus(name).whole(self.problems))
        if self.most and len(documents) > self.most:
            documents = [documents[row] for row in np.sort(rng.permutation(len(documents))[: self.most])]
        together = self.by == "source" and all(document.source for document in documents)
        aside = held_out([document.source if together else document.text for document in documents], self.test, rng)
        named = [(replace(document, source=name), test) for document, test in zip(documents, aside, strict=True)]
        return tuple(d for d, test in named if not test), tuple(d for d, test in named if test)

    @cached_property
    def _blotted(self) -> frozenset[str]:
        """The words of the entities that are blotted out."""
        if not self.masked:
            return frozenset()
        seen: dict[str, set[str]] = {}
        for name, (train, test) in self._halves.items():
            for document in (*train, *test):
                for entity in document.entities:
                    seen.setdefault(_words(document, entity), set()).add(name)
        shared = sorted(words for words, names in seen.items() if len(names) > 1)
        drawn = np.random.default_rng([self.seed, 5]).permutation(len(shared))[: round(self.masked * len(shared))]
        return frozenset(shared[row] for row in drawn)


def _corpus(name: Platform | str) -> EntityCorpus:
    kinds: dict[str, type[EntityCorpus]] = {
        "ade": ADE, "bc2gm": BC2GM, "bc5cdr": BC5CDR, "cadec": CADEC, "ncbi-disease": NCBIDisease, "psytar": PsyTAR,
        "smm4h": SMM4H,
    }  # fmt: skip
    return kinds[name]()


def _words(document: Document, entity: Entity) -> str:
    return document.text[entity.start : entity.end].casefold()


def _blotted(document: Document, words: frozenset[str]) -> Document:
    """The document with these entities' words blotted out, from the last to the first; offsets move along."""
    text, entities = document.text, list(document.entities)
    for chosen in sorted(document.entities, key=lambda entity: -entity.start):
        if not words or _words(document, chosen) not in words:
            continue
        if any(o is not chosen and o.start < chosen.end and chosen.start < o.end for o in document.entities):
            continue  # an entity within another cannot change its length alone
        put = re.sub(r"\w+", BLOT, text[chosen.start : chosen.end])
        grown = len(put) - (chosen.end - chosen.start)
        text = text[: chosen.start] + put + text[chosen.end :]
        entities = [
            replace(
                e, start=e.start + grown * (e.start >= chosen.end), end=e.end + grown * (e.end >= chosen.end), parts=()
            )
            for e in entities
        ]
    return replace(document, text=text, entities=tuple(entities))
