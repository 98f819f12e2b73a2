"""Attack 4: whether a given note was trained on, by how little the finished model is surprised; and planted notes.

Whoever has the model computes the loss of a note. Compared are training notes with test notes of the same sites: how
often the right one of two is taken for a member, and how many members are named when one stranger in a hundred may be.

Canaries are notes of random words with a random label, of which each is planted at a site by the toss of a coin. That
nothing else tells the planted ones from the others makes them a measure: ε can be no smaller than
ln((1 − δ − misses) / false alarms), with limits for both that hold in 95 of 100 trials (Clopper and Pearson).
"""

import math
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from wardround.audit.case import Case, observed, reopened
from wardround.audit.finding import AttackResult, auc, named_at
from wardround.audit.lying import label_names
from wardround.audit.notes import losses
from wardround.federation.partition import Raw
from wardround.reports.html import plural
from wardround.text.document import Document
from wardround.text.facts import BagSentence
from wardround.text.texts import Texts

ATTACK = "membership in the model"
FIGURE = "how often a note that was trained on is told from another (AUC)"
AT_LIMIT = "share of members named with 1 % false alarms"
CANARIES = "planted notes"
EMPIRICAL = "least ε that explains what was told"
PLANTED = 100
LENGTH = 12
DELTA = 1e-4


def attack(case: Case) -> list[AttackResult]:
    """How well members are told from others by their loss."""
    if not case.study.method.shares:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="there is no shared model")]
    inside: list[float] = []
    outside: list[float] = []
    for name in case.sites:
        data = case.built.sites.open(name)
        inside += [-loss for loss in losses(case, name, case.weights, data.train)]
        outside += [-loss for loss in losses(case, name, case.weights, data.test)]
    why = (
        f"{len(inside):,} notes that were trained on, {len(outside):,} others, by the model after "
        f"{plural(case.rounds, 'round')}"
    )
    return [
        AttackResult(ATTACK, case.label, FIGURE, auc(inside, outside), 0.5, why=why),
        AttackResult(f"{ATTACK}, named", case.label, AT_LIMIT, named_at(inside, outside), 0.01, why=why),
    ]


def canaries(case: Case, folder: Path) -> list[AttackResult]:
    """The ε below which what is told of planted notes cannot be, by training once more with them."""
    raw, site = case.built.raw, case.sites[0]
    names = label_names(case.built)
    texts = raw.raw(site)[0] if raw is not None else None
    if raw is None or not isinstance(texts, Texts) or not case.study.method.shares or not _labelled(texts):
        why = "planted notes have a label for a whole text, which this task or method has no use for"
        return [AttackResult(CANARIES, case.label, EMPIRICAL, None, why=why)]
    rng = Random(case.study.seed)  # noqa: S311 -- a rehearsal, not a secret
    words = sorted({word for document in texts.documents for word in document.text.split()})
    drawn = [_canary(f"canary-{at}", rng, words, rng.choice(names), texts) for at in range(PLANTED)]
    coins = [rng.random() < 0.5 for _ in drawn]
    planted = Texts((*texts.documents, *(one for one, coin in zip(drawn, coins, strict=True) if coin)))

    def opened(name: str) -> tuple[Raw, Raw]:
        train, test = raw.raw(name)
        return (planted if name == site else train), test

    trained = observed(
        case.label, _unwatched(case), folder, case.rounds,
        lambda study, where: reopened(replace(case.built, study=study), opened, where / "memory"),
    )  # fmt: skip
    scores = [-sum(losses(trained, site, trained.weights, _ready(trained, site, one))) for one in drawn]
    inside = [score for score, coin in zip(scores, coins, strict=True) if coin]
    outside = [score for score, coin in zip(scores, coins, strict=True) if not coin]
    least = empirical_epsilon(inside, outside)
    none = [upper_limit(0, len(part), 0.025) for part in (inside, outside)]
    most = math.log((1 - DELTA - none[0]) / none[1])
    figure = auc(inside, outside)
    promised = case.study.resolved.get("privacy", {}).get("dp", {}).get("epsilon")
    accounted = f"; the study accounts for {promised:g}" if promised else ""
    planted_here = f"{len(inside)} of {PLANTED} planted at one site{accounted}"
    why = f"{planted_here}; told apart with AUC {figure:.2f}; {most:.1f} is the most that so many notes can show"
    return [AttackResult(CANARIES, case.label, EMPIRICAL, least, 0.0, best=most, why=why)]


def _canary(name: str, rng: Random, words: list[str], label: str, texts: Texts) -> Document:
    """A note of random words about a patient of its own; where notes are pairs, with entities of the types of one."""
    chosen = rng.choices(words, k=LENGTH)
    starts = [0, *accumulate(len(word) + 1 for word in chosen)]
    like = rng.choice(texts.documents)
    places = rng.sample(range(LENGTH), min(len(like.entities), LENGTH))
    entities = [
        replace(entity, start=starts[at], end=starts[at] + len(chosen[at]), parts=())
        for entity, at in zip(like.entities, places, strict=False)  # a whole note has more of them than words here
    ]
    if isinstance(like, BagSentence):  # a bag of its own, whose pair nobody else speaks of
        entities = [replace(entity, id=f"{name}-{end}") for end, entity in enumerate(entities)]
    return replace(
        like, id=name, text=" ".join(chosen), labels=(label,), entities=tuple(entities), relations=(), patient=name
    )


def empirical_epsilon(inside: list[float], outside: list[float], delta: float = DELTA, sure: float = 0.95) -> float:
    """The least ε under which the upper half of the scores can hold so many of the planted and so few others."""
    limit = sorted([*inside, *outside])[(len(inside) + len(outside)) // 2]  # fixed beforehand: the best one would boast
    missed = upper_limit(sum(score < limit for score in inside), len(inside), (1 - sure) / 2)
    alarmed = upper_limit(sum(score >= limit for score in outside), len(outside), (1 - sure) / 2)
    return max(math.log((1 - delta - missed) / alarmed), 0.0) if missed < 1 - delta else 0.0


def upper_limit(hits: int, trials: int, doubt: float) -> float:
    """The largest probability under which so few hits are not rarer than the doubt (Clopper and Pearson)."""
    if hits >= trials:
        return 1.0
    low, high = hits / trials if trials else 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        below = sum(math.comb(trials, k) * middle**k * (1 - middle) ** (trials - k) for k in range(hits + 1))
        low, high = (middle, high) if below > doubt else (low, middle)
    return high


def _labelled(texts: Texts) -> bool:
    return any(len(document.labels) == 1 and not document.entities for document in texts.documents) or all(
        len(document.labels) == 1 for document in texts.documents
    )


def _unwatched(case: Case) -> Any:
    """The study without the layer that watched it."""
    return replace(case.study, layers=case.study.layers[1:])


def _ready(case: Case, site: str, document: Document) -> Any:
    task: Any = case.built.host.task_at(site) or case.built.task
    return task.examples(Texts((document,)))
