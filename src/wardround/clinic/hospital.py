"""One hospital's habits, drawn from the clinic's seed and the hospital's number.

`heterogeneity` h says how far the habits pull. At 0 every hospital draws from the same distributions; at 1 it
has its own favourite word, phrase and order for everything, and sees few of the classes and of the concepts.
Each habit has its own draws, whatever h is: raising h moves a hospital further along its own way instead of
making another hospital of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from wardround.clinic.dice import Dice, fingerprint
from wardround.clinic.words import Concept, Language, Lexicon, words

T = TypeVar("T")

REGISTERS = ("formal", "terse", "spoken")
SECTIONS = ("history", "tests", "course")
RELATIONS = ("TrIP", "TrWP", "TrCP", "TrAP", "TrNAP", "TeRP", "TeCP", "PIP", "none")

# Shares before skew; the relations lean as those of the 2010 i2b2/VA corpus do, if less steeply.
DEPARTMENT_SHARES = (0.22, 0.18, 0.17, 0.16, 0.14, 0.13)
RELATION_SHARES = (0.09, 0.08, 0.10, 0.18, 0.08, 0.18, 0.10, 0.14, 0.05)


@dataclass(frozen=True)
class Hospital:
    """How one hospital writes and annotates."""

    name: str
    index: int
    seed: int
    heterogeneity: float
    words: Lexicon
    departments: Sequence[float]
    relations: Sequence[float]
    registers: Sequence[float]
    weights: Mapping[str, float]
    """By concept id: how common it is here, within its pool."""
    short: float
    """The share of mentions written as an abbreviation, a brand or as people say it."""
    headings: float
    """The share of notes with section headings."""
    order: Sequence[str]
    typos: float
    """The share of words with a slip of the pen."""
    wide: float
    """The share of modified problems whose span takes in the modifier ("severe chest pain")."""
    history: float
    """The share of past problems that the annotators mark at all."""
    symptoms: float
    """The share of dialogue sentences that are about symptoms."""

    def taste(self, about: object, options: Sequence[T], dice: Dice) -> T:
        """One of the options: what everybody says mostly, or one of this hospital's favourites."""
        if len(options) == 1:
            return options[0]
        if dice.chance(0.9 * self.heterogeneity):
            favourite = fingerprint(self.seed, self.index, "taste", about, *options)
            return options[(favourite + dice.weighted((0, 1, 2), (6, 2, 1))) % len(options)]
        return dice.weighted(options, [1 / (rank + 2) for rank in range(len(options))])

    def concept(self, options: Sequence[Concept], dice: Dice) -> Concept:
        """One of the concepts, as often as this hospital sees it."""
        return dice.weighted(options, [self.weights[option.id] for option in options])

    def surface(self, concept: Concept, dice: Dice) -> str:
        """One of the concept's names, in this hospital's way."""
        forms = concept.short if concept.short and dice.chance(self.short) else concept.names
        return self.taste("name", forms, dice)


def open_hospital(
    name: str, index: int, *, language: Language, heterogeneity: float, noise: float, seed: int
) -> Hospital:
    """The habits of hospital `index`."""
    h = heterogeneity

    def dice(habit: str) -> Dice:
        return Dice(seed, "habit", index, habit)

    def between(low: float, high: float, habit: str) -> float:
        """Anywhere between when hospitals differ fully, the middle when they are alike."""
        return (low + high) / 2 + h * (dice(habit).real() - 0.5) * (high - low)

    return Hospital(
        name=name,
        index=index,
        seed=seed,
        heterogeneity=h,
        words=words(language),
        departments=_skewed(DEPARTMENT_SHARES, h, dice("departments")),
        relations=_skewed(RELATION_SHARES, h * 0.75, dice("relations")),
        registers=_leaning(dice("register").below(len(REGISTERS)), h),
        weights=dict(_commonness(words(language), h, dice("concepts"))),
        short=between(0.1, 0.8, "short"),
        headings=between(0.0, 1.0, "headings"),
        order=sorted(SECTIONS, key=lambda section: fingerprint(seed, index, "order", section)),
        typos=noise * between(0.1, 0.5, "typos"),
        wide=h * dice("wide").real(),
        history=1 - h * dice("history").real(),
        symptoms=between(0.05, 0.37, "symptoms"),
    )


def _skewed(shares: Sequence[float], h: float, dice: Dice) -> Sequence[float]:
    """Dirichlet shares around the common ones, ever farther from them as h grows."""
    if h == 0:
        return shares
    strength = 0.3 + 6 * (1 - h) / max(h, 1e-6)
    return dice.dirichlet([strength * share * len(shares) / 2 for share in shares])


def _leaning(favourite: int, h: float) -> Sequence[float]:
    """Register shares between alike and one only."""
    return [(1 - h) / len(REGISTERS) + h * (rank == favourite) for rank in range(len(REGISTERS))]


def _commonness(vocabulary: Lexicon, h: float, dice: Dice) -> Iterator[tuple[str, float]]:
    """A long tail within each pool, bent by what this hospital happens to see."""
    for pool in vocabulary.pools.values():
        for rank, concept in enumerate(pool):
            yield concept.id, max(round(math.exp(3 * h * dice.normal()) / (rank + 2) ** 1.2, 9), 1e-9)
