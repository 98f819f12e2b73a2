"""Sentences that name both ends of a public fact, of which only some say it: distant supervision.

The knowledge base knows that a drug may treat a problem; a hospital's sentence with both names may state it, or
state something else (the drug was stopped, the problem ruled out, both merely listed). Sentences come in bags,
one per fact; a share of the bags holds pairs of which the knowledge base knows nothing (`NA`). The facts are
the same at all hospitals, each with its own sentences for them. Training, validation and test use different
facts. Once a hospital has used all facts of a split, it starts again and the bags grow.

What noise says goes with the relation (`SAYING`): that a problem got worse under a drug is said of `may_cause` alone.
To a model it is as good a sign of the relation as a sentence that states it. `background` is the share of noise that
says the same of all pairs, `NA` among them.
"""

import math
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from wardround.clinic.dice import Dice, fingerprint
from wardround.clinic.grammar import Manuscript, Piece, slots, worded
from wardround.clinic.hospital import REGISTERS, Hospital
from wardround.clinic.notes import VAGUE, mention
from wardround.clinic.settings import Distant
from wardround.clinic.words import DEPARTMENTS, SHARED, Concept, Language, table
from wardround.text.document import Document, Entity, Relation
from wardround.text.facts import UNRELATED, Fact

# The slots of head and tail; clauses that state the fact; clauses that name both and state something else.
SAYING = {
    "may_treat": ("TP", ("TrAP", "TrIP"), ("none", "TrNAP", "TrCP")),
    "may_cause": ("TP", ("TrCP",), ("none", "TrAP", "TrWP")),
    "reveals": ("EP", ("TeRP",), ("none", "TeCP", "ruled-out")),
    "presents_with": ("PQ", ("PIP",), ("none",)),
}
VAGUELY = {"TP": "vague Tr", "EP": "vague Te", "PQ": "vague PP"}
# Tenths of the facts.
SPLITS = {"train": range(7), "valid": range(7, 8), "test": range(8, 10)}


@dataclass(frozen=True, slots=True)
class Expressed:
    """A sentence as a reader sees it, labelled by the knowledge base, and apart from it the truth."""

    document: Document
    """The ids of its two entities are concept ids; its relation, if any, is what the knowledge base claims."""
    fact: Fact
    expressed: bool
    """Whether the sentence truly says it."""
    clause: str
    """The kind of clause it is, whatever its wording: `TrAP`, `none`, `vague Tr`, …"""


def distant(hospital: Hospital, language: Language, split: str, settings: Distant) -> Iterator[Expressed]:
    """Sentences without end, bag by bag; document ids are left to the caller."""
    for number, fact in enumerate(_bags(hospital, split, settings.unrelated)):
        dice = Dice(hospital.seed, language, "bag", hospital.index, split, number)
        while True:
            expressed = fact.relation != UNRELATED and dice.chance(settings.expression)
            # No draw where there is no background: what was generated before there was such a setting stays the same.
            plain = not expressed and settings.background > 0 and dice.chance(settings.background)
            yield _sentence(fact, hospital, language, dice, expressed=expressed, plain=plain)
            if not dice.chance(1 - 1 / settings.bag_size):  # sizes are geometric, with mean `bag_size`
                break


def _bags(hospital: Hospital, split: str, unrelated: float) -> Iterator[Fact]:
    """Facts in this hospital's order, those of its departments and its frequent concepts first."""
    facts = [fact for fact in hospital.words.facts if _belongs(fact.head, fact.tail, split)]
    known = {(fact.head, fact.tail) for fact in hospital.words.facts}
    sizes = Counter(fact.relation for fact in facts)
    shares = dict(zip(DEPARTMENTS, hospital.departments, strict=True))
    for turn in count():
        dice = Dice(hospital.seed, "facts", hospital.index, split, turn)

        def rank(fact: Fact, dice: Dice = dice) -> float:
            department = hospital.words.concepts[fact.head].department
            weight = shares.get(department, 0.1) * hospital.weights[fact.head] / sizes[fact.relation]
            # Sampling without replacement by weight (Efraimidis and Spirakis, 2006).
            return round(-math.log(1 - dice.real()) / weight, 6)

        for fact in sorted(facts, key=rank):
            while dice.chance(unrelated):
                yield _unrelated(hospital, split, known, dice)
            yield fact


def _belongs(head: str, tail: str, split: str) -> bool:
    return fingerprint("fact", head, tail) % 10 in SPLITS[split]


def _unrelated(hospital: Hospital, split: str, known: Container[tuple[str, str]], dice: Dice) -> Fact:
    """Two concepts of which the knowledge base knows nothing."""
    while True:
        department = dice.weighted(DEPARTMENTS, hospital.departments)
        head = hospital.concept(hospital.words.pools[department, dice.pick(("treatment", "test", "problem"))], dice)
        place = dice.pick((department, SHARED))
        tail = hospital.concept(hospital.words.pools[place, "problem"], dice)
        fresh = head != tail and (head.id, tail.id) not in known
        if fresh and _belongs(head.id, tail.id, split):
            return Fact(head.id, UNRELATED, tail.id)


def _sentence(
    fact: Fact, hospital: Hospital, language: Language, dice: Dice, *, expressed: bool, plain: bool
) -> Expressed:
    ends = hospital.words.concepts[fact.head], hospital.words.concepts[fact.tail]
    places, saying, otherwise = SAYING.get(fact.relation) or _without_fact(ends)
    register = dice.weighted(REGISTERS, hospital.registers)
    clause = "none" if plain else dice.pick(saying if expressed else otherwise)
    vague = not expressed and dice.chance(VAGUE)
    title = VAGUELY[places] if vague else f"{clause} {register}"
    fitting = [frame for frame in table(f"notes-{language}")[title] if slots(frame) == set(places)]
    frame = hospital.taste("frame", fitting, dice)
    cast = {slot: mention(end, hospital, language, dice) for slot, end in zip(places, ends, strict=True)}
    page = Manuscript(language, hospital.typos, dice)
    ids = page.write(list(worded(frame, cast, hospital, dice)), capital=register != "terse")
    if dice.chance(0.3):
        frames = table(f"notes-{language}")
        page.text += hospital.taste("join", frames[f"join {register}"], dice).replace("_", " ")
        remark = hospital.taste("frame", frames[f"filler {register}"], dice)
        page.write(list(worded(remark, {}, hospital, dice)))
    page.write([Piece("." if language == "en" else "。")])

    concept_of = {ids[slot]: end.id for slot, end in zip(places, ends, strict=True)}
    entities = tuple(
        Entity(concept_of[mark.entity.id], mark.entity.type, mark.entity.start, mark.entity.end) for mark in page.marks
    )
    claim = () if fact.relation == UNRELATED else (Relation(fact.relation, fact.head, fact.tail),)
    document = Document("", page.text, (), entities, claim, hospital.name, language)
    return Expressed(document, fact, expressed, VAGUELY[places] if vague else clause)


def _without_fact(ends: Sequence[Concept]) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """For a pair without a fact: its slots and what is said of it instead."""
    return {
        "treatment": ("TP", (), ("none", "TrNAP")),
        "test": ("EP", (), ("none", "TeCP", "ruled-out")),
        "problem": ("PQ", (), ("none",)),
    }[ends[0].type]
