"""Attack 1: the words of a site's notes, from which rows of trained embeddings have moved.

A word that stands in no note has no gradient, so its row stays where it was; the row's number is the word's, or its
hash's, which whoever has a dictionary can look up. Guessed are as many words as the site really has, those whose rows
moved most: so the figure is recall and precision at once, and chance is the site's share of the vocabulary. In a sum
over sites, the same words are guessed for each of them.
"""

from collections.abc import Mapping
from statistics import fmean

import torch
from torch import Tensor, nn

from wardround.audit.case import Case
from wardround.audit.finding import AttackResult
from wardround.audit.notes import passing
from wardround.core.bench import Bench
from wardround.core.weights import Weights

ATTACK = "words of the notes"
FIGURE = "share of a site's words that were named"
PADDING = 0


def attack(case: Case) -> list[AttackResult]:
    """How many of a site's words its reply gives away."""
    names = [name for name in trained_embeddings(case) if f"{name}.weight" in case.built.weights]
    if not names:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="no embedding of words is trained, so none leaves")]
    moved = {site: _moved(changes, names[0]) for site, changes in case.changes()}
    if not moved:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="no weights leave a site")]
    size = len(moved[next(iter(moved))])
    from_numbers = f"guessed from {size:,} numbers of words, of embedding {names[0]!r}"
    if "" not in moved:
        return [_guessed(case, names[0], moved, size - 1, ATTACK, from_numbers)]
    together = moved[""]
    everybody = dict.fromkeys(case.sites, together)
    why = f"the sum over all sites has their words, and not whose they are; {from_numbers}"
    alone = {site: _moved(changes, names[0]) for site, changes in case.masked()}
    single = f"{ATTACK}, from one site's reply"
    return [
        _guessed(case, names[0], everybody, int((together[1:] > 0).sum()), f"{ATTACK}, from the sum", why),
        _guessed(case, names[0], alone, size - 1, single, f"as it left, under its masks; {from_numbers}"),
    ]


def _guessed(case: Case, name: str, moved: Mapping[str, Tensor], known: int, attack: str, why: str) -> AttackResult:
    """The guess for each site, beside one at random among so many words."""
    shares, chances = [], []
    for site, scores in moved.items():
        words = words_of(case, site, name)
        guesses = scores[1:].topk(min(len(words), len(scores) - 1)).indices + 1  # the first row is padding
        shares.append(len(words & set(guesses.tolist())) / max(len(words), 1))
        chances.append(min(len(words) / max(known, 1), 1.0))
    if not shares:
        return AttackResult(attack, case.label, FIGURE, None, why="no reply has as many numbers as the model")
    return AttackResult(attack, case.label, FIGURE, fmean(shares), fmean(chances), why=why)


def trained_embeddings(case: Case) -> list[str]:
    """The embeddings of a model, by name, that look up words and are trained; the largest first."""
    model = Bench.of(case.built.task, case.study.sites.private).model
    known = {
        name: module.num_embeddings
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.weight.requires_grad
    }
    return sorted(known, key=lambda name: -known[name])


def _moved(changes: list[Weights], name: str) -> Tensor:
    """How far each row of an embedding has moved in all (vocabulary,)."""
    return torch.stack([change[f"{name}.weight"].double().norm(dim=1) for change in changes]).sum(0)


def words_of(case: Case, site: str, name: str) -> set[int]:
    """The numbers of the words that a site's training notes have, as the embedding is asked for them."""
    asked = passing(case, site, name, case.built.weights, case.built.sites.open(site).train)
    return {int(word) for batch in asked for word in batch.flatten().tolist() if word != PADDING}
